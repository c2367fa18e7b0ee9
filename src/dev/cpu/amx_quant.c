/* amx_quant.c — many rows times packed weights, on BF16 tiles: prompts.
 *
 * Up to MOST_WHOLE rows are avx512vnni_quant.c's, in whole numbers. More: 512 inputs of 32 columns are unpacked to
 * BF16, scale and minimum folded in, laid as the unit wants them, and all rows pass over them, 32 at a time: four tiles
 * of sums that go through 512 inputs without leaving the unit. Activations are rounded to BF16, 16 rows side by side in
 * the place of the whole numbers, so a tile of them is 16 lines.
 *
 * The tricky thing: scales per 32 inputs and tiles of bytes were tried and are no faster than VNNI, for every product's
 * whole numbers must go through vectors. So a row of a long step has not the bits that it has in a short one; any two
 * steps of more than MOST_WHOLE rows agree. */
#include "avx512_quant.h"
#include "amx_tiles.h"
#include "cpu.h"
#include <limits.h>

enum { MOST_WHOLE = 47, RAISED_INPUTS = INT_MAX };

#include "quant_terms.inc"

enum {
    CHUNK = 16, /* times 32 inputs, unpacked together */
    PAIR = 2,   /* tiles of columns, and of rows */
    STRIP = PAIR * PACK_COLUMNS,
    STRIPS = 4, /* whose sums are parked while a chunk of the activations stays in the second cache */
    ROW_BLOCK = 512,
    TILE_FLOATS = GROUP_ROWS * PACK_COLUMNS,
};

typedef struct scratch {
    _Alignas(64) uint8_t weights[PAIR][CHUNK][TILE_BYTES];
    float sums[STRIPS][ROW_BLOCK / GROUP_ROWS][PAIR][TILE_FLOATS];
} scratch;

static size_t scratch_bytes(int64_t n_in) { return sizeof(scratch); }

/* ---- activations ---- */

/* A tile of fewer rows is read past its end. */
static size_t tiled_bytes(int n_rows, int64_t n_in) {
    const size_t bytes = packed_bytes(n_rows, n_in);
    return bytes > SIZE_MAX - TILE_BYTES ? SIZE_MAX : bytes + TILE_BYTES;
}

static void round_32(uint8_t *to, const float *x) {
    const __m256i low = _mm512_cvtepi32_epi16(tiles_bf16(_mm512_loadu_ps(x)));
    const __m256i high = _mm512_cvtepi32_epi16(tiles_bf16(_mm512_loadu_ps(x + LANES)));
    _mm256_storeu_si256((void *)to, low);
    _mm256_storeu_si256((void *)(to + sizeof low), high);
}

static void pack_tiled(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end,
                       const int32_t *order) {
    if (n_rows <= MOST_WHOLE) {
        cpu_quant_avx512vnni.grouped->pack_ordered(to, x, x_stride, n_rows, n_in, begin, end, order);
        return;
    }
    for (int row = begin; row < end; row++) {
        act *at = (act *)to + act_index(row, n_rows, n_in, 0);
        for (int64_t k = 0; k < n_in; k += PACK_DEPTH, at += rows_beside(row, n_rows)) {
            float part[PACK_DEPTH];
            round_32((uint8_t *)at, gather(part, x + row * x_stride, k, least(PACK_DEPTH, n_in - k), order));
        }
    }
}

static void pack_plain(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end) {
    pack_tiled(to, x, x_stride, n_rows, n_in, begin, end, NULL);
}

/* ---- weights ---- */

/* Byte i of each column's four, as a weight rounded to BF16 in the upper half of its lane. */
ALWAYS_INLINE __m512i weight(__m512i codes, int i, factors f) {
    const __m512i whole = _mm512_srai_epi32(_mm512_slli_epi32(codes, (unsigned)(24 - 8 * i)), 24);
    const fvec w = _mm512_fmsub_ps(_mm512_cvtepi32_ps(whole), f.d, f.m);
    return _mm512_add_epi32(_mm512_castps_si512(w), _mm512_set1_epi32(0x8000));
}

/* Inputs 4 j .. 4 j + 3: two lines of pairs. */
ALWAYS_INLINE void put_pairs(uint8_t *tile, int j, __m512i codes, factors f) {
    const __mmask32 upper = 0xAAAAAAAA;
    for (int pair = 0; pair < 2; pair++) {
        const __m512i low = _mm512_srli_epi32(weight(codes, 2 * pair, f), 16);
        _mm512_store_si512(tile + (2 * j + pair) * PACK_LINE,
                           _mm512_mask_mov_epi16(low, upper, weight(codes, 2 * pair + 1, f)));
    }
}

/* Some times 32 inputs of a run, from `first` of its 32s on. */
typedef struct chunk {
    const pack_run *run;
    int64_t first;
    int n;
} chunk;

ALWAYS_INLINE void unpack(uint8_t (*to)[TILE_BYTES], const uint8_t *w, const chunk *c, form is) {
    const pack_run *r = c->run;
    const ivec table = is.has_table ? i_load_table(r->is.table) : i_zero();
    const ivec base = i_set((char)base_of(&r->is));
    const size_t code_bytes = (size_t)is.bits * PACK_LINE, ahead = (size_t)c->n * code_bytes + r->header_bytes;
    const int64_t blocks = r->span / PACK_DEPTH;
    for (int i = 0; i < c->n; i++) {
        const int64_t at = c->first + i;
        const int in_span = (int)(at % blocks), g = is.halves ? 2 * in_span : in_span / r->blocks;
        const uint8_t *header = w + (size_t)(at / blocks) * (r->header_bytes + (size_t)blocks * code_bytes);
        const uint8_t *codes = header + r->header_bytes + (size_t)in_span * code_bytes;
        for (size_t line = 0; line < code_bytes; line += FETCHED)
            __builtin_prefetch((const void *)((uintptr_t)codes + ahead + line), 0, 2);
        factors f[2];
        for (int h = 0; h <= is.halves; h++) f[h] = factors_of(r, header, 0, g + h);
#pragma GCC unroll 8
        for (int j = 0; j < STEPS; j++) {
            ivec v = code(codes, is.bits, j);
            if (is.has_table) v = i_table(table, v);
            put_pairs(to[i], j, i_sub(v, base), f[is.halves && j >= STEPS / 2]);
        }
    }
}

typedef void unpack_fn(uint8_t (*to)[TILE_BYTES], const uint8_t *w, const chunk *c);

#define UNPACK(name, bits, has_table, halves)                                                                          \
    static void unpack_##name(uint8_t(*to)[TILE_BYTES], const uint8_t *w, const chunk *c) {                            \
        unpack(to, w, c, (form){bits, has_table, halves, 1, 1});                                                       \
    }
PACK_VARIANTS(UNPACK)

static const struct {
    int bits;
    bool has_table, halves;
    unpack_fn *unpack;
} unpackers[] = {
#define X(name, bits, has_table, halves) {bits, has_table, halves, unpack_##name},
    PACK_VARIANTS(X)
#undef X
};

static void unpack_chunk(uint8_t (*to)[TILE_BYTES], const uint8_t *w, const chunk *c) {
    const quant_run *r = &c->run->is;
    int i = 0;
    while (unpackers[i].bits != r->bits || unpackers[i].has_table != (r->table != NULL) ||
           unpackers[i].halves != (r->group < PACK_DEPTH))
        i++;
    unpackers[i].unpack(to, w, c);
}

/* ---- products: sums 0 to 3, activations 4 and 5, weights 6 and 7 ---- */

/* Two groups of rows, or one that is taken twice, `step` apart from one 32 to the next. */
typedef struct rows_pair {
    const act *x[PAIR];
    size_t step[PAIR];
} rows_pair;

static void multiply(float (*first)[TILE_FLOATS], float (*second)[TILE_FLOATS], const scratch *s, const rows_pair *x,
                     int n) {
    _tile_loadd(0, first[0], PACK_LINE);
    _tile_loadd(1, first[1], PACK_LINE);
    _tile_loadd(2, second[0], PACK_LINE);
    _tile_loadd(3, second[1], PACK_LINE);
    for (int i = 0; i < n; i++) {
        _tile_loadd(6, s->weights[0][i], PACK_LINE);
        _tile_loadd(4, x->x[0] + (size_t)i * x->step[0], sizeof(act));
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, s->weights[1][i], PACK_LINE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, x->x[1] + (size_t)i * x->step[1], sizeof(act));
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(2, second[0], PACK_LINE);
    _tile_stored(3, second[1], PACK_LINE);
    _tile_stored(0, first[0], PACK_LINE);
    _tile_stored(1, first[1], PACK_LINE);
}

static int tiles_of(const cpu_matmul_block *b, int64_t column) {
    const int64_t left = b->column + b->n_columns - column;
    return (int)((least(STRIP, left) + PACK_COLUMNS - 1) / PACK_COLUMNS);
}

/* All rows of a block times one chunk of a strip. */
static void multiply_chunk(const cpu_matmul_block *b, int strip, int64_t column, int row, int n_rows, const chunk *c) {
    scratch *s = b->scratch;
    const int64_t k = c->run->is.begin + c->first * PACK_DEPTH;
    for (int t = 0; t < tiles_of(b, column); t++)
        unpack_chunk(s->weights[t], tile_at(b, column + t * PACK_COLUMNS) + c->run->offset, c);
    for (int r = 0; r < n_rows; r += PAIR * GROUP_ROWS) {
        const int next = r + GROUP_ROWS < n_rows ? r + GROUP_ROWS : r;
        const rows_pair x = {{acts_at(b, row + r, k), acts_at(b, row + next, k)},
                             {rows_beside(row + r, b->n_packed), rows_beside(row + next, b->n_packed)}};
        multiply(s->sums[strip][r / GROUP_ROWS], s->sums[strip][next / GROUP_ROWS], s, &x, c->n);
    }
}

static void put_strip(const cpu_matmul_block *b, int strip, int64_t column, int row, int n_rows) {
    const scratch *s = b->scratch;
    for (int t = 0; t < tiles_of(b, column); t++)
        for (int r = 0; r < n_rows; r++)
            put(b, s->sums[strip][r / GROUP_ROWS][t] + r % GROUP_ROWS * PACK_COLUMNS, row + r,
                column + t * PACK_COLUMNS);
}

/* Up to STRIPS strips from `column` on. */
static void multiply_panel(const cpu_matmul_block *b, int64_t column, int row, int n_rows) {
    const cpu_packed *packed = b->w->packed;
    scratch *s = b->scratch;
    const int64_t end = least(b->column + b->n_columns, column + STRIPS * STRIP);
    memset(s->sums, 0, sizeof s->sums);
    for (int i = 0; i < packed->n_runs; i++) {
        const pack_run *run = &packed->runs[i];
        const int64_t blocks = (run->is.end - run->is.begin) / PACK_DEPTH;
        for (int64_t first = 0; first < blocks; first += CHUNK)
            for (int64_t at = column; at < end; at += STRIP)
                multiply_chunk(b, (int)((at - column) / STRIP), at, row, n_rows,
                               &(chunk){run, first, (int)least(CHUNK, blocks - first)});
    }
    for (int64_t at = column; at < end; at += STRIP) put_strip(b, (int)((at - column) / STRIP), at, row, n_rows);
}

static void run(const cpu_matmul_block *b) {
    if (b->n_packed <= MOST_WHOLE) {
        cpu_quant_avx512vnni.grouped->run(b);
        return;
    }
    const tile_config config = tiles_full();
    const int64_t end = b->column + b->n_columns;
    tiles_configure(&config);
    for (int row = b->row; row < b->row + b->n_rows; row += ROW_BLOCK)
        for (int64_t column = b->column; column < end; column += STRIPS * STRIP)
            multiply_panel(b, column, row, (int)least(ROW_BLOCK, b->row + b->n_rows - row));
    tiles_release();
}

static size_t both_scratch_bytes(int64_t n_in) {
    const size_t other = cpu_quant_avx512vnni.grouped->scratch_bytes(n_in), own = scratch_bytes(n_in);
    return own > other ? own : other;
}

static const cpu_matmul_kernel kernel_grouped = {
    .stream_rows = 8,
    .stream_step = PACK_COLUMNS,
    .row_step = GROUP_ROWS,
    .panel = STRIPS * STRIP,
    .packed_bytes = tiled_bytes,
    .pack = pack_plain,
    .scratch_bytes = both_scratch_bytes,
    .run = run,
    .pack_ordered = pack_tiled,
};

const cpu_matmul_ops cpu_quant_amx = {.grouped = &kernel_grouped};
