/* dotprod_quant.c — whole-number weights on 64-bit ARM with dot products: four products and their sum per column and
 * instruction (Cortex-A76, Neoverse N1 and later).
 *
 * The walk is quant_matmul.inc, vectors are those of neon_quant.h; here is only the product. Both its operands have a
 * sign: codes of 8 bits get one first (128 off, which the zero makes up for). */
#include "neon_quant.h"

enum { MOST_ROWS = 8, MOST_SIZE = 3, WIDE_OFFSET = 128 };

typedef int32x4_t dots;
static inline dots dots_begin(ivec start) { return whole_of(start); }
static inline void dots_step(dots *sum, ivec codes, const int8_t *x, int j, int bits) {
    const ivec with_sign = bits ? codes : veorq_u8(codes, vdupq_n_u8(0x80));
    *sum = vdotq_s32(*sum, vreinterpretq_s8_u8(with_sign), four_inputs(x));
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

#define PANEL_BLOCK(sums, codes, x, f, e, bits, is) block(sums, codes, x, f, i_zero(), e, bits, is)
#define PANEL_ROWS(X) X(1, 4) X(2, 4) X(4, 4) X(8, 2)
#define PANEL_KERNELS                                                                                                  \
    { ROWS_OF(1), ROWS_OF(2), ROWS_OF(4), ROWS_OF(8) }

#include "neon_panel.inc"

const cpu_matmul_ops cpu_quant_dotprod = {.grouped = &kernel_grouped};
