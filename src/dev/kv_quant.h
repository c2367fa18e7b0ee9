/* kv_quant.h — what lies in a page of the quantised cache types, one for all devices.
 *
 * Called by dev/cpu (writing, reading), and where tests ask. Three things happen to a head's key or value before it is
 * stored: it is multiplied by a Hadamard matrix (kv_rotate), so that a few large elements become many of like size; it
 * is cut into blocks of DEV_KV_BLOCK elements, the last filled up with zeros; and each block becomes a float16 scale
 * and whole codes of 8, 6 or 4 bits: element = scale * code. The matrix is its own inverse and keeps scalar products:
 * queries are multiplied by it too, and so is what attention mixed out of rotated values.
 *
 * Values of a token are its blocks in a row: scale, codes. Keys of a group of DEV_KEY_GROUP tokens are block by block:
 * the tokens' scales, then codes [element][token], so that one load has the same element of all tokens.
 *
 * The tricky thing is how codes narrower than a byte share bytes: never two neighbours, but elements that lie half (4
 * bits) or a quarter (the upper 2 of 6 bits) of the block apart, so that unpacking is shifts of whole vectors and a
 * token has its bytes for itself: two threads may write two tokens of a group. */
#ifndef DEV_KV_QUANT_H
#define DEV_KV_QUANT_H

#include "dev.h"
#include <string.h>

enum {
    KV_VALUE_CODES = DEV_KV_BLOCK,               /* codes that share a plane: a token's block of values ... */
    KV_KEY_CODES = DEV_KV_BLOCK * DEV_KEY_GROUP, /* ... or a group's block of keys */
    KV_PIECE = 512,                              /* elements of the largest Hadamard matrix */
};

static inline bool kv_is_quantised(kv_type type) { return type > KV_F32; }
static inline int kv_blocks(int elements) { return (elements + DEV_KV_BLOCK - 1) / DEV_KV_BLOCK; }

/* Code i of the n in a plane. */
static inline int kv_code(const uint8_t *codes, kv_type type, int n, int i) {
    if (type == KV_Q8) return (int8_t)codes[i];
    const int low = codes[i % (n / 2)] >> (i / (n / 2) * 4) & 15;
    if (type == KV_Q4) return low - 8;
    const int high = codes[n / 2 + i % (n / 4)] >> (i / (n / 4) * 2) & 3;
    return (low | high << 4) - 32;
}

/* A token's block of 4 or 6 bits: so short a plane is no vector of whole registers to a compiler, which then goes byte
 * by byte, ten times slower. */
static inline __attribute__((always_inline)) void kv_unpack_short(int8_t *out, const uint8_t *codes, kv_type type) {
    typedef uint8_t bytes16 __attribute__((vector_size(16)));
    bytes16 both, first, second;
    memcpy(&both, codes, sizeof both);
    first = both & 15;
    second = both >> 4;
    if (type == KV_Q6) {
        uint64_t high[2];
        bytes16 upper;
        memcpy(high, codes + sizeof both, sizeof *high);
        high[1] = high[0] >> 2; /* what comes over from the neighbour is not looked at */
        memcpy(&upper, high, sizeof upper);
        first |= (upper & 3) << 4;
        second |= upper & 48;
    }
    const uint8_t zero = type == KV_Q6 ? 32 : 8;
    first -= zero;
    second -= zero;
    memcpy(out, &first, sizeof first);
    memcpy(out + sizeof first, &second, sizeof second);
}

/* All of them, for n that the compiler knows. */
static inline __attribute__((always_inline)) void kv_unpack(int8_t *restrict out, const uint8_t *restrict codes,
                                                            kv_type type, int n) {
    const uint8_t *high = codes + n / 2;
    if (type == KV_Q8) {
        for (int i = 0; i < n; i++) out[i] = (int8_t)codes[i];
    } else if (n == KV_VALUE_CODES) {
        kv_unpack_short(out, codes, type);
    } else if (type == KV_Q4) {
        for (int i = 0; i < n / 2; i++) out[i] = (int8_t)((codes[i] & 15) - 8);
        for (int i = 0; i < n / 2; i++) out[n / 2 + i] = (int8_t)((codes[i] >> 4) - 8);
    } else {
        const uint8_t *more = codes + n / 4;
        for (int i = 0; i < n / 4; i++) {
            out[i] = (int8_t)(((codes[i] & 15) | (high[i] & 3) << 4) - 32);
            out[n / 4 + i] = (int8_t)(((more[i] & 15) | (high[i] & 12) << 2) - 32);
            out[n / 2 + i] = (int8_t)((codes[i] >> 4 | (high[i] & 48)) - 32);
            out[3 * n / 4 + i] = (int8_t)((more[i] >> 4 | (high[i] & 192) >> 2) - 32);
        }
    }
}

/* "fp16", "q4" ... */
const char *kv_type_name(kv_type type);
/* Multiplies x by the orthogonal Hadamard matrix, in place: in pieces that are powers of two, the largest that fit
 * first. */
void kv_rotate(float *x, int n);
/* A key or a query: what is also a value, and what is not, each for itself. */
void kv_rotate_key(const kv_view *kv, float *x);
/* A rotated key, or a value that is not, into slot `slot` of the group of tokens at `group`. */
void kv_put_key(uint8_t *group, kv_type type, int slot, const float *x, int dim);
void kv_put_value(uint8_t *group, kv_type type, int slot, const float *x, int dim);
/* Element d of what was put there. */
float kv_get_key(const uint8_t *group, kv_type type, int slot, int d);
float kv_get_value(const uint8_t *group, kv_type type, int dim, int slot, int d);

#endif
