/* amxint8_quant.c — 5 rows and more times whole-number weights on AMX tiles of bytes.
 *
 * The walk is quant_panel.inc's. A chunk is unpacked to bytes with a sign, what the zero takes off taken off, so that a
 * product of tiles is a group's whole number and needs nothing else. A tile of activations is 16 rows x 32 inputs, or a
 * group of 16 of them, where quant_acts.inc put them, one act to a row; a tile of weights is as many inputs x 16
 * columns as a panel has them. A result is rows of 16 columns: columns are lanes, a row's scale is broadcast, and its
 * floats are added up as in quant_matmul.inc. So what goes through AVX-512 VNNI, fewer rows and matrices with groups of
 * both sizes, has the same bits.
 *
 * The tricky thing is what follows a product. While the unit works, one of the two ports for vectors takes no
 * multiply-add, so products and vectors go in turns: all that 16 rows have with a chunk of three tiles is multiplied
 * and left in memory, then becomes floats, four rows of three tiles in registers at a time. Tiles of sums begin with
 * MAGIC, so that is two multiply-adds for each 16 numbers. A chunk is short because whatever lies between the two must
 * stay in the first cache: 12 KiB of whole numbers, 9 of weights, 4 of activations; chunks of 8 took 1.6 times as long.
 */
#include "avx512_quant.h"
#include "amx_tiles.h"
#include "cpu.h"

/* What another processor may want otherwise. */
enum {
    LEAST_ROWS = 5,  /* fewer go through AVX-512 VNNI */
    CHUNK = 4,       /* times 32 inputs */
    ROW_BLOCK = 256, /* for which a chunk is unpacked once */
    ROWS_HELD = 4,   /* whose floats are in registers */
};
/* Up to 16 rows are cut as few rows are. */
enum {
    STREAMED_ROWS = 16,
    PANEL_TILES = 3, /* multiplied together */
    BLOCK_TILES = 6, /* for which a chunk's activations come from afar once; the next chunk is fetched meanwhile */
};
/* Twice beside each 32 inputs' products, once in front of each group of rows: a core keeps no more than a dozen or so
 * lines in mind, so whatever is asked for while vectors work alone comes too late where weights have 8 bits. */
#define FETCH_ASKS (2 * CHUNK + CPU_PACK_ROWS / ROWS_HELD)

static inline ivec i_kept(ivec codes, ivec base) { return _mm512_sub_epi8(codes, base); }

#include "quant_terms.inc"
#include "quant_acts.inc"
#include "amx_signed.inc"
#include "quant_unpack.inc"

static const float no_fines[PACK_COLUMNS];
#include "quant_fine.inc"

/* ---- products ---- */

_Static_assert((int)GROUP_ROWS == TILE_SIDE && (int)PACK_COLUMNS == TILE_SIDE, "what lies side by side is a tile");
typedef int32_t dots[GROUP_ROWS][PACK_COLUMNS];

/* Tiles 0 to 2 hold whole numbers, 3 activations, 4 to 6 weights: of a group of 32 inputs, or of one of 16. Of fewer
 * rows than 16 only whole groups of vectors are multiplied: a product takes as many cycles. */
static void configure(int n_rows, bool halves) {
    tile_config config = tiles_full();
    const int rows = (n_rows + ROWS_HELD - 1) / ROWS_HELD * ROWS_HELD;
    for (int i = 0; i <= PANEL_TILES; i++) config.rows[i] = (uint8_t)least(TILE_SIDE, rows);
    config.row_bytes[3] = (uint16_t)(PACK_DEPTH >> halves);
    for (int i = 4; i < 4 + PANEL_TILES; i++) config.rows[i] = (uint8_t)(STEPS >> halves);
    tiles_configure(&config);
}

/* Up to CHUNK groups, which are multiplied before any of them becomes floats: of 32 inputs each or, with halves, of
 * 16. */
typedef struct part {
    int first, n; /* of the chunk's 32s the first; how many groups */
    bool halves;
} part;

/* Activations of the first 32s' rows. */
ALWAYS_INLINE const act *part_acts(const rows_job *j, const part *of) { return j->x + (size_t)of->first * j->x_step; }
/* A group's weights in a panel. */
ALWAYS_INLINE const uint8_t *codes_of(const panel *p, const part *of, int i) {
    return of->halves ? p->codes[of->first + i / 2] + i % 2 * (UNPACKED_BYTES / 2) : p->codes[of->first + i];
}
/* From a group's activations to the next ones. */
ALWAYS_INLINE void next_inputs(const int8_t **q, const part *of, int i, size_t x_step) {
    enum { HALF = PACK_DEPTH / 2 };
    const size_t far = x_step * sizeof(act);
    *q += !of->halves ? far : i % 2 ? far - HALF : HALF;
}

/* A row of what every sum begins with; a tile is loaded from it with steps of 0 bytes. */
#define FOUR MAGIC, MAGIC, MAGIC, MAGIC
_Alignas(64) static const int32_t magic[PACK_COLUMNS] = {FOUR, FOUR, FOUR, FOUR};
#undef FOUR

#define LOAD_INPUTS(q) _tile_loadd(3, q, sizeof(act))
/* Tiles are named by digits: they become text. */
#define MULTIPLY(sums, codes, w)                                                                                       \
    do {                                                                                                               \
        _tile_loadd(sums, magic, 0);                                                                                   \
        _tile_loadd(codes, w, PACK_LINE);                                                                              \
        _tile_dpbssd(sums, 3, codes);                                                                                  \
    } while (0)
#define TAKE(to, tile) _tile_stored(tile, to, PACK_LINE)

/* 16 rows times a part of a chunk. A product is taken when its tile is needed again: until then others are on their
 * way. */
ALWAYS_INLINE void multiply_part(dots (*to)[PANEL_TILES], const rows_job *j, const part *of, fetches *next,
                                 bool is_one) {
    const int8_t *q = part_acts(j, of)->q;
    const panel *p = j->panels;
    const int last = of->n - 1, n_tiles = is_one ? 1 : PANEL_TILES;
    for (int i = 0; i <= last; next_inputs(&q, of, i, j->x_step), i++) {
        LOAD_INPUTS(q);
        fetch_lines(next, n_tiles);
        if (i) TAKE(to[i - 1][0], 0);
        MULTIPLY(0, 4, codes_of(&p[0], of, i));
        if (is_one) {
            if (!of->halves) fetch_lines(next, n_tiles);
            continue;
        }
        if (i) TAKE(to[i - 1][1], 1);
        MULTIPLY(1, 5, codes_of(&p[1], of, i));
        if (!of->halves) fetch_lines(next, n_tiles);
        if (i) TAKE(to[i - 1][2], 2);
        MULTIPLY(2, 6, codes_of(&p[2], of, i));
    }
    TAKE(to[last][0], 0);
    if (is_one) return;
    TAKE(to[last][1], 1);
    TAKE(to[last][2], 2);
}

/* ---- what follows them ---- */

/* What a row's acts say of its floats. */
typedef struct row_terms {
    fvec d, less, sum;
} row_terms;

/* half: of two groups which; 0: there is one. */
ALWAYS_INLINE row_terms terms_of(const act *x, int half, bool halves) {
    return (row_terms){f_set(x->d), f_set(x->less), f_set(halves ? x->half[half] : x->sum)};
}

/* Whole numbers of a row go to its floats: quant_matmul.inc's add_group. */
ALWAYS_INLINE fvec add_dots(fvec sum, const int32_t *from, const row_terms *x, const float *d, const float *m,
                            bool rest) {
    sum = f_fma(f_fma(f_as(i_load(from)), x->d, x->less), f_load(d), sum);
    return rest ? f_fnma(f_load(m), x->sum, sum) : sum;
}

/* ROWS_HELD rows from `row` on. Addresses walk: what compilers find them by otherwise does not fit the registers. */
ALWAYS_INLINE void add_rows(const dots (*made)[PANEL_TILES], const rows_job *j, const part *of, fetches *next, int row,
                            float *const *parked, int n_tiles, bool rest) {
    enum { DOTS = GROUP_ROWS * PACK_COLUMNS, FACTORS = 2 * PACK_COLUMNS, PANEL_FLOATS = sizeof(panel) / sizeof(float) };
    const act *x = part_acts(j, of) + row;
    const int32_t *from = made[0][0][row];
    const float *d = j->panels->d[of->first][0], *m = j->panels->m[of->first][0];
    fvec held[PANEL_TILES][ROWS_HELD];
    fetch_lines(next, n_tiles);
#pragma GCC unroll 3
    for (int t = 0; t < n_tiles; t++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_HELD; r++) held[t][r] = f_load(parked[t] + (row + r) * PACK_COLUMNS);
    for (int i = 0; i < of->n; i += 1 + of->halves, x += j->x_step, d += FACTORS, m += FACTORS)
#pragma GCC unroll 2
        for (int half = 0; half <= of->halves; half++, from += PANEL_TILES * DOTS)
#pragma GCC unroll 4
            for (int r = 0; r < ROWS_HELD; r++) {
                const row_terms terms = terms_of(&x[r], half, of->halves);
                const int at = half * PACK_COLUMNS;
#pragma GCC unroll 3
                for (int t = 0; t < n_tiles; t++)
                    held[t][r] = add_dots(held[t][r], from + t * DOTS + r * PACK_COLUMNS, &terms,
                                          d + t * PANEL_FLOATS + at, m + t * PANEL_FLOATS + at, rest);
            }
#pragma GCC unroll 3
    for (int t = 0; t < n_tiles; t++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS_HELD; r++) f_store(parked[t] + (row + r) * PACK_COLUMNS, held[t][r]);
}

ALWAYS_INLINE void run_part(const rows_job *j, const part *of, fetches *next, float *const *parked, int n_tiles,
                            bool rest) {
    _Alignas(64) dots made[CHUNK][PANEL_TILES];
    multiply_part(made, j, of, next, n_tiles == 1);
    for (int row = 0; row < j->n_rows; row += ROWS_HELD)
        add_rows((const dots(*)[PANEL_TILES])made, j, of, next, row, parked, n_tiles, rest);
}

ALWAYS_INLINE void run_group(const rows_job *shared, float *const *parked, int n_tiles, bool rest, bool halves) {
    const rows_job j = *shared; /* which no store of tiles can change */
    fetches next = *j.next;
    if (!halves)
        run_part(&j, &(part){0, j.n, false}, &next, parked, n_tiles, rest);
    else
        for (int first = 0; first < j.n; first += CHUNK / 2)
            run_part(&j, &(part){first, 2 * (int)least(CHUNK / 2, j.n - first), true}, &next, parked, n_tiles, rest);
    *j.next = next;
}

typedef void group_fn(const rows_job *j, float *const *parked);

#define GROUP(tiles, halves, rest)                                                                                     \
    static void group_##tiles##_##halves##rest(const rows_job *j, float *const *parked) {                              \
        run_group(j, parked, tiles, rest, halves);                                                                     \
    }
#define GROUPS(tiles) GROUP(tiles, 0, 0) GROUP(tiles, 0, 1) GROUP(tiles, 1, 0) GROUP(tiles, 1, 1)
#define GROUPS_OF(tiles)                                                                                               \
    {                                                                                                                  \
        {group_##tiles##_00, group_##tiles##_01}, { group_##tiles##_10, group_##tiles##_11 }                           \
    }
GROUPS(1)
GROUPS(3)
_Static_assert(PANEL_TILES == 3, "or one");

static group_fn *const group_kernels[2][2][2] = {GROUPS_OF(1), GROUPS_OF(3)};

/* Rows that the last ones lack are whatever lies there; nobody reads what becomes of them. */
static void group_rows(const rows_job *j, const quant_run *run, float *const *parked) {
    tiles_barrier();
    group_kernels[j->n_tiles > 1][j->halves][j->has_rest](j, parked);
}

/* ---- second digits ---- */

/* Up to 16 rows of the list of the panels' ith 32 inputs, from `first` on. */
ALWAYS_INLINE void run_list(fines *f, const rows_job *j, int tile, int i, int first, bool rest, bool halves) {
    _Alignas(64) dots made;
    const int n_rows = (int)least(GROUP_ROWS, f->count[i] - first);
    const act *x = &f->of[i][first];
    const part of = {i, 1 + halves, halves};
    for (int half = 0; half <= halves; half++) {
        LOAD_INPUTS(x->q + half * (PACK_DEPTH / 2));
        for (int t = 0; t < j->n_tiles; t++) {
            const panel *p = &j->panels[t];
            MULTIPLY(0, 4, codes_of(p, &of, half));
            TAKE(made, 0);
            for (int r = 0; r < n_rows; r++) {
                float *to = f->sums[tile + t][x[r].row];
                const row_terms terms = terms_of(&x[r], half, halves);
                f_store(to, add_dots(f_load(to), made[r], &terms, p->d[i][half], p->m[i][half], rest));
            }
        }
    }
}

static void add_fines(fines *f, const rows_job *j, int tile) {
    tiles_barrier();
    for (int i = 0; i < j->n; i++)
        for (int first = 0; first < f->count[i]; first += GROUP_ROWS)
            if (j->has_rest)
                run_list(f, j, tile, i, first, true, j->halves);
            else
                run_list(f, j, tile, i, first, false, j->halves);
}

#include "quant_panel.inc"

/* ---- the kernel ---- */

static const cpu_matmul_kernel *other(void) { return cpu_quant_avx512vnni.grouped; }

/* How many of its runs have groups of 16. */
static int count_halved(const cpu_packed *p) {
    int n = 0;
    for (int i = 0; i < p->n_runs; i++) n += p->runs[i].is.group < PACK_DEPTH;
    return n;
}

/* Tiles have one shape: where groups of 16 and others mix they go where each finds its own. */
static void run(const cpu_matmul_block *b) {
    const cpu_packed *p = b->w->packed;
    const int n_halved = count_halved(p);
    if (b->n_packed < LEAST_ROWS || (n_halved && n_halved < p->n_runs)) {
        other()->run(b);
        return;
    }
    configure(b->n_packed, n_halved > 0);
    run_panels(b);
    tiles_release();
}

static size_t room(int64_t n_in) {
    const size_t ours = scratch_bytes(n_in), theirs = other()->scratch_bytes(n_in);
    return ours > theirs ? ours : theirs;
}

static const cpu_matmul_kernel kernel_grouped = PANELS_KERNEL(STREAMED_ROWS, BLOCK_TILES, room);

const cpu_matmul_ops cpu_quant_amxint8 = {.grouped = &kernel_grouped};
