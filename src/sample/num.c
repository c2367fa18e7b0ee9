/* num.c — logarithm and power in double precision out of basic arithmetic. */
#include "num.h"

enum { MANTISSA_BITS = 52, BIAS = 1023 };
static const double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); ln m by the series of the area tangent. */
double num_ln(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    const uint64_t half_root = 0x3FE6A09E667F3BCDu; /* of 2: splits so that m is around 1 */
    const int64_t e = (int64_t)(bits - half_root) >> MANTISSA_BITS;
    bits -= (uint64_t)e << MANTISSA_BITS;
    double m, series = 0;
    memcpy(&m, &bits, 8);
    const double s = (m - 1) / (m + 1), square = s * s;
    for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * square;
    return (double)e * ln2_high + ((double)e * ln2_low + 2 * (s + s * series));
}

double num_exp2(double x) {
    if (!(x > -1000)) return 0;
    if (x > 1000) x = 1000;
    const int n = (int)(x + (x < 0 ? -0.5 : 0.5));
    const double r = (x - n) * NUM_LN_2;
    double sum = 1;
    for (int k = 14; k >= 1; k--) sum = 1 + sum * r / k;
    const uint64_t bits = (uint64_t)(n + BIAS) << MANTISSA_BITS;
    double power;
    memcpy(&power, &bits, 8);
    return sum * power;
}
