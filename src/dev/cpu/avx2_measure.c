/* avx2_measure.c — limits of 256-bit registers: reading memory, multiply-adds of float32 and int8. */
#include "peak.h"
#include <immintrin.h>

typedef __m256i words;
static inline words add_words(words a, const void *from) { return _mm256_add_epi64(a, _mm256_load_si256(from)); }
static inline void store_words(uint64_t *to, words a) { _mm256_storeu_si256((void *)to, a); }
#include "read_streams.inc"

enum { CHAINS = 12, TIMES = 4 };

PEAK(run_fma, CHAINS, TIMES, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32, _mm256_set1_ps(0.999f),
     _mm256_set1_ps(0.001f))

/* Products of bytes in pairs of 16 bits; spelled out, for the compiler would make one of equal ones. */
static inline __m256i mad(__m256i sum, __m256i a, __m256i b) {
    __m256i pairs;
    __asm__ volatile("vpmaddubsw %2, %1, %0" : "=x"(pairs) : "x"(a), "x"(b));
    return _mm256_add_epi16(sum, pairs);
}
PEAK(run_mad, CHAINS, TIMES, _mm256_set1_epi32, mad, _mm256_add_epi16, _mm256_cvtsi256_si32, _mm256_set1_epi8(3),
     _mm256_set1_epi8(-5))

static const cpu_peak peaks[] = {
    {"fma_f32_256", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 8 * CHAINS *TIMES, run_fma},
    {"mad_int8_256", "GOP/s", NULL, CPU_PEAK_WHOLE, 2 * 32 * CHAINS *TIMES, run_mad},
};

const cpu_measure_ops cpu_measure_avx2 = {"avx2", READS, peaks, 2};
