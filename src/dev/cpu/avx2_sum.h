/* avx2_sum.h — sums across the lanes of registers of floats, in the order that all x86 kernels have: the upper half is
 * added to the lower one until one lane is left. */
#ifndef DEV_CPU_AVX2_SUM_H
#define DEV_CPU_AVX2_SUM_H

#include <immintrin.h>

static inline __m128 sum_halves(__m256 v) { return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); }

static inline float sum_across(__m128 four) {
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Four of them at a time, each as sum_across has it. */
static inline void sum_four_across(float *to, const __m128 v[4]) {
    const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(v[0], v[1]), _mm_unpackhi_ps(v[0], v[1]));
    const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(v[2], v[3]), _mm_unpackhi_ps(v[2], v[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}

#endif
