/* neon_quant.c — whole-number weights on any 64-bit ARM: products of bytes add up in 16 bits, pairs of those in 32.
 *
 * The walk is quant_matmul.inc; here is only the product. The tricky thing is how many products fit 16 bits with a
 * sign: all of 32 inputs where codes have up to 5 bits, two where they have 8, which get a sign first (128 off, which
 * the zero makes up for). */
#include "neon_quant.h"

enum { MOST_ROWS = 4, MOST_SIZE = 2, WIDE_OFFSET = 128 };

/* Columns 0, 1 and 2, 3: whole numbers of 32 bits, and those of 16 that are not yet in them. */
typedef struct dots {
    int32x4_t whole[2];
    int16x8_t part[2];
} dots;

static inline dots dots_begin(ivec start) {
    const int16x8_t none = vdupq_n_s16(0);
    const int32x4_t zero = vdupq_n_s32(0); /* a column's first two products and its last two have a lane each */
    return (dots){{vzip1q_s32(whole_of(start), zero), vzip2q_s32(whole_of(start), zero)}, {none, none}};
}

static inline int fitting(int bits) { return !bits ? 2 : bits <= 5 ? 8 : 4; }

/* Step j of codes of so many bits; 0: of 8, with a sign of their own. */
static inline void dots_step(dots *sum, ivec codes, const int8_t *x, int j, int bits) {
    const int8x16_t in = four_inputs(x);
    const int8x16_t with_sign = vreinterpretq_s8_u8(bits ? codes : veorq_u8(codes, vdupq_n_u8(0x80)));
    if (j % fitting(bits) == 0 && j)
        for (int i = 0; i < 2; i++) {
            sum->whole[i] = vpadalq_s16(sum->whole[i], sum->part[i]);
            sum->part[i] = vdupq_n_s16(0);
        }
    sum->part[0] = vmlal_s8(sum->part[0], vget_low_s8(with_sign), vget_low_s8(in));
    sum->part[1] = vmlal_high_s8(sum->part[1], with_sign, in);
}

static inline ivec dots_end(const dots *sum) {
    const int32x4_t low = vpadalq_s16(sum->whole[0], sum->part[0]), high = vpadalq_s16(sum->whole[1], sum->part[1]);
    return bytes_of(vpaddq_s32(low, high));
}

#define STRIPS(name, bits, has_table, halves)                                                                          \
    STRIP(name, bits, has_table, halves, 1, 1, 4)                                                                      \
    STRIP(name, bits, has_table, halves, 2, 1, 2)                                                                      \
    STRIP(name, bits, has_table, halves, 4, 1, 1)
#define ONE_OF(name)                                                                                                   \
    { strip_##name##_1_1, strip_##name##_2_1, strip_##name##_4_1 }
#define SEVERAL_OF(name)                                                                                               \
    { NULL }

#include "quant_terms.inc"
#include "quant_acts.inc"
#include "quant_matmul.inc"
#include "quant_unpack.inc"

#define PANEL_BLOCK(sums, codes, x, f, e, bits, is) block(sums, codes, x, f, i_zero(), e, bits, is)
#define PANEL_ROWS(X) X(1, 4) X(2, 2) X(4, 1)
#define PANEL_KERNELS                                                                                                  \
    { ROWS_OF(1), ROWS_OF(2), ROWS_OF(4) }

#include "neon_panel.inc"

const cpu_matmul_ops cpu_quant_neon = {.grouped = &kernel_grouped};
