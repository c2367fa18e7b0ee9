/* i8mm_measure.c — the limit of products of small int8 matrices (2 x 8 times 8 x 2) of 64-bit ARM. */
#include "peak.h"
#include <arm_neon.h>

enum { CHAINS = 20, TIMES = 2 };

PEAK(run_matrices, CHAINS, TIMES, vdupq_n_s32, vmmlaq_s32, vaddq_s32, vaddvq_s32, vdupq_n_s8(3), vdupq_n_s8(-5))

static const cpu_peak peaks[] = {
    {"mat_int8_128", "GOP/s", NULL, CPU_PEAK_WHOLE, 2 * 32 * CHAINS *TIMES, run_matrices},
};

const cpu_measure_ops cpu_measure_i8mm = {"i8mm", {NULL}, peaks, 1};
