/* num.h — exponentials and logarithms that are the same bits on every machine.
 *
 * The C library chooses among variants by the processor, and their last bits differ; a draw or a cut may hang on one.
 * These use basic arithmetic only, which IEEE 754 fixes. */
#ifndef SAMPLE_NUM_H
#define SAMPLE_NUM_H

#include <stdint.h>
#include <string.h>

#define NUM_LEAST_EXPONENT (-87.0f)

/* e^x for x <= 0; 0 at and below NUM_LEAST_EXPONENT and for NaN. Relative error under 2e-7: a power of two by the
 * exponent's bits, the rest by a polynomial fitted to |r| <= ln(2)/2. The large constant rounds to an integer that
 * then stands in the sum's low bits, so that a plain loop over this becomes vector code on any machine. */
static inline float num_exp_below(float x) {
    const float clamped = x > NUM_LEAST_EXPONENT ? x : NUM_LEAST_EXPONENT, shifter = 12582912.0f; /* 1.5 * 2^23 */
    const float shifted = clamped * 1.44269504f + shifter, n = shifted - shifter;
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    const float tail = 0.5f + r * (0.166665767f + r * (0.0416665542f + r * (0.00836323288f + r * 0.00139262508f)));
    const float poly = 1 + (r + r * r * tail);
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits << 23) + 0x3F800000u;
    float power;
    memcpy(&power, &bits, 4);
    return x > NUM_LEAST_EXPONENT ? poly * power : 0;
}

static inline uint32_t num_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Natural logarithm of a normal x > 0; full double precision. */
double num_ln(double x);
/* e^x; full double precision; 0 where it would be under 1e-300, 1e300 where it would be over. */
double num_exp(double x);

#endif
