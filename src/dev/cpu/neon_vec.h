/* neon_vec.h — what a vector is in the 128-bit registers of 64-bit ARM, for neon_rows.c and neon_attend.c only.
 *
 * Pointers need no alignment; the _part functions touch the first n elements alone and fill up with zeros. Rounding to
 * whole numbers and to float16 is to nearest even, as everywhere. */
#ifndef DEV_CPU_NEON_VEC_H
#define DEV_CPU_NEON_VEC_H

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t vec;
enum { LANES = 4 };

static inline int32x4_t vec_index(void) { return vcombine_s32(vcreate_s32(1ull << 32), vcreate_s32(3ull << 32 | 2)); }
static inline vec vec_set(float x) { return vdupq_n_f32(x); }
static inline vec vec_load(const void *from) { return vreinterpretq_f32_u8(vld1q_u8(from)); }
static inline vec vec_load_part(const void *from, int n) {
    float four[LANES] = {0};
    if (n >= LANES) return vec_load(from);
    memcpy(four, from, (size_t)n * sizeof *four);
    return vld1q_f32(four);
}
static inline void vec_store(float *to, vec v) { vst1q_f32(to, v); }
static inline void vec_store_part(float *to, vec v, int n) {
    float four[LANES];
    vst1q_f32(four, v);
    if (n >= LANES)
        vst1q_f32(to, v);
    else
        memcpy(to, four, (size_t)n * sizeof *four);
}

static inline uint8x8_t vec_half_part(const void *from, int n) {
    uint8_t four[LANES * 2] = {0};
    if (n >= LANES) return vld1_u8(from);
    memcpy(four, from, (size_t)n * 2);
    return vld1_u8(four);
}
static inline vec vec_f16_of(uint8x8_t bits) { return vcvt_f32_f16(vreinterpret_f16_u8(bits)); }
static inline vec vec_f16(const void *from) { return vec_f16_of(vld1_u8(from)); }
static inline vec vec_f16_part(const void *from, int n) { return vec_f16_of(vec_half_part(from, n)); }
static inline vec vec_i8(const void *from) {
    uint32_t four;
    memcpy(&four, from, sizeof four);
    const int16x8_t wide = vmovl_s8(vcreate_s8(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline vec vec_bf16_of(uint8x8_t bits) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(bits), 16));
}
static inline vec vec_bf16(const void *from) { return vec_bf16_of(vld1_u8(from)); }
static inline vec vec_bf16_part(const void *from, int n) { return vec_bf16_of(vec_half_part(from, n)); }
static inline void vec_store_f16_part(uint16_t *to, vec v, int n) {
    uint16_t four[LANES];
    vst1_u16(four, vreinterpret_u16_f16(vcvt_f16_f32(v)));
    memcpy(to, four, (size_t)(n < LANES ? n : LANES) * sizeof *four);
}

static inline vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
static inline vec vec_sub(vec a, vec b) { return vsubq_f32(a, b); }
static inline vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
static inline vec vec_div(vec a, vec b) { return vdivq_f32(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); } /* a * b + c */
/* A NaN comes out. */
static inline vec vec_max(vec a, vec b) { return vmaxq_f32(a, b); }
static inline vec vec_min(vec a, vec b) { return vminq_f32(a, b); }
static inline vec vec_abs(vec a) { return vabsq_f32(a); }
/* Where x is below the limit `a`, elsewhere `b`; a NaN is not below. */
static inline vec vec_where_below(vec x, float limit, vec a, vec b) {
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(limit)), a, b);
}
/* v * 2^n for a whole n from -126 to 127 and v near 1; a NaN stays one. */
static inline vec vec_scale(vec v, vec n) {
    const int32x4_t bits = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vmulq_f32(v, vreinterpretq_f32_s32(bits));
}

static inline float vec_first(vec v) { return vgetq_lane_f32(v, 0); }
static inline float vec_sum(vec v) { return vaddvq_f32(v); }
static inline float vec_greatest(vec v) { return vmaxvq_f32(v); }
/* Lanes begin .. end-1; minus infinity in the others. */
static inline vec vec_only(vec v, int begin, int end) {
    const uint32x4_t from = vcgeq_s32(vec_index(), vdupq_n_s32(begin));
    const uint32x4_t mask = vandq_u32(from, vcltq_s32(vec_index(), vdupq_n_s32(end)));
    return vbslq_f32(mask, v, vdupq_n_f32(-INFINITY));
}

#endif
