/* synth_gptq.c — random GPTQ matrices, as version 1 of the format stores them (the zero of 8 as a 7). */
#include "synth_gptq.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { BITS = 4, GROUP = 128, ZERO_WORD = 0x77777777, PER_WORD = 32 / BITS };

bool synth_gptq_fits(int64_t rows, int64_t cols) { return rows % PER_WORD == 0 && cols % GROUP == 0; }

bool synth_gptq_plan(synth_gptq *out, int64_t rows, int64_t cols) {
    size_t n;
    *out = (synth_gptq){.rows = rows, .cols = cols};
    if (!mem_mul((size_t)rows, (size_t)cols, &n) || n > SIZE_MAX / 2) return false;
    out->codes = n / 2;
    out->zeros = n / GROUP / 2;
    out->scales = n / GROUP * sizeof(uint16_t);
    return true;
}

void synth_gptq_fill_grid(uint8_t *grid, const synth_gptq *p, int exponent) {
    const uint32_t zeros = ZERO_WORD;
    const uint16_t scale =
        quant_f32_to_f16(ldexpf(1 / 3.0f, exponent)); /* -8 to 7: 4.6 in the root of the mean square */
    for (size_t at = 0; at < p->zeros; at += sizeof zeros) memcpy(grid + at, &zeros, sizeof zeros);
    for (size_t at = 0; at < p->scales; at += sizeof scale) memcpy(grid + p->zeros + at, &scale, sizeof scale);
}

quant_matrix synth_gptq_matrix(const uint8_t *codes, const uint8_t *grid, const synth_gptq *p) {
    return (quant_matrix){.type = quant_type_of(QUANT_GPTQ),
                          .n_out = p->rows,
                          .n_in = p->cols,
                          .parts = {codes, grid, grid + p->zeros},
                          .part_bytes = {p->codes, p->zeros, p->scales},
                          .bits = BITS,
                          .group = GROUP,
                          .stored_out = p->rows,
                          .zero_add = 1,
                          .scale_type = QUANT_F16};
}
