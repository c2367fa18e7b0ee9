/* avx2_vec.h — what a vector is in 256-bit registers, for avx2_rows.c and avx2_attend.c only.
 *
 * Pointers need no alignment; the _part functions touch the first n elements alone and fill up with zeros. */
#ifndef DEV_CPU_AVX2_VEC_H
#define DEV_CPU_AVX2_VEC_H

#include "avx2_sum.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vec;
enum { LANES = 8 };

static inline __m256i vec_index(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
static inline __m256i vec_mask(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), vec_index()); }
static inline vec vec_set(float x) { return _mm256_set1_ps(x); }
static inline vec vec_load(const void *from) { return _mm256_loadu_ps(from); }
static inline vec vec_load_part(const void *from, int n) { return _mm256_maskload_ps(from, vec_mask(n)); }
static inline void vec_store(float *to, vec v) { _mm256_storeu_ps(to, v); }
static inline void vec_store_part(float *to, vec v, int n) { _mm256_maskstore_ps(to, vec_mask(n), v); }

static inline __m128i vec_half_part(const void *from, int n) {
    _Alignas(16) uint16_t eight[LANES] = {0};
    memcpy(eight, from, (size_t)(n < LANES ? n : LANES) * sizeof *eight);
    return _mm_load_si128((const void *)eight);
}
static inline vec vec_f16(const void *from) { return _mm256_cvtph_ps(_mm_loadu_si128(from)); }
static inline vec vec_f16_part(const void *from, int n) { return _mm256_cvtph_ps(vec_half_part(from, n)); }
static inline vec vec_i8(const void *from) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from))); }
static inline vec vec_bf16_of(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
static inline vec vec_bf16(const void *from) { return vec_bf16_of(_mm_loadu_si128(from)); }
static inline vec vec_bf16_part(const void *from, int n) { return vec_bf16_of(vec_half_part(from, n)); }
static inline void vec_store_f16_part(uint16_t *to, vec v, int n) {
    _Alignas(16) uint16_t eight[LANES];
    _mm_store_si128((void *)eight, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    memcpy(to, eight, (size_t)(n < LANES ? n : LANES) * sizeof *eight);
}

static inline vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); } /* a * b + c */
/* A NaN in b comes out. */
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline vec vec_abs(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
/* Where x is below the limit `a`, elsewhere `b`; a NaN is not below. */
static inline vec vec_where_below(vec x, float limit, vec a, vec b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_LT_OQ));
}
/* v * 2^n for a whole n from -126 to 127 and v near 1; a NaN stays one. */
static inline vec vec_scale(vec v, vec n) {
    const __m256i bits = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(v, _mm256_castsi256_ps(bits));
}

static inline float vec_first(vec v) { return _mm256_cvtss_f32(v); }
static inline float vec_sum(vec v) { return sum_across(sum_halves(v)); }
static inline float vec_greatest(vec v) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
/* Lanes begin .. end-1; minus infinity in the others. */
static inline vec vec_only(vec v, int begin, int end) {
    const __m256i mask = _mm256_andnot_si256(vec_mask(begin), vec_mask(end));
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, _mm256_castsi256_ps(mask));
}

#endif
