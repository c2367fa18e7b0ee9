/* neon_matmul.c — matrix products with float32 activations in the 128-bit registers of 64-bit ARM, by fused
 * multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 6 x 4 sums, 6 inputs and a weight leave
 * one of the 32 registers free, and widening a weight serves six multiply-adds. */
#include "coded.h"
#include "cpu.h"
#include <arm_neon.h>
#include <string.h>

typedef float elem;
typedef float32x4_t vec;
typedef float32x4_t acc;
enum { LANES = 4, TILE_ROWS = 6, TILE_COLS = 4, PANEL_TILES = 24, STREAMS = 4, AS_CODED = 0, PARKS_SUMS = 0 };

static inline vec vec_load(const elem *from) { return vld1q_f32(from); }
static inline acc acc_zero(void) { return vdupq_n_f32(0); }
static inline acc acc_add_scaled(acc a, acc sum, float scale) { return vfmaq_n_f32(a, sum, scale); }
static inline acc vec_mac(acc a, vec x, vec w) { return vfmaq_f32(a, x, w); }

static inline vec from_16(quant_id type, const void *at) {
    const uint8x8_t bits = vld1_u8(at);
    if (type == QUANT_F16) return vcvt_f32_f16(vreinterpret_f16_u8(bits));
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(bits), 16));
}

/* Of e4m3 the eighth bit becomes the sixteenth, the others keep together below the fifteenth. */
static inline vec from_8(quant_id type, const void *at, coded_by by) {
    uint32_t four;
    memcpy(&four, at, sizeof four);
    const uint8x8_t codes = vcreate_u8(four);
    const int16x8_t e4m3 = vshlq_n_s16(vmovl_s8(vreinterpret_s8_u8(codes)), 7);
    const uint16x8_t bits =
        type == QUANT_FP8_E4M3 ? vandq_u16(vreinterpretq_u16_s16(e4m3), vdupq_n_u16(0xBFFF)) : vshll_n_u8(codes, 8);
    return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(bits))), by.scale);
}

/* Each lane's code becomes the places of its float's four bytes. */
static inline vec from_4(const void *at, coded_by by) {
    static const int32_t shifts[LANES] = {-4, 0, -12, -8};
    uint16_t four;
    memcpy(&four, at, sizeof four);
    const uint32x4_t codes = vandq_u32(vshlq_u32(vdupq_n_u32(four), vld1q_s32(shifts)), vdupq_n_u32(15));
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100), codes, 0x04040404);
    const uint8x16x4_t values = vld1q_u8_x4((const uint8_t *)by.coded->values);
    return vmulq_n_f32(vreinterpretq_f32_u8(vqtbl4q_u8(values, vreinterpretq_u8_u32(places))), by.scale);
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k, coded_by by) {
    if (type == QUANT_F32) return vreinterpretq_f32_u8(vld1q_u8(row + 4 * k));
    if (type == QUANT_NF4) return from_4(row + k / 2, by);
    if (is_coded(type)) return from_8(type, row + k, by);
    return from_16(type, row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n, coded_by by) {
    uint8_t bytes[LANES * sizeof(float)] = {0};
    memcpy(bytes, row + bytes_of(type, k), bytes_of(type, n));
    return vec_weight(type, bytes, 0, by);
}

static inline float acc_sum(acc a) { return vaddvq_f32(a); }

/* As acc_sum, of four at a time. */
static inline void acc_sum_four(float *to, acc a, acc b, acc c, acc d) {
    vst1q_f32(to, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
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

const cpu_matmul_ops cpu_matmul_neon = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
    .coded =
        {[QUANT_CODES_E4M3] = &kernel_e4m3, [QUANT_CODES_E5M2] = &kernel_e5m2, [QUANT_CODES_TABLE] = &kernel_table},
};
