/* quant.h — what the bits of a stored matrix mean.
 *
 * A matrix comes as one or several parts (codes, scales, permutations ...) that point into the checkpoint's mapping.
 * Each format is one row of quant_table.c: a name, its size and the slow exact unpack that is the truth for every
 * kernel. How a device likes the bits to lie is dev/'s business, what the matrix is for is model/'s. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include "base/err.h"

enum { QUANT_PARTS = 4 };

typedef struct quant_matrix quant_matrix;

typedef enum quant_id { QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_COUNT } quant_id;

typedef struct quant_type {
    quant_id id;
    const char *name; /* "f32", "bf16" ... as the command line and `inspect` say it */
    double bits_per_weight;
    /* Row `row` of the matrix as n_in floats; exact where float32 can hold the value. */
    void (*unpack_row)(float *out, const quant_matrix *m, int64_t row);
    /* Bytes of part 0 of a matrix [n_out, n_in]; false where the product overflows. */
    bool (*bytes)(size_t *out, int64_t n_out, int64_t n_in);
} quant_type;

/* y = W x with W [n_out, n_in]. */
struct quant_matrix {
    const quant_type *type;
    int64_t n_out, n_in;
    const void *parts[QUANT_PARTS]; /* part 0: the codes or values */
    size_t part_bytes[QUANT_PARTS];
};

const quant_type *quant_type_of(quant_id id);
/* NULL if there is none of that name. */
const quant_type *quant_find(const char *name);

/* Single values, exactly as IEEE 754 says; rounding to nearest even. */
float quant_f16_to_f32(uint16_t half);
uint16_t quant_f32_to_f16(float value);
float quant_bf16_to_f32(uint16_t bf16);
uint16_t quant_f32_to_bf16(float value);

#endif
