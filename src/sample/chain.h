/* chain.h — a row of logits and settings -> the id of the next token. */
#ifndef SAMPLE_CHAIN_H
#define SAMPLE_CHAIN_H

#include "base/err.h"

typedef struct candidate {
    int32_t id;
    float p; /* unnormalised probability */
} candidate;

/* The tokens still in the running. */
typedef struct candidate_list {
    candidate *at;
    int n;
    double sum;     /* of all p */
    bool is_sorted; /* by descending p, equal ones by ascending id */
} candidate_list;

/* Room for the candidates of one vocabulary; used by one thread at a time. */
typedef struct sampler {
    candidate *room;
    float *penalised; /* [n_vocabulary] */
    int n_vocabulary;
} sampler;

qp_status sampler_open(sampler *out, int n_vocabulary, qp_error *err);
void sampler_close(sampler *s);

/* QP_BAD_ARGUMENT by name for values that mean nothing (NaN, negative counts). */
qp_status sampling_check(const qp_sampling *settings, qp_error *err);
/* Chooses from logits [n_vocabulary], which stay untouched. The random number is a function of settings->seed and
 * `position` (the token's place in its job) alone. `history`: all ids of prompt and answer so far. -1 if no logit is a
 * number: the model's output is broken. */
int32_t sampler_pick(sampler *s, const float *logits, const qp_sampling *settings, uint64_t position,
                     const int32_t *history, size_t n_history);

/* The stages, for sampler_table.c and tests: each leaves at least one candidate and keeps `sum` right. */
void candidates_sort(candidate_list *c);
void candidates_cut(candidate_list *c, int n); /* keep the first n */

#endif
