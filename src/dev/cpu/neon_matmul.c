/* neon_matmul.c — matrix products with float32 activations in the 128-bit registers of 64-bit ARM, by fused
 * multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 6 x 4 sums, 6 inputs and a weight leave
 * one of the 32 registers free, and widening a weight serves six multiply-adds. */
#include "cpu.h"
#include <arm_neon.h>
#include <string.h>

typedef float elem;
typedef float32x4_t vec;
typedef float32x4_t acc;
enum { LANES = 4, TILE_ROWS = 6, TILE_COLS = 4, PANEL_TILES = 24, STREAMS = 4 };

static inline vec vec_load(const elem *from) { return vld1q_f32(from); }
static inline acc acc_zero(void) { return vdupq_n_f32(0); }
static inline acc vec_mac(acc a, vec x, vec w) { return vfmaq_f32(a, x, w); }

static inline vec from_16(quant_id type, const void *at) {
    const uint8x8_t bits = vld1_u8(at);
    if (type == QUANT_F16) return vcvt_f32_f16(vreinterpret_f16_u8(bits));
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(bits), 16));
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k) {
    if (type == QUANT_F32) return vreinterpretq_f32_u8(vld1q_u8(row + 4 * k));
    return from_16(type, row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n) {
    uint8_t bytes[LANES * sizeof(float)] = {0};
    const size_t size = type == QUANT_F32 ? 4 : 2;
    memcpy(bytes, row + (size_t)k * size, (size_t)n * size);
    return type == QUANT_F32 ? vreinterpretq_f32_u8(vld1q_u8(bytes)) : from_16(type, bytes);
}

static inline float acc_sum(acc a) { return vaddvq_f32(a); }

/* As acc_sum, of four at a time. */
static inline void acc_sum_four(float *to, acc a, acc b, acc c, acc d) {
    vst1q_f32(to, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

static inline void pack_row(elem *to, const float *x, int64_t n) { memcpy(to, x, (size_t)n * sizeof *to); }

#include "tiles_matmul.inc"
#include "unpacked_matmul.inc"

TILES_KERNEL(f32, QUANT_F32);
TILES_KERNEL(f16, QUANT_F16);
TILES_KERNEL(bf16, QUANT_BF16);

const cpu_matmul_ops cpu_matmul_neon = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
};
