/* dotprod_measure.c — the limit of int8 dot products of fours in the 128-bit registers of 64-bit ARM. */
#include "peak.h"
#include <arm_neon.h>

enum { CHAINS = 20, TIMES = 2 };

PEAK(run_dot, CHAINS, TIMES, vdupq_n_s32, vdotq_s32, vaddq_s32, vaddvq_s32, vdupq_n_s8(3), vdupq_n_s8(-5))

static const cpu_peak peaks[] = {
    {"dot_int8_128", "GOP/s", NULL, CPU_PEAK_WHOLE, 2 * 16 * CHAINS *TIMES, run_dot},
};

const cpu_measure_ops cpu_measure_dotprod = {"dotprod", {NULL}, peaks, 1};
