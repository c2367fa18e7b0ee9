/* levels.h — for tests of the CPU's kernels: the levels of this machine, and AMX on emulated tiles where it has
 * AVX-512.
 *
 * The emulated level is that of AVX-512 with the tables of tests/emulated laid over it; CMake links them to the
 * tests that include this. */
#ifndef LEVELS_H
#define LEVELS_H

#include "dev/cpu/cpu.h"
#include "harness.h"

#if defined(__x86_64__)
extern const cpu_attend_ops cpu_attend_emulated;
extern const cpu_matmul_ops cpu_matmul_emulated, cpu_quant_emulated, cpu_prompts_emulated;
#endif

static const char LEVEL_EMULATED[] = "amx-emulated";

/* The i-th level that can be tried, or NULL. */
static inline const char *level_name(int i) {
    for (int level = 0; dev_cpu_level(level); level++)
        if (dev_cpu_level_available(dev_cpu_level(level)) && !i--) return dev_cpu_level(level);
    return !i && dev_cpu_level_available("avx512") ? LEVEL_EMULATED : NULL;
}

/* NULL: the best that is really there. */
static inline device *level_open(const char *level, int threads, bool exact, int max_rows, int64_t max_in) {
    const bool is_emulated = level && !strcmp(level, LEVEL_EMULATED);
    const dev_options options = {
        .kind = "cpu", .cpu_level = is_emulated ? "avx512" : level, .threads = threads, .exact = exact};
    device *d;
    qp_error err;
    if (dev_open(&d, &options, &err) != QP_OK) fail_msg("%s", err.text);
#if defined(__x86_64__)
    if (is_emulated) {
        cpu_of(d)->matmul.fast[QUANT_BF16] = cpu_matmul_emulated.fast[QUANT_BF16];
        cpu_of(d)->attend.page_tiles = cpu_attend_emulated.page_tiles;
        /* few rows are AVX-512 VNNI's */
        if (dev_cpu_level_available("avx512vnni")) cpu_of(d)->matmul.grouped = cpu_quant_emulated.grouped;
        if (dev_cpu_level_available("avx512bf16")) {
            cpu_of(d)->matmul.prompts = cpu_prompts_emulated.prompts;
            cpu_of(d)->matmul.round_f16 = cpu_matmul_avx512bf16.round_f16;
        }
        snprintf(d->level, sizeof d->level, "%s", level);
    }
#endif
    if (d->ops->reserve(d, max_rows, max_in, &err) != QP_OK) fail_msg("%s", err.text);
    return d;
}

#endif
