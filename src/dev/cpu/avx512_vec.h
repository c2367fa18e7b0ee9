/* avx512_vec.h — what a vector is in 512-bit registers, for avx512_rows.c and avx512_attend.c only.
 *
 * Pointers need no alignment; the _part functions touch the first n elements alone and fill up with zeros. */
#ifndef DEV_CPU_AVX512_VEC_H
#define DEV_CPU_AVX512_VEC_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef __m512 vec;
enum { LANES = 16 };

static inline __mmask16 vec_mask(int n) { return n >= LANES ? 0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }
static inline vec vec_set(float x) { return _mm512_set1_ps(x); }
static inline vec vec_load(const void *from) { return _mm512_loadu_ps(from); }
static inline vec vec_load_part(const void *from, int n) { return _mm512_maskz_loadu_ps(vec_mask(n), from); }
static inline void vec_store(float *to, vec v) { _mm512_storeu_ps(to, v); }
static inline void vec_store_part(float *to, vec v, int n) { _mm512_mask_storeu_ps(to, vec_mask(n), v); }

static inline vec vec_f16(const void *from) { return _mm512_cvtph_ps(_mm256_loadu_si256(from)); }
static inline vec vec_f16_part(const void *from, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_mask(n), from));
}
static inline vec vec_i8(const void *from) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from))); }
static inline vec vec_bf16_of(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
static inline vec vec_bf16(const void *from) { return vec_bf16_of(_mm256_loadu_si256(from)); }
static inline vec vec_bf16_part(const void *from, int n) {
    return vec_bf16_of(_mm256_maskz_loadu_epi16(vec_mask(n), from));
}
static inline void vec_store_f16_part(uint16_t *to, vec v, int n) {
    _mm256_mask_storeu_epi16(to, vec_mask(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); } /* a * b + c */
/* A NaN in b comes out. */
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec vec_abs(vec a) { return _mm512_abs_ps(a); }
/* Where x is below the limit `a`, elsewhere `b`; a NaN is not below. */
static inline vec vec_where_below(vec x, float limit, vec a, vec b) {
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_LT_OQ), a);
}
/* v * 2^n for a whole n from -126 to 127 and v near 1. */
static inline vec vec_scale(vec v, vec n) { return _mm512_scalef_ps(v, n); }

static inline float vec_first(vec v) { return _mm512_cvtss_f32(v); }
static inline float vec_sum(vec v) { return _mm512_reduce_add_ps(v); }
static inline float vec_greatest(vec v) { return _mm512_reduce_max_ps(v); }
/* Lanes begin .. end-1; minus infinity in the others. */
static inline vec vec_only(vec v, int begin, int end) {
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), vec_mask(end) & (__mmask16)~vec_mask(begin), v);
}

#endif
