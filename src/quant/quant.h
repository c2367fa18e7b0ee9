/* quant.h — what the bits of a stored matrix mean.
 *
 * A matrix comes as one or several parts (codes, scales, permutations ...) that point into the checkpoint's mapping.
 * Each format is one row of quant_table.c: a name, its size and the slow exact unpack that is the truth for every
 * kernel. Formats whose weights are small numbers times a scale also say so (quant_run, quant_tile), so that a device
 * can re-lay any of them for one kernel; those whose codes are floats (quant_coded), so that one can read them where
 * they lie. How a device likes the bits to lie is dev/'s business, what the matrix is for is model/'s. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include "base/err.h"

enum { QUANT_PARTS = 6, QUANT_BLOCK_ROWS = 128, QUANT_TILE_ROWS = 16, QUANT_TILE_DEPTH = 32 };

typedef struct quant_matrix quant_matrix;

/* X(id, name): plain ones first. "_" of a name is as its users write it. */
#define QUANT_FORMATS(X)                                                                                               \
    X(F32, "f32")                                                                                                      \
    X(F16, "f16")                                                                                                      \
    X(BF16, "bf16")                                                                                                    \
    X(EXL2, "exl2")                                                                                                    \
    X(GPTQ, "gptq")                                                                                                    \
    X(AWQ, "awq")                                                                                                      \
    X(AWQ_GEMV, "awq-gemv")                                                                                            \
    X(Q4_0, "q4_0")                                                                                                    \
    X(Q4_1, "q4_1")                                                                                                    \
    X(Q5_0, "q5_0")                                                                                                    \
    X(Q5_1, "q5_1")                                                                                                    \
    X(Q8_0, "q8_0")                                                                                                    \
    X(Q2_K, "q2_k")                                                                                                    \
    X(Q3_K, "q3_k")                                                                                                    \
    X(Q4_K, "q4_k")                                                                                                    \
    X(Q5_K, "q5_k")                                                                                                    \
    X(Q6_K, "q6_k")                                                                                                    \
    X(IQ1_S, "iq1_s")                                                                                                  \
    X(IQ1_M, "iq1_m")                                                                                                  \
    X(IQ2_XXS, "iq2_xxs")                                                                                              \
    X(IQ2_XS, "iq2_xs")                                                                                                \
    X(IQ2_S, "iq2_s")                                                                                                  \
    X(IQ3_XXS, "iq3_xxs")                                                                                              \
    X(IQ3_S, "iq3_s")                                                                                                  \
    X(IQ4_NL, "iq4_nl")                                                                                                \
    X(IQ4_XS, "iq4_xs")                                                                                                \
    X(TQ1_0, "tq1_0")                                                                                                  \
    X(TQ2_0, "tq2_0")                                                                                                  \
    X(MXFP4, "mxfp4")                                                                                                  \
    X(MXFP4_ROWS, "mxfp4-rows")                                                                                        \
    X(FP8_E4M3, "fp8_e4m3")                                                                                            \
    X(FP8_E5M2, "fp8_e5m2")                                                                                            \
    X(INT, "int")                                                                                                      \
    X(NVFP4, "nvfp4")                                                                                                  \
    X(NF4, "nf4")                                                                                                      \
    X(EXL3, "exl3")

typedef enum quant_id {
#define X(id, name) QUANT_##id,
    QUANT_FORMATS(X)
#undef X
        QUANT_COUNT,
    QUANT_PLAIN_COUNT = QUANT_BF16 + 1, /* floats that lie row by row */
} quant_id;

/* ---- weights as small numbers ---- */

/* How the scales of a run lie: what decides how many bits they cost. */
typedef enum quant_scales {
    QUANT_SCALES_PLAIN,     /* weight = d (value - zero); d a float16 per group */
    QUANT_SCALES_ZERO,      /* the zero is another small number in each group */
    QUANT_SCALES_MIN,       /* weight = d value - dmin; dmin a float16 too */
    QUANT_SCALES_SUPER,     /* d a float16 per 256 inputs, times a whole number of 8 bits with sign per group */
    QUANT_SCALES_SUPER_MIN, /* and dmin likewise, times one without sign */
    QUANT_SCALES_POWER,     /* d a power of two, as its exponent + 128 in 8 bits */
} quant_scales;

enum { QUANT_SUPER = 256 };

/* What a code is. */
typedef enum quant_codes {
    QUANT_CODES_WHOLE,
    QUANT_CODES_E4M3, /* a float of 8 bits: sign, 4 of exponent, 3 of mantissa; in runs SCALES_PLAIN, no zero */
    /* In no run: */
    QUANT_CODES_E5M2,  /* the upper half of a float16 */
    QUANT_CODES_TABLE, /* 4 bits that pick one of 16 floats */
    QUANT_CODES_COUNT
} quant_codes;

/* Inputs [begin, end) of a matrix, counted in its own order: value = table ? table[code] : code. */
typedef struct quant_run {
    int64_t begin, end;
    quant_codes codes;
    int bits;  /* of a code: 2, 3, 4, 5, 6, 8 */
    int group; /* inputs that share a scale: 16 or a multiple of 32 */
    quant_scales scales;
    int zero;             /* SCALES_PLAIN, _SUPER and _POWER */
    const uint8_t *table; /* [16], or NULL */
    float unit;           /* multiplies every d and dmin */
    int64_t first;        /* for the format itself: which of its groups begins the run */
} quant_run;

/* 16 rows x 32 inputs. Scales [half][row]: the second half counts where groups are of 16 inputs. They are those of the
 * groups that begin here, and of the 256 inputs that do; otherwise undefined, as is what the run's kind of scales
 * lacks.
 */
typedef struct quant_tile {
    uint8_t code[QUANT_TILE_ROWS][QUANT_TILE_DEPTH];
    uint16_t d[2][QUANT_TILE_ROWS], dmin[2][QUANT_TILE_ROWS]; /* float16; SCALES_POWER: d is the exponent */
    int8_t scale[2][QUANT_TILE_ROWS];
    uint8_t min[2][QUANT_TILE_ROWS]; /* SCALES_ZERO: the zero */
} quant_tile;

/* ---- weights as floats by code ---- */

/* Part 0 has the codes row after row and nothing else, of 4 bits two in a byte, the first in its upper half: rows begin
 * at a byte. A weight is the float of its code times its scale, rounded once. */
typedef struct quant_coded {
    quant_codes codes;        /* not WHOLE */
    int64_t group, row_group; /* inputs, outputs that share a scale: all of them, or any number */
    float values[16];         /* CODES_TABLE */
} quant_coded;

/* ---- the row of a format ---- */

typedef struct quant_type {
    quant_id id;
    const char *name;       /* "f32", "bf16" ... as the command line and `inspect` say it */
    double bits_per_weight; /* of the usual variant */
    /* Row `row` of the matrix as n_in floats; exact where float32 can hold the value. */
    void (*unpack_row)(float *out, const quant_matrix *m, int64_t row);
    /* Rows [row, row + QUANT_BLOCK_ROWS) at once, of a format where one takes as long as these; row a multiple. NULL:
     * there is no such reason. The matrices of a format with it become plain ones while a model loads. */
    void (*unpack_rows)(float *out, const quant_matrix *m, int64_t row);
    /* Bytes of part 0 of a matrix [n_out, n_in]; false where the product overflows or rows do not fill blocks. NULL:
     * not stored row by row, and `check` says whether the parts fit. */
    bool (*bytes)(size_t *out, int64_t n_out, int64_t n_in);
    /* Whether sizes and contents of the parts are what unpack_row relies on; fills m->order. NULL: bytes says all. */
    qp_status (*check)(quant_matrix *m, const char *name, qp_error *err);
    /* The run that begins at input k; false: this matrix has no such description. NULL: the format has none. */
    bool (*run)(quant_run *out, const quant_matrix *m, int64_t k);
    /* The tile at row `row`, a multiple of 16, and input k of a run. Rows that are not there: zeros. */
    void (*tile)(quant_tile *out, const quant_matrix *m, const quant_run *run, int64_t row, int64_t k);
    /* The matrix as floats by code; false: this one has no such description. NULL: the format has none. */
    bool (*coded)(quant_coded *out, const quant_matrix *m);
    /* The scale of one weight of such a matrix. */
    float (*scale)(const quant_matrix *m, int64_t row, int64_t k);
} quant_type;

/* y = W x with W [n_out, n_in]. Bytes may lie at any address. */
struct quant_matrix {
    const quant_type *type;
    int64_t n_out, n_in;
    const void *parts[QUANT_PARTS]; /* part 0: the codes or values */
    size_t part_bytes[QUANT_PARTS];
    /* Of formats that leave it open: */
    int bits, group;     /* of a code; inputs that share a scale */
    int row_group;       /* outputs that do, where scales are a grid */
    int row_step;        /* stored rows from one to the next, where matrices are woven */
    int zero_add;        /* what the stored zeros lack (GPTQ's first version: 1) */
    quant_id scale_type; /* of the scales: F16, BF16, F32 */
    int64_t stored_out;  /* columns as stored, >= n_out */
    bool is_divided;     /* NVFP4: the scale of the whole matrix divides the others */
    int codebook;        /* EXL3 */
    float offset;        /* NF4: added to nested scales */
    int32_t *order;      /* the run's input k is x[order[k]]; NULL: k. Made by quant_open */
};

/* Checks a matrix out of a file; `name` begins the errors. What it makes is freed by quant_close. */
qp_status quant_open(quant_matrix *m, const char *name, qp_error *err);
void quant_close(quant_matrix *m);
/* A matrix of a format without parts but the first. */
static inline quant_matrix quant_plain(const quant_type *type, int64_t n_out, int64_t n_in, const void *data,
                                       size_t bytes) {
    return (quant_matrix){.type = type, .n_out = n_out, .n_in = n_in, .parts = {data}, .part_bytes = {bytes}};
}
/* Bytes of all parts. */
size_t quant_bytes(const quant_matrix *m);

const quant_type *quant_type_of(quant_id id);
/* NULL if there is none of that name. */
const quant_type *quant_find(const char *name);

/* Single values, exactly as IEEE 754 says; rounding to nearest even. */
float quant_f16_to_f32(uint16_t half);
uint16_t quant_f32_to_f16(float value);
float quant_bf16_to_f32(uint16_t bf16);
uint16_t quant_f32_to_bf16(float value);

#endif
