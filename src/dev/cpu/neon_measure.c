/* neon_measure.c — limits of the 128-bit registers of 64-bit ARM: reading memory and fused multiply-adds of float32. */
#include "peak.h"
#include <arm_neon.h>

/* Eight streams side by side, each fetched ahead: one alone does not keep all line buffers busy. */
static uint64_t read_streams(const void *from, size_t bytes) {
    enum { STREAMS = 8, EACH = 8192, AHEAD = 1024 };
    uint64x2_t sums[STREAMS], all;
    for (int s = 0; s < STREAMS; s++) sums[s] = vdupq_n_u64(0);
    for (size_t group = 0; group < bytes; group += (size_t)STREAMS * EACH)
        for (size_t at = 0; at < EACH; at += 64)
            for (int s = 0; s < STREAMS; s++) {
                const uint8_t *line = (const uint8_t *)from + group + (size_t)s * EACH + at;
                __builtin_prefetch((const void *)((uintptr_t)line + AHEAD), 0, 3);
                for (int i = 0; i < 4; i++) sums[s] = vaddq_u64(sums[s], vreinterpretq_u64_u8(vld1q_u8(line + i * 16)));
            }
    all = sums[0];
    for (int s = 1; s < STREAMS; s++) all = vaddq_u64(all, sums[s]);
    return vgetq_lane_u64(all, 0) + vgetq_lane_u64(all, 1);
}

enum { CHAINS = 20, TIMES = 2 };

static inline float32x4_t multiply_add(float32x4_t sum, float32x4_t factor, float32x4_t addend) {
    return vfmaq_f32(addend, sum, factor);
}
PEAK(run_fma, CHAINS, TIMES, vdupq_n_f32, multiply_add, vaddq_f32, vaddvq_f32, vdupq_n_f32(0.999f), vdupq_n_f32(0.001f))

static const cpu_peak peaks[] = {
    {"fma_f32_128", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * 4 * CHAINS *TIMES, run_fma},
};

const cpu_measure_ops cpu_measure_neon = {"neon", {read_streams}, peaks, 1};
