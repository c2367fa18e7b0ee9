/* mirostat.h — the state of mirostat: the allowed surprise before each token of the answer. */
#ifndef SAMPLE_MIROSTAT_H
#define SAMPLE_MIROSTAT_H

#include "base/err.h"

typedef struct mirostat_state {
    float *mu; /* [n]: before token first, first + 1, ... */
    size_t n, capacity;
    uint64_t first;
} mirostat_state;

qp_status mirostat_open(mirostat_state *m, const qp_sampling *s, qp_error *err);
void mirostat_close(mirostat_state *m);
float mirostat_mu(const mirostat_state *m, const qp_sampling *s, uint64_t position);
/* After the pick at `position` of a token with probability p. */
void mirostat_note(mirostat_state *m, const qp_sampling *s, uint64_t position, double p);
void mirostat_rewind(mirostat_state *m, uint64_t position);

#endif
