/* synth_exl2.h — random weights in ExLlamaV2's format, for synth.c. */
#ifndef MODEL_SYNTH_EXL2_H
#define MODEL_SYNTH_EXL2_H

#include "quant/quant.h"

/* Bits of a weight out of "exl2-3.5": 2.0 to 6.0; 0: the name is another one. */
double synth_exl2_bits(const char *name);
/* Whether a matrix with so many inputs can be stored so. */
bool synth_exl2_fits(int64_t cols);

/* A matrix [rows, cols] without contents: its sizes, and where its parts shall lie in one block of memory. */
typedef struct synth_exl2 {
    double bits;
    int64_t rows, cols, columns; /* columns: rows as stored */
    int n_groups, group;
    size_t words; /* of a column */
    size_t at[QUANT_PARTS], bytes[QUANT_PARTS], all_bytes;
} synth_exl2;

/* False: its size overflows. */
bool synth_exl2_plan(synth_exl2 *out, double bits, int64_t rows, int64_t cols);
/* Fills a block [all_bytes]: widths of groups, a random order of the inputs (the same for the same `order_seed`) and,
 * unless `only_shape`, codes and scales. Weights are of the size 2^exponent. */
void synth_exl2_fill(void *block, const synth_exl2 *p, int exponent, uint64_t seed, uint64_t order_seed,
                     bool only_shape);
/* The matrix in such a block, to be given to quant_open. */
quant_matrix synth_exl2_matrix(const void *block, const synth_exl2 *p);

#endif
