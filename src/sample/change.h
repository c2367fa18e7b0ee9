/* change.h — what penalties and biases do to a logit, here or, by a device that has the row, elsewhere. */
#ifndef SAMPLE_CHANGE_H
#define SAMPLE_CHANGE_H

#include "num.h"
#include "row.h"

/* Where changes go: to a row, or into a list for an order. */
typedef struct change_sink {
    logit_row *row;      /* NULL: into the list */
    digest_change *list; /* [capacity]; what does not fit is counted */
    size_t n, capacity;
} change_sink;

/* Divided where positive, else multiplied: chosen by the sign's bit, which no branch could foresee. */
static inline float change_repeated(float logit, float divisor) {
    const float divisors[2] = {divisor, 1}, factors[2] = {1, divisor};
    const uint32_t is_negative = num_bits(logit) >> 31;
    return logit / divisors[is_negative] * factors[is_negative];
}

static inline void change_put(change_sink *to, const digest_change *c) {
    if (!to->row) {
        if (to->n < to->capacity) to->list[to->n] = *c;
        to->n++;
        return;
    }
    float *logit = row_touch(to->row, c->id);
    if (logit) *logit = row_within(*logit, change_repeated(*logit, c->divisor) - c->minus - c->then_minus);
}

#endif
