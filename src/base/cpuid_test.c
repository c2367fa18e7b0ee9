/* cpuid_test.c — what this processor says of itself agrees with the kernel's list of flags, and the counts with the
 * affinity mask of the moment. */
#include "cpuid.h"
#include "file.h"
#include "mem.h"
#include "harness.h"
#include <sched.h>

#if defined(__aarch64__)
static const char FLAGS[] = "\nFeatures";
#else
static const char FLAGS[] = "\nflags";
#endif

/* Whether the first line of flags of /proc/cpuinfo has this word. */
static bool kernel_has(const char *flags, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *at = flags; (at = strstr(at, word)); at += bytes)
        if (at[-1] == ' ' && (at[bytes] == ' ' || !at[bytes])) return true;
    return false;
}

static void agrees_with_the_kernel(void **state) {
    cpu_features f;
    cpu_detect(&f);
    assert_true(f.vendor[0] && f.model[0]);
    char *text, *flags;
    size_t bytes;
    assert_int_equal(file_read(&text, &bytes, "/proc/cpuinfo", 64 << 20, NULL), QP_OK);
    flags = strstr(text, FLAGS);
    if (!flags) {
        mem_free(text);
        HARNESS_SKIP("/proc/cpuinfo has no flags of this processor");
    }
    flags[1 + strcspn(flags + 1, "\n")] = 0;
    const struct {
        const char *name;
        bool has;
    } cases[] = {
#if defined(__aarch64__)
        {"asimd", f.neon},
        {"asimddp", f.dotprod},
        {"i8mm", f.i8mm},
        {"bf16", f.bf16},
#else
        {"sse4_2", f.sse42},
        {"avx", f.avx},
        {"f16c", f.f16c},
        {"fma", f.fma},
        {"avx2", f.avx2},
        {"bmi2", f.bmi2},
        {"avx512f", f.avx512f},
        {"avx512bw", f.avx512bw},
        {"avx512dq", f.avx512dq},
        {"avx512vl", f.avx512vl},
        {"avx512vbmi", f.avx512vbmi},
        {"avx512_vnni", f.avx512vnni},
        {"avx512_bf16", f.avx512bf16},
        {"avx512_fp16", f.avx512fp16},
        {"avx_vnni", f.avxvnni},
        {"gfni", f.gfni},
#endif
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++)
        if (cases[i].has != kernel_has(flags, cases[i].name)) fail_msg("%s: found %d", cases[i].name, cases[i].has);
    if (f.amx_tile) assert_true(kernel_has(flags, "amx_tile")); /* the kernel may list it and still refuse it to us */
    if (f.amx_bf16) assert_true(kernel_has(flags, "amx_bf16"));
    if (f.amx_int8) assert_true(kernel_has(flags, "amx_int8"));
    mem_free(text);
}

static void counts_follow_the_affinity_mask(void **state) {
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before) != 0) HARNESS_SKIP("more CPUs than cpu_set_t holds");
    assert_in_range(cpu_usable(), 1, CPU_COUNT(&before));
    assert_in_range(cpu_usable_cores(), 1, cpu_usable());
    int last = 0, cpus[4];
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before)) last = cpu;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpu_usable(), 1);
    assert_int_equal(cpu_usable_cores(), 1);
    assert_int_equal(cpu_core_list(cpus, 4), 1);
    assert_int_equal(cpus[0], last);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void memory_is_plausible(void **state) {
    const size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    assert_in_range(cpu_memory_bytes(), 1 << 20, machine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_kernel),
        cmocka_unit_test(counts_follow_the_affinity_mask),
        cmocka_unit_test(memory_is_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
