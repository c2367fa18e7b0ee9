/* ahead.h — masks computed by threads of their own while the model computes logits.
 *
 * A follower wraps a matcher: once started, after each token it has the next mask made, at once if it is remembered,
 * else by a worker, and whoever asks for it waits or, where no worker has begun, makes it himself. The masks are the
 * same either way. api_constraint.c makes filters of followers. */
#ifndef GRAMMAR_AHEAD_H
#define GRAMMAR_AHEAD_H

#include "grammar/grammar.h"
#include "text/tok.h"

typedef struct ahead ahead;
typedef struct follower follower;

/* `n_threads` workers, 0: as many as fit beside one engine thread, up to 8. They sleep while there is nothing. */
qp_status ahead_new(ahead **out, int n_threads, qp_error *err);
/* After the last follower. */
void ahead_free(ahead *a);
/* Before the first follower: with a tokenizer they know forced tokens. Borrowed. */
void ahead_set_tokenizer(ahead *a, const tok *t);

qp_status follower_new(follower **out, ahead *a, grammar *g, qp_error *err);
void follower_free(follower *f);
/* Another one that has taken the same tokens. */
qp_status follower_clone(follower **out, follower *f, qp_error *err);
/* Bits of its masks. */
int follower_vocabulary(const follower *f);
/* The mask of the present; *bits is borrowed until the next call. */
qp_status follower_mask(follower *f, const uint32_t **bits, mask_info *info, qp_error *err);
/* Tokens that must come next, at most `most`, as forced.h has them; after follower_mask. */
size_t follower_forced(follower *f, int32_t *ids, size_t most);
/* From now on workers make its masks while others compute, the present one too; without `is_ahead`, as at first, they
 * are made when they are asked for. */
void follower_start(follower *f, bool is_ahead);
/* Before the first mask: the first token's text begins with these bytes, which are not part of what is followed. */
qp_status follower_heal(follower *f, span head, qp_error *err);
qp_status follower_accept(follower *f, int32_t id, qp_error *err);
qp_status follower_rewind(follower *f, size_t n, qp_error *err);

#endif
