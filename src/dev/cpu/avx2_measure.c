/* avx2_measure.c — limits of 256-bit registers: reading memory and fused multiply-adds of float32. */
#include "cpu_measure.h"
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

enum { CHAINS = 12, UNROLL = 4 };

static float run_fma(int64_t turns) {
    __m256 sums[CHAINS], factor = _mm256_set1_ps(0.999f), addend = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) sums[i] = _mm256_set1_ps((float)i);
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile(""
                         : "+x"(factor),
                           "+x"(addend)); /* no turn can be foreseen; chains that began alike would be one */
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; u++)
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++) sums[i] = _mm256_fmadd_ps(sums[i], factor, addend);
    }
#pragma GCC unroll 12
    for (int i = 1; i < CHAINS; i++) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return _mm256_cvtss_f32(sums[0]);
}

static const cpu_peak peaks[] = {
    {"fma_f32_256", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 8 * CHAINS *UNROLL, run_fma},
};

const cpu_measure_ops cpu_measure_avx2 = {"avx2", {read_wide, read_dense, read_narrow}, peaks, 1};
