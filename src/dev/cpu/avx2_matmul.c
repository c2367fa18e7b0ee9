/* avx2_matmul.c — matrix products with float32 activations in 256-bit registers, by fused multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 4 x 3 sums, 3 inputs and a weight fill the
 * 16 registers. */
#include "avx2_sum.h"
#include "cpu.h"
#include <string.h>

typedef float elem;
typedef __m256 vec;
typedef __m256 acc;
enum { LANES = 8, TILE_ROWS = 4, TILE_COLS = 3, PANEL_TILES = 32, STREAMS = 4 };

static inline vec vec_load(const elem *from) { return _mm256_loadu_ps(from); }
static inline acc acc_zero(void) { return _mm256_setzero_ps(); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm256_fmadd_ps(x, w, a); }

static inline vec from_16(quant_id type, const void *at) {
    const __m128i bits = _mm_loadu_si128(at);
    if (type == QUANT_F16) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k) {
    if (type == QUANT_F32) return _mm256_loadu_ps((const void *)(row + 4 * k));
    return from_16(type, row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n) {
    _Alignas(32) uint8_t bytes[32] = {0};
    const size_t size = type == QUANT_F32 ? 4 : 2;
    memcpy(bytes, row + (size_t)k * size, (size_t)n * size);
    return type == QUANT_F32 ? _mm256_load_ps((const void *)bytes) : from_16(type, bytes);
}

static inline float acc_sum(acc a) { return sum_across(sum_halves(a)); }
static inline void acc_sum_four(float *to, acc a, acc b, acc c, acc d) {
    const __m128 fours[4] = {sum_halves(a), sum_halves(b), sum_halves(c), sum_halves(d)};
    sum_four_across(to, fours);
}

static inline void pack_row(elem *to, const float *x, int64_t n) { memcpy(to, x, (size_t)n * sizeof *to); }

#include "tiles_matmul.inc"
#include "unpacked_matmul.inc"

TILES_KERNEL(f32, QUANT_F32);
TILES_KERNEL(f16, QUANT_F16);
TILES_KERNEL(bf16, QUANT_BF16);

const cpu_matmul_ops cpu_matmul_avx2 = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
};
