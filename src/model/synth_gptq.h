/* synth_gptq.h — random GPTQ matrices: 4 bits, groups of 128, symmetric, inputs as they come. Called by synth.c. */
#ifndef MODEL_SYNTH_GPTQ_H
#define MODEL_SYNTH_GPTQ_H

#include "quant/quant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the parts. */
typedef struct synth_gptq {
    int64_t rows, cols;
    size_t codes, zeros, scales;
} synth_gptq;

bool synth_gptq_fits(int64_t rows, int64_t cols);
/* Of a matrix that fits; false: its size overflows. */
bool synth_gptq_plan(synth_gptq *out, int64_t rows, int64_t cols);
/* Zeros and scales behind them, such that weights are about 2^exponent; all matrices of a shape may share them. */
void synth_gptq_fill_grid(uint8_t *grid, const synth_gptq *p, int exponent);
/* codes: NULL for a look. */
quant_matrix synth_gptq_matrix(const uint8_t *codes, const uint8_t *grid, const synth_gptq *p);

#endif
