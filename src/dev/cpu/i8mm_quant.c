/* i8mm_quant.c — whole-number weights on 64-bit ARM with products of small matrices of bytes (Neoverse V1, Cortex-X2
 * and later).
 *
 * Few rows are quant_matmul.inc's, by dot products of codes without a sign and activations with one. More rows go in
 * pairs: one instruction multiplies two columns x 8 inputs by two rows x 8 inputs, twice the work of a dot product. A
 * panel lies as that of the other levels, so two lines of it are woven into columns x 8 inputs first; weaving costs one
 * instruction for four such products of 8 rows. The whole numbers are the same, and so are the floats made of them. */
#include "neon_quant.h"

enum { MOST_ROWS = 8, MOST_SIZE = 3, WIDE_OFFSET = 0 };

typedef int32x4_t dots;
static inline dots dots_begin(ivec start) { return whole_of(start); }
static inline void dots_step(dots *sum, ivec codes, const int8_t *x, int j, int bits) {
    *sum = vusdotq_s32(*sum, codes, four_inputs(x));
}
static inline ivec dots_end(const dots *sum) { return bytes_of(*sum); }

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 8, 1, 2)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1, strip_##name##_8_1 }
#define SEVERAL_OF(name)                                                                                               \
    { NULL }

#include "quant_terms.inc"
#include "quant_acts.inc"
#include "quant_matmul.inc"
#include "quant_unpack.inc"

/* ---- pairs of rows ---- */

enum { MOST_PAIRS = 4 };

/* Of columns 0, 1 and 2, 3 of a lane: [column][row of the pair]. */
typedef struct pair_dots {
    int32x4_t of[2];
} pair_dots;

ALWAYS_INLINE void begin_pairs(pair_dots *sums, const act *x, int half, ends e, form is) {
    for (int p = 0; p < is.rows / 2; p++) {
        int32_t start[2];
        for (int i = 0; i < 2; i++) {
            const act *a = &x[2 * p + i];
            start[i] = MAGIC - e.base * (is.halves ? a->whole[half] : a->whole[0] + a->whole[1]);
        }
        const int32x2_t both = vld1_s32(start);
        for (int l = 0; l < is.lanes; l++)
            sums[l * MOST_PAIRS + p] = (pair_dots){{vcombine_s32(both, both), vcombine_s32(both, both)}};
    }
}

/* Inputs 8 s .. 8 s + 7. */
ALWAYS_INLINE void pairs_step(pair_dots *sums, const uint8_t *const *codes, const act *x, int s, form is) {
    int8x16_t in[MOST_PAIRS];
    for (int p = 0; p < is.rows / 2; p++)
        in[p] = vcombine_s8(vld1_s8(x[2 * p].q + 8 * s), vld1_s8(x[2 * p + 1].q + 8 * s));
    for (int l = 0; l < is.lanes; l++) {
        const int32x4_t first = whole_of(i_load(codes[l] + 2 * s * PACK_LINE));
        const int32x4_t second = whole_of(i_load(codes[l] + (2 * s + 1) * PACK_LINE));
        const ivec low = bytes_of(vzip1q_s32(first, second)), high = bytes_of(vzip2q_s32(first, second));
        for (int p = 0; p < is.rows / 2; p++) {
            pair_dots *to = &sums[l * MOST_PAIRS + p];
            to->of[0] = vusmmlaq_s32(to->of[0], low, in[p]);
            to->of[1] = vusmmlaq_s32(to->of[1], high, in[p]);
        }
    }
}

ALWAYS_INLINE void end_pairs(fvec *sums, const pair_dots *now, const act *x, const factors (*f)[2], int half, ends e,
                             form is) {
    for (int i = 0; i < is.lanes * is.rows; i++) {
        const int l = i / is.rows, row = i % is.rows;
        const pair_dots *p = &now[l * MOST_PAIRS + row / 2];
        const int32x4_t dot = row % 2 ? vuzp2q_s32(p->of[0], p->of[1]) : vuzp1q_s32(p->of[0], p->of[1]);
        add_group(&sums[i], bytes_of(dot), &f[l][half], &x[row], is.halves ? x[row].half[half] : x[row].sum, e);
    }
}

/* What `block` does, of a panel's bytes. */
ALWAYS_INLINE void pairs_block(fvec *sums, const uint8_t *const *codes, const act *x, const factors (*f)[2], ends e,
                               int bits, form is) {
    enum { PAIR_STEPS = STEPS / 2 };
    if (is.rows == 1) {
        block(sums, codes, x, f, i_zero(), e, bits, is);
        return;
    }
    for (int half = 0; half <= is.halves; half++) {
        const int steps = is.halves ? PAIR_STEPS / 2 : PAIR_STEPS;
        pair_dots now[MOST_LANES * MOST_PAIRS];
        begin_pairs(now, x, half, e, is);
#pragma GCC unroll 4
        for (int s = 0; s < steps; s++) pairs_step(now, codes, x, half * steps + s, is);
        end_pairs(sums, now, x, f, half, e, is);
    }
}

#define PANEL_BLOCK pairs_block
#define PANEL_ROWS(X) X(1, 4) X(2, 4) X(4, 4) X(8, 2)
#define PANEL_KERNELS                                                                                                  \
    { ROWS_OF(1), ROWS_OF(2), ROWS_OF(4), ROWS_OF(8) }

#include "neon_panel.inc"

const cpu_matmul_ops cpu_quant_i8mm = {.grouped = &kernel_grouped};
