/* logprob.h — the model's own probabilities, before any setting. */
#ifndef SAMPLE_LOGPROB_H
#define SAMPLE_LOGPROB_H

#include "room.h"

float logprob_of(double log_mass, float logit);
/* The most probable n_top of the first n_tokens ids, by falling logprob; returns how many there are. p is left 0. Uses
 * the room's list. */
int logprob_top(sampler_room *room, const float *logits, int n_tokens, double log_mass, qp_candidate *top, int n_top);

#endif
