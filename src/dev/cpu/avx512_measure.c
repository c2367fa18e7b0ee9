/* avx512_measure.c — limits of 512-bit registers: reading memory; multiply-adds of float32, float16 and int8.
 *
 * The last two are extensions of their own; their functions are compiled for them and run only where they are. */
#include "cpu_measure.h"
#include <immintrin.h>

/* Streams of `each` bytes side by side, fetched ahead: one stream alone does not keep all line buffers busy. Past its
 * end a stream goes on where the next group has it. */
static inline __attribute__((always_inline)) uint64_t read_streams(const uint8_t *from, size_t bytes, int n_streams,
                                                                   size_t each, size_t ahead) {
    __m512i sums[8];
    for (int s = 0; s < n_streams; s++) sums[s] = _mm512_setzero_si512();
    for (size_t group = 0; group < bytes; group += (size_t)n_streams * each)
        for (size_t at = 0; at < each; at += 64) {
            const size_t skip = at + ahead >= each ? (size_t)(n_streams - 1) * each : 0;
            for (int s = 0; s < n_streams; s++) {
                const uint8_t *line = from + group + (size_t)s * each + at;
                __builtin_prefetch((const void *)((uintptr_t)line + ahead + skip), 0, 3);
                sums[s] = _mm512_add_epi64(sums[s], _mm512_load_si512(line));
            }
        }
    uint64_t words[8], all = 0;
    for (int s = 0; s < n_streams; s++) {
        _mm512_storeu_si512(words, sums[s]);
        for (int i = 0; i < 8; i++) all += words[i];
    }
    return all;
}

static uint64_t read_wide(const void *from, size_t bytes) { return read_streams(from, bytes, 8, 8192, 2048); }
static uint64_t read_dense(const void *from, size_t bytes) { return read_streams(from, bytes, 8, 4096, 512); }
static uint64_t read_narrow(const void *from, size_t bytes) { return read_streams(from, bytes, 4, 8192, 1024); }

enum { CHAINS = 24, UNROLL = 2 };

static float run_fma(int64_t turns) {
    __m512 sums[CHAINS], factor = _mm512_set1_ps(0.999f), addend = _mm512_set1_ps(0.001f);
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_set1_ps((float)i);
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile(""
                         : "+v"(factor),
                           "+v"(addend)); /* no turn can be foreseen; chains that began alike would be one */
#pragma GCC unroll 2
        for (int u = 0; u < UNROLL; u++)
#pragma GCC unroll 24
            for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_fmadd_ps(sums[i], factor, addend);
    }
#pragma GCC unroll 24
    for (int i = 1; i < CHAINS; i++) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_cvtss_f32(sums[0]);
}

#if !defined(__clang__) || __clang_major__ > 14 /* 14 knows only a part of float16 */
__attribute__((target("avx512fp16"))) static float run_fma_f16(int64_t turns) {
    __m512h sums[CHAINS];
    __m512i factor = _mm512_set1_epi16(0x3BFF), addend = _mm512_set1_epi16(0x1000); /* a little less than 1, tiny */
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sums[i] = _mm512_castsi512_ph(_mm512_set1_epi16((short)i));
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile("" : "+v"(factor), "+v"(addend));
#pragma GCC unroll 2
        for (int u = 0; u < UNROLL; u++)
#pragma GCC unroll 24
            for (int i = 0; i < CHAINS; i++)
                sums[i] = _mm512_fmadd_ph(sums[i], _mm512_castsi512_ph(factor), _mm512_castsi512_ph(addend));
    }
#pragma GCC unroll 24
    for (int i = 1; i < CHAINS; i++) sums[0] = _mm512_add_ph(sums[0], sums[i]);
    return _mm512_cvtss_f32(_mm512_castph_ps(sums[0]));
}

static bool has_f16(const cpu_features *f) { return f->avx512fp16; }
#define HAS_F16
#endif

/* Half as many sums, twice as often: compilers keep 24 whole-number sums in memory. */
enum { DOT_CHAINS = CHAINS / 2, DOT_UNROLL = 2 * UNROLL };

__attribute__((target("avx512vnni"))) static float run_dot_int8(int64_t turns) {
    __m512i sums[DOT_CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
#pragma GCC unroll 12
    for (int i = 0; i < DOT_CHAINS; i++) sums[i] = _mm512_set1_epi32(i);
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 4
        for (int u = 0; u < DOT_UNROLL; u++)
#pragma GCC unroll 12
            for (int i = 0; i < DOT_CHAINS; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
    }
#pragma GCC unroll 12
    for (int i = 1; i < DOT_CHAINS; i++) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    return (float)_mm512_cvtsi512_si32(sums[0]);
}

static bool has_vnni(const cpu_features *f) { return f->avx512vnni; }

static const cpu_peak peaks[] = {
    {"fma_f32", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 16 * CHAINS *UNROLL, run_fma},
#ifdef HAS_F16
    {"fma_f16", "GFLOP/s", has_f16, CPU_PEAK_NONE, 2 * 32 * CHAINS *UNROLL, run_fma_f16},
#endif
    {"dot_int8", "GOP/s", has_vnni, CPU_PEAK_WHOLE, 2 * 64 * DOT_CHAINS *DOT_UNROLL, run_dot_int8},
};

const cpu_measure_ops cpu_measure_avx512 = {
    "avx512", {read_wide, read_dense, read_narrow}, peaks, sizeof peaks / sizeof *peaks};
