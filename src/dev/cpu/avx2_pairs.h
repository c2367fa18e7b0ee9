/* avx2_pairs.h — what the kernels for packed weights of 256 and of 512 bits have in common. */
#ifndef DEV_CPU_AVX2_PAIRS_H
#define DEV_CPU_AVX2_PAIRS_H

#include <immintrin.h>
#include <stdint.h>

/* Two numbers of 16 bits, as instructions on pairs want them in a lane. */
static inline int32_t pair(int first, int last) {
    return (int32_t)((uint32_t)first & 0xFFFF) | (int32_t)((uint32_t)last << 16);
}

static inline int sum_16(const int8_t *q) {
    const __m128i raised = _mm_xor_si128(_mm_loadu_si128((const void *)q), _mm_set1_epi8((char)0x80));
    const __m128i sums = _mm_sad_epu8(raised, _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 0x80;
}

#endif
