/* block_k.c — GGUF's K formats: blocks of 256 weights, groups of 16 or 32 whose scales are small whole numbers under
 * one float16 of the block. The readers of blocks.h. */
#include "blocks.h"

/* 2-bit codes: 128 weights take 32 bytes, each 32 of them another pair of bits. */
static void read_pairs(uint8_t code[32], const uint8_t *bytes, int part) {
    for (int i = 0; i < 32; i++) code[i] = bytes[part / 4 * 32 + i] >> 2 * (part % 4) & 3;
}

static void read_q2_k(block_part *out, const uint8_t *b, int part) {
    out->d = bits_u16(b + 80, 0);
    out->dmin = bits_u16(b + 82, 0);
    for (int half = 0; half < 2; half++) {
        const uint8_t scales = b[2 * part + half];
        out->scale[half] = (int8_t)(scales & 15);
        out->min[half] = scales >> 4;
    }
    read_pairs(out->code, b + 16, part);
}

/* The third bit stands for 4 where it is set, and the zero is 4. */
static void read_q3_k(block_part *out, const uint8_t *b, int part) {
    const uint8_t *scales = b + 96;
    out->d = bits_u16(b + 108, 0);
    for (int half = 0; half < 2; half++) {
        const int g = 2 * part + half;
        const int low = scales[g % 8] >> 4 * (g / 8) & 15, high = scales[8 + g % 4] >> 2 * (g / 4) & 3;
        out->scale[half] = (int8_t)((low | high << 4) - 32);
    }
    read_pairs(out->code, b + 32, part);
    for (int i = 0; i < 32; i++) out->code[i] |= (uint8_t)((b[i] >> part & 1) << 2);
}

/* Eight scales and eight minima of 6 bits in 12 bytes. */
static void read_scale_min(block_part *out, const uint8_t *s, int part) {
    int scale, min;
    if (part < 4) {
        scale = s[part] & 63;
        min = s[part + 4] & 63;
    } else {
        scale = (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
        min = s[part + 4] >> 4 | (s[part] >> 6) << 4;
    }
    out->scale[0] = out->scale[1] = (int8_t)scale;
    out->min[0] = out->min[1] = (uint8_t)min;
}

/* 64 weights take 32 bytes: low nibbles, then high ones. */
static void read_q4_k(block_part *out, const uint8_t *b, int part) {
    out->d = bits_u16(b, 0);
    out->dmin = bits_u16(b, 1);
    read_scale_min(out, b + 4, part);
    for (int i = 0; i < 32; i++) out->code[i] = b[16 + part / 2 * 32 + i] >> 4 * (part % 2) & 15;
}

static void read_q5_k(block_part *out, const uint8_t *b, int part) {
    out->d = bits_u16(b, 0);
    out->dmin = bits_u16(b, 1);
    read_scale_min(out, b + 4, part);
    for (int i = 0; i < 32; i++)
        out->code[i] = (uint8_t)((b[48 + part / 2 * 32 + i] >> 4 * (part % 2) & 15) | (b[16 + i] >> part & 1) << 4);
}

/* 128 weights take 64 bytes of nibbles and 32 of pairs. */
static void read_q6_k(block_part *out, const uint8_t *b, int part) {
    const uint8_t *low = b + part / 4 * 64 + part % 2 * 32, *high = b + 128 + part / 4 * 32;
    const int nibble = part % 4 / 2 * 4, pair = part % 4 * 2;
    out->d = bits_u16(b + 208, 0);
    for (int half = 0; half < 2; half++) out->scale[half] = (int8_t)b[192 + 2 * part + half];
    for (int i = 0; i < 32; i++) out->code[i] = (uint8_t)((low[i] >> nibble & 15) | (high[i] >> pair & 3) << 4);
}

const block_format block_q2_k = {2, 16, QUANT_SCALES_SUPER_MIN, 0, NULL, 1, read_q2_k};
const block_format block_q3_k = {3, 16, QUANT_SCALES_SUPER, 4, NULL, 1, read_q3_k};
const block_format block_q4_k = {4, 32, QUANT_SCALES_SUPER_MIN, 0, NULL, 1, read_q4_k};
const block_format block_q5_k = {5, 32, QUANT_SCALES_SUPER_MIN, 0, NULL, 1, read_q5_k};
const block_format block_q6_k = {6, 16, QUANT_SCALES_SUPER, 32, NULL, 1, read_q6_k};
