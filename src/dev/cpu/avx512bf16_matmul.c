/* avx512bf16_matmul.c — weights of 16 and 8 bits times activations rounded to BF16, by dot products of pairs.
 *
 * The walk over tiles is tiles_matmul.inc; a vector is 32 BF16 values. BF16 weights are used as they are stored, those
 * of float16 as rounded.c leaves them. BF16 holds every float of 8 bits, so codes become BF16 by two tables of 128
 * bytes, the sign aside, and sums are scaled. Exact precision and the other formats keep the kernels of avx512. The
 * instruction flushes subnormal numbers to zero, of which no code and no float16 is one. */
#include "avx512_acc.h"
#include "coded.h"
#include "cpu.h"
#include <string.h>

typedef uint16_t elem;
typedef __m512i vec;
enum { LANES = 32, TILE_ROWS = 4, TILE_COLS = 6, PANEL_TILES = 16, STREAMS = 8, AS_CODED = 1, PARKS_SUMS = 1 };

static inline vec vec_load(const elem *from) { return _mm512_loadu_si512(from); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)w); }

/* Bytes 2 i and 2 i + 1 are byte i of the lower bytes and byte i of the upper ones, counted from `first` on. */
static inline vec weave(__m512i lower, __m512i upper, int first) {
    static const uint8_t places[CODED_STEP] = {
#define FOUR(i) i, 64 + i, i + 1, 65 + i, i + 2, 66 + i, i + 3, 67 + i
        FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28),
#undef FOUR
    };
    const __m512i at = _mm512_add_epi8(_mm512_loadu_si512(places), _mm512_set1_epi8((char)first));
    return _mm512_permutex2var_epi8(lower, at, upper);
}

/* The tables in registers. */
typedef struct halves {
    __m512i lower[2], upper[2];
} halves;

static inline halves halves_of(const cpu_coded *by) {
    return (halves){{_mm512_loadu_si512(by->lower), _mm512_loadu_si512(by->lower + 64)},
                    {_mm512_loadu_si512(by->upper), _mm512_loadu_si512(by->upper + 64)}};
}

/* Of 64 codes the 32 from `first` on. */
static inline vec from_8(__m512i codes, int first, halves by) {
    const __m512i lower = _mm512_permutex2var_epi8(by.lower[0], codes, by.lower[1]);
    const __m512i sizes = _mm512_permutex2var_epi8(by.upper[0], codes, by.upper[1]);
    enum { A_OR_B_AND_C = 0xF8 };
    const __m512i upper = _mm512_ternarylogic_epi32(sizes, codes, _mm512_set1_epi8((char)0x80), A_OR_B_AND_C);
    return weave(lower, upper, first);
}

/* Vectors of codes are made two at a time: 64 of them lie from `row` on, k is 0 or 32. */
static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k, coded_by by) {
    if (is_coded(type)) return from_8(_mm512_loadu_si512(row), (int)k, halves_of(by.coded));
    return _mm512_loadu_si512(row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n, coded_by by) {
    const uint32_t lanes = (uint32_t)((1ull << n) - 1);
    if (is_coded(type)) return from_8(_mm512_maskz_loadu_epi8(lanes, row + k), 0, halves_of(by.coded));
    return _mm512_maskz_loadu_epi16(lanes, row + 2 * k);
}

/* Whole steps of codes; returns where they end. Stores might change tables that are read from memory, as far as
 * compilers know. */
static inline int64_t widen_codes(elem *to, const uint8_t *codes, int64_t n, const cpu_coded *coded) {
    const halves by = halves_of(coded);
    int64_t k = 0;
    for (; k + CODED_STEP <= n; k += CODED_STEP) {
        const __m512i step = _mm512_loadu_si512(codes + k);
        _mm512_storeu_si512(to + k, from_8(step, 0, by));
        _mm512_storeu_si512(to + k + LANES, from_8(step, LANES, by));
    }
    return k;
}

#define HAS_WIDEN
static inline void widen(elem *to, const dev_weight *w, quant_id type, int64_t row) {
    const uint8_t *codes = (const uint8_t *)w->data + (size_t)row * bytes_of(type, w->n_in);
    int64_t k = widen_codes(to, codes, w->n_in, w->owned);
    for (; k < w->n_in; k += LANES) {
        const int n = w->n_in - k < LANES ? (int)(w->n_in - k) : LANES;
        _mm512_storeu_si512(to + k, vec_weight_part(type, codes, k, n, (coded_by){.coded = w->owned}));
    }
}

static inline void pack_row(elem *to, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
    if (i == n) return;
    const __mmask16 lanes = (__mmask16)((1u << (n - i)) - 1);
    _mm256_mask_storeu_epi16(to + i, lanes, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
}

/* Nothing is subnormal on the way: every float16 is a normal number of float32. */
static inline vec round_halves(__m512i from) {
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(from));
    const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(from, 1));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

static void round_f16(uint16_t *to, const uint8_t *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) _mm512_storeu_si512(to + i, round_halves(_mm512_loadu_si512(from + 2 * i)));
    if (i == n) return;
    const __mmask32 lanes = (__mmask32)((1ull << (n - i)) - 1);
    _mm512_mask_storeu_epi16(to + i, lanes, round_halves(_mm512_maskz_loadu_epi16(lanes, from + 2 * i)));
}

#include "tiles_matmul.inc"
#include "avx512bf16_woven.inc"

TILES_KERNEL_AND(bf16, QUANT_BF16, .weaving = &weaving);
TILES_KERNEL(codes, QUANT_FP8_E4M3);

const cpu_matmul_ops cpu_matmul_avx512bf16 = {
    .fast = {[QUANT_BF16] = &kernel_bf16},
    .coded_fast = {[QUANT_CODES_E4M3] = &kernel_codes, [QUANT_CODES_E5M2] = &kernel_codes},
    .round_f16 = round_f16,
};
