/* avx512bf16_measure.c — the limit of BF16 dot products of pairs in 512-bit registers. */
#include "cpu_measure.h"
#include <immintrin.h>

enum { CHAINS = 24, UNROLL = 2 };

static float run_dot(int64_t turns) {
    __m512 sums[CHAINS];
    __m512i a = _mm512_set1_epi16(0x3F80), b = _mm512_set1_epi16(0x3000); /* 1 and something tiny */
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_set1_ps((float)i);
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile("" : "+v"(a), "+v"(b)); /* no turn can be foreseen; chains that began alike would be one */
#pragma GCC unroll 2
        for (int u = 0; u < UNROLL; u++)
#pragma GCC unroll 24
            for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)a, (__m512bh)b);
    }
#pragma GCC unroll 24
    for (int i = 1; i < CHAINS; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_cvtss_f32(sums[0]);
}

static const cpu_peak peaks[] = {
    {"dot_bf16", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 32 * CHAINS *UNROLL, run_dot},
};

const cpu_measure_ops cpu_measure_avx512bf16 = {"avx512bf16", {NULL}, peaks, 1};
