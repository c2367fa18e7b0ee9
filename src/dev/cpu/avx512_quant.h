/* avx512_quant.h — what a vector of 512 bits is to the kernels for packed weights (quant_terms.inc and others).
 *
 * Included by avx512vnni_quant.c. All 16 columns of a tile lie in one register. */
#ifndef DEV_CPU_AVX512_QUANT_H
#define DEV_CPU_AVX512_QUANT_H

#include "pack.h"
#include "avx2_pairs.h"
#include <math.h>
#include <string.h>

typedef __m512i ivec;
typedef __m512 fvec;
enum { LANES = 16 };

static inline ivec i_load(const void *from) { return _mm512_loadu_si512(from); }
static inline void i_store(void *to, ivec v) { _mm512_storeu_si512(to, v); }
static inline ivec i_set(char byte) { return _mm512_set1_epi8(byte); }
static inline ivec i_set_32(int32_t x) { return _mm512_set1_epi32(x); }
/* start - first whole[0] - last whole[1] in each lane. */
static inline ivec i_less(int32_t start, const int16_t whole[2], int first, int last) {
    const __m512i factors = _mm512_set1_epi32(pair(-first, -last)),
                  numbers = _mm512_set1_epi32(pair(whole[0], whole[1]));
    return _mm512_dpwssd_epi32(_mm512_set1_epi32(start), factors, numbers);
}
static inline ivec i_zero(void) { return _mm512_setzero_si512(); }
static inline ivec i_and(ivec a, ivec b) { return _mm512_and_si512(a, b); }
static inline ivec i_or(ivec a, ivec b) { return _mm512_or_si512(a, b); }
#define i_left(v, n) _mm512_slli_epi16(v, (unsigned)(n))
#define i_right(v, n) _mm512_srli_epi16(v, (unsigned)(n))
static inline ivec i_load_table(const uint8_t *table) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
}
static inline ivec i_table(ivec table, ivec index) { return _mm512_shuffle_epi8(table, index); }

static inline fvec f_as(ivec v) { return _mm512_castsi512_ps(v); }
static inline fvec f_set(float x) { return _mm512_set1_ps(x); }
static inline fvec f_load(const float *from) { return _mm512_loadu_ps(from); }
static inline void f_store(float *to, fvec v) { _mm512_storeu_ps(to, v); }
static inline fvec f_add(fvec a, fvec b) { return _mm512_add_ps(a, b); }
static inline fvec f_mul(fvec a, fvec b) { return _mm512_mul_ps(a, b); }
static inline fvec f_fma(fvec a, fvec b, fvec c) { return _mm512_fmadd_ps(a, b, c); }   /* a * b + c */
static inline fvec f_fnma(fvec a, fvec b, fvec c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a * b */
static inline fvec f_load_f16(const uint8_t *from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)); }
static inline fvec f_load_u8(const uint8_t *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from)));
}
static inline fvec f_load_i8(const uint8_t *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)from)));
}
/* 2^(e - 128); 0 for the two smallest. */
static inline fvec f_power(const uint8_t *from) {
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from));
    const __m512i below = _mm512_max_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), _mm512_setzero_si512());
    return _mm512_castsi512_ps(_mm512_slli_epi32(below, 23));
}

/* x = d q with q of 8 bits; a NaN among them makes d one. */
static inline void quantize(int8_t q[PACK_DEPTH], float *d, const float *x) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + LANES);
    const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const __m512 inverse = _mm512_set1_ps(pack_inverse(most));
    _mm_storeu_si128((void *)q, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse))));
    _mm_storeu_si128((void *)(q + LANES), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, inverse))));
    *d = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) ? NAN : most / PACK_MOST;
}

/* What the sums of pairs begin with (quant_pairs.inc), less MAGIC: of each two lines of four activations, x2 (x1 +
 * 128). */
static inline int32_t pair_start(const int8_t *q) {
    __m256i sums = _mm256_setzero_si256(); /* in the upper half of each 128 bits */
    for (int i = 0; i < PACK_DEPTH; i += 16) {
        const __m256i lines = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(q + i)));
        const __m256i first = _mm256_shuffle_epi32(lines, _MM_SHUFFLE(1, 0, 1, 0));
        const __m256i products = _mm256_madd_epi16(_mm256_add_epi16(first, _mm256_set1_epi16(128)), lines);
        sums = _mm256_add_epi32(sums, products);
    }
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return -_mm_extract_epi32(four, 2) - _mm_extract_epi32(four, 3);
}
#define PAIR_START(q) (MAGIC + pair_start(q))

#endif
