/* bits.h — little-endian words out of bytes at any address, and codes out of strings of bits; for the formats here. */
#ifndef QUANT_BITS_H
#define QUANT_BITS_H

#include "quant.h"
#include <string.h>

static inline uint16_t bits_u16(const void *at, size_t i) {
    uint16_t value;
    memcpy(&value, (const uint8_t *)at + 2 * i, sizeof value);
    return value;
}

static inline uint32_t bits_u32(const void *at, size_t i) {
    uint32_t value;
    memcpy(&value, (const uint8_t *)at + 4 * i, sizeof value);
    return value;
}

static inline int32_t bits_i32(const void *at, size_t i) { return (int32_t)bits_u32(at, i); }
static inline float bits_f16(const void *at, size_t i) { return quant_f16_to_f32(bits_u16(at, i)); }

/* Code number i of `width` bits in a string of bits whose words of 32 lie `stride` words apart, the first at `first`.
 */
static inline uint32_t bits_code(const void *words, size_t first, size_t stride, size_t i, unsigned width) {
    const size_t t = i * width, word = t / 32;
    const unsigned shift = (unsigned)(t % 32);
    uint32_t code = bits_u32(words, first + word * stride) >> shift;
    if (shift + width > 32) code |= bits_u32(words, first + (word + 1) * stride) << (32 - shift);
    return width == 32 ? code : code & ((1u << width) - 1);
}

/* 32 codes of each of n <= 16 neighbouring columns, out of `width` rows of words: codes[column][k]. */
static inline void bits_codes(uint8_t codes[QUANT_TILE_ROWS][QUANT_TILE_DEPTH], const void *words, size_t first,
                              size_t stride, size_t n, unsigned width) {
    const uint32_t mask = (1u << width) - 1;
    for (unsigned k = 0; k < QUANT_TILE_DEPTH; k++) {
        const unsigned t = k * width, shift = t % 32;
        const size_t row = first + t / 32 * stride;
        if (shift + width <= 32)
            for (size_t c = 0; c < n; c++) codes[c][k] = (uint8_t)(bits_u32(words, row + c) >> shift & mask);
        else
            for (size_t c = 0; c < n; c++)
                codes[c][k] =
                    (uint8_t)((bits_u32(words, row + c) >> shift | bits_u32(words, row + stride + c) << (32 - shift)) &
                              mask);
    }
}

#endif
