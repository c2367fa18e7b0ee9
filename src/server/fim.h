/* fim.h — fill in the middle: which tokens a model marks the three parts with, and in which order they stand. */
#ifndef SERVER_FIM_H
#define SERVER_FIM_H

#include "refusal.h"

/* *ids (qp_free()d by the caller) is the prompt that asks for what stands between the two texts. Refused where the
 * vocabulary has no such tokens. `param` names the field in refusals. */
bool fim_make(int32_t **ids, size_t *n_ids, const qp_tokenizer *tokenizer, span prefix, span suffix, const char *param,
              refusal *why);

#endif
