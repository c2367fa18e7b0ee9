/* fp.c — the plain floating-point formats: F32, F16, BF16, row-major as safetensors has them. */
#include "fp.h"
#include "base/mem.h"
#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

float quant_bf16_to_f32(uint16_t bf16) { return float_of((uint32_t)bf16 << 16); }

uint16_t quant_f32_to_bf16(float value) {
    const uint32_t u = bits_of(value);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN, made quiet */
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

float quant_f16_to_f32(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7FFF;
    if (magnitude >= 0x7C00) return float_of(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    if (magnitude >= 0x0400) return float_of(sign | ((magnitude << 13) + (112u << 23)));
    const float tiny = (float)magnitude * 0x1p-24f; /* subnormal: exact in float32 */
    return sign ? -tiny : tiny;
}

uint16_t quant_f32_to_f16(float value) {
    const uint32_t u = bits_of(value), magnitude = u & 0x7FFFFFFF;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above round to infinity */
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | (magnitude - (112u << 23) + 0x0FFF + (magnitude >> 13 & 1)) >> 13);
    /* Below 2^-14 adding 0.5 leaves the value rounded to a multiple of 2^-24 in the low bits. */
    return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
}

/* Matrices lie where the file put them: at any address, so elements are copied out, not pointed at. */
static const uint8_t *row_at(const quant_matrix *m, int64_t row, size_t each) {
    return (const uint8_t *)m->parts[0] + (size_t)row * (size_t)m->n_in * each;
}

static uint16_t load16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void unpack_f32(float *out, const quant_matrix *m, int64_t row) {
    memcpy(out, row_at(m, row, sizeof(float)), (size_t)m->n_in * sizeof(float));
}

static void unpack_f16(float *out, const quant_matrix *m, int64_t row) {
    const uint8_t *in = row_at(m, row, 2);
    for (int64_t i = 0; i < m->n_in; i++) out[i] = quant_f16_to_f32(load16(in + 2 * i));
}

static void unpack_bf16(float *out, const quant_matrix *m, int64_t row) {
    const uint8_t *in = row_at(m, row, 2);
    for (int64_t i = 0; i < m->n_in; i++) out[i] = quant_bf16_to_f32(load16(in + 2 * i));
}

static bool dense_bytes(size_t *out, int64_t n_out, int64_t n_in, size_t each) {
    return n_out >= 0 && n_in >= 0 && mem_mul((size_t)n_out, (size_t)n_in, out) && mem_mul(*out, each, out);
}
static bool bytes4(size_t *out, int64_t n_out, int64_t n_in) { return dense_bytes(out, n_out, n_in, 4); }
static bool bytes2(size_t *out, int64_t n_out, int64_t n_in) { return dense_bytes(out, n_out, n_in, 2); }

const quant_type quant_f32 = {
    .id = QUANT_F32, .name = "f32", .bits_per_weight = 32, .unpack_row = unpack_f32, .bytes = bytes4};
const quant_type quant_f16 = {
    .id = QUANT_F16, .name = "f16", .bits_per_weight = 16, .unpack_row = unpack_f16, .bytes = bytes2};
const quant_type quant_bf16 = {
    .id = QUANT_BF16, .name = "bf16", .bits_per_weight = 16, .unpack_row = unpack_bf16, .bytes = bytes2};
