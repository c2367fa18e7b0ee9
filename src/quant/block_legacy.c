/* block_legacy.c — GGUF's formats with one scale per block of 32 weights (and TQ, of 256): Q4_0, Q4_1, Q5_0, Q5_1,
 * Q8_0, IQ4_NL, MXFP4, TQ1_0, TQ2_0. The readers of blocks.h. */
#include "blocks.h"

static void only_d(block_part *out, uint16_t d) {
    out->d = d;
    out->dmin = 0;
    out->scale[0] = out->scale[1] = 1;
    out->min[0] = out->min[1] = 1;
}

static void read_q4_0(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b, 0));
    block_nibbles(out->code, b + 2);
}

/* d code + m: the minimum's sign is turned. */
static void read_q4_1(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b, 0));
    out->dmin = bits_u16(b, 1) ^ 0x8000;
    block_nibbles(out->code, b + 4);
}

static void add_fifth_bits(uint8_t code[32], uint32_t bits) {
    for (int i = 0; i < 32; i++) code[i] |= (uint8_t)((bits >> i & 1) << 4);
}

static void read_q5_0(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b, 0));
    block_nibbles(out->code, b + 6);
    add_fifth_bits(out->code, bits_u32(b + 2, 0));
}

static void read_q5_1(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b, 0));
    out->dmin = bits_u16(b, 1) ^ 0x8000;
    block_nibbles(out->code, b + 8);
    add_fifth_bits(out->code, bits_u32(b + 4, 0));
}

static void read_q8_0(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b, 0));
    for (int i = 0; i < 32; i++) out->code[i] = b[2 + i] ^ 0x80;
}

static void read_mxfp4(block_part *out, const uint8_t *b, int part) {
    only_d(out, b[0]);
    block_nibbles(out->code, b + 1);
}

/* Five weights of base 3 in a byte, as a fraction of 256: 0, 1, 2 are the digits from the highest on. */
static uint8_t digit(uint8_t fraction, int place) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (uint8_t)((uint8_t)(fraction * powers[place]) * 3 >> 8);
}

/* Digits lie strided: 5 x 32 of 32 bytes, 5 x 16 of 16, 4 x 4 of the last 4. */
static void read_tq1_0(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b + 52, 0));
    for (int i = 0; i < 32; i++) {
        const int k = part * 32 + i;
        if (k < 160)
            out->code[i] = digit(b[k % 32], k / 32);
        else if (k < 240)
            out->code[i] = digit(b[32 + (k - 160) % 16], (k - 160) / 16);
        else
            out->code[i] = digit(b[48 + (k - 240) % 4], (k - 240) / 4);
    }
}

static void read_tq2_0(block_part *out, const uint8_t *b, int part) {
    only_d(out, bits_u16(b + 64, 0));
    for (int i = 0; i < 32; i++) out->code[i] = b[part / 4 * 32 + i] >> 2 * (part % 4) & 3;
}

/* Values + 128. */
static const uint8_t iq4_values[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t mxfp4_values[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                         128, 127, 126, 125, 124, 122, 120, 116};

const block_format block_q4_0 = {4, 32, QUANT_SCALES_PLAIN, 8, NULL, 1, read_q4_0};
const block_format block_q4_1 = {4, 32, QUANT_SCALES_MIN, 0, NULL, 1, read_q4_1};
const block_format block_q5_0 = {5, 32, QUANT_SCALES_PLAIN, 16, NULL, 1, read_q5_0};
const block_format block_q5_1 = {5, 32, QUANT_SCALES_MIN, 0, NULL, 1, read_q5_1};
const block_format block_q8_0 = {8, 32, QUANT_SCALES_PLAIN, 128, NULL, 1, read_q8_0};
const block_format block_iq4_nl = {4, 32, QUANT_SCALES_PLAIN, 128, iq4_values, 1, read_q4_0};
const block_format block_mxfp4 = {4, 32, QUANT_SCALES_POWER, 128, mxfp4_values, 1, read_mxfp4};
const block_format block_tq1_0 = {2, 256, QUANT_SCALES_PLAIN, 1, NULL, 1, read_tq1_0};
const block_format block_tq2_0 = {2, 256, QUANT_SCALES_PLAIN, 1, NULL, 1, read_tq2_0};

/* ---- IQ4_XS: the same values, scales of 6 bits under one of a block ---- */

static void read_iq4_xs(block_part *out, const uint8_t *b, int part) {
    const unsigned low = b[4 + part / 2] >> 4 * (part % 2) & 15, high = bits_u16(b + 2, 0) >> 2 * part & 3;
    only_d(out, bits_u16(b, 0));
    out->scale[0] = out->scale[1] = (int8_t)((int)(low | high << 4) - 32);
    block_nibbles(out->code, b + 8 + 16 * part);
}

const block_format block_iq4_xs = {4, 32, QUANT_SCALES_SUPER, 128, iq4_values, 1, read_iq4_xs};
