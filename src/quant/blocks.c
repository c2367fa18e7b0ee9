/* blocks.c — what all formats made of blocks have in common: sizes, exact unpacking, the view as whole numbers.
 *
 * Called through the rows of quant_table.c; calls the reader of each format. Products and differences are made in the
 * order in which the reference makes them, so results are equal bit for bit. */
#include "blocks.h"
#include "base/mem.h"

static const struct shape {
    const block_format *f;
    int weights, bytes; /* of a block */
} formats[QUANT_COUNT] = {
#define X(id, format, name, n, size) [QUANT_##id] = {&format, n, size},
    BLOCK_FORMATS(X)
#undef X
};

static const uint8_t *block_at(const quant_matrix *m, const struct shape *s, int64_t row, int64_t k) {
    const int64_t block = row * (m->n_in / s->weights) + k / s->weights;
    return (const uint8_t *)m->parts[0] + (size_t)block * (size_t)s->bytes;
}

/* Which 32 weights of its block begin with input k. */
static int part_of(const struct shape *s, int64_t k) { return (int)(k % s->weights) / QUANT_TILE_DEPTH; }

/* 2^(e - 128), also below the normal numbers. */
static float power(unsigned e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void unpack_part(float *out, const block_format *f, const block_part *p) {
    const float d = f->scales == QUANT_SCALES_POWER ? power(p->d) : quant_f16_to_f32(p->d);
    const bool has_min = f->scales == QUANT_SCALES_MIN || f->scales == QUANT_SCALES_SUPER_MIN;
    const float dmin = has_min ? quant_f16_to_f32(p->dmin) : 0;
    for (int half = 0; half < 2; half++) {
        const float scale = d * f->unit * (float)p->scale[half], min = dmin * (float)p->min[half];
        for (int i = half * 16; i < half * 16 + 16; i++) {
            const int value = (f->table ? f->table[p->code[i]] : p->code[i]) - f->zero;
            out[i] = has_min ? scale * (float)value - min : scale * (float)value;
        }
    }
}

static void unpack(float *out, const quant_matrix *m, int64_t row) {
    const struct shape *s = &formats[m->type->id];
    for (int64_t k = 0; k < m->n_in; k += QUANT_TILE_DEPTH) {
        block_part p;
        s->f->read(&p, block_at(m, s, row, k), part_of(s, k));
        unpack_part(out + k, s->f, &p);
    }
}

static bool run(quant_run *out, const quant_matrix *m, int64_t k) {
    const block_format *f = formats[m->type->id].f;
    *out = (quant_run){.begin = k,
                       .end = m->n_in,
                       .bits = f->bits,
                       .group = f->group,
                       .scales = f->scales,
                       .zero = f->zero,
                       .table = f->table,
                       .unit = f->unit};
    return true;
}

static void tile(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t left = m->n_out - row, n = left < QUANT_TILE_ROWS ? left : QUANT_TILE_ROWS;
    const struct shape *s = &formats[m->type->id];
    const size_t row_bytes = (size_t)(m->n_in / s->weights) * (size_t)s->bytes;
    const uint8_t *block = block_at(m, s, row, k);
    const int part = part_of(s, k);
    if (n < QUANT_TILE_ROWS) memset(out, 0, sizeof *out);
    for (int64_t c = 0; c < n; c++, block += row_bytes) {
        block_part p;
        s->f->read(&p, block, part);
        memcpy(out->code[c], p.code, sizeof p.code);
        for (int half = 0; half < 2; half++) {
            out->d[half][c] = p.d;
            out->dmin[half][c] = p.dmin;
            out->scale[half][c] = p.scale[half];
            out->min[half][c] = p.min[half];
        }
    }
}

static bool rows_of_blocks(size_t *out, int64_t n_out, int64_t n_in, int weights, int bytes) {
    return n_out >= 0 && n_in >= 0 && n_in % weights == 0 && mem_mul((size_t)n_out, (size_t)(n_in / weights), out) &&
           mem_mul(*out, (size_t)bytes, out);
}

#define X(ID, format, text, n, size)                                                                                   \
    static bool bytes_##ID(size_t *out, int64_t n_out, int64_t n_in) {                                                 \
        return rows_of_blocks(out, n_out, n_in, n, size);                                                              \
    }                                                                                                                  \
    const quant_type quant_##format = {                                                                                \
        .id = QUANT_##ID,                                                                                              \
        .name = text,                                                                                                  \
        .bits_per_weight = 8.0 * (size) / (n),                                                                         \
        .unpack_row = unpack,                                                                                          \
        .bytes = bytes_##ID,                                                                                           \
        .run = run,                                                                                                    \
        .tile = tile,                                                                                                  \
    };
BLOCK_FORMATS(X)
