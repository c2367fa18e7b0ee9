/* avx512_matmul.c — matrix products with float32 activations in 512-bit registers, by fused multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 6 x 4 sums, 6 inputs and a weight leave
 * one of the 32 registers free; 10 loads feed 24 multiply-adds, and widening a weight, which takes the same units on
 * Intel's processors, serves six of them. */
#include "avx512_acc.h"
#include "cpu.h"
#include <string.h>

typedef float elem;
typedef __m512 vec;
enum { LANES = 16, TILE_ROWS = 6, TILE_COLS = 4, PANEL_TILES = 24, STREAMS = 8 };

static inline vec vec_load(const elem *from) { return _mm512_loadu_ps(from); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm512_fmadd_ps(x, w, a); }

static inline vec from_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k) {
    if (type == QUANT_F32) return _mm512_loadu_ps(row + 4 * k);
    const __m256i bits = _mm256_loadu_si256((const void *)(row + 2 * k));
    return type == QUANT_F16 ? _mm512_cvtph_ps(bits) : from_bf16(bits);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n) {
    const __mmask16 lanes = (__mmask16)((1u << n) - 1);
    if (type == QUANT_F32) return _mm512_maskz_loadu_ps(lanes, row + 4 * k);
    const __m256i bits = _mm256_maskz_loadu_epi16(lanes, row + 2 * k);
    return type == QUANT_F16 ? _mm512_cvtph_ps(bits) : from_bf16(bits);
}

static inline void pack_row(elem *to, const float *x, int64_t n) { memcpy(to, x, (size_t)n * sizeof *to); }

#include "tiles_matmul.inc"
#include "unpacked_matmul.inc"

TILES_KERNEL(f32, QUANT_F32);
TILES_KERNEL(f16, QUANT_F16);
TILES_KERNEL(bf16, QUANT_BF16);

const cpu_matmul_ops cpu_matmul_avx512 = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
};
