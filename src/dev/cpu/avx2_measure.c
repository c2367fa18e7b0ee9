/* avx2_measure.c — limits of 256-bit registers: reading memory, multiply-adds of float32 and int8. */
#include "peak.h"
#include <immintrin.h>

/* Streams of `each` bytes side by side, fetched ahead: one stream alone does not keep all line buffers busy. Past its
 * end a stream goes on where the next group has it. */
static inline __attribute__((always_inline)) uint64_t read_streams(const uint8_t *from, size_t bytes, int n_streams,
                                                                   size_t each, size_t ahead) {
    __m256i sums[8];
    for (int s = 0; s < n_streams; s++) sums[s] = _mm256_setzero_si256();
    for (size_t group = 0; group < bytes; group += (size_t)n_streams * each)
        for (size_t at = 0; at < each; at += 64) {
            const size_t skip = at + ahead >= each ? (size_t)(n_streams - 1) * each : 0;
            for (int s = 0; s < n_streams; s++) {
                const uint8_t *line = from + group + (size_t)s * each + at;
                __builtin_prefetch((const void *)((uintptr_t)line + ahead + skip), 0, 3);
                sums[s] = _mm256_add_epi64(sums[s], _mm256_load_si256((const void *)line));
                sums[s] = _mm256_add_epi64(sums[s], _mm256_load_si256((const void *)(line + 32)));
            }
        }
    uint64_t words[4], all = 0;
    for (int s = 0; s < n_streams; s++) {
        _mm256_storeu_si256((void *)words, sums[s]);
        for (int i = 0; i < 4; i++) all += words[i];
    }
    return all;
}

static uint64_t read_wide(const void *from, size_t bytes) { return read_streams(from, bytes, 8, 8192, 2048); }
static uint64_t read_dense(const void *from, size_t bytes) { return read_streams(from, bytes, 8, 4096, 512); }
static uint64_t read_narrow(const void *from, size_t bytes) { return read_streams(from, bytes, 4, 8192, 1024); }

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

const cpu_measure_ops cpu_measure_avx2 = {"avx2", {read_wide, read_dense, read_narrow}, peaks, 2};
