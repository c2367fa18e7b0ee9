/* blocks.h — formats of GGUF files, whose rows are rows of blocks: what each must say, and their table.
 *
 * A block of 32 or 256 weights holds codes, scales and sometimes scales of scales. Each format is a row: the geometry
 * and one function that reads 32 weights of a block; unpacking and the view as whole numbers follow for all of them
 * (blocks.c). */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#include "bits.h"

/* 32 weights: weight = d unit scale[half] (value - zero) - dmin unit min[half]. */
typedef struct block_part {
    uint8_t code[QUANT_TILE_DEPTH];
    uint16_t d, dmin; /* float16; SCALES_POWER: d is the exponent */
    int8_t scale[2];  /* 1 where the format has none */
    uint8_t min[2];
} block_part;

typedef struct block_format {
    int bits, group;
    quant_scales scales;
    int zero;
    const uint8_t *table;
    float unit;
    void (*read)(block_part *out, const uint8_t *block, int part);
} block_format;

/* X(id, its block_format, name, weights and bytes of a block) */
#define BLOCK_FORMATS(X)                                                                                               \
    X(Q4_0, block_q4_0, "q4_0", 32, 18)                                                                                \
    X(Q4_1, block_q4_1, "q4_1", 32, 20)                                                                                \
    X(Q5_0, block_q5_0, "q5_0", 32, 22)                                                                                \
    X(Q5_1, block_q5_1, "q5_1", 32, 24)                                                                                \
    X(Q8_0, block_q8_0, "q8_0", 32, 34)                                                                                \
    X(Q2_K, block_q2_k, "q2_k", 256, 84)                                                                               \
    X(Q3_K, block_q3_k, "q3_k", 256, 110)                                                                              \
    X(Q4_K, block_q4_k, "q4_k", 256, 144)                                                                              \
    X(Q5_K, block_q5_k, "q5_k", 256, 176)                                                                              \
    X(Q6_K, block_q6_k, "q6_k", 256, 210)                                                                              \
    X(IQ1_S, block_iq1_s, "iq1_s", 256, 50)                                                                            \
    X(IQ1_M, block_iq1_m, "iq1_m", 256, 56)                                                                            \
    X(IQ2_XXS, block_iq2_xxs, "iq2_xxs", 256, 66)                                                                      \
    X(IQ2_XS, block_iq2_xs, "iq2_xs", 256, 74)                                                                         \
    X(IQ2_S, block_iq2_s, "iq2_s", 256, 82)                                                                            \
    X(IQ3_XXS, block_iq3_xxs, "iq3_xxs", 256, 98)                                                                      \
    X(IQ3_S, block_iq3_s, "iq3_s", 256, 110)                                                                           \
    X(IQ4_NL, block_iq4_nl, "iq4_nl", 32, 18)                                                                          \
    X(IQ4_XS, block_iq4_xs, "iq4_xs", 256, 136)                                                                        \
    X(TQ1_0, block_tq1_0, "tq1_0", 256, 54)                                                                            \
    X(TQ2_0, block_tq2_0, "tq2_0", 256, 66)                                                                            \
    X(MXFP4, block_mxfp4, "mxfp4", 32, 17)

#define X(id, format, name, n, size) extern const block_format format;
BLOCK_FORMATS(X)
#undef X

#define X(id, format, name, n, size) extern const quant_type quant_##format;
BLOCK_FORMATS(X)
#undef X

/* Low nibbles of 16 bytes, then the high ones: how most formats lay 32 codes. */
static inline void block_nibbles(uint8_t code[32], const uint8_t *bytes) {
    for (int i = 0; i < 16; i++) {
        code[i] = bytes[i] & 15;
        code[i + 16] = bytes[i] >> 4;
    }
}

#endif
