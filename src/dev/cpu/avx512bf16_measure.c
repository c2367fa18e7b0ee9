/* avx512bf16_measure.c — the limit of BF16 dot products of pairs in 512-bit registers. */
#include "peak.h"
#include <immintrin.h>

enum { CHAINS = 24, TIMES = 2 };

static inline __m512 dot(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
PEAK(run_dot, CHAINS, TIMES, _mm512_set1_ps, dot, _mm512_add_ps, _mm512_cvtss_f32, _mm512_set1_epi16(0x3F80),
     _mm512_set1_epi16(0x3000)) /* 1 and something tiny */

static const cpu_peak peaks[] = {
    {"dot_bf16", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 32 * CHAINS *TIMES, run_dot},
};

const cpu_measure_ops cpu_measure_avx512bf16 = {"avx512bf16", {NULL}, peaks, 1};
