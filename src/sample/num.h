/* num.h — powers of two and logarithms that are the same bits on every machine.
 *
 * The C library chooses among variants by the processor, and their last bits differ; a draw or a cut may hang on one.
 * These use basic arithmetic only, which IEEE 754 fixes. Probabilities are powers of two throughout the samplers:
 * exponents are logarithms to base 2, surprises are bits. */
#ifndef SAMPLE_NUM_H
#define SAMPLE_NUM_H

#include "base/digest.h"
#include <stdint.h>
#include <string.h>

#define NUM_LOG2_E 1.4426950408889634
#define NUM_LN_2 0.69314718055994531

/* 2^x for x <= 0; 0 at and below EXP2_LEAST and for NaN. Relative error under 4e-7: the whole part by the
 * exponent's bits, the rest by a polynomial. sweep.c does the same in vectors, to the bit. */
static inline float num_exp2_below(float x) {
    if (!(x > EXP2_LEAST)) return 0;
    const float shifted = x + EXP2_SHIFTER, f = x - (shifted - EXP2_SHIFTER), f2 = f * f;
    const float poly = (EXP2_C1 + EXP2_C2 * f) + f2 * ((EXP2_C3 + EXP2_C4 * f) + EXP2_C5 * f2);
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
