/* amx_matmul.c — BF16 weights times activations rounded to BF16, on AMX tiles.
 *
 * A tile of weights is 16 output columns x 32 of k, as they lie in the matrix; a tile of activations is 32 of k x up
 * to 16 rows, packed once per op in pairs of k; their product adds to a tile of 16 columns x 16 rows of sums. An
 * element's sum goes through k in ascending tiles whatever else is in its tile, so one row and many agree bit for
 * bit. Up to 16 rows stream the weights from where they lie; more rows copy a panel of weights into whole tiles,
 * block of k by block of k, and keep the sums parked in memory meanwhile. The unit flushes subnormals to zero.
 *
 * Tricky: gcc 12's intrinsic for the tile configuration does not tell the compiler that it reads all 64 bytes, so it
 * is inline assembly here. Loads and stores of tiles carry a memory clobber in both compilers. */
#include "cpu.h"
#include <immintrin.h>
#include <string.h>

enum {
    SIDE = 16,  /* columns and rows of a tile */
    DEPTH = 32, /* k of a tile */
    TILE_BYTES = 1024,
    BLOCK = 512,     /* of k, between two parkings */
    PANEL = 256,     /* columns */
    ROW_BLOCK = 512, /* rows whose sums are parked */
    AHEAD = 512,     /* bytes that each streamed row is fetched in advance */
};

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the processor reads it");

/* Tiles 0-3 hold sums, 4-5 weights, 6-7 activations of n_rows rows. */
static void configure(int n_rows) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = SIDE;
        config.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 2 * DEPTH : 4 * n_rows);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

static void release(void) { __asm__ volatile("tilerelease"); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tiles_of_k(int64_t n_in) { return (n_in + DEPTH - 1) / DEPTH; }

/* ---- activations: [16 rows][tile of k][pair of k][row][2]; fewer than 16 rows lie closer, more are filled up ---- */

static int rows_in_tile(int n_rows) { return n_rows < SIDE ? n_rows : SIDE; }

static size_t packed_bytes(int n_rows, int64_t n_in) {
    const size_t rows = n_rows < SIDE ? (size_t)n_rows : ((size_t)n_rows + SIDE - 1) / SIDE * SIDE;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)tiles_of_k(n_in) * DEPTH * 2, rows, &bytes)) return SIZE_MAX;
    return bytes;
}

static uint16_t *packed_tile(const void *x, int n_rows, int64_t n_in, int64_t row, int64_t k_tile) {
    const int64_t rows = rows_in_tile(n_rows);
    return (uint16_t *)x + ((row / SIDE) * tiles_of_k(n_in) + k_tile) * rows * DEPTH;
}

/* 16 floats to BF16, to nearest even, in the low halves; NaN stays NaN. */
static __m512i to_bf16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
}

static void transpose(__m512 m[SIDE]) {
    __m512 t[SIDE];
    for (int i = 0; i < SIDE; i += 2) {
        t[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4) {
        m[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        m[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        m[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        m[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(m[i], m[i + 4], 0x88), b = _mm512_shuffle_f32x4(m[i], m[i + 4], 0xDD);
        const __m512 c = _mm512_shuffle_f32x4(m[i + 8], m[i + 12], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(m[i + 8], m[i + 12], 0xDD);
        t[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        t[i + 8] = _mm512_shuffle_f32x4(a, c, 0xDD);
        t[i + 12] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
    memcpy(m, t, sizeof t);
}

/* 32 floats of a row from k on as pairs; beyond n zeros, untouched. */
static __m512 pairs(const float *x, int64_t n) {
    __m256i halves[2];
    for (int i = 0; i < 2; i++) {
        const int64_t left = n - 16 * i;
        const __mmask16 lanes = (__mmask16)(left >= 16 ? 0xFFFF : left > 0 ? (1u << left) - 1 : 0);
        halves[i] = _mm512_cvtepi32_epi16(to_bf16(_mm512_maskz_loadu_ps(lanes, x + (lanes ? 16 * i : 0))));
    }
    return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1));
}

/* Rows [row, row + 16) as far as there are any, k from tile t: rows of pairs become columns of pairs. */
static void pack_tile(uint16_t *to, const float *x, int64_t x_stride, int n_rows, int row, int64_t n) {
    const int width = rows_in_tile(n_rows);
    const __mmask16 lanes = (__mmask16)((1u << width) - 1);
    __m512 m[SIDE];
    for (int r = 0; r < SIDE; r++) m[r] = row + r < n_rows ? pairs(x + (row + r) * x_stride, n) : _mm512_setzero_ps();
    transpose(m);
    for (int pair = 0; pair < DEPTH / 2; pair++) _mm512_mask_storeu_ps(to + pair * width * 2, lanes, m[pair]);
}

static void pack(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end) {
    for (int row = begin; row < end; row += SIDE)
        for (int64_t t = 0; t < tiles_of_k(n_in); t++) {
            uint16_t *tile = packed_tile(to, n_rows, n_in, row, t);
            const int64_t k = t * DEPTH;
            if (n_rows == 1)
                _mm512_storeu_ps(tile, pairs(x + k, n_in - k)); /* a row of pairs is a column of one */
            else
                pack_tile(tile, x + k, x_stride, n_rows, row, n_in - k);
        }
}

/* ---- weights ---- */

typedef struct scratch {
    _Alignas(64) uint8_t panel[PANEL / SIDE * (BLOCK / DEPTH) * TILE_BYTES];
    _Alignas(64) float parked[ROW_BLOCK * PANEL];
} scratch;

static size_t scratch_bytes(int64_t n_in) { return sizeof(scratch); }

static const uint8_t *weights_at(const cpu_matmul_block *b, int64_t column, int64_t k) {
    return (const uint8_t *)b->w->data + ((size_t)column * (size_t)b->w->n_in + (size_t)k) * 2;
}

/* Copies 16 columns x 32 of k; what the matrix or the task does not have is zeros. */
static void copy_tile(uint8_t *to, const cpu_matmul_block *b, int64_t column, int64_t k) {
    const int64_t n = least(DEPTH, b->w->n_in - k), n_columns = b->column + b->n_columns - column;
    const __mmask32 lanes = (__mmask32)(n == DEPTH ? ~0u : (1u << n) - 1);
    for (int64_t c = 0; c < SIDE; c++)
        _mm512_store_si512(to + c * 64, c < n_columns ? _mm512_maskz_loadu_epi16(lanes, weights_at(b, column + c, k))
                                                      : _mm512_setzero_si512());
}

/* ---- sums: a tile is [column][row], the output wants [row][column] ---- */

/* Adds bias and residual to a stored tile of sums [16 columns][row_stride] and writes its rows. */
static void put_tile(const cpu_matmul_block *b, const float *sums, int row_stride, int64_t row, int64_t column) {
    const int64_t n_columns = least(SIDE, b->column + b->n_columns - column);
    const int64_t n_rows = least(row_stride, b->row + b->n_rows - row);
    const __mmask16 lanes = (__mmask16)((1u << n_columns) - 1), rows = (__mmask16)((1u << row_stride) - 1);
    __m512 m[SIDE];
    for (int i = 0; i < SIDE; i++) m[i] = _mm512_maskz_loadu_ps(rows, sums + i * row_stride);
    transpose(m);
    const __m512 bias = b->bias ? _mm512_maskz_loadu_ps(lanes, b->bias + column) : _mm512_setzero_ps();
    for (int64_t r = 0; r < n_rows; r++) {
        float *out = b->out + (row + r) * b->out_stride + column;
        __m512 sum = b->bias ? _mm512_add_ps(m[r], bias) : m[r];
        if (b->add) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), sum);
        _mm512_mask_storeu_ps(out, lanes, sum);
    }
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
            copy_tile(s->panel, b, column, t * DEPTH);
            _tile_loadd(4, s->panel, 2 * DEPTH);
        }
        _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, s->parked, x_stride);
    put_tile(b, s->parked, b->n_packed, 0, column);
}

/* ---- more rows ---- */

static float *parked_tile(scratch *s, int64_t row, int64_t column) {
    return s->parked + row * PANEL + column * SIDE; /* both multiples of SIDE, within the block and the panel */
}

typedef struct corner {
    float *sums[2][2];   /* [column tile][row tile] */
    const uint8_t *w[2]; /* tiles of consecutive k follow each other */
    const uint16_t *x[2];
    int64_t n_tiles; /* of k */
    bool first;
    /* Fetched meanwhile, a little with each tile of k: the rows of activations and the weights that come next. */
    const uint8_t *next_x[2];
    int64_t next_lines; /* of each of them, per tile of k */
    const uint8_t *next_w;
    int64_t next_columns;
    size_t row_bytes;
} corner;

static void load_sums(const corner *q, bool two_rows) {
    if (q->first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, q->sums[0][0], 64);
    _tile_loadd(2, q->sums[1][0], 64);
    if (!two_rows) return;
    _tile_loadd(1, q->sums[0][1], 64);
    _tile_loadd(3, q->sums[1][1], 64);
}

static void fetch_next(const corner *q, int64_t tile) {
    for (int64_t i = tile * q->next_lines; i < (tile + 1) * q->next_lines; i++) {
        __builtin_prefetch((const void *)((uintptr_t)q->next_x[0] + (size_t)i * 64), 0, 2);
        __builtin_prefetch((const void *)((uintptr_t)q->next_x[1] + (size_t)i * 64), 0, 2);
    }
    for (int64_t c = 0; c < q->next_columns; c++)
        __builtin_prefetch((const void *)((uintptr_t)q->next_w + (size_t)c * q->row_bytes + (size_t)tile * 64), 0, 2);
}

/* 32 columns x 32 rows over one block of k. */
static void multiply_four(const corner *q) {
    load_sums(q, true);
    for (int64_t t = 0; t < q->n_tiles; t++) {
        fetch_next(q, t);
        _tile_loadd(4, q->w[0] + t * TILE_BYTES, 64);
        _tile_loadd(6, q->x[0] + t * SIDE * DEPTH, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, q->w[1] + t * TILE_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_loadd(7, q->x[1] + t * SIDE * DEPTH, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, q->sums[0][0], 64);
    _tile_stored(1, q->sums[0][1], 64);
    _tile_stored(2, q->sums[1][0], 64);
    _tile_stored(3, q->sums[1][1], 64);
}

/* 32 columns x the last 16 rows. */
static void multiply_two(const corner *q) {
    load_sums(q, false);
    for (int64_t t = 0; t < q->n_tiles; t++) {
        _tile_loadd(4, q->w[0] + t * TILE_BYTES, 64);
        _tile_loadd(6, q->x[0] + t * SIDE * DEPTH, 64);
        _tile_loadd(5, q->w[1] + t * TILE_BYTES, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
    }
    _tile_stored(0, q->sums[0][0], 64);
    _tile_stored(2, q->sums[1][0], 64);
}

/* One block of k for a panel of columns and a block of rows. */
typedef struct place {
    const cpu_matmul_block *b;
    int64_t column, n_columns, k0, n_tiles;
    int row, n_rows;
} place;

static int64_t corners_of(const place *p) { return (p->n_columns + 2 * SIDE - 1) / (2 * SIDE); }

static const uint16_t *x_at(const place *p, int row) {
    return packed_tile(p->b->x, p->b->n_packed, p->b->w->n_in, p->row + row, p->k0 / DEPTH);
}

/* Shares out what the next rows and the next block of k will read over all corners of this one. */
static void plan_fetch(corner *q, const place *p, int r, int64_t i) {
    const int64_t n_corners = corners_of(p), row_pairs = (p->n_rows + 2 * SIDE - 1) / (2 * SIDE);
    const int next_row = r + 2 * SIDE;
    if (next_row + SIDE < p->n_rows) {
        q->next_lines = (TILE_BYTES / 64 + n_corners - 1) / n_corners;
        for (int j = 0; j < 2; j++)
            q->next_x[j] = (const uint8_t *)x_at(p, next_row + j * SIDE) + i * q->next_lines * q->n_tiles * 64;
    }
    if (p->k0 + BLOCK >= p->b->w->n_in) return;
    const int64_t each = (p->n_columns + n_corners * row_pairs - 1) / (n_corners * row_pairs);
    const int64_t begin = (r / (2 * SIDE) * n_corners + i) * each;
    q->next_columns = least(each, p->n_columns - begin);
    q->row_bytes = (size_t)p->b->w->n_in * 2;
    if (q->next_columns > 0) q->next_w = weights_at(p->b, p->column + begin, p->k0 + BLOCK);
}

static void multiply_corner(const place *p, int r, int64_t i) {
    scratch *s = p->b->scratch;
    const bool two_rows = r + SIDE < p->n_rows;
    corner q = {.n_tiles = p->n_tiles, .first = !p->k0};
    for (int j = 0; j < 2; j++) {
        q.w[j] = s->panel + (2 * i + j) * p->n_tiles * TILE_BYTES;
        q.x[j] = x_at(p, r + j * (two_rows ? SIDE : 0));
        q.sums[j][0] = parked_tile(s, r, (2 * i + j) * SIDE);
        q.sums[j][1] = parked_tile(s, r + SIDE, (2 * i + j) * SIDE);
    }
    plan_fetch(&q, p, r, i);
    if (two_rows)
        multiply_four(&q);
    else
        multiply_two(&q);
}

static void panel_block(const place *p) {
    scratch *s = p->b->scratch;
    for (int64_t i = 0; i < 2 * corners_of(p); i++)
        for (int64_t t = 0; t < p->n_tiles; t++)
            copy_tile(s->panel + (i * p->n_tiles + t) * TILE_BYTES, p->b, p->column + i * SIDE, p->k0 + t * DEPTH);
    for (int r = 0; r < p->n_rows; r += 2 * SIDE)
        for (int64_t i = 0; i < corners_of(p); i++) multiply_corner(p, r, i);
}

static void panels(const cpu_matmul_block *b) {
    const int64_t end = b->column + b->n_columns;
    for (int64_t column = b->column; column < end; column += PANEL)
        for (int row = b->row; row < b->row + b->n_rows; row += ROW_BLOCK) {
            const int n_rows = (int)least(ROW_BLOCK, b->row + b->n_rows - row);
            for (int64_t k = 0; k < b->w->n_in; k += BLOCK)
                panel_block(&(place){.b = b,
                                     .column = column,
                                     .n_columns = least(PANEL, end - column),
                                     .k0 = k,
                                     .n_tiles = tiles_of_k(least(BLOCK, b->w->n_in - k)),
                                     .row = row,
                                     .n_rows = n_rows});
            for (int r = 0; r < n_rows; r += SIDE)
                for (int64_t c = 0; c < least(PANEL, end - column); c += SIDE)
                    put_tile(b, parked_tile(b->scratch, r, c), SIDE, row + r, column + c);
        }
}

static void run(const cpu_matmul_block *b) {
    configure(rows_in_tile(b->n_packed));
    if (b->n_packed <= SIDE)
        for (int64_t c = 0; c < b->n_columns; c += SIDE) stream_columns(b, b->column + c);
    else
        panels(b);
    release();
}

static const cpu_matmul_kernel kernel = {
    .stream_rows = SIDE,
    .stream_step = SIDE,
    .row_step = 4 * SIDE,
    .panel = PANEL,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .run = run,
};

const cpu_matmul_ops cpu_matmul_amx = {.fast = {[QUANT_BF16] = &kernel}};
