/* avx2_quant.c — whole-number weights in 256-bit registers: two products of bytes add up in 16 bits, two of those in
 * 32.
 *
 * The walk is quant_matmul.inc; here is only the product. The tricky thing: two products of codes of 8 bits do not fit
 * 16 bits. Those get a sign instead (128 off, which the zero makes up for), and their size is multiplied by the
 * activation that took over the sign. */
#include "avx2_quant.h"

enum { WIDE_OFFSET = 128, STARTS_LATE = 1 };

/* Whole numbers of 32 bits, and those of 16 that are not yet in them. */
typedef struct dots {
    __m256i whole, part;
} dots;
static inline dots dots_begin(ivec start) { return (dots){start, _mm256_setzero_si256()}; }

/* How many products of two bytes and their neighbours fit 16 bits with a sign: 2 (2^bits - 1) 127 each. */
static inline int fitting(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

static inline __m256i pairs_to_whole(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

/* Step j of codes of so many bits; 0: of 8, with a sign of their own. */
static inline void dots_add(dots *sum, ivec codes, ivec in, int j, int bits) {
    if (!bits) {
        const __m256i with_sign = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
        in = _mm256_sign_epi8(in, with_sign);
        codes = _mm256_abs_epi8(with_sign);
    }
    const __m256i pairs = _mm256_maddubs_epi16(codes, in);
    if (!bits)
        sum->whole = i_held(_mm256_add_epi32(sum->whole, pairs_to_whole(pairs)));
    else if (j % fitting(bits) == 0 && j) {
        sum->whole = _mm256_add_epi32(sum->whole, pairs_to_whole(sum->part));
        sum->part = pairs;
    } else
        sum->part = i_held(_mm256_add_epi16(sum->part, pairs));
}

static inline ivec dots_end(const dots *sum) { return _mm256_add_epi32(sum->whole, pairs_to_whole(sum->part)); }

#include "avx2_quant.inc"

const cpu_matmul_ops cpu_quant_avx2 = {.grouped = &kernel_grouped};
