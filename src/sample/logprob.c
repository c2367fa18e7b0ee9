/* logprob.c — logarithms of the model's own probabilities, and its favourites. */
#include "logprob.h"
#include <stdlib.h>

/* Infinite logits may stand where no setting allows a token. */
float logprob_of(double log_mass, float logit) {
    if (log_mass == INFINITY) return logit == INFINITY ? 0 : -INFINITY;
    return (float)(logit - log_mass);
}

static int by_logprob(const void *a, const void *b) {
    const qp_candidate *x = a, *y = b;
    return x->logprob != y->logprob ? (x->logprob < y->logprob) - (x->logprob > y->logprob)
                                    : (x->id > y->id) - (x->id < y->id);
}

/* The list's n_top greatest x, of equal ones the lowest ids. */
static int keep_greatest(candidate_list *c, int n_top) {
    if (c->n <= n_top) return c->n;
    float greatest = c->x[0];
    for (int i = 1; i < c->n; i++) greatest = c->x[i] > greatest ? c->x[i] : greatest;
    for (int i = 0; i < c->n; i++) c->x[i] = c->x[i] == greatest ? 0 : c->x[i] - greatest;
    candidates_key_x(c);
    candidates_keep_cut(c, rank_by_mass(c->keys, NULL, c->n, n_top, c->scratch));
    return c->n;
}

int logprob_top(sampler_room *room, const float *logits, int n_tokens, double log_mass, qp_candidate *top, int n_top) {
    logit_row raw = row_plain(logits, n_tokens, room->raw_peaks);
    room->sweep->peaks(&raw);
    if (!(raw.highest > -INFINITY)) return 0;
    candidate_list *c = &room->list;
    c->n = room->sweep->gather(c->ids, c->x, &raw, candidates_floor_of_rank(c, &raw, n_top));
    const int n = keep_greatest(c, n_top);
    for (int i = 0; i < n; i++)
        top[i] = (qp_candidate){.id = c->ids[i], .logprob = logprob_of(log_mass, logits[c->ids[i]])};
    qsort(top, (size_t)n, sizeof *top, by_logprob);
    return n;
}
