/* amxint8_quant.c — many rows times whole-number weights on AMX tiles of bytes.
 *
 * The walk is quant_panel.inc's. A chunk is unpacked to bytes with a sign, what the zero takes off taken off, so that a
 * product of tiles is a group's whole number and needs nothing else. A tile of activations is 16 rows x 32 inputs where
 * quant_acts.inc put them, one act to a row; a tile of weights is 32 inputs x 16 columns as a panel has them. A result
 * is rows of 16 columns: columns are lanes, a row's scale is broadcast, and its floats are added up as in
 * quant_matmul.inc. So what goes through AVX-512 VNNI, fewer rows and groups of 16 inputs, has the same bits.
 *
 * The tricky thing is what follows a product. For 16 rows x 16 columns the unit needs 16 cycles; the lines then leave
 * through memory and take 48 vector instructions (64 with minima) to become floats, be scaled and added: 24 cycles
 * (32), if nothing else stands in the way. Of groups of 16 inputs a product is worth half as much, and VNNI is faster.
 * So products run LAG ahead of their vectors, through a ring of memory, and all that 16 rows have with a panel are one
 * sequence; their floats stay in 16 registers for a whole chunk. */
#include "avx512_quant.h"
#include "amx_tiles.h"
#include "cpu.h"

/* What another processor may want otherwise. */
enum {
    LEAST_ROWS = 32, /* fewer go through AVX-512 VNNI */
    CHUNK = 8,       /* times 32 inputs */
    ROW_BLOCK = 256, /* for which a chunk is unpacked once */
    LAG = 3,         /* products between one and its vectors */
    RING = LAG + 1,
};
/* As AVX-512 VNNI has them: blocks are cut before it is known who multiplies them. */
enum {
    STREAMED_ROWS = 16,
    PANEL_TILES = 3, /* unpacked together: 18 KiB with CHUNK, in the first cache beside the activations of 16 rows */
    BLOCK_TILES = 6, /* for which a chunk's activations come from afar once */
};

static inline ivec i_kept(ivec codes, ivec base) { return _mm512_sub_epi8(codes, base); }

#include "quant_terms.inc"
#include "quant_acts.inc"
#include "quant_unpack.inc"

static const float no_fines[PACK_COLUMNS];
#include "quant_fine.inc"

/* ---- products ---- */

_Static_assert((int)GROUP_ROWS == TILE_SIDE && (int)PACK_COLUMNS == TILE_SIDE, "what lies side by side is a tile");
typedef int32_t dots[GROUP_ROWS][PACK_COLUMNS];

/* Tiles 0 and 1 hold whole numbers, 2 and 3 activations, 4 and 5 weights. */
static void configure(void) {
    tile_config config = tiles_full();
    for (int i = 2; i < 4; i++) config.row_bytes[i] = PACK_DEPTH;
    for (int i = 4; i < 6; i++) config.rows[i] = STEPS;
    tiles_configure(&config);
}

#define PRODUCT(sums, inputs, codes)                                                                                   \
    do {                                                                                                               \
        _tile_loadd(inputs, x, sizeof(act));                                                                           \
        _tile_loadd(codes, w, PACK_LINE);                                                                              \
        _tile_zero(sums);                                                                                              \
        _tile_dpbssd(sums, inputs, codes);                                                                             \
        _tile_stored(sums, to, PACK_LINE);                                                                             \
    } while (0)

/* 16 rows times 32 inputs. Every other product has other tiles: its loads wait for none that are still being read. */
ALWAYS_INLINE void multiply(dots to, const act *x, const uint8_t *w, bool is_odd) {
    if (is_odd)
        PRODUCT(1, 3, 5);
    else
        PRODUCT(0, 2, 4);
}

/* ---- what follows them ---- */

ALWAYS_INLINE factors factors_at(const panel *p, int i, bool rest) {
    return (factors){f_load(p->d[i][0]), rest ? f_load(p->m[i][0]) : f_set(0)};
}

/* A row's whole numbers go to its floats: quant_matmul.inc's add_group. */
ALWAYS_INLINE fvec add_dots(fvec sum, const int32_t *from, const act *x, const factors *f, bool rest) {
    sum = f_fma(f_mul(f_of(i_load(from)), f_set(x->d)), f->d, sum);
    return rest ? f_fnma(f->m, f_set(x->sum), sum) : sum;
}

/* ---- 16 rows times a chunk of some tiles ---- */

/* Which product is made next: tile by tile, of each all its times 32 inputs. */
typedef struct feed {
    const panel *p;
    int i; /* of the panel's 32s */
    unsigned made, all;
} feed;

/* Where there is none left it is counted all the same. */
ALWAYS_INLINE void multiply_next(dots *ring, feed *f, const rows_job *j) {
    const unsigned at = f->made++;
    if (at >= f->all) return;
    multiply(ring[at % RING], j->x + (size_t)f->i * j->x_step, f->p->codes[f->i], at % 2);
    if (++f->i < j->n) return;
    f->p++;
    f->i = 0;
}

/* The product that is due was made LAG before: it lies where the one after the last made will go. */
ALWAYS_INLINE void run_tile(const rows_job *j, const panel *p, float *parked, dots *ring, feed *f, bool rest) {
    const act *x = j->x;
    fvec sums[GROUP_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < GROUP_ROWS; r++) sums[r] = f_load(parked + r * PACK_COLUMNS);
    for (int i = 0; i < j->n; i++, x += j->x_step) {
        multiply_next(ring, f, j);
        const factors of = factors_at(p, i, rest);
        const int32_t(*due)[PACK_COLUMNS] = ring[f->made % RING];
#pragma GCC unroll 16
        for (int r = 0; r < GROUP_ROWS; r++) sums[r] = add_dots(sums[r], due[r], &x[r], &of, rest);
    }
#pragma GCC unroll 16
    for (int r = 0; r < GROUP_ROWS; r++) f_store(parked + r * PACK_COLUMNS, sums[r]);
}

ALWAYS_INLINE void run_group(const rows_job *shared, float *const *parked, bool rest) {
    _Alignas(64) dots ring[RING];
    const rows_job j = *shared; /* which no store of tiles can change */
    feed f = {.p = j.panels, .all = (unsigned)(j.n_tiles * j.n)};
    for (int i = 0; i < LAG; i++) multiply_next(ring, &f, &j);
    for (int t = 0; t < j.n_tiles; t++) run_tile(&j, &j.panels[t], parked[t], ring, &f, rest);
}

/* Rows that the last ones lack are whatever lies there; nobody reads what becomes of them. */
static void group_rows(const rows_job *j, const quant_run *run, float *const *parked) {
    tiles_barrier();
    if (j->has_rest)
        run_group(j, parked, true);
    else
        run_group(j, parked, false);
}

/* ---- second digits ---- */

/* Up to 16 rows of the list of the panels' ith 32 inputs, from `first` on. */
ALWAYS_INLINE void run_list(fines *f, const rows_job *j, int tile, int i, int first, bool rest) {
    _Alignas(64) dots made[PANEL_TILES];
    const int n_rows = (int)least(GROUP_ROWS, f->count[i] - first);
    const act *x = &f->of[i][first];
    for (int t = 0; t < j->n_tiles; t++) multiply(made[t], x, j->panels[t].codes[i], t % 2);
    for (int t = 0; t < j->n_tiles; t++) {
        const factors of = factors_at(&j->panels[t], i, rest);
        for (int r = 0; r < n_rows; r++) {
            float *to = f->sums[tile + t][x[r].row];
            f_store(to, add_dots(f_load(to), made[t][r], &x[r], &of, rest));
        }
    }
}

static void add_fines(fines *f, const rows_job *j, int tile) {
    tiles_barrier();
    for (int i = 0; i < j->n; i++)
        for (int first = 0; first < f->count[i]; first += GROUP_ROWS)
            if (j->has_rest)
                run_list(f, j, tile, i, first, true);
            else
                run_list(f, j, tile, i, first, false);
}

#include "quant_panel.inc"

/* ---- the kernel ---- */

static const cpu_matmul_kernel *other(void) { return cpu_quant_avx512vnni.grouped; }

static bool has_halves(const cpu_packed *p) {
    for (int i = 0; i < p->n_runs; i++)
        if (p->runs[i].is.group < PACK_DEPTH) return true;
    return false;
}

static void run(const cpu_matmul_block *b) {
    if (b->n_packed < LEAST_ROWS || has_halves(b->w->packed)) {
        other()->run(b);
        return;
    }
    configure();
    run_panels(b);
    tiles_release();
}

static size_t room(int64_t n_in) {
    const size_t ours = scratch_bytes(n_in), theirs = other()->scratch_bytes(n_in);
    return ours > theirs ? ours : theirs;
}

static const cpu_matmul_kernel kernel_grouped = PANELS_KERNEL(STREAMED_ROWS, 1, room);

const cpu_matmul_ops cpu_quant_amxint8 = {.grouped = &kernel_grouped};
