/* avx512_acc.h — what a register of sums is in 512 bits, for tiles_matmul.inc with either kind of elements. */
#ifndef DEV_CPU_AVX512_ACC_H
#define DEV_CPU_AVX512_ACC_H

#include "avx2_sum.h"

typedef __m512 acc;

static inline acc acc_zero(void) { return _mm512_setzero_ps(); }
static inline acc acc_add_scaled(acc a, acc sum, float scale) { return _mm512_fmadd_ps(sum, _mm512_set1_ps(scale), a); }

static inline __m128 acc_four(acc a) {
    return sum_halves(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}
static inline float acc_sum(acc a) { return sum_across(acc_four(a)); }
static inline void acc_sum_four(float *to, acc a, acc b, acc c, acc d) {
    const __m128 fours[4] = {acc_four(a), acc_four(b), acc_four(c), acc_four(d)};
    sum_four_across(to, fours);
}

#endif
