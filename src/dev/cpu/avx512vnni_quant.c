/* avx512vnni_quant.c — whole-number weights in 512-bit registers, four products and their sum per instruction.
 *
 * Few rows are quant_matmul.inc's, up to 16 quant_tall.inc's, whose instruction itself broadcasts activations from
 * memory, or quant_passes.inc's. Of more rows four pass over three tiles together, so that an activation is broadcast
 * once for 48 columns and a line of codes read once for four rows. The tricky thing is that all of it must stay in
 * registers: 12 sums of whole numbers, which is what two units with 5 cycles each need in order not to wait, and 12 of
 * floats. Floats that go through memory at every group wait for addresses that look alike (4 KiB apart), and the chunk
 * no longer fits the first cache.
 */
#include "avx512_quant.h"
#include "cpu.h"

enum { MOST_ROWS = 4, MOST_SIZE = 2, WIDE_OFFSET = 0, MOST_LANES = 4, MOST_SUMS = 12, MOST_TILES = 4 };
enum { PANEL_TILES = 3, BLOCK_TILES = 6, CHUNK = 8, ROW_BLOCK = 256 };
static const int tiles_at_once[] = {4, 4, 2}; /* for 1, 2, 4 rows */

static inline __m512i four_inputs(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

typedef __m512i dots;
static inline dots dots_begin(ivec start) { return start; }
static inline void dots_step(dots *sum, ivec codes, const int8_t *x, int j, int bits) {
    *sum = _mm512_dpbusd_epi32(*sum, codes, four_inputs(x));
}
static inline ivec dots_end(const dots *sum) { return *sum; }
static inline ivec i_kept(ivec codes, ivec base) { return codes; } /* products take the base off */

typedef int32_t __attribute__((may_alias)) four_bytes;

/* As dots_step, of inputs that are used once: the instruction itself broadcasts them. Compilers load them apart. */
static inline void dots_once(dots *sum, ivec codes, const int8_t *x) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(codes), "m"(*(const four_bytes *)(const void *)x));
}

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 1, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 2, 2)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1 }
#define SEVERAL_OF(name)                                                                                               \
    { strip_##name##_1_4, strip_##name##_2_4, strip_##name##_4_2 }

#include "quant_terms.inc"
#include "quant_acts.inc"
#include "quant_pairs.inc"
#include "quant_matmul.inc"
#include "quant_tall.inc"
#include "quant_unpack.inc"

/* ---- more rows ---- */

enum { MOST_ROWS_HELD = 4, MOST_HELD = PANEL_TILES * MOST_ROWS_HELD };

typedef struct rows_form {
    int tiles, rows;
    bool halves, has_rest;
    int bits;
    bool has_table, in_place; /* in_place: codes lie as pack.h has them, `lines` says where; else in the panels */
} rows_form;

/* Where a chunk's codes lie in the first of some tiles. */
typedef struct lines {
    const uint8_t *of[CHUNK];
    fetches next;
} lines;

/* The tricky thing: a line has the codes of two to four steps. Compilers would load it once and, as sums fill the
 * registers, put it aside on the stack; reading it where it lies again takes a twentieth less of the time. */
ALWAYS_INLINE ivec codes_of(const panel *p, const lines *l, ivec table, int i, int t, int s, rows_form is) {
    if (!is.in_place) return i_load(p[t].codes[i] + s * PACK_LINE);
    const uint8_t *at = l->of[i] + (size_t)t * l->next.tile_bytes;
    __asm__("" : "+r"(at));
    const ivec v = code(at, is.bits, s);
    return is.has_table ? i_table(table, v) : v;
}

/* What a row's sums begin with: MAGIC, less what the zero takes off. Made outside of the vectors, whose units are what
 * all else waits for. */
ALWAYS_INLINE ivec start_of(const act *x, int base, int half, rows_form is) {
    return i_set_32(MAGIC - base * (is.halves ? x->whole[half] : x->whole[0] + x->whole[1]));
}

/* Products of `n_steps` times four inputs, from `first` on. */
ALWAYS_INLINE void add_products(ivec *now, const panel *p, const lines *l, ivec table, int i, const act *x, int first,
                                int n_steps, rows_form is) {
#pragma GCC unroll 8
    for (int s = first; s < first + n_steps; s++) {
        ivec codes[PANEL_TILES];
#pragma GCC unroll 4
        for (int t = 0; t < is.tiles; t++) codes[t] = codes_of(p, l, table, i, t, s, is);
#pragma GCC unroll 4
        for (int r = 0; r < is.rows; r++) {
            const ivec in = four_inputs(x[r].q + 4 * s);
#pragma GCC unroll 4
            for (int t = 0; t < is.tiles; t++)
                now[t * is.rows + r] = _mm512_dpbusd_epi32(now[t * is.rows + r], codes[t], in);
        }
    }
}

/* Whole numbers of [tiles][rows] groups go to the rows' floats. */
ALWAYS_INLINE void add_dots(fvec *held, const ivec *now, const panel *p, int i, const act *x, int half, rows_form is) {
#pragma GCC unroll 4
    for (int r = 0; r < is.rows; r++) {
        const fvec d = f_set(x[r].d), less = f_set(x[r].less);
        const fvec x_sum = f_set(!is.halves ? x[r].sum : x[r].half[half]);
#pragma GCC unroll 4
        for (int t = 0; t < is.tiles; t++) {
            fvec *to = &held[t * is.rows + r];
            *to = f_fma(f_fma(_mm512_castsi512_ps(now[t * is.rows + r]), d, less), f_load(p[t].d[i][half]), *to);
            if (is.has_rest) *to = f_fnma(f_load(p[t].m[i][half]), x_sum, *to);
        }
    }
}

ALWAYS_INLINE void panel_rows(const rows_job *j, lines *l, int row, float *const *parked, rows_form is) {
    const ivec table = is.has_table ? i_load_table(j->table) : i_zero();
    const act *x = j->x + row;
    fetches next = is.in_place ? l->next : (fetches){0};
    fvec held[MOST_HELD];
#pragma GCC unroll 12
    for (int k = 0; k < is.tiles * is.rows; k++)
        held[k] = f_load(parked[k / is.rows] + (row + k % is.rows) * PACK_COLUMNS);
    for (int i = 0; i < j->n; i++, x += j->x_step) {
        if (is.in_place) fetch_lines(&next, is.tiles);
#pragma GCC unroll 2
        for (int half = 0; half <= is.halves; half++) {
            ivec now[MOST_HELD];
#pragma GCC unroll 12
            for (int k = 0; k < is.tiles * is.rows; k++) now[k] = start_of(&x[k % is.rows], j->base, half, is);
            add_products(now, j->panels, l, table, i, x, half * STEPS / 2, STEPS >> is.halves, is);
            add_dots(held, now, j->panels, i, x, half, is);
        }
    }
#pragma GCC unroll 12
    for (int k = 0; k < is.tiles * is.rows; k++)
        f_store(parked[k / is.rows] + (row + k % is.rows) * PACK_COLUMNS, held[k]);
    if (is.in_place) l->next = next;
}

typedef void rows_fn(const rows_job *j, int row, float *const *parked);

#define ROWS(tiles, rows, halves, has_rest)                                                                            \
    static void rows_##tiles##_##rows##_##halves##has_rest(const rows_job *j, int row, float *const *parked) {         \
        panel_rows(j, NULL, row, parked, (rows_form){tiles, rows, halves, has_rest, 8, false, false});                 \
    }
#define ROWS_ALL(tiles, rows)                                                                                          \
    ROWS(tiles, rows, 0, 0) ROWS(tiles, rows, 0, 1) ROWS(tiles, rows, 1, 0) ROWS(tiles, rows, 1, 1)
#define ROWS_OF(tiles, rows)                                                                                           \
    {                                                                                                                  \
        {rows_##tiles##_##rows##_00, rows_##tiles##_##rows##_01}, {                                                    \
            rows_##tiles##_##rows##_10, rows_##tiles##_##rows##_11                                                     \
        }                                                                                                              \
    }
ROWS_ALL(1, 1)
ROWS_ALL(1, 2)
ROWS_ALL(1, 4)
ROWS_ALL(3, 1)
ROWS_ALL(3, 2)
ROWS_ALL(3, 4)

static rows_fn *const row_kernels[2][3][2][2] = {
    {ROWS_OF(1, 1), ROWS_OF(1, 2), ROWS_OF(1, 4)},
    {ROWS_OF(3, 1), ROWS_OF(3, 2), ROWS_OF(3, 4)},
};

#include "quant_pair_panel.inc"

static void group_rows(const rows_job *j, const quant_run *run, float *const *parked) {
    for (int row = 0, left = j->n_rows; left;) {
        const int size = left >= 4 ? 2 : left >> 1;
        (j->has_pairs ? pair_kernels[j->n_tiles > 1][size]
                      : row_kernels[j->n_tiles > 1][size][j->halves])[j->has_rest](j, row, parked);
        row += 1 << size;
        left -= 1 << size;
    }
}

#include "quant_fine_rows.inc"
#include "quant_panel.inc"
#include "quant_passes.inc"

static void run(const cpu_matmul_block *b) {
    if (b->n_packed > TALLEST)
        run_panels(b);
    else if (b->ways.ahead && b->n_rows > PASS_ROWS)
        run_passes(b);
    else if (b->n_rows < TALLEST / 2)
        run_stream(b);
    else
        run_tall(b);
}

static size_t room(int64_t n_in) {
    const size_t panels = scratch_bytes(n_in), starts = starts_bytes(n_in);
    return panels > starts ? panels : starts;
}

static const cpu_matmul_kernel kernel_grouped = PANELS_KERNEL(TALLEST, PANEL_TILES, room);

const cpu_matmul_ops cpu_quant_avx512vnni = {.grouped = &kernel_grouped};
