/* amx_quant.c — rows of prompts times packed weights (pack.h) on AMX tiles of BF16.
 *
 * A product of whole numbers (amxint8_quant.c) ends at each group of 32 inputs: what it leaves goes through memory and
 * is scaled, which takes longer than the product. Here weights get their scale first and are rounded to BF16, once for
 * all rows of a prompt, so that sums stay in the unit through all of k as those of BF16 weights do (amx_chunk.inc).
 * Widening costs as much as products of three tiles of rows, too much for the few rows of answers: those go on as
 * whole numbers, in every step, and which of the two a row is hangs on its place in its own sequence alone.
 *
 * A panel, 192 columns of up to 2048 inputs, is widened into the second cache; then 48 rows after the other pass over
 * all its strips. Only where k is longer are sums parked in memory, from one block of k to the next. A gated product
 * has strips of the gate and of the other matrix in turns. No more than 48 rows take each piece of a strip out of the
 * first cache, where it was widened.
 *
 * Activations may have an order (act-order): they are rounded in that of the weights. */
#include "avx512_quant.h"
#include "amx_tiles.h"
#include "cpu.h"

/* What another processor may want otherwise. */
enum {
    SIDE = TILE_SIDE,
    DEPTH = TILE_DEPTH,
    CHUNK = 8,        /* times 32 inputs that are bytes before they are tiles */
    BLOCK_TILES = 64, /* of k */
    STRIPS = 6,       /* of a panel: 768 KiB with BLOCK_TILES; of 2 MiB of second cache 1 MiB did not stay */
    CHUNKS = 11,      /* of 48 rows for which a panel is widened once: 512 rows and a little more */
    ROW_STEP = 64,    /* of tasks that are cut by rows, when there are no columns left to cut */
    FREE_ROWS = 1 << 20,
};
_Static_assert((int)SIDE == PACK_COLUMNS && (int)DEPTH == PACK_DEPTH, "a tile of weights is one of tiles");

static inline ivec i_kept(ivec codes, ivec base) { return _mm512_sub_epi8(codes, base); }

#include "quant_codes.inc"
#include "quant_unpack.inc"
#include "amx_widen.inc"

static int rows_in_tile(int n_rows) { return SIDE; }

#include "amx_pack.inc"
#include "amx_chunk.inc"
#include "amx_put.inc"

enum { PANEL_COLUMNS = STRIPS * STRIP, BLOCK_ROWS = CHUNKS * CHUNK_TILES * SIDE };

typedef struct scratch {
    _Alignas(64) uint8_t tiles[STRIPS][BLOCK_TILES][STRIP / SIDE][TILE_BYTES];
    panel bytes;
    float sums[2][SUMS * TILE_SUMS]; /* of a chunk, on their way to the output; [1]: a gated product's other */
    float parked[STRIPS][CHUNKS][SUMS * TILE_SUMS];
} scratch;

static size_t scratch_bytes(int64_t n_in) { return sizeof(scratch); }

/* ---- activations ---- */

/* Rows [begin, end) in the order of the weights; begin and end are as pack wants them. */
static void pack_rows(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end,
                      const int32_t *order) {
    float part[SIDE * DEPTH];
    if (!order) {
        pack(to, x, x_stride, n_rows, n_in, begin, end);
        return;
    }
    for (int row = begin; row < end; row += SIDE)
        for (int64_t k = 0; k < n_in; k += DEPTH) {
            const int n = (int)least(DEPTH, n_in - k), rows = (int)least(SIDE, end - row);
            for (int r = 0; r < rows; r++) gather(part + r * DEPTH, x + (row + r) * x_stride, k, n, order);
            pack_tile(packed_tile(to, n_rows, n_in, row, k / DEPTH), part, DEPTH, rows, SIDE, n);
        }
}

/* ---- weights ---- */

/* Tiles [tile, tile + n) of k. */
typedef struct stretch {
    int64_t tile, n;
} stretch;

/* What a run has of a stretch, of one tile of columns at `w`; to: the stretch's first tile, one each `step` bytes. */
static void widen_part(uint8_t *to, size_t step, const pack_run *run, const uint8_t *w, panel *bytes, stretch k) {
    const int64_t from = run->is.begin / DEPTH, first = from > k.tile ? from : k.tile;
    const int64_t end = least(run->is.end / DEPTH, k.tile + k.n);
    if (first >= end) return;
    widen_run(&(wide){.to = to + (size_t)(first - k.tile) * step,
                      .step = step,
                      .run = run,
                      .w = w + run->offset,
                      .first = (int)(first - from),
                      .n = (int)(end - first)},
              bytes);
}

/* A stretch of a strip of a matrix, to the panel's strip `to`; columns that it does not have are zeros. */
static void widen_strip(const cpu_matmul_block *b, int to, int64_t column, stretch k) {
    const cpu_packed *packed = b->w->packed;
    scratch *s = b->scratch;
    for (int c = 0; c < STRIP / SIDE; c++) {
        const int64_t at = column + c * SIDE;
        if (at < b->w->n_out)
            for (int i = 0; i < packed->n_runs; i++)
                widen_part(s->tiles[to][0][c], sizeof s->tiles[0][0], &packed->runs[i], tile_at(b, at), &s->bytes, k);
        else
            for (int64_t t = 0; t < k.n; t++) memset(s->tiles[to][t][c], 0, TILE_BYTES);
    }
    tiles_barrier();
}

/* ---- a panel times a block of rows ---- */

typedef struct stage {
    const cpu_matmul_block *b, *up; /* up: a gated product's other matrix; or NULL */
    int64_t column, end;
    int row, n_rows;
    stretch k;
    bool is_first, is_last; /* of k */
} stage;

static int strips_of(const stage *p) { return (int)((p->end - p->column + STRIP - 1) / STRIP) * (p->up ? 2 : 1); }
static bool is_up(const stage *p, int strip) { return p->up && strip % 2; }
static int64_t column_of(const stage *p, int strip) { return p->column + (int64_t)(p->up ? strip / 2 : strip) * STRIP; }

static const cpu_matmul_block *matrix_of(const stage *p, int strip) { return is_up(p, strip) ? p->up : p->b; }

static void widen_panel(const stage *p) {
    for (int strip = 0; strip < strips_of(p); strip++)
        widen_strip(matrix_of(p, strip), strip, column_of(p, strip), p->k);
}

/* Of the rows' chunk number `rows`. One block of k: nothing is parked. */
static float *sums_at(const stage *p, int strip, int rows) {
    scratch *s = p->b->scratch;
    return p->is_first && p->is_last ? s->sums[is_up(p, strip)] : s->parked[strip][rows];
}

/* A strip is multiplied through all of k: its results leave, those of a gate with the other matrix's. */
static void finish(const stage *p, const tile_chunk *q, int strip, int rows, int row) {
    if (p->up && !is_up(p, strip)) return;
    const float *gate = p->up ? sums_at(p, strip - 1, rows) : NULL;
    put_chunk(p->b, p->up, gate, q, row, column_of(p, strip), p->end);
}

static void multiply_chunk(const stage *p, tile_chunk *q, int rows, int row) {
    scratch *s = p->b->scratch;
    q->x = packed_tile(p->b->x, p->b->n_packed, p->b->w->n_in, row, p->k.tile);
    for (int strip = 0; strip < strips_of(p); strip++) {
        const int64_t column = column_of(p, strip);
        q->w = s->tiles[strip][0][0];
        q->sums = sums_at(p, strip, rows);
        q->n_residual = 0;
        if (p->is_last && column + STRIP <= p->end) fetch_residual(q, p->b, row, column);
        multiply(q, 0);
        if (p->is_last) finish(p, q, strip, rows, row);
    }
}

static tile_chunk chunk_of(const stage *p) {
    return (tile_chunk){.pitch = 2 * DEPTH,
                        .step = sizeof((scratch *)p->b->scratch)->tiles[0][0],
                        .half = TILE_BYTES,
                        .x_step = (size_t)tiles_of_k(p->b->w->n_in) * SIDE * DEPTH,
                        .n_tiles = p->k.n,
                        .is_first = p->is_first};
}

static void multiply_rows(const stage *p) {
    const int tiles = (p->n_rows + SIDE - 1) / SIDE;
    tile_chunk q = chunk_of(p);
    for (int tile = 0, i = 0; tile < tiles; tile += q.n, i++) {
        q.n = chunk_tiles(tiles - tile);
        multiply_chunk(p, &q, i, p->row + tile * SIDE);
    }
}

/* A chunk alone: weights go no further than the first cache, and all of k stays in the unit. */
static void run_few(const stage *p) {
    const int64_t tiles = tiles_of_k(p->b->w->n_in);
    scratch *s = p->b->scratch;
    tile_chunk q = chunk_of(p);
    q.w = s->tiles[0][0][0];
    q.n = (p->n_rows + SIDE - 1) / SIDE;
    for (int strip = 0; strip < strips_of(p); strip++) {
        q.sums = sums_at(p, strip, 0);
        load_sums(&q);
        for (stretch k = {0, 0}; k.tile < tiles; k.tile += k.n) {
            k.n = least(CHUNK, tiles - k.tile);
            widen_strip(matrix_of(p, strip), 0, column_of(p, strip), k);
            q.x = packed_tile(p->b->x, p->b->n_packed, p->b->w->n_in, p->row, k.tile);
            q.n_tiles = k.n;
            add_products(&q, 0);
        }
        store_sums(&q);
        finish(p, &q, strip, 0, p->row);
    }
}

static void run_panel(stage *p) {
    const int64_t tiles = tiles_of_k(p->b->w->n_in), blocks = (tiles + BLOCK_TILES - 1) / BLOCK_TILES;
    for (int64_t i = 0; i < blocks; i++) {
        p->k.tile = tiles * i / blocks;
        p->k.n = tiles * (i + 1) / blocks - p->k.tile;
        p->is_first = !i;
        p->is_last = i + 1 == blocks;
        widen_panel(p);
        multiply_rows(p);
    }
}

static void run(const cpu_matmul_block *b) {
    const int64_t end = b->column + b->n_columns, columns = b->up ? PANEL_COLUMNS / 2 : PANEL_COLUMNS;
    const tile_config config = tiles_full();
    cpu_matmul_block up = *b;
    up.w = b->up;
    up.bias = b->up_bias;
    tiles_configure(&config);
    for (int64_t column = b->column; column < end; column += columns)
        for (int row = b->row; row < b->row + b->n_rows; row += BLOCK_ROWS) {
            stage p = {.b = b, .up = b->up ? &up : NULL, .column = column, .is_first = true, .is_last = true};
            p.end = least(end, column + columns);
            p.row = row;
            p.n_rows = (int)least(BLOCK_ROWS, b->row + b->n_rows - row);
            if (p.n_rows <= CHUNK_TILES * SIDE)
                run_few(&p);
            else
                run_panel(&p);
        }
    tiles_release();
    _mm_sfence(); /* put_tile's streams, before the pool tells that they are written */
}

/* ---- the kernel ---- */

static const cpu_matmul_kernel kernel = {
    .stream_step = SIDE,
    .row_step = ROW_STEP,
    .panel = PANEL_COLUMNS,
    .least_panel = PANEL_COLUMNS / 2,
    .free_rows = FREE_ROWS,
    .gates = true,
    .packs_ahead = DEPTH,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .pack_part = pack_part,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .pack_rows = pack_rows,
};

const cpu_matmul_ops cpu_quant_amx = {.prompts = &kernel};
