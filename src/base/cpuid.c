/* cpuid.c — asks the processor for its features and the kernel for our share of it.
 *
 * Called once when a device is opened (dev/cpu) and when a pool is made. A CPUID bit alone is no permission: wide
 * registers exist for us only if the kernel saves them (XCR0), and AMX tiles only after Linux was asked for them. */
#include "cpuid.h"
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xE6, XCR0_AMX = 0x60000 };

typedef struct leaf {
    uint32_t a, b, c, d;
} leaf;

/* All zeros where the processor has no such leaf. */
static leaf read_leaf(uint32_t number, uint32_t sub) {
    leaf l = {0};
    if (!__get_cpuid_count(number, sub, &l.a, &l.b, &l.c, &l.d)) return (leaf){0};
    return l;
}

static bool bit(uint32_t word, int i) { return word >> i & 1; }

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux hands out the 8 KiB of tile registers only on request; it holds for all threads made afterwards. */
static bool request_tiles(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static void read_names(cpu_features *out) {
    const leaf first = read_leaf(0, 0);
    memcpy(out->vendor, &first.b, 4);
    memcpy(out->vendor + 4, &first.d, 4);
    memcpy(out->vendor + 8, &first.c, 4);
    char name[49] = "";
    for (uint32_t i = 0; i < 3; i++) {
        const leaf l = read_leaf(0x80000002u + i, 0);
        memcpy(name + 16 * i, &l, 16);
    }
    const char *start = name + strspn(name, " ");
    memcpy(out->model, start, strlen(start) + 1);
}

static void read_avx512(cpu_features *out, leaf seven, leaf seven_one) {
    out->avx512f = bit(seven.b, 16);
    out->avx512dq = bit(seven.b, 17);
    out->avx512bw = bit(seven.b, 30);
    out->avx512vl = bit(seven.b, 31);
    out->avx512vbmi = bit(seven.c, 1);
    out->avx512vnni = bit(seven.c, 11);
    out->avx512fp16 = bit(seven.d, 23);
    out->avx512bf16 = bit(seven_one.a, 5);
}

static void read_amx(cpu_features *out, leaf seven, leaf seven_one) {
    out->amx_tile = bit(seven.d, 24) && request_tiles();
    out->amx_bf16 = out->amx_tile && bit(seven.d, 22);
    out->amx_int8 = out->amx_tile && bit(seven.d, 25);
    out->amx_fp16 = out->amx_tile && bit(seven_one.a, 21);
}

static void read_processor(cpu_features *out) {
    const leaf one = read_leaf(1, 0), seven = read_leaf(7, 0);
    const leaf seven_one = seven.a >= 1 ? read_leaf(7, 1) : (leaf){0};
    const uint64_t xcr0 = bit(one.c, 27) ? read_xcr0() : 0;
    read_names(out);
    out->sse42 = bit(one.c, 20);
    out->bmi2 = bit(seven.b, 8);
    out->gfni = bit(seven.c, 8);
    if ((xcr0 & XCR0_AVX) != XCR0_AVX) return;
    out->avx = bit(one.c, 28);
    out->f16c = bit(one.c, 29);
    out->fma = bit(one.c, 12);
    out->avx2 = bit(seven.b, 5);
    out->avxvnni = bit(seven_one.a, 4);
    if ((xcr0 & XCR0_AVX512) != XCR0_AVX512) return;
    read_avx512(out, seven, seven_one);
    if ((xcr0 & XCR0_AMX) == XCR0_AMX) read_amx(out, seven, seven_one);
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static void read_processor(cpu_features *out) {
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    strcpy(out->vendor, "ARM");
    strcpy(out->model, "64-bit ARM");
    out->neon = first & HWCAP_ASIMD;
    out->dotprod = first & HWCAP_ASIMDDP;
    out->i8mm = second & HWCAP2_I8MM;
    out->bf16 = second & HWCAP2_BF16;
}

#else

static void read_processor(cpu_features *out) {
    strcpy(out->vendor, "unknown");
    strcpy(out->model, "unknown");
}

#endif

void cpu_detect(cpu_features *out) {
    *out = (cpu_features){0};
    read_processor(out);
}

/* The raw system calls, because glibc's cpu_set_t ends at 1024 CPUs. */
void cpu_affinity(machine_set *out) {
    *out = (machine_set){0};
    if (syscall(SYS_sched_getaffinity, 0, sizeof out->bits, out->bits) > 0) return;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < online && cpu < MACHINE_CPUS; cpu++) machine_add(out, cpu);
}

bool cpu_keep_to(const machine_set *cpus) { return !syscall(SYS_sched_setaffinity, 0, sizeof cpus->bits, cpus->bits); }

static int at_least_one(int a, int b) {
    const int less = a < b ? a : b;
    return less < 1 ? 1 : less;
}

int cpu_usable(void) {
    machine_set allowed;
    cpu_affinity(&allowed);
    return at_least_one(machine_count(&allowed), machine_quota(""));
}

int cpu_core_list(int *cpus, int capacity) {
    machine_set allowed;
    cpu_affinity(&allowed);
    return machine_cores("", &allowed, cpus, capacity);
}

int cpu_usable_cores(void) { return at_least_one(cpu_core_list(NULL, 0), machine_quota("")); }

size_t cpu_memory_bytes(void) { return machine_memory(""); }
