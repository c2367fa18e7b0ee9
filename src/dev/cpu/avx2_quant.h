/* avx2_quant.h — what a vector of 256 bits is to quant_matmul.inc, but for the product of bytes: one register holds 8
 * of a tile's 16 columns. For avx2_quant.c and avxvnni_quant.c, which differ in that product alone. */
#ifndef DEV_CPU_AVX2_QUANT_H
#define DEV_CPU_AVX2_QUANT_H

#include "pack.h"
#include "cpu.h"
#include "avx2_pairs.h"
#include <math.h>
#include <string.h>

typedef __m256i ivec;
typedef __m256 fvec;
enum { LANES = 8, MOST_ROWS = 4, MOST_SIZE = 2, MOST_LANES = 4, MOST_SUMS = 4, MOST_TILES = 2 };
enum { PANEL_TILES = 1, BLOCK_TILES = 4, CHUNK = 16, ROW_BLOCK = 128 };
static const int tiles_at_once[] = {2, 1, 1}; /* for 1, 2, 4 rows */

static inline ivec i_load(const void *from) { return _mm256_loadu_si256(from); }
static inline void i_store(void *to, ivec v) { _mm256_storeu_si256(to, v); }
static inline ivec i_set(char byte) { return _mm256_set1_epi8(byte); }
static inline ivec i_set_32(int32_t x) { return _mm256_set1_epi32(x); }
/* start - first whole[0] - last whole[1] in each lane. */
static inline ivec i_less(int32_t start, const int16_t whole[2], int first, int last) {
    const __m256i factors = _mm256_set1_epi32(pair(-first, -last)),
                  numbers = _mm256_set1_epi32(pair(whole[0], whole[1]));
    return _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_madd_epi16(factors, numbers));
}
static inline ivec i_add_32(ivec a, ivec b) { return _mm256_add_epi32(a, b); }
/* Made here and once: compilers would add whole numbers up in an order of their own, which needs more registers. */
static inline ivec i_held(ivec v) {
    __asm__("" : "+x"(v));
    return v;
}
static inline ivec four_inputs(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}
static inline ivec i_zero(void) { return _mm256_setzero_si256(); }
static inline ivec i_and(ivec a, ivec b) { return _mm256_and_si256(a, b); }
static inline ivec i_or(ivec a, ivec b) { return _mm256_or_si256(a, b); }
#define i_left(v, n) _mm256_slli_epi16(v, n)
#define i_right(v, n) _mm256_srli_epi16(v, n)
static inline ivec i_load_table(const uint8_t *table) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
}
static inline ivec i_table(ivec table, ivec index) { return _mm256_shuffle_epi8(table, index); }
static inline ivec i_kept(ivec codes, ivec base) { return codes; } /* products take the base off */
static inline fvec f_as(ivec v) { return _mm256_castsi256_ps(v); }
static inline fvec f_set(float x) { return _mm256_set1_ps(x); }
static inline fvec f_load(const float *from) { return _mm256_loadu_ps(from); }
static inline void f_store(float *to, fvec v) { _mm256_storeu_ps(to, v); }
static inline fvec f_add(fvec a, fvec b) { return _mm256_add_ps(a, b); }
static inline fvec f_mul(fvec a, fvec b) { return _mm256_mul_ps(a, b); }
static inline fvec f_fma(fvec a, fvec b, fvec c) { return _mm256_fmadd_ps(a, b, c); }   /* a * b + c */
static inline fvec f_fnma(fvec a, fvec b, fvec c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a * b */
static inline fvec f_load_f16(const uint8_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)); }
static inline fvec f_load_u8(const uint8_t *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from)));
}
static inline fvec f_load_i8(const uint8_t *from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)from)));
}
/* 2^(e - 128); 0 for the two smallest. */
static inline fvec f_power(const uint8_t *from) {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
    const __m256i below = _mm256_max_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_slli_epi32(below, 23));
}

static inline __m256i to_whole(const float *x, __m256 inverse) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* x = d q with q of 8 bits; a NaN among them makes d one. */
static inline void quantize(int8_t q[PACK_DEPTH], float *d, const float *x) {
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    __m256 best = _mm256_setzero_ps(), bad = _mm256_setzero_ps();
    for (int i = 0; i < PACK_DEPTH; i += LANES) {
        const __m256 v = _mm256_loadu_ps(x + i);
        best = _mm256_max_ps(best, _mm256_and_ps(v, no_sign));
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    }
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(best), _mm256_extractf128_ps(best, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    const float most = _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
    const __m256 inverse = _mm256_set1_ps(pack_inverse(most));
    const __m256i low = _mm256_packs_epi32(to_whole(x, inverse), to_whole(x + 8, inverse));
    const __m256i high = _mm256_packs_epi32(to_whole(x + 16, inverse), to_whole(x + 24, inverse));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((void *)q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
    *d = _mm256_movemask_ps(bad) ? NAN : most / PACK_MOST;
}

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 2)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 2)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 1, 2, 4)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1 }
#define SEVERAL_OF(name)                                                                                               \
    { strip_##name##_1_2 }

#endif
