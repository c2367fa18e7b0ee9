/* avxvnni_measure.c — the limit of int8 dot products of fours in 256-bit registers. */
#include "peak.h"
#include <immintrin.h>

enum { CHAINS = 12, TIMES = 4 };

PEAK(run_dot, CHAINS, TIMES, _mm256_set1_epi32, _mm256_dpbusd_avx_epi32, _mm256_add_epi32, _mm256_cvtsi256_si32,
     _mm256_set1_epi8(3), _mm256_set1_epi8(-5))

static const cpu_peak peaks[] = {
    {"dot_int8_256", "GOP/s", NULL, CPU_PEAK_WHOLE, 2 * 32 * CHAINS *TIMES, run_dot},
};

const cpu_measure_ops cpu_measure_avxvnni = {"avxvnni", {NULL}, peaks, 1};
