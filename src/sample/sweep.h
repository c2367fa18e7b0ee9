/* sweep.h — the loops that see every logit: peaks, mass under the softmax, powers, and who lies above a floor.
 *
 * The same code for any machine and for those with wider registers; a room chooses when it is made. They give the same
 * bits: each sum has a fixed shape, however much a register holds. */
#ifndef SAMPLE_SWEEP_H
#define SAMPLE_SWEEP_H

#include "row.h"

enum { SWEEP_STEP = 16 }; /* numbers at a time, in one or more registers */

/* Exponent to base 2 of a logit l under the softmax: with d = l - highest <= 0, d * (slope + d * bend). */
typedef struct softmax_curve {
    float highest, slope, bend;
} softmax_curve;

static inline float curve_at(const softmax_curve *c, float logit) {
    const float d = logit - c->highest;
    return d * (c->slope + d * c->bend);
}

typedef struct sweep_ops {
    const char *name;
    /* Fills r->peaks and r->highest. NaN is nothing. */
    void (*peaks)(logit_row *r);
    /* Masses of all groups [r->n_groups] and their sum. Wants the peaks. */
    double (*masses)(float *masses, const logit_row *r, const softmax_curve *c);
    /* Ids and values, by ascending id, of what is at least `floor`, a finite number; returns how many. Both have room
     * for ROW_BLOCK more. Wants the peaks. */
    int (*gather)(int32_t *ids, float *values, const logit_row *r, float floor);
    /* x = exponents of the logits in x; p = 2^x. Both have room for SWEEP_STEP more. */
    void (*powers)(float *p, float *x, int n, const softmax_curve *c);
} sweep_ops;

/* All that this machine can run, the widest last, then NULL. */
const sweep_ops *const *sweep_usable(void);
const sweep_ops *sweep_best(void);

#endif
