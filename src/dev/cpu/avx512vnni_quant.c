/* avx512vnni_quant.c — whole-number weights in 512-bit registers, four products and their sum per instruction.
 *
 * The walk is quant_matmul.inc; here is only what a vector is. All 16 columns of a tile lie in one register, and the
 * four activations of a step are broadcast from memory by the instruction itself. */
#include "pack.h"
#include "cpu.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

typedef __m512i ivec;
typedef __m512 fvec;
enum { LANES = 16, MOST_ROWS = 8, MOST_SIZE = 3, WIDE_OFFSET = 0, MOST_LANES = 4, MOST_SUMS = 8, MOST_TILES = 4 };
static const int tiles_at_once[] = {4, 4, 2, 1}; /* for 1, 2, 4, 8 rows */

static inline ivec i_load(const void *from) { return _mm512_loadu_si512(from); }
static inline void i_store(void *to, ivec v) { _mm512_storeu_si512(to, v); }
static inline ivec i_set(char byte) { return _mm512_set1_epi8(byte); }
static inline ivec i_zero(void) { return _mm512_setzero_si512(); }
static inline ivec i_and(ivec a, ivec b) { return _mm512_and_si512(a, b); }
static inline ivec i_or(ivec a, ivec b) { return _mm512_or_si512(a, b); }
#define i_left(v, n) _mm512_slli_epi16(v, (unsigned)(n))
#define i_right(v, n) _mm512_srli_epi16(v, (unsigned)(n))
static inline ivec i_load_table(const uint8_t *table) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table));
}
static inline ivec i_table(ivec table, ivec index) { return _mm512_shuffle_epi8(table, index); }
/* Codes without sign times four activations with one; `wide` codes need no care here. */
static inline ivec i_dot(ivec sum, ivec codes, const int8_t *x, bool wide) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four));
}

static inline fvec f_of(ivec v) { return _mm512_cvtepi32_ps(v); }
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

static inline int sum_16(const int8_t *q) {
    const __m128i raised = _mm_xor_si128(_mm_loadu_si128((const void *)q), _mm_set1_epi8((char)0x80));
    const __m128i sums = _mm_sad_epu8(raised, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 0x80;
}

/* x = d q with q of 8 bits; a NaN among them makes d one. */
static inline void quantize(int8_t q[PACK_DEPTH], float *d, const float *x) {
    const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + LANES);
    const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const __m512 inverse = _mm512_set1_ps(most > 0 ? 127 / most : 0);
    _mm_storeu_si128((void *)q, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse))));
    _mm_storeu_si128((void *)(q + LANES), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, inverse))));
    *d = _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) ? NAN : most / 127;
}

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 8, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 1, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 2, 2)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1, strip_##name##_8_1 }
#define SEVERAL_OF(name)                                                                                               \
    { strip_##name##_1_4, strip_##name##_2_4, strip_##name##_4_2, NULL }
#define PANEL_ROWS(wide, halves)                                                                                       \
    ROWS(wide, halves, 1)                                                                                              \
    ROWS(wide, halves, 2)                                                                                              \
    ROWS(wide, halves, 4)                                                                                              \
    ROWS(wide, halves, 8)
#define PANEL_ROWS_OF(wide, halves)                                                                                    \
    { rows_##wide##halves##_1, rows_##wide##halves##_2, rows_##wide##halves##_4, rows_##wide##halves##_8 }

#include "quant_matmul.inc"
#include "quant_panel.inc"

const cpu_matmul_ops cpu_quant_avx512vnni = {.grouped = &kernel_grouped};
