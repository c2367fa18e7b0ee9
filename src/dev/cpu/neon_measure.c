/* neon_measure.c — limits of the 128-bit registers of 64-bit ARM: reading memory and fused multiply-adds of float32. */
#include "peak.h"
#include <arm_neon.h>

typedef uint64x2_t words;
static inline words add_words(words a, const void *from) { return vaddq_u64(a, vreinterpretq_u64_u8(vld1q_u8(from))); }
static inline void store_words(uint64_t *to, words a) { vst1q_u64(to, a); }
#include "read_streams.inc"

enum { CHAINS = 20, TIMES = 2 };

static inline float32x4_t multiply_add(float32x4_t sum, float32x4_t factor, float32x4_t addend) {
    return vfmaq_f32(addend, sum, factor);
}
PEAK(run_fma, CHAINS, TIMES, vdupq_n_f32, multiply_add, vaddq_f32, vaddvq_f32, vdupq_n_f32(0.999f), vdupq_n_f32(0.001f))

static const cpu_peak peaks[] = {
    {"fma_f32_128", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 4 * CHAINS *TIMES, run_fma},
};

const cpu_measure_ops cpu_measure_neon = {"neon", READS, peaks, 1};
