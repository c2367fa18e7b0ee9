/* avx512_attend.c — attention over one page in 512-bit registers; the walk is page_attend.inc.
 *
 * 6 x 4 sums, four vectors of keys and a query fit the 32 registers. */
#include "cpu.h"
#include "avx512_vec.h"

enum { VECS = 4, SCORE_ROWS = 6, MIX_ROWS = 8 };

/* Lane i gets the sum of the i-th four elements of the vectors: adds across twice. */
static inline void store_scores(float *to, const vec *sums) {
    const vec ab = _mm512_add_ps(_mm512_unpacklo_ps(sums[0], sums[1]), _mm512_unpackhi_ps(sums[0], sums[1]));
    const vec cd = _mm512_add_ps(_mm512_unpacklo_ps(sums[2], sums[3]), _mm512_unpackhi_ps(sums[2], sums[3]));
    const __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    const vec even = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), odd = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    vec_store(to, _mm512_add_ps(even, odd));
}

static inline void store_halves(float *to, size_t step, __m512i fours) {
    vec_store(to, _mm512_cvtph_ps(_mm512_castsi512_si256(fours)));
    vec_store(to + step, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(fours, 1)));
}

/* 32 elements of four keys each into eight vectors: elements 0-3 of all, elements 4-7 of all ... */
static inline void pack_f16(float *to, size_t step, const uint8_t *key, size_t row_bytes, __mmask32 mask) {
    const __m512i a = _mm512_maskz_loadu_epi16(mask, key), b = _mm512_maskz_loadu_epi16(mask, key + row_bytes);
    const __m512i c = _mm512_maskz_loadu_epi16(mask, key + 2 * row_bytes);
    const __m512i d = _mm512_maskz_loadu_epi16(mask, key + 3 * row_bytes);
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i ab_even = _mm512_unpacklo_epi64(a, b), ab_odd = _mm512_unpackhi_epi64(a, b);
    const __m512i cd_even = _mm512_unpacklo_epi64(c, d), cd_odd = _mm512_unpackhi_epi64(c, d);
    store_halves(to, 2 * step, _mm512_permutex2var_epi64(ab_even, low, cd_even));
    store_halves(to + step, 2 * step, _mm512_permutex2var_epi64(ab_odd, low, cd_odd));
    store_halves(to + 4 * step, 2 * step, _mm512_permutex2var_epi64(ab_even, high, cd_even));
    store_halves(to + 5 * step, 2 * step, _mm512_permutex2var_epi64(ab_odd, high, cd_odd));
}

/* 16 elements of four keys each into four vectors. */
static inline void pack_f32(float *to, size_t step, const uint8_t *key, size_t row_bytes, int n) {
    const vec a = vec_load_part(key, n), b = vec_load_part(key + row_bytes, n);
    const vec c = vec_load_part(key + 2 * row_bytes, n), d = vec_load_part(key + 3 * row_bytes, n);
    const vec ab_low = _mm512_shuffle_f32x4(a, b, 0x44), ab_high = _mm512_shuffle_f32x4(a, b, 0xEE);
    const vec cd_low = _mm512_shuffle_f32x4(c, d, 0x44), cd_high = _mm512_shuffle_f32x4(c, d, 0xEE);
    vec_store(to, _mm512_shuffle_f32x4(ab_low, cd_low, 0x88));
    vec_store(to + step, _mm512_shuffle_f32x4(ab_low, cd_low, 0xDD));
    vec_store(to + 2 * step, _mm512_shuffle_f32x4(ab_high, cd_high, 0x88));
    vec_store(to + 3 * step, _mm512_shuffle_f32x4(ab_high, cd_high, 0xDD));
}

/* 16 keys; vector v of each four elements has the keys 4 l + v for its lanes' fours l. */
static inline void pack_keys(float *to, const uint8_t *keys, int dim, bool is_f16) {
    const size_t row_bytes = (size_t)dim * (is_f16 ? 2 : 4), step = VECS * LANES;
    for (int v = 0; v < VECS; v++) {
        const uint8_t *key = keys + (size_t)v * row_bytes;
        float *at = to + v * LANES;
        for (int d = 0; is_f16 && d < dim; d += 32)
            pack_f16(at + (size_t)d * LANES, step, key + 2 * d, VECS * row_bytes,
                     dim - d >= 32 ? ~0u : (1u << (dim - d)) - 1);
        for (int d = 0; !is_f16 && d < dim; d += 16)
            pack_f32(at + (size_t)d * LANES, step, key + 4 * d, VECS * row_bytes, dim - d);
    }
}

#include "page_attend.inc"

const cpu_attend_ops cpu_attend_avx512 = {.page_f16 = page_f16, .page_f32 = page_f32};
