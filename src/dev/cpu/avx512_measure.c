/* avx512_measure.c — limits of 512-bit registers: reading memory; multiply-adds of float32, float16 and int8.
 *
 * The last two are extensions of their own; their functions are compiled for them and run only where they are. */
#include "peak.h"
#include <immintrin.h>

typedef __m512i words;
static inline words add_words(words a, const void *from) { return _mm512_add_epi64(a, _mm512_load_si512(from)); }
static inline void store_words(uint64_t *to, words a) { _mm512_storeu_si512(to, a); }
#include "read_streams.inc"

enum { CHAINS = 24, TIMES = 2 };

PEAK(run_fma, CHAINS, TIMES, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32, _mm512_set1_ps(0.999f),
     _mm512_set1_ps(0.001f))

#if !defined(__clang__) || __clang_major__ > 14 /* 14 knows only a part of float16 */
#define TARGET __attribute__((target("avx512fp16")))
TARGET static inline __m512h begin_f16(int i) { return _mm512_castsi512_ph(_mm512_set1_epi16((short)i)); }
TARGET static inline __m512h fma_f16(__m512h sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ph(sum, _mm512_castsi512_ph(a), _mm512_castsi512_ph(b));
}
TARGET static inline float first_f16(__m512h v) { return _mm512_cvtss_f32(_mm512_castph_ps(v)); }
TARGET PEAK(run_fma_f16, CHAINS, TIMES, begin_f16, fma_f16, _mm512_add_ph, first_f16, _mm512_set1_epi16(0x3BFF),
            _mm512_set1_epi16(0x1000)) /* a little less than 1, tiny */
#undef TARGET

    static bool has_f16(const cpu_features *f) {
    return f->avx512fp16;
}
#define HAS_F16
#endif

/* Half as many sums, twice as often: compilers keep 24 whole-number sums in memory. */
enum { DOT_CHAINS = CHAINS / 2, DOT_TIMES = 2 * TIMES };

__attribute__((target("avx512vnni")))
PEAK(run_dot_int8, DOT_CHAINS, DOT_TIMES, _mm512_set1_epi32, _mm512_dpbusd_epi32, _mm512_add_epi32,
     _mm512_cvtsi512_si32, _mm512_set1_epi8(3), _mm512_set1_epi8(-5))

    static bool has_vnni(const cpu_features *f) {
    return f->avx512vnni;
}

static const cpu_peak peaks[] = {
    {"fma_f32", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 16 * CHAINS *TIMES, run_fma},
#ifdef HAS_F16
    {"fma_f16", "GFLOP/s", has_f16, CPU_PEAK_NONE, 2 * 32 * CHAINS *TIMES, run_fma_f16},
#endif
    {"dot_int8", "GOP/s", has_vnni, CPU_PEAK_WHOLE, 2 * 64 * DOT_CHAINS *DOT_TIMES, run_dot_int8},
};

const cpu_measure_ops cpu_measure_avx512 = {"avx512", READS, peaks, sizeof peaks / sizeof *peaks};
