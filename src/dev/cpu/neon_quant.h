/* neon_quant.h — what a vector of 128 bits is to the kernels for packed weights, but for the product of bytes: one
 * register holds 4 of a tile's 16 columns. For neon_quant.c, dotprod_quant.c and i8mm_quant.c, which differ in that
 * product. */
#ifndef DEV_CPU_NEON_QUANT_H
#define DEV_CPU_NEON_QUANT_H

#include "pack.h"
#include "cpu.h"
#include <arm_neon.h>
#include <math.h>
#include <string.h>

typedef uint8x16_t ivec;
typedef float32x4_t fvec;
enum { LANES = 4, MOST_LANES = 4, MOST_SUMS = 16, MOST_TILES = 1 };
enum { PANEL_TILES = 1, BLOCK_TILES = 4, CHUNK = 16, ROW_BLOCK = 128 };
static const int tiles_at_once[] = {1, 1, 1, 1}; /* for 1, 2, 4, 8 rows */

static inline int32x4_t whole_of(ivec v) { return vreinterpretq_s32_u8(v); }
static inline ivec bytes_of(int32x4_t v) { return vreinterpretq_u8_s32(v); }

static inline ivec i_load(const void *from) { return vld1q_u8(from); }
static inline void i_store(void *to, ivec v) { vst1q_u8(to, v); }
static inline ivec i_set(char byte) { return vdupq_n_u8((uint8_t)byte); }
static inline ivec i_set_32(int32_t x) { return bytes_of(vdupq_n_s32(x)); }
/* start - first whole[0] - last whole[1] in each lane. */
static inline ivec i_less(int32_t start, const int16_t whole[2], int first, int last) {
    return i_set_32(start - first * whole[0] - last * whole[1]);
}
static inline ivec i_zero(void) { return vdupq_n_u8(0); }
static inline ivec i_and(ivec a, ivec b) { return vandq_u8(a, b); }
static inline ivec i_or(ivec a, ivec b) { return vorrq_u8(a, b); }
static inline ivec i_left(ivec v, int n) { return vshlq_u8(v, vdupq_n_s8((int8_t)n)); }
static inline ivec i_right(ivec v, int n) { return vshlq_u8(v, vdupq_n_s8((int8_t)-n)); }
static inline ivec i_load_table(const uint8_t *table) { return vld1q_u8(table); }
static inline ivec i_table(ivec table, ivec index) { return vqtbl1q_u8(table, index); }
static inline ivec i_kept(ivec codes, ivec base) { return codes; } /* products take the base off */
static inline fvec f_as(ivec v) { return vreinterpretq_f32_u8(v); }
static inline fvec f_set(float x) { return vdupq_n_f32(x); }
static inline fvec f_load(const float *from) { return vld1q_f32(from); }
static inline void f_store(float *to, fvec v) { vst1q_f32(to, v); }
static inline fvec f_add(fvec a, fvec b) { return vaddq_f32(a, b); }
static inline fvec f_mul(fvec a, fvec b) { return vmulq_f32(a, b); }
static inline fvec f_fma(fvec a, fvec b, fvec c) { return vfmaq_f32(c, a, b); }  /* a * b + c */
static inline fvec f_fnma(fvec a, fvec b, fvec c) { return vfmsq_f32(c, a, b); } /* c - a * b */
static inline fvec f_load_f16(const uint8_t *from) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))); }

static inline uint16x4_t four_bytes(const uint8_t *from) {
    uint32_t four;
    memcpy(&four, from, sizeof four);
    return vget_low_u16(vmovl_u8(vcreate_u8(four)));
}
static inline fvec f_load_u8(const uint8_t *from) { return vcvtq_f32_u32(vmovl_u16(four_bytes(from))); }
static inline fvec f_load_i8(const uint8_t *from) {
    const int16x4_t raised = vreinterpret_s16_u16(vshl_n_u16(four_bytes(from), 8));
    return vcvtq_f32_s32(vmovl_s16(vshr_n_s16(raised, 8)));
}
/* 2^(e - 128); 0 for the two smallest. */
static inline fvec f_power(const uint8_t *from) {
    const int32x4_t e = vreinterpretq_s32_u32(vmovl_u16(four_bytes(from)));
    const int32x4_t below = vmaxq_s32(vsubq_s32(e, vdupq_n_s32(1)), vdupq_n_s32(0));
    return vreinterpretq_f32_s32(vshlq_n_s32(below, 23));
}

/* Four inputs, beside each of four columns. */
static inline int8x16_t four_inputs(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

static inline int sum_16(const int8_t *q) { return vaddlvq_s8(vld1q_s8(q)); }

static inline int16x4_t to_whole(const float *x, float inverse) {
    return vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse)));
}

/* x = d q with q of 8 bits; a NaN among them makes d one. */
static inline void quantize(int8_t q[PACK_DEPTH], float *d, const float *x) {
    float32x4_t best = vdupq_n_f32(0);
    for (int i = 0; i < PACK_DEPTH; i += LANES) best = vmaxq_f32(best, vabsq_f32(vld1q_f32(x + i)));
    const float most = vmaxvq_f32(best), inverse = pack_inverse(most);
    for (int i = 0; i < PACK_DEPTH; i += 8) {
        const int16x8_t eight = vcombine_s16(to_whole(x + i, inverse), to_whole(x + i + 4, inverse));
        vst1_s8(q + i, vqmovn_s16(eight));
    }
    *d = most / PACK_MOST;
}

#endif
