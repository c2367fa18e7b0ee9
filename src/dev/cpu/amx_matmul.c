/* amx_matmul.c — BF16 weights times activations rounded to BF16, on AMX tiles.
 *
 * A tile of weights is 16 output columns x 32 of k, as they lie in the matrix; a tile of activations is 32 of k x up
 * to 16 rows, packed once per op in pairs of k; their product adds to a tile of 16 columns x 16 rows of sums. An
 * element's sum goes through k in ascending tiles whatever else is in its tile, so one row and many agree bit for
 * bit. Up to 16 rows stream the weights from where they lie; more go through amx_panel.inc, and amx_pack.inc brings
 * the activations into order. The unit flushes subnormals to zero. */
#include "cpu.h"
#include "amx_tiles.h"
#include <string.h>

enum {
    SIDE = TILE_SIDE,
    DEPTH = TILE_DEPTH,
    AHEAD = 512, /* bytes that each streamed row is fetched in advance */
    /* More than SIDE rows: see amx_panel.inc. */
    STRIP = 2 * SIDE,        /* columns */
    CHUNK_TILES = 3,         /* of rows, with one strip */
    SUMS = 2 * CHUNK_TILES,  /* [column tile][row tile] of a chunk */
    TILE_SUMS = SIDE * SIDE, /* floats */
    BLOCK_TILES = 64,        /* of k */
    BLOCK_BYTES = 1 << 20,   /* of activations */
    MOST_ROWS = 512,         /* of a block, where all of k is one */
    MOST_PARKED = 256,       /* else */
    CHUNKS = (MOST_PARKED / SIDE + CHUNK_TILES - 1) / CHUNK_TILES,
    PANEL = 2048, /* columns whose sums are parked */
    LEAST_PANEL = 128,
    STREAMED_BYTES = 1 << 20, /* of results: they would not stay in the second cache anyhow */
};

/* More rows: tiles 0-5 hold sums, 6 weights, 7 activations. Up to 16: 0 sums, 4 weights, 6 activations of n_rows. */
static void configure(int n_rows) {
    tile_config config = tiles_full();
    for (int i = 0; i < 8; i++)
        if (i != 4 && i != 5) config.row_bytes[i] = (uint16_t)(4 * n_rows);
    tiles_configure(&config);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tiles_of_k(int64_t n_in) { return (n_in + DEPTH - 1) / DEPTH; }

#include "amx_pack.inc"

/* ---- weights ---- */

typedef struct scratch {
    _Alignas(64) uint8_t kept[STRIP / SIDE * BLOCK_TILES * TILE_BYTES]; /* [column tile][tile of k] */
    float sums[SUMS * TILE_SUMS];                                       /* of a chunk, on their way to the output */
    float parked[PANEL / STRIP][CHUNKS][SUMS * TILE_SUMS];
} scratch;

static size_t scratch_bytes(int64_t n_in) { return sizeof(scratch); }

static const uint8_t *weights_at(const cpu_matmul_block *b, int64_t column, int64_t k) {
    return (const uint8_t *)b->w->data + ((size_t)column * (size_t)b->w->n_in + (size_t)k) * 2;
}

/* Copies 32 of k of one column; what the matrix or the task does not have is zeros. */
static void copy_line(uint8_t *to, const cpu_matmul_block *b, int64_t column, int64_t k) {
    const int64_t n = least(DEPTH, b->w->n_in - k);
    const __mmask32 lanes = (__mmask32)(n == DEPTH ? ~0u : (1u << n) - 1);
    const bool exists = column < b->column + b->n_columns;
    _mm512_store_si512(to, exists ? _mm512_maskz_loadu_epi16(lanes, weights_at(b, column, k)) : _mm512_setzero_si512());
}

static void copy_tile(uint8_t *to, const cpu_matmul_block *b, int64_t column, int64_t k) {
    for (int64_t c = 0; c < SIDE; c++) copy_line(to + c * 64, b, column + c, k);
}

/* ---- sums: a tile is [column][row], the output wants [row][column] ---- */

/* Whether results go past the caches: whole lines that are not in them, and more than stay there. */
static bool streams_out(const cpu_matmul_block *b, const float *out) {
    const size_t bytes = (size_t)b->n_packed * (size_t)b->w->n_out * sizeof(float);
    return !b->add && bytes > STREAMED_BYTES && ((uintptr_t)out | (uintptr_t)b->out_stride * 4) % 64 == 0;
}

/* A stored tile of sums [16 columns][row_stride] as rows, with the bias. */
static void turn_tile(__m512 m[SIDE], const cpu_matmul_block *b, const float *sums, int row_stride, int64_t column) {
    const int64_t n_columns = least(SIDE, b->column + b->n_columns - column);
    const __mmask16 lanes = (__mmask16)((1u << n_columns) - 1), rows = (__mmask16)((1u << row_stride) - 1);
    for (int i = 0; i < SIDE; i++) m[i] = _mm512_maskz_loadu_ps(rows, sums + i * row_stride);
    transpose(m);
    if (!b->bias) return;
    const __m512 bias = _mm512_maskz_loadu_ps(lanes, b->bias + column);
    for (int i = 0; i < SIDE; i++) m[i] = _mm512_add_ps(m[i], bias);
}

/* Writes the rows of a tile that there are, or adds them to the residual. */
static void put_rows(const cpu_matmul_block *b, const __m512 m[SIDE], int most, int64_t row, int64_t column) {
    const int64_t n_columns = least(SIDE, b->column + b->n_columns - column);
    const int64_t n_rows = least(most, b->row + b->n_rows - row);
    const __mmask16 lanes = (__mmask16)((1u << n_columns) - 1);
    const bool streams = n_columns == SIDE && streams_out(b, b->out + column);
    for (int64_t r = 0; r < n_rows; r++) {
        float *out = b->out + (row + r) * b->out_stride + column;
        const __m512 sum = b->add ? _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), m[r]) : m[r];
        if (streams)
            _mm512_stream_ps(out, sum);
        else
            _mm512_mask_storeu_ps(out, lanes, sum);
    }
}

static void put_tile(const cpu_matmul_block *b, const float *sums, int row_stride, int64_t row, int64_t column) {
    __m512 m[SIDE];
    turn_tile(m, b, sums, row_stride, column);
    put_rows(b, m, row_stride, row, column);
}

/* A stored tile of sums as it is, a column a line, with the bias. */
static void load_columns(__m512 m[SIDE], const cpu_matmul_block *b, const float *sums, int64_t column) {
    for (int c = 0; c < SIDE; c++) {
        m[c] = _mm512_load_ps(sums + c * SIDE);
        if (b->bias) m[c] = _mm512_add_ps(m[c], _mm512_set1_ps(b->bias[column + c]));
    }
}

/* As put_gated, to the activations of the next product: its pairs of k are our pairs of columns. */
static void put_packed(const cpu_matmul_block *b, const float *sums, const cpu_matmul_block *up, const float *up_sums,
                       int64_t row, int64_t column) {
    _Alignas(64) __m512 m[SIDE], n[SIDE];
    load_columns(m, b, sums, column);
    load_columns(n, up, up_sums, column);
    b->gate((float *)m, (const float *)n, TILE_SUMS);
    uint16_t *to = packed_tile(b->packed_out, b->n_packed, b->w->n_out, row, column / DEPTH) + column % DEPTH * SIDE;
    for (int c = 0; c < SIDE; c += 2) {
        const __m512i odd = _mm512_slli_epi32(tiles_bf16(m[c + 1]), 16);
        _mm512_storeu_si512(to + c * SIDE, _mm512_or_si512(tiles_bf16(m[c]), odd));
    }
}

/* Two tiles of sums, of the gate and of what it is multiplied by. */
static void put_gated(const cpu_matmul_block *b, const float *sums, const cpu_matmul_block *up, const float *up_sums,
                      int64_t row, int64_t column) {
    _Alignas(64) __m512 m[SIDE], n[SIDE];
    turn_tile(m, b, sums, SIDE, column);
    turn_tile(n, up, up_sums, SIDE, column);
    b->gate((float *)m, (const float *)n, TILE_SUMS);
    put_rows(b, m, SIDE, row, column);
}

/* ---- up to 16 rows ---- */

/* Fetches the 16 lines that the tile AHEAD bytes further on will read: past the end of a row, of 16 rows later. */
static void fetch(const uint8_t *w, size_t row_bytes, size_t at) {
    const size_t skip = at + AHEAD >= row_bytes ? (SIDE - 1) * row_bytes : 0;
    for (size_t c = 0; c < SIDE; c++)
        __builtin_prefetch((const void *)((uintptr_t)w + c * row_bytes + at + AHEAD + skip), 0, 3);
}

static void stream_columns(const cpu_matmul_block *b, int64_t column) {
    scratch *s = b->scratch;
    const int64_t n_in = b->w->n_in;
    const size_t row_bytes = (size_t)n_in * 2, x_stride = (size_t)b->n_packed * 4;
    const bool whole = column + SIDE <= b->column + b->n_columns;
    const uint8_t *w = weights_at(b, column, 0);
    _tile_zero(0);
    for (int64_t t = 0; t < tiles_of_k(n_in); t++) {
        const uint16_t *x = packed_tile(b->x, b->n_packed, n_in, 0, t);
        _tile_loadd(6, x, x_stride);
        if (whole && (t + 1) * DEPTH <= n_in) {
            fetch(w, row_bytes, (size_t)t * 2 * DEPTH);
            _tile_loadd(4, w + t * 2 * DEPTH, row_bytes);
        } else {
            copy_tile(s->kept, b, column, t * DEPTH);
            _tile_loadd(4, s->kept, 2 * DEPTH);
        }
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, s->sums, x_stride);
    put_tile(b, s->sums, b->n_packed, 0, column);
}

#include "amx_panel.inc"

static void run(const cpu_matmul_block *b) {
    configure(rows_in_tile(b->n_packed));
    if (b->n_packed <= SIDE)
        for (int64_t c = 0; c < b->n_columns; c += SIDE) stream_columns(b, b->column + c);
    else
        panels(b);
    tiles_release();
}

static const cpu_matmul_kernel kernel = {
    .stream_rows = SIDE,
    .stream_step = SIDE,
    .row_step = 4 * SIDE,
    .panel = PANEL,
    .least_panel = LEAST_PANEL,
    .free_rows = MOST_PARKED,
    .gates = true,
    .packs_ahead = DEPTH,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_part = pack_part,
    .scratch_bytes = scratch_bytes,
    .run = run,
};

const cpu_matmul_ops cpu_matmul_amx = {.fast = {[QUANT_BF16] = &kernel}};
