/* mx.c — MXFP4 in two tensors: codes of 4 bits row by row, and a power of two for each 32 of them beside it (OCP
 * Microscaling Formats 1.0: e2m1 elements, e8m0 scales).
 *
 * Parts: codes [n_out][n_in / 2], the low half of a byte first; scales [n_out][n_in / 32], biased by 127. A stored row
 * lies `row_step` rows behind the one before it: gpt-oss weaves gate and up. GGUF's MXFP4 has the same values in
 * another layout, so its table serves here too: twice those of e2m1, plus its zero. */
#include "mx.h"
#include "blocks.h"
#include <math.h>
#include <string.h>

enum { CODES, SCALES, GROUP = 32 };

static const uint8_t *codes_at(const quant_matrix *m, int64_t row) {
    return (const uint8_t *)m->parts[CODES] + row * m->row_step * (m->n_in / 2);
}

static uint8_t exponent_at(const quant_matrix *m, int64_t row, int64_t k) {
    return ((const uint8_t *)m->parts[SCALES])[row * m->row_step * (m->n_in / GROUP) + k / GROUP];
}

static uint8_t code_at(const uint8_t *codes, int64_t k) { return codes[k / 2] >> 4 * (k % 2) & 15; }

static void unpack(float *out, const quant_matrix *m, int64_t row) {
    const uint8_t *codes = codes_at(m, row);
    for (int64_t k = 0; k < m->n_in; k++)
        out[k] = ldexpf((float)(block_mxfp4.table[code_at(codes, k)] - block_mxfp4.zero), exponent_at(m, row, k) - 128);
}

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    if (m->n_in % GROUP)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rows of %lld weights do not fill groups of %d", name,
                       (long long)m->n_in, GROUP);
    const size_t weights = (size_t)m->n_out * (size_t)m->n_in;
    if (m->row_step > 0 && m->part_bytes[CODES] == weights / 2 && m->part_bytes[SCALES] == weights / GROUP)
        return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: %zu bytes of codes and %zu of scales for %zu weights", name,
                   m->part_bytes[CODES], m->part_bytes[SCALES], weights);
}

static bool run(quant_run *out, const quant_matrix *m, int64_t k) {
    *out = (quant_run){.begin = k,
                       .end = m->n_in,
                       .bits = block_mxfp4.bits,
                       .group = GROUP,
                       .scales = block_mxfp4.scales,
                       .zero = block_mxfp4.zero,
                       .table = block_mxfp4.table,
                       .unit = block_mxfp4.unit};
    return true;
}

static void tile(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t left = m->n_out - row, n = left < QUANT_TILE_ROWS ? left : QUANT_TILE_ROWS;
    if (n < QUANT_TILE_ROWS) memset(out, 0, sizeof *out);
    for (int64_t c = 0; c < n; c++) {
        const uint8_t *codes = codes_at(m, row + c);
        for (int64_t i = 0; i < QUANT_TILE_DEPTH; i++) out->code[c][i] = code_at(codes, k + i);
        out->d[0][c] = out->d[1][c] = exponent_at(m, row + c, k);
        out->scale[0][c] = out->scale[1][c] = 1;
    }
}

const quant_type quant_mxfp4_rows = {.id = QUANT_MXFP4_ROWS,
                                     .name = "mxfp4-rows",
                                     .bits_per_weight = 4.25,
                                     .unpack_row = unpack,
                                     .check = check,
                                     .run = run,
                                     .tile = tile};
