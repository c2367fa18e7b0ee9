/* penalties.h — repetition, frequency and presence: lowering the logits of what was said already. */
#ifndef SAMPLE_PENALTIES_H
#define SAMPLE_PENALTIES_H

#include "change.h"
#include "base/err.h"

/* How often each id stands in the history, kept from step to step so that a long history costs nothing. */
typedef struct penalty_counts {
    uint32_t *counts; /* [n_tokens]; NULL: not needed, because only a range is looked at */
    int32_t *ids;     /* [n_ids] those whose count is not zero */
    int n_ids, n_tokens;
    size_t n_counted; /* tokens of the history */
    int32_t last;     /* the newest of them */
} penalty_counts;

bool penalties_are_on(const qp_sampling *s);
qp_status penalties_open(penalty_counts *c, const qp_sampling *s, int n_tokens, qp_error *err);
void penalties_close(penalty_counts *c);
/* The history was rewound: the next call counts anew. */
void penalties_forget(penalty_counts *c);
/* Gives the sink what the history changes. `seen`: bit per id, zero between calls. */
void penalties_apply(penalty_counts *c, const qp_sampling *s, change_sink *to, uint32_t *seen, const int32_t *history,
                     size_t n);

#endif
