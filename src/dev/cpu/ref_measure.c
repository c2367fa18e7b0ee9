/* ref_measure.c — limits of plain C: reading by 64-bit words, multiplying and adding doubles one by one. */
#include "cpu_measure.h"
#include <string.h>

static uint64_t read_all(const void *from, size_t bytes) {
    uint64_t sums[8] = {0}, words[8];
    for (size_t at = 0; at < bytes; at += sizeof words) {
        memcpy(words, (const uint8_t *)from + at, sizeof words);
        for (int i = 0; i < 8; i++) sums[i] += words[i];
    }
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

enum { CHAINS = 16 };

static float run_mac(int64_t turns) {
    double sums[CHAINS], factor = 0.999, addend = 0.001;
    for (int i = 0; i < CHAINS; i++) sums[i] = i;
    for (int64_t t = 0; t < turns; t++) {
        __asm__ volatile(""
                         : "+m"(factor),
                           "+m"(addend)); /* no turn can be foreseen; chains that began alike would be one */
        for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + addend;
    }
    double all = 0;
    for (int i = 0; i < CHAINS; i++) all += sums[i];
    return (float)all;
}

static const cpu_peak peaks[] = {
    {"mul_add_f64", "GFLOP/s", NULL, CPU_PEAK_FLOATS, 2 * CHAINS, run_mac},
};

const cpu_measure_ops cpu_measure_ref = {"ref", {read_all}, peaks, 1};
