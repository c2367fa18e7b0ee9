/* block_iq.c — GGUF's IQ formats: groups of 8 or 4 weights are entries of a code book, with signs beside them.
 *
 * The readers of blocks.h. A code is the index of a magnitude and, above it, the sign (of IQ1: of the offset that all
 * weights of an entry share), so that a table of 8 or 16 values turns it into a whole number. */
#include "blocks.h"
#include "iq_grids.h"

/* ---- signs ---- */

/* Seven signs are stored, the eighth makes their number even. */
static unsigned even_signs(unsigned seven) { return seven | (unsigned)__builtin_parity(seven) << 7; }

static void put_eight(uint8_t code[8], unsigned entry, unsigned signs) {
    for (int i = 0; i < 8; i++) code[i] = (uint8_t)((entry >> 2 * i & 3) | (signs >> i & 1) << 2);
}

static void put_four(uint8_t code[4], unsigned entry, unsigned signs) {
    for (int i = 0; i < 4; i++) code[i] = (uint8_t)((entry >> 3 * i & 7) | (signs >> i & 1) << 3);
}

static void set_scale(block_part *out, unsigned first, unsigned second) {
    out->scale[0] = (int8_t)(2 * first + 1);
    out->scale[1] = (int8_t)(2 * second + 1);
}

/* ---- two bits ---- */

static void read_iq2_xxs(block_part *out, const uint8_t *b, int part) {
    const uint8_t *entries = b + 2 + 8 * part;
    const uint32_t signs = bits_u32(entries, 1);
    out->d = bits_u16(b, 0);
    set_scale(out, signs >> 28, signs >> 28);
    for (int i = 0; i < 4; i++)
        put_eight(out->code + 8 * i, grid_iq2_xxs[entries[i]], even_signs(signs >> 7 * i & 127));
}

static void read_iq2_xs(block_part *out, const uint8_t *b, int part) {
    out->d = bits_u16(b, 0);
    set_scale(out, b[66 + part] & 15, b[66 + part] >> 4);
    for (int i = 0; i < 4; i++) {
        const unsigned entry = bits_u16(b + 2 + 8 * part, (size_t)i);
        put_eight(out->code + 8 * i, grid_iq2_xs[entry & 511], even_signs(entry >> 9));
    }
}

static void read_iq2_s(block_part *out, const uint8_t *b, int part) {
    const uint8_t *low = b + 2 + 4 * part, *signs = b + 34 + 4 * part;
    out->d = bits_u16(b, 0);
    set_scale(out, b[74 + part] & 15, b[74 + part] >> 4);
    for (int i = 0; i < 4; i++)
        put_eight(out->code + 8 * i, grid_iq2_s[low[i] | (b[66 + part] >> 2 * i & 3) << 8], signs[i]);
}

/* ---- three bits ---- */

static void read_iq3_xxs(block_part *out, const uint8_t *b, int part) {
    const uint8_t *entries = b + 2 + 8 * part;
    const uint32_t signs = bits_u32(b + 66, (size_t)part);
    out->d = bits_u16(b, 0);
    set_scale(out, signs >> 28, signs >> 28);
    for (int i = 0; i < 8; i++)
        put_four(out->code + 4 * i, grid_iq3_xxs[entries[i]], even_signs(signs >> 7 * (i / 2) & 127) >> 4 * (i % 2));
}

static void read_iq3_s(block_part *out, const uint8_t *b, int part) {
    const uint8_t *low = b + 2 + 8 * part, *signs = b + 74 + 4 * part;
    const unsigned scale = b[106 + part / 2] >> 4 * (part % 2) & 15;
    out->d = bits_u16(b, 0);
    set_scale(out, scale, scale);
    for (int i = 0; i < 8; i++)
        put_four(out->code + 4 * i, grid_iq3_s[low[i] | (b[66 + part] >> i & 1) << 8], signs[i / 2] >> 4 * (i % 2));
}

/* ---- one bit ---- */

static void put_shifted(uint8_t code[8], unsigned entry, bool is_down) {
    for (int i = 0; i < 8; i++) code[i] = (uint8_t)((entry >> 2 * i & 3) | (unsigned)is_down << 2);
}

static void read_iq1_s(block_part *out, const uint8_t *b, int part) {
    const unsigned high = bits_u16(b + 34, (size_t)part);
    out->d = bits_u16(b, 0);
    set_scale(out, high >> 12 & 7, high >> 12 & 7);
    for (int i = 0; i < 4; i++)
        put_shifted(out->code + 8 * i, grid_iq1[b[2 + 4 * part + i] | (high >> 3 * i & 7) << 8], high >> 15);
}

/* The float16 lies in the highest nibbles of the four words of scales. */
static void read_iq1_m(block_part *out, const uint8_t *b, int part) {
    const uint8_t *scales = b + 48;
    out->d = 0;
    for (size_t i = 0; i < 4; i++) out->d |= (uint16_t)(bits_u16(scales, i) >> 12 << 4 * i);
    const unsigned word = bits_u16(scales, (size_t)part / 2) >> 6 * (part % 2);
    set_scale(out, word & 7, word >> 3 & 7);
    for (int i = 0; i < 4; i++) {
        const unsigned high = b[32 + 2 * part + i / 2] >> 4 * (i % 2) & 15;
        put_shifted(out->code + 8 * i, grid_iq1[b[4 * part + i] | (high & 7) << 8], high >> 3);
    }
}

/* ---- values + 128 ---- */

static const uint8_t iq1_values[16] = {121, 129, 137, 128, 119, 127, 135, 128};
static const uint8_t iq2_values[16] = {136, 153, 171, 128, 120, 103, 85, 128};
static const uint8_t iq3_xxs_values[16] = {132, 140, 148, 156, 164, 172, 180, 190, 124, 116, 108, 100, 92, 84, 76, 66};
static const uint8_t iq3_s_values[16] = {129, 131, 133, 135, 137, 139, 141, 143,
                                         127, 125, 123, 121, 119, 117, 115, 113};

const block_format block_iq1_s = {3, 32, QUANT_SCALES_SUPER, 128, iq1_values, 0.125f, read_iq1_s};
const block_format block_iq1_m = {3, 16, QUANT_SCALES_SUPER, 128, iq1_values, 0.125f, read_iq1_m};
const block_format block_iq2_xxs = {3, 32, QUANT_SCALES_SUPER, 128, iq2_values, 0.125f, read_iq2_xxs};
const block_format block_iq2_xs = {3, 16, QUANT_SCALES_SUPER, 128, iq2_values, 0.125f, read_iq2_xs};
const block_format block_iq2_s = {3, 16, QUANT_SCALES_SUPER, 128, iq2_values, 0.125f, read_iq2_s};
const block_format block_iq3_xxs = {4, 32, QUANT_SCALES_SUPER, 128, iq3_xxs_values, 0.25f, read_iq3_xxs};
const block_format block_iq3_s = {4, 32, QUANT_SCALES_SUPER, 128, iq3_s_values, 1, read_iq3_s};
