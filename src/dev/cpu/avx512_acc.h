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

/* [a's lower half + its upper one, the same of b], and then of halves of those. */
static inline __m512 acc_fold(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}
static inline __m512 acc_fold_again(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

/* As acc_sum, of sixteen and eight at a time: several lie in one register as soon as they fit. */
#define HAS_SUM_SIXTEEN
static inline void acc_sum_sixteen(float *to, const acc v[16]) {
    __m512 fours[4]; /* of 0, 4, 8 and 12, of the ones after those ... */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) fours[i] = acc_fold_again(acc_fold(v[i], v[4 + i]), acc_fold(v[8 + i], v[12 + i]));
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(fours[0], fours[1]), _mm512_unpackhi_ps(fours[0], fours[1]));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(fours[2], fours[3]), _mm512_unpackhi_ps(fours[2], fours[3]));
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE)));
}
static inline void acc_sum_eight(float *to, const acc v[8]) {
    const __m512 left = acc_fold_again(acc_fold(v[0], v[4]), acc_fold(v[1], v[5]));
    const __m512 right = acc_fold_again(acc_fold(v[2], v[6]), acc_fold(v[3], v[7]));
    const __m256 a = _mm512_castps512_ps256(left), b = _mm512_extractf32x8_ps(left, 1);
    const __m256 c = _mm512_castps512_ps256(right), d = _mm512_extractf32x8_ps(right, 1);
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE)));
}

#endif
