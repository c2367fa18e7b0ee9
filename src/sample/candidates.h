/* candidates.h — the tokens still in the running, and the ways to drop some of them. */
#ifndef SAMPLE_CANDIDATES_H
#define SAMPLE_CANDIDATES_H

#include "num.h"
#include "rank.h"
#include "row.h"
#include "sweep.h"

/* Always by ascending id, so that equal seeds pick equal tokens where rounding swaps two neighbours in rank. */
typedef struct candidate_list {
    int32_t *ids; /* [n] */
    float *x;     /* exponents: p = 2^x until a stage reweights */
    float *p;     /* unnormalised probabilities */
    int n;
    double sum;     /* of all p; before the first cut also of those that were too improbable to be listed */
    uint32_t *keys; /* [n] scratch */
    int32_t *scratch;
} candidate_list;

/* A logit such that those at least as great are at least k, or have at least the mass `wanted` under the curve: found
 * among the peaks of the groups, or -FLT_MAX where these are too few. The list is scratch. */
float candidates_floor_of_rank(candidate_list *c, const logit_row *r, int k);
float candidates_floor_of_mass(candidate_list *c, const logit_row *r, const softmax_curve *curve, double wanted);
void candidates_add_up(candidate_list *c);
double candidates_part(const candidate_list *c, int from, int n); /* the sum of n of them */
float candidates_greatest(const candidate_list *c);               /* of all p */

/* Each leaves at least one and sets the sum. */
void candidates_keep_least(candidate_list *c, double least); /* those with p >= least, else the best */
void candidates_keep_cut(candidate_list *c, rank_cut cut);   /* by c->keys */
void candidates_keep_best(candidate_list *c);                /* the most probable alone, the lowest id of equal ones */

/* Keys for rank.h: descending x, descending p. */
void candidates_key_x(candidate_list *c);
void candidates_key_p(candidate_list *c);
static inline uint32_t candidates_key_of(float p) { return 0x7F800000u - num_bits(p); } /* p >= 0 and finite */

#endif
