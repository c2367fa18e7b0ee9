/* avx2_quant.c — whole-number weights in 256-bit registers: two products of bytes add up in 16 bits, two of those in
 * 32.
 *
 * The walk is quant_matmul.inc; here is only the product. The tricky thing: two products of codes of 8 bits do not fit
 * 16 bits. Those get a sign instead (128 off, which the zero makes up for), and their size is multiplied by the
 * activation that took over the sign. */
#include "avx2_quant.h"

enum { WIDE_OFFSET = 128 };

static inline ivec i_dot(ivec sum, ivec codes, const int8_t *x, bool wide) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    __m256i in = _mm256_set1_epi32(four);
    if (wide) {
        const __m256i with_sign = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
        in = _mm256_sign_epi8(in, with_sign);
        codes = _mm256_abs_epi8(with_sign);
    }
    const __m256i pairs = _mm256_maddubs_epi16(codes, in);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "quant_matmul.inc"
#include "quant_panel.inc"

const cpu_matmul_ops cpu_quant_avx2 = {.grouped = &kernel_grouped};
