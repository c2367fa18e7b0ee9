/* sweep.c — the loops over all logits, compiled for any machine and again for wider registers.
 *
 * Lanes are combined in a tree that the source fixes, products are never fused into sums, so the copies agree to the
 * last bit (sweep_test.c holds them to it). */
#include "sweep.h"
#include "num.h"
#include "base/cpuid.h"

#define SWEEP(name) name##_any
#define SWEEP_TARGET
#define SWEEP_WIDTH 4
#include "sweep_loops.inc"

static const sweep_ops ops_any = {"any", peaks_any, masses_any, gather_any, powers_any};
static const sweep_ops *const usable_anywhere[] = {&ops_any, NULL};

#if defined(__x86_64__)
#define SWEEP(name) name##_avx2
#define SWEEP_TARGET __attribute__((target("avx2")))
#define SWEEP_WIDTH 8
#include "sweep_loops.inc"

#define SWEEP(name) name##_avx512
#define SWEEP_TARGET __attribute__((target("avx512f")))
#define SWEEP_WIDTH 16
#define SWEEP_SUMS_ONLY /* comparing costs more where its result is a mask register */
#include "sweep_loops.inc"

static const sweep_ops ops_avx2 = {"avx2", peaks_avx2, masses_avx2, gather_avx2, powers_avx2};
static const sweep_ops ops_avx512 = {"avx512", peaks_avx2, masses_avx512, gather_avx2, powers_avx512};
static const sweep_ops *const usable_with_avx2[] = {&ops_any, &ops_avx2, NULL};
static const sweep_ops *const usable_with_avx512[] = {&ops_any, &ops_avx2, &ops_avx512, NULL};
#endif

const sweep_ops *const *sweep_usable(void) {
#if defined(__x86_64__)
    cpu_features cpu;
    cpu_detect(&cpu);
    if (cpu.avx2) return cpu.avx512f ? usable_with_avx512 : usable_with_avx2;
#endif
    return usable_anywhere;
}

const sweep_ops *sweep_best(void) {
    const sweep_ops *const *all = sweep_usable();
    while (all[1]) all++;
    return *all;
}
