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

/* The lowest 8 x width bits as 8 bytes of one code each: halves, quarters and eighths move apart. */
static inline uint64_t bits_spread(uint64_t x, unsigned width) {
    const uint64_t four = ((uint64_t)1 << 4 * width) - 1, two = ((1ull << 2 * width) - 1) * 0x0000000100000001ull,
                   one = ((1ull << width) - 1) * 0x0001000100010001ull;
    x = (x & four) | (x >> 4 * width & four) << 32;
    x = (x & two) | (x >> 2 * width & two) << 16;
    return (x & one) | (x >> width & one) << 8;
}

/* Asks for the rows that will be wanted soon: they lie kilobytes apart, which no processor sees coming on its own. */
static inline void bits_fetch_rows(const void *words, size_t first, size_t stride, size_t n, unsigned rows) {
    enum { AHEAD = 16 };
    const uintptr_t at = (uintptr_t)words + 4 * (first + AHEAD * stride + n - 1); /* may lie beyond the end */
    for (unsigned i = 0; i < rows; i++) __builtin_prefetch((const void *)(at + 4 * i * stride));
}

/* 32 codes of each of n <= 16 neighbouring columns, out of `width` rows of words: codes[column][k]. Eight codes at a
 * time: they never lie in more than two words. */
static inline void bits_codes(uint8_t codes[QUANT_TILE_ROWS][QUANT_TILE_DEPTH], const void *words, size_t first,
                              size_t stride, size_t n, unsigned width) {
    bits_fetch_rows(words, first, stride, n, width);
    for (unsigned k = 0; k < QUANT_TILE_DEPTH; k += 8) {
        const unsigned t = k * width, shift = t % 32;
        const size_t row = first + t / 32 * stride, next = shift + 8 * width > 32 ? stride : 0;
        for (size_t c = 0; c < n; c++) {
            const uint64_t two = bits_u32(words, row + c) | (uint64_t)bits_u32(words, row + next + c) << 32;
            const uint64_t spread = bits_spread(two >> shift, width);
            memcpy(&codes[c][k], &spread, sizeof spread);
        }
    }
}

#endif
