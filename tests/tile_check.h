/* tile_check.h — for the tests of formats: weights put together from runs and tiles must be those of unpack_row. */
#ifndef TILE_CHECK_H
#define TILE_CHECK_H

#include "quant/quant.h"
#include "quant/scaled.h"
#include "harness.h"
#include "base/mem.h"
#include <math.h>

static inline double tile_check_d(const quant_run *r, uint16_t d) {
    return r->scales == QUANT_SCALES_POWER ? ldexp(1, d - 128) : (double)quant_f16_to_f32(d);
}

/* One weight of a tile whose scales are in `s`: for groups longer than a tile that of an earlier one. */
static inline double tile_check_weight(const quant_run *r, const quant_tile *t, const quant_tile *s, int c, int i) {
    const int half = r->group == 16 ? i / 16 : 0;
    const uint8_t code = t->code[c][i];
    const double value = r->codes == QUANT_CODES_E4M3 ? (double)scaled_e4m3(code) : r->table ? r->table[code] : code;
    const double d = tile_check_d(r, s->d[half][c]) * (double)r->unit;
    const double dmin = (double)quant_f16_to_f32(s->dmin[half][c]) * (double)r->unit;
    switch (r->scales) {
    case QUANT_SCALES_ZERO:
        return d * (value - s->min[half][c]);
    case QUANT_SCALES_MIN:
        return d * value - dmin;
    case QUANT_SCALES_SUPER:
        return d * s->scale[half][c] * (value - r->zero);
    case QUANT_SCALES_SUPER_MIN:
        return d * s->scale[half][c] * value - dmin * s->min[half][c];
    default:
        return d * (value - r->zero);
    }
}

static inline void tile_check_run(const quant_matrix *m, const quant_run *r, int64_t row, const float *unpacked) {
    quant_tile scales;
    for (int64_t k = r->begin; k < r->end; k += QUANT_TILE_DEPTH) {
        quant_tile t;
        memset(&t, 0xA5, sizeof t);
        m->type->tile(&t, m, r, row, k);
        if ((k - r->begin) % r->group == 0 || r->group == 16) scales = t;
        for (int c = 0; c < QUANT_TILE_ROWS; c++)
            for (int i = 0; i < QUANT_TILE_DEPTH; i++) {
                if (row + c >= m->n_out) {
                    assert_int_equal(t.code[c][i], 0);
                    continue;
                }
                assert_true(t.code[c][i] < 1 << r->bits);
                const double got = tile_check_weight(r, &t, &scales, c, i);
                const int64_t input = m->order ? m->order[k + i] : k + i;
                const double expected = (double)unpacked[c * m->n_in + input];
                if (fabs(got - expected) > 1e-3 * fabs(expected) + 0x1p-25)
                    fail_msg("%s: row %lld, input %lld: tile %g, unpacked %g", m->type->name, (long long)(row + c),
                             (long long)input, got, expected);
            }
    }
}

/* Whether the matrix has a description at all; checks it where it has. */
static inline bool tile_check(const quant_matrix *m) {
    quant_run r;
    for (int64_t k = 0; k < m->n_in; k = r.end) {
        if (!m->type->run(&r, m, k)) return false;
        assert_int_equal(r.begin, k);
        assert_true(r.end > k && r.end <= m->n_in);
    }
    float *rows = mem_zarray((size_t)m->n_in * QUANT_TILE_ROWS, sizeof *rows);
    for (int64_t row = 0; row < m->n_out; row += QUANT_TILE_ROWS) {
        for (int64_t c = 0; c < QUANT_TILE_ROWS && row + c < m->n_out; c++)
            m->type->unpack_row(rows + c * m->n_in, m, row + c);
        for (int64_t k = 0; k < m->n_in; k = r.end) {
            m->type->run(&r, m, k);
            tile_check_run(m, &r, row, rows);
        }
    }
    mem_free(rows);
    return true;
}

#endif
