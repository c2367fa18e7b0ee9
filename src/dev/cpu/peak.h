/* peak.h — a multiply-add instruction at its peak, for <isa>_measure.c: independent chains of it, out of registers. */
#ifndef DEV_CPU_PEAK_H
#define DEV_CPU_PEAK_H

#include "cpu_measure.h"

/* A variable that the compiler must think changed, where it is. */
#if defined(__x86_64__)
#define PEAK_UNKNOWN(x) "+v"(x)
#else
#define PEAK_UNKNOWN(x) "+w"(x)
#endif

/* float name(int64_t turns): `chains` sums, begin(i) at first, of which each takes step(sum, a, b) `times` in every
 * turn; join and first make a number of them. No turn can be foreseen; chains that began alike would be one. */
#define PEAK(name, chains, times, begin, step, join, first, first_a, first_b)                                          \
    static float name(int64_t turns) {                                                                                 \
        __typeof__(begin(0)) sums[chains];                                                                             \
        __typeof__(first_a) a = first_a, b = first_b;                                                                  \
        _Pragma("GCC unroll 32") for (int i = 0; i < (chains); i++) sums[i] = begin(i);                                \
        for (int64_t t = 0; t < turns; t++) {                                                                          \
            __asm__ volatile("" : PEAK_UNKNOWN(a), PEAK_UNKNOWN(b));                                                   \
            _Pragma("GCC unroll 32") for (int u = 0; u < (times); u++)                                                 \
                _Pragma("GCC unroll 32") for (int i = 0; i < (chains); i++) sums[i] = step(sums[i], a, b);             \
        }                                                                                                              \
        _Pragma("GCC unroll 32") for (int i = 1; i < (chains); i++) sums[0] = join(sums[0], sums[i]);                  \
        return (float)first(sums[0]);                                                                                  \
    }

#endif
