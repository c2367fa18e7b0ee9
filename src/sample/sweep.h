/* sweep.h — the loops that see every logit: peaks of blocks, mass under the softmax, exponentials.
 *
 * Two sets of the same code, for any machine and for wider vectors, chosen when a room is made. They give the same
 * bits: each sum has a fixed shape, whatever the width of a register. */
#ifndef SAMPLE_SWEEP_H
#define SAMPLE_SWEEP_H

#include "row.h"

/* Exponent of a logit l under the softmax: with d = l - highest <= 0, d * slope + d * d * bend. */
typedef struct softmax_curve {
    float highest, slope, bend;
} softmax_curve;

static inline float curve_at(const softmax_curve *c, float logit) {
    const float d = logit - c->highest;
    return d * c->slope + d * d * c->bend;
}

typedef struct sweep_ops {
    const char *name;
    /* Fills r->peaks and r->highest. NaN is nothing. */
    void (*peaks)(logit_row *r);
    /* Masses of all blocks [n_blocks] and their sum. Wants the peaks. */
    double (*masses)(float *masses, const logit_row *r, const softmax_curve *c);
    /* x = exponents of the logits in x; p = their exponentials. */
    void (*exponentials)(float *p, float *x, int n, const softmax_curve *c);
} sweep_ops;

/* All that this machine can run, the widest last, then NULL. */
const sweep_ops *const *sweep_usable(void);
const sweep_ops *sweep_best(void);

#endif
