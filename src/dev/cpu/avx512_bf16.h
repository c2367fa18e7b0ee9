/* avx512_bf16.h — float16 rounded to BF16, for the levels whose products take pairs of BF16.
 *
 * Nothing is subnormal on the way: every float16 is a normal number of float32. */
#ifndef DEV_CPU_AVX512_BF16_H
#define DEV_CPU_AVX512_BF16_H

#include <immintrin.h>
#include <stdint.h>

/* 32 of them, to nearest even. */
static inline __m512i bf16_of_f16(__m512i halves) {
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
/* The same from memory, where taking a register apart would be an instruction more. */
static inline __m512i bf16_of_f16_at(const uint8_t *from) {
    const __m512 low = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
    const __m512 high = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + 32)));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

#endif
