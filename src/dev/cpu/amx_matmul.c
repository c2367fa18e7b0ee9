/* amx_matmul.c — weights of 16 bits times activations rounded to BF16, on AMX tiles.
 *
 * A tile of weights is 16 output columns x 32 of k, as they lie in the matrix; a tile of activations is 32 of k x up
 * to 16 rows, packed once per op in pairs of k; their product adds to a tile of 16 columns x 16 rows of sums. An
 * element's sum goes through k in ascending tiles whatever else is in its tile, so one row and many agree bit for
 * bit. Up to 16 rows stream the weights from where they lie; more go through amx_panel.inc, and amx_pack.inc brings
 * the activations into order. The unit flushes subnormals to zero. */
#include "amx_tiles.h"
#include "cpu.h"
#include <string.h>

enum {
    SIDE = TILE_SIDE,
    DEPTH = TILE_DEPTH,
    AHEAD = 512, /* bytes that each streamed row is fetched in advance */
    /* More than SIDE rows: see amx_panel.inc. */
    BLOCK_TILES = 64,      /* of k */
    BLOCK_BYTES = 1 << 20, /* of activations */
    MOST_ROWS = 512,       /* of a block, where all of k is one */
    MOST_PARKED = 256,     /* else */
    PANEL = 2048,          /* columns whose sums are parked */
    LEAST_PANEL = 128,
};

/* More rows: tiles 0-5 hold sums, 6 weights, 7 activations. Up to 16: 0 sums, 4 weights, 6 activations of n_rows. */
static void configure(int n_rows) {
    tile_config config = tiles_full();
    for (int i = 0; i < 8; i++)
        if (i != 4 && i != 5) config.row_bytes[i] = (uint16_t)(4 * n_rows);
    tiles_configure(&config);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int rows_in_tile(int n_rows) { return n_rows < SIDE ? n_rows : SIDE; }

#include "amx_pack.inc"
#include "amx_chunk.inc"

enum { CHUNKS = (MOST_PARKED / SIDE + CHUNK_TILES - 1) / CHUNK_TILES };

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
    const __m512i line = exists ? _mm512_maskz_loadu_epi16(lanes, weights_at(b, column, k)) : _mm512_setzero_si512();
    _mm512_store_si512(to, line);
}

/* For tiles that are loaded after it. */
static void copy_tile(uint8_t *to, const cpu_matmul_block *b, int64_t column, int64_t k) {
    for (int64_t c = 0; c < SIDE; c++) copy_line(to + c * 64, b, column + c, k);
    tiles_barrier();
}

#include "amx_put.inc"

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
        const bool is_whole = whole && (t + 1) * DEPTH <= n_in;
        if (is_whole) fetch(w, row_bytes, (size_t)t * 2 * DEPTH);
        if (is_whole) {
            _tile_loadd(4, w + t * 2 * DEPTH, row_bytes);
        } else {
            uint8_t *kept = s->kept + t % 2 * TILE_BYTES; /* one is written while the other is loaded */
            copy_tile(kept, b, column, t * DEPTH);
            _tile_loadd(4, kept, 2 * DEPTH);
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
