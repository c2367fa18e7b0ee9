/* avx512vnni_quant.c — whole-number weights in 512-bit registers, four products and their sum per instruction.
 *
 * Few rows are quant_matmul.inc's: codes without a sign times activations with one, which the instruction itself
 * broadcasts from memory. More rows turn this round: codes with a sign are the operand that two tiles' products take
 * from their registers, activations are raised by 128, and what that adds is known when a tile is unpacked. So an
 * activation is broadcast once for 32 columns, and 16 sums are on their way at once: fewer would wait for each other.
 */
#include "avx512_quant.h"
#include "cpu.h"
#include <limits.h>

enum { MOST_ROWS = 8, MOST_SIZE = 3, WIDE_OFFSET = 0, MOST_LANES = 4, MOST_SUMS = 8, MOST_TILES = 4 };
enum { RAISED_INPUTS = MOST_ROWS, SIGNED_PANEL = 1, PANEL_TILES = 2, ROW_BLOCK = 128 };
static const int tiles_at_once[] = {4, 4, 2, 1}; /* for 1, 2, 4, 8 rows */

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

static inline ivec i_less_raised(ivec sum, ivec codes) {
    const ivec whole = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char)0x80), codes);
    return _mm512_sub_epi32(sum, whole);
}

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 8, 1, 1)                                                                      \
    STRIP(name, bits, has_table, halves, 1, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 4, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 2, 2)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1, strip_##name##_8_1 }
#define SEVERAL_OF(name)                                                                                               \
    { strip_##name##_1_4, strip_##name##_2_4, strip_##name##_4_2, NULL }

#include "quant_terms.inc"
#include "quant_matmul.inc"
#include "quant_unpack.inc"

/* ---- more rows ---- */

typedef struct rows_form {
    int tiles, rows;
    bool halves, has_rest;
} rows_form;

/* Sums of [tiles][rows] groups go to the rows' floats. */
ALWAYS_INLINE void add_dots(float *const *parked, const ivec *sums, const panel *p, int i, const act *x, int half,
                            rows_form is) {
    for (int r = 0; r < is.rows; r++) {
        const fvec d = f_set(x[r].d), less = f_set(x[r].less);
        const fvec x_sum = f_set(!is.halves ? x[r].sum : x[r].half[half]);
        for (int t = 0; t < is.tiles; t++) {
            float *to = parked[t] + r * PACK_COLUMNS;
            const fvec whole = f_fma(_mm512_castsi512_ps(sums[t * is.rows + r]), d, less);
            fvec now = f_fma(whole, f_load(p[t].d[i][half]), f_load(to));
            if (is.has_rest) now = f_fnma(f_load(p[t].m[i][half]), x_sum, now);
            f_store(to, now);
        }
    }
}

ALWAYS_INLINE void panel_rows(const rows_job *j, int row, float *const *all, rows_form is) {
    enum { MOST = 16 };
    const panel *p = j->panels;
    const act *x = j->x + row;
    float *parked[PANEL_TILES];
    for (int t = 0; t < is.tiles; t++) parked[t] = all[t] + row * PACK_COLUMNS;
    for (int i = 0; i < j->n; i++, x += j->x_step)
        for (int half = 0; half <= is.halves; half++) {
            ivec now[MOST];
            for (int k = 0; k < is.tiles * is.rows; k++) now[k] = i_load(p[k / is.rows].start[i][half]);
#pragma GCC unroll 8
            for (int s = 0; s < STEPS; s++) {
                if (is.halves && s >= STEPS / 2) break;
                const int step = half * (STEPS / 2) + s;
                ivec codes[PANEL_TILES];
                for (int t = 0; t < is.tiles; t++) codes[t] = i_load(p[t].codes[i] + step * PACK_LINE);
                for (int r = 0; r < is.rows; r++) {
                    const ivec in = four_inputs(x[r].q + 4 * step);
                    for (int t = 0; t < is.tiles; t++)
                        now[t * is.rows + r] = _mm512_dpbusd_epi32(now[t * is.rows + r], in, codes[t]);
                }
            }
            add_dots(parked, now, p, i, x, half, is);
        }
}

typedef void rows_fn(const rows_job *j, int row, float *const *parked);

#define ROWS(tiles, rows, halves, has_rest)                                                                            \
    static void rows_##tiles##_##rows##_##halves##has_rest(const rows_job *j, int row, float *const *parked) {         \
        panel_rows(j, row, parked, (rows_form){tiles, rows, halves, has_rest});                                        \
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
ROWS_ALL(1, 8)
ROWS_ALL(2, 1)
ROWS_ALL(2, 2)
ROWS_ALL(2, 4)
ROWS_ALL(2, 8)

static rows_fn *const row_kernels[PANEL_TILES][MOST_SIZE + 1][2][2] = {
    {ROWS_OF(1, 1), ROWS_OF(1, 2), ROWS_OF(1, 4), ROWS_OF(1, 8)},
    {ROWS_OF(2, 1), ROWS_OF(2, 2), ROWS_OF(2, 4), ROWS_OF(2, 8)},
};

static void group_rows(const rows_job *j, const quant_run *run, float *const *parked) {
    for (int row = 0, size; row < j->n_rows; row += 1 << size) {
        size = size_of(j->n_rows - row);
        row_kernels[j->n_tiles - 1][size][j->halves][j->has_rest](j, row, parked);
    }
}

#include "quant_panel.inc"

static void run(const cpu_matmul_block *b) {
    if (b->n_packed <= MOST_ROWS)
        run_stream(b);
    else
        run_panels(b);
}

static const cpu_matmul_kernel kernel_grouped = {
    .stream_rows = MOST_ROWS,
    .stream_step = PACK_COLUMNS,
    .row_step = GROUP_ROWS,
    .panel = PANEL,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .run = run,
    .pack_ordered = pack_ordered,
};

const cpu_matmul_ops cpu_quant_avx512vnni = {.grouped = &kernel_grouped};
