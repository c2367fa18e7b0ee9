/* num.h — powers of two and logarithms that are the same bits on every machine.
 *
 * The C library chooses among variants by the processor, and their last bits differ; a draw or a cut may hang on one.
 * These use basic arithmetic only, which IEEE 754 fixes. Probabilities are powers of two throughout the samplers:
 * exponents are logarithms to base 2, surprises are bits. */
#ifndef SAMPLE_NUM_H
#define SAMPLE_NUM_H

#include <stdint.h>
#include <string.h>

#define NUM_LOG2_E 1.4426950408889634
#define NUM_LN_2 0.69314718055994531
#define NUM_LEAST_EXPONENT (-125.0f)
#define NUM_SHIFTER 12582912.0f /* 1.5 * 2^23: a sum with it ends in a whole number */
/* 2^f = 1 + f * (C1 + C2 f + ...) for |f| <= 1/2, fitted at Chebyshev's points */
#define NUM_C1 0.693147181f
#define NUM_C2 0.240223478f
#define NUM_C3 0.0555038089f
#define NUM_C4 0.00966646525f
#define NUM_C5 0.00133813982f

/* 2^x for x <= 0; 0 at and below NUM_LEAST_EXPONENT and for NaN. Relative error under 4e-7: the whole part by the
 * exponent's bits, the rest by a polynomial. sweep.c does the same in vectors, to the bit. */
static inline float num_exp2_below(float x) {
    if (!(x > NUM_LEAST_EXPONENT)) return 0;
    const float shifted = x + NUM_SHIFTER, f = x - (shifted - NUM_SHIFTER), f2 = f * f;
    const float poly = (NUM_C1 + NUM_C2 * f) + f2 * ((NUM_C3 + NUM_C4 * f) + NUM_C5 * f2);
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits << 23) + 0x3F800000u;
    float power;
    memcpy(&power, &bits, 4);
    return (1 + f * poly) * power;
}

static inline uint32_t num_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Logarithms of a normal x > 0; full double precision. */
double num_ln(double x);
static inline double num_log2(double x) { return num_ln(x) * NUM_LOG2_E; }
/* 2^x; full double precision; 0 below x = -1000, 2^1000 above 1000. */
double num_exp2(double x);

#endif
