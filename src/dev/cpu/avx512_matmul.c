/* avx512_matmul.c — matrix products with float32 activations in 512-bit registers, by fused multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 6 x 4 sums, 6 inputs and a weight leave
 * one of the 32 registers free; 10 loads feed 24 multiply-adds, and widening a weight, which takes the same units on
 * Intel's processors, serves six of them. */
#include "avx512_acc.h"
#include "coded.h"
#include "cpu.h"
#include <string.h>

typedef float elem;
typedef __m512 vec;
enum { LANES = 16, TILE_ROWS = 6, TILE_COLS = 4, PANEL_TILES = 24, STREAMS = 8, AS_CODED = 0, PARKS_SUMS = 0 };

static inline vec vec_load(const elem *from) { return _mm512_loadu_ps(from); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm512_fmadd_ps(x, w, a); }

static inline vec from_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* The eighth bit becomes the sixteenth, the others keep together below the fifteenth. */
static inline vec from_e4m3(__m128i codes) {
    const __m256i bits = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(bits, _mm256_set1_epi16((short)0xBFFF)));
}

static inline vec from_e5m2(__m128i codes) {
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8));
}

static inline vec from_8(quant_id type, __m128i codes, coded_by by) {
    return _mm512_mul_ps(type == QUANT_FP8_E4M3 ? from_e4m3(codes) : from_e5m2(codes), _mm512_set1_ps(by.scale));
}

/* The instruction looks at four bits of each lane alone. */
static inline vec from_4(const void *codes, coded_by by) {
    const __m512i shifts = _mm512_set_epi32(24, 28, 16, 20, 8, 12, 0, 4, 24, 28, 16, 20, 8, 12, 0, 4);
    int32_t eight[2];
    memcpy(eight, codes, sizeof eight);
    const __m512i words = _mm512_mask_set1_epi32(_mm512_set1_epi32(eight[0]), 0xFF00, eight[1]);
    const vec values = _mm512_mul_ps(_mm512_loadu_ps(by.coded->values), _mm512_set1_ps(by.scale));
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts), values);
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k, coded_by by) {
    if (type == QUANT_F32) return _mm512_loadu_ps(row + 4 * k);
    if (type == QUANT_NF4) return from_4(row + k / 2, by);
    if (is_coded(type)) return from_8(type, _mm_loadu_si128((const void *)(row + k)), by);
    const __m256i bits = _mm256_loadu_si256((const void *)(row + 2 * k));
    return type == QUANT_F16 ? _mm512_cvtph_ps(bits) : from_bf16(bits);
}

/* The first n lanes; the rest are zeros and their memory is not touched. Codes of 4 bits have no such rest. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n, coded_by by) {
    const __mmask16 lanes = (__mmask16)((1u << n) - 1);
    if (is_coded(type)) return from_8(type, _mm_maskz_loadu_epi8(lanes, row + k), by);
    if (type == QUANT_F32) return _mm512_maskz_loadu_ps(lanes, row + 4 * k);
    const __m256i bits = _mm256_maskz_loadu_epi16(lanes, row + 2 * k);
    return type == QUANT_F16 ? _mm512_cvtph_ps(bits) : from_bf16(bits);
}

static inline void pack_row(elem *to, const float *x, int64_t n) { memcpy(to, x, (size_t)n * sizeof *to); }

#include "tiles_matmul.inc"

TILES_KERNEL(f32, QUANT_F32);
TILES_KERNEL(f16, QUANT_F16);
TILES_KERNEL(bf16, QUANT_BF16);
TILES_KERNEL(e4m3, QUANT_FP8_E4M3);
TILES_KERNEL(e5m2, QUANT_FP8_E5M2);
TILES_KERNEL(table, QUANT_NF4);

#include "unpacked_matmul.inc"

const cpu_matmul_ops cpu_matmul_avx512 = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
    .coded =
        {[QUANT_CODES_E4M3] = &kernel_e4m3, [QUANT_CODES_E5M2] = &kernel_e5m2, [QUANT_CODES_TABLE] = &kernel_table},
};
