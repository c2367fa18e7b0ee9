/* avx2_attend.c — attention over one page in 256-bit registers; the walk is page_attend.inc.
 *
 * 6 x 2 sums, two vectors of keys and a query fit the 16 registers. */
#include "cpu.h"
#include "avx2_vec.h"

enum { VECS = 2, SCORE_ROWS = 6, MIX_ROWS = 6 };

/* The sums of the fours of elements of the two vectors, in turns: adds across twice. */
static inline void store_scores(float *to, const vec *sums) {
    const vec ab = _mm256_add_ps(_mm256_unpacklo_ps(sums[0], sums[1]), _mm256_unpackhi_ps(sums[0], sums[1]));
    const vec all = _mm256_add_ps(ab, _mm256_permute_ps(ab, 0x4E));
    _mm_storeu_ps(to, _mm_movelh_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

/* 8 elements of two keys each into two vectors: elements 0-3 of both, elements 4-7 of both. */
static inline void pack_f16(float *to, size_t step, const uint8_t *key, size_t row_bytes, int n) {
    const __m128i a = n < 8 ? vec_half_part(key, n) : _mm_loadu_si128((const void *)key);
    const __m128i b = n < 8 ? vec_half_part(key + row_bytes, n) : _mm_loadu_si128((const void *)(key + row_bytes));
    vec_store(to, _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)));
    vec_store(to + step, _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)));
}

static inline void pack_f32(float *to, size_t step, const uint8_t *key, size_t row_bytes, int n) {
    const vec a = vec_load_part(key, n), b = vec_load_part(key + row_bytes, n);
    vec_store(to, _mm256_permute2f128_ps(a, b, 0x20));
    vec_store(to + step, _mm256_permute2f128_ps(a, b, 0x31));
}

/* 4 keys; vector v of each four elements has the keys 2 l + v for its lanes' fours l. */
static inline void pack_keys(float *to, const uint8_t *keys, int dim, bool is_f16) {
    const size_t row_bytes = (size_t)dim * (is_f16 ? 2 : 4), step = VECS * LANES;
    for (int v = 0; v < VECS; v++) {
        const uint8_t *key = keys + (size_t)v * row_bytes;
        float *at = to + v * LANES;
        for (int d = 0; is_f16 && d < dim; d += 8)
            pack_f16(at + (size_t)d * VECS * LANES / 4, step, key + 2 * d, VECS * row_bytes, dim - d);
        for (int d = 0; !is_f16 && d < dim; d += 8)
            pack_f32(at + (size_t)d * VECS * LANES / 4, step, key + 4 * d, VECS * row_bytes, dim - d);
    }
}

#include "page_attend.inc"

const cpu_attend_ops cpu_attend_avx2 = {.page_f16 = page_f16, .page_f32 = page_f32};
