/* sweep.c — plain loops over blocks of 32 that the compiler turns into vector code, compiled twice.
 *
 * Lanes are combined in a tree that the source fixes, products are never fused into sums, so the two copies agree to
 * the last bit (sweep_test.c holds them to it). */
#include "sweep.h"
#include "num.h"
#include "base/cpuid.h"

#define BODY static inline __attribute__((always_inline))

/* The accumulator stands second in each comparison, so that a NaN loses. */
BODY float block_peak(const float *restrict v) {
    float m[8];
    for (int j = 0; j < 8; j++) m[j] = v[j] > -INFINITY ? v[j] : -INFINITY;
    for (int i = 8; i < ROW_BLOCK; i += 8)
        for (int j = 0; j < 8; j++) m[j] = v[i + j] > m[j] ? v[i + j] : m[j];
    for (int j = 0; j < 4; j++) m[j] = m[j + 4] > m[j] ? m[j + 4] : m[j];
    for (int j = 0; j < 2; j++) m[j] = m[j + 2] > m[j] ? m[j + 2] : m[j];
    return m[1] > m[0] ? m[1] : m[0];
}

BODY void peaks_body(logit_row *r) {
    float buffer[ROW_BLOCK], highest = -INFINITY;
    for (int b = 0; b < r->n_blocks; b++) {
        const float peak = r->open && !r->open[b] ? -INFINITY : block_peak(row_block(r, b, buffer));
        r->peaks[b] = peak;
        highest = peak > highest ? peak : highest;
    }
    r->highest = highest;
}

BODY float block_mass(const float *restrict v, const softmax_curve *c) {
    float e[ROW_BLOCK];
    for (int j = 0; j < ROW_BLOCK; j++) e[j] = num_exp_below(curve_at(c, v[j]));
    for (int half = ROW_BLOCK / 2; half; half /= 2)
        for (int j = 0; j < half; j++) e[j] += e[j + half];
    return e[0];
}

BODY double masses_body(float *masses, const logit_row *r, const softmax_curve *curve) {
    const softmax_curve c = *curve;
    float buffer[ROW_BLOCK];
    double sum = 0;
    for (int b = 0; b < r->n_blocks; b++) {
        const bool is_empty = !(curve_at(&c, r->peaks[b]) > NUM_LEAST_EXPONENT);
        masses[b] = is_empty ? 0 : block_mass(row_block(r, b, buffer), &c);
        sum += masses[b];
    }
    return sum;
}

BODY void exponentials_body(float *restrict p, float *restrict x, int n, const softmax_curve *curve) {
    const softmax_curve c = *curve;
    for (int i = 0; i < n; i++) {
        x[i] = curve_at(&c, x[i]);
        p[i] = num_exp_below(x[i]);
    }
}

#define SWEEP(level, attribute)                                                                                        \
    attribute static void peaks_##level(logit_row *r) { peaks_body(r); }                                               \
    attribute static double masses_##level(float *masses, const logit_row *r, const softmax_curve *c) {                \
        return masses_body(masses, r, c);                                                                              \
    }                                                                                                                  \
    attribute static void exponentials_##level(float *p, float *x, int n, const softmax_curve *c) {                    \
        exponentials_body(p, x, n, c);                                                                                 \
    }                                                                                                                  \
    static const sweep_ops sweep_##level = {#level, peaks_##level, masses_##level, exponentials_##level};

SWEEP(any, )
static const sweep_ops *const usable_anywhere[] = {&sweep_any, NULL};

#if defined(__x86_64__)
SWEEP(avx2, __attribute__((target("avx2"))))
static const sweep_ops *const usable_with_avx2[] = {&sweep_any, &sweep_avx2, NULL};
#endif

const sweep_ops *const *sweep_usable(void) {
#if defined(__x86_64__)
    cpu_features cpu;
    cpu_detect(&cpu);
    if (cpu.avx2) return usable_with_avx2;
#endif
    return usable_anywhere;
}

const sweep_ops *sweep_best(void) {
    const sweep_ops *const *all = sweep_usable();
    while (all[1]) all++;
    return *all;
}
