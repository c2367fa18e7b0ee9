/* nv.c — NVFP4: codes of 4 bits (e2m1) row by row, a scale of 8 bits (e4m3) for each 16 of them, and a float32 for the
 * whole matrix.
 *
 * Parts: codes [n_out][n_in / 2], the low half of a byte first; scales [n_out][n_in / 16]; the float32. ModelOpt stores
 * that as what the scales are multiplied by, compressed-tensors as what they are divided by (`is_divided`). As whole
 * numbers it is MXFP4's table with groups of 16: an e4m3 is exact in a float16. */
#include "nv.h"
#include "blocks.h"
#include "scaled.h"
#include <math.h>

enum { CODES, SCALES, WHOLE, GROUP = 16 };

static float whole_of(const quant_matrix *m) {
    float value;
    memcpy(&value, m->parts[WHOLE], sizeof value);
    return m->is_divided ? 1 / value : value;
}

static uint8_t code_at(const quant_matrix *m, int64_t row, int64_t k) {
    return ((const uint8_t *)m->parts[CODES])[row * (m->n_in / 2) + k / 2] >> 4 * (k % 2) & 15;
}

static float scale_at(const quant_matrix *m, int64_t row, int64_t k) {
    return scaled_e4m3(((const uint8_t *)m->parts[SCALES])[row * (m->n_in / GROUP) + k / GROUP]);
}

/* The table has twice the values, and no sign. */
static void unpack(float *out, const quant_matrix *m, int64_t row) {
    float whole;
    memcpy(&whole, m->parts[WHOLE], sizeof whole);
    for (int64_t k = 0; k < m->n_in; k++) {
        const float scale = m->is_divided ? scale_at(m, row, k) / whole : scale_at(m, row, k) * whole;
        out[k] = 0.5f * (float)(block_mxfp4.table[code_at(m, row, k)] - block_mxfp4.zero) * scale;
    }
}

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    if (m->n_in % GROUP)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rows of %lld weights do not fill groups of %d", name,
                       (long long)m->n_in, GROUP);
    const size_t weights = (size_t)m->n_out * (size_t)m->n_in;
    if (m->part_bytes[CODES] != weights / 2 || m->part_bytes[SCALES] != weights / GROUP ||
        m->part_bytes[WHOLE] != sizeof(float))
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: %zu bytes of codes, %zu of scales, %zu of the whole's for %zu weights", name,
                       m->part_bytes[CODES], m->part_bytes[SCALES], m->part_bytes[WHOLE], weights);
    const float whole = whole_of(m);
    if (whole > 0 && isfinite(whole)) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: the scale of the whole matrix is %g, a positive number is needed", name,
                   (double)whole);
}

static bool run(quant_run *out, const quant_matrix *m, int64_t k) {
    *out = (quant_run){.begin = k,
                       .end = m->n_in,
                       .bits = block_mxfp4.bits,
                       .group = GROUP,
                       .scales = QUANT_SCALES_PLAIN,
                       .zero = block_mxfp4.zero,
                       .table = block_mxfp4.table,
                       .unit = 0.5f * whole_of(m)};
    return m->n_in % QUANT_TILE_DEPTH == 0;
}

static void tile(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t left = m->n_out - row, n = left < QUANT_TILE_ROWS ? left : QUANT_TILE_ROWS;
    if (n < QUANT_TILE_ROWS) memset(out, 0, sizeof *out);
    for (int64_t c = 0; c < n; c++) {
        for (int64_t i = 0; i < QUANT_TILE_DEPTH; i++) out->code[c][i] = code_at(m, row + c, k + i);
        for (int half = 0; half < 2; half++) out->d[half][c] = quant_f32_to_f16(scale_at(m, row + c, k + half * GROUP));
    }
}

const quant_type quant_nvfp4 = {.id = QUANT_NVFP4,
                                .name = "nvfp4",
                                .bits_per_weight = 4.5,
                                .unpack_row = unpack,
                                .check = check,
                                .run = run,
                                .tile = tile};
