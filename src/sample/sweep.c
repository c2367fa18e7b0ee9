/* sweep.c — the loops over all logits, compiled for any machine and again for wider vectors.
 *
 * Lanes are combined in a tree that the source fixes, products are never fused into sums, so the copies agree to the
 * last bit (sweep_test.c holds them to it). */
#include "sweep.h"
#include "num.h"
#include "base/cpuid.h"

#define SWEEP(name) name##_any
#define SWEEP_TARGET
#define SWEEP_WIDTH 4
#define SWEEP_NAME "any"
#include "sweep_loops.inc"

static const sweep_ops *const usable_anywhere[] = {&ops_any, NULL};

#if defined(__x86_64__)
#define SWEEP(name) name##_avx2
#define SWEEP_TARGET __attribute__((target("avx2")))
#define SWEEP_WIDTH 8
#define SWEEP_NAME "avx2"
#include "sweep_loops.inc"

static const sweep_ops *const usable_with_avx2[] = {&ops_any, &ops_avx2, NULL};
#endif

const sweep_ops *const *sweep_usable(void) {
#if defined(__x86_64__)
    cpu_features cpu;
    cpu_detect(&cpu);
    if (cpu.avx2) return usable_with_avx2;
#endif
    return usable_anywhere;
}

const sweep_ops *sweep_best(void) {
    const sweep_ops *const *all = sweep_usable();
    while (all[1]) all++;
    return *all;
}
