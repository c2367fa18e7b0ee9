/* seq.h — sequences of tokens that share one store of pages. */
#ifndef GEN_SEQ_H
#define GEN_SEQ_H

#include "cache/pages.h"
#include "cache/store.h"
#include "model/model.h"

/* The memory that sequences of one model share; lives until the last of them is closed. */
typedef struct seq_room {
    model *model;
    kv_store store;
    page_table *pages;
    struct seq_best *best; /* seq_best.c's; NULL: not asked for yet */
} seq_room;

typedef struct seq {
    seq_room *room;
    chain chain; /* private: sequences neither offer nor reuse */
    lora_set adapters;
} seq;

/* Rounds up to whole pages. exact: the type that QP_CACHE_DEFAULT stands for. */
qp_status seq_room_open(seq_room *out, model *m, uint64_t tokens, qp_cache_type type, qp_error *err);
void seq_room_close(seq_room *room);
uint64_t seq_room_tokens(const seq_room *room);
kv_type seq_cache_type(qp_cache_type type); /* of all but the default */
kv_type seq_kv_type(const model *m, qp_cache_type type);
/* What the cache holds for each token of a model of this shape. */
store_shape seq_store_shape(const model_shape *s, kv_type type);

/* Whether the device has room for so many pages; QP_NO_MEMORY says what would fit. */
qp_status seq_check_room(const model *m, const store_shape *shape, uint64_t pages, qp_error *err);

void seq_open(seq *out, seq_room *room);
/* Gives the pages back. */
void seq_close(seq *s);
/* Pages for a length of `tokens`; QP_BUSY if others hold the pages, QP_TOO_LARGE if there are not that many at all. */
qp_status seq_reserve(seq *s, int64_t tokens, qp_error *err);
/* Forgets the tokens from `length` on and gives their pages back. */
void seq_rewind(seq *s, int64_t length);

/* Ids that are fed to a sequence, of which the logits of the last `last` are wanted. */
typedef struct seq_feed {
    seq *seq;
    const int32_t *ids;
    size_t count, last;
    uint64_t rope_length; /* tokens of the whole prompt; 0: as many as the sequence has after this feed */
} seq_feed;

/* Cuts the feeds into steps of at most as many rows as the device takes and runs them; a feed of one token counts as an
 * answer's, of more as a prompt's (step.h). logits [sum of last][vocabulary]. On failure the sequences are as before.
 */
qp_status seq_run(const seq_feed *feeds, int n_feeds, float *logits, qp_error *err);
/* The same of one step: feeds of one token each, no more than the device takes at once. What `digest` says of their
 * logits comes, and of these the rows that it wants. */
qp_status seq_run_digested(const seq_feed *feeds, int n_feeds, const step_digest *digest, float *logits, qp_error *err);

/* seq_best.c */
/* Feeds ids[i] to sequences[i], of one room, and makes ids[i] the id that has the highest logit behind it; of several
 * the lowest. At most as many as the device takes rows at once. On failure ids and sequences are as before. */
qp_status seq_run_best(seq *const *sequences, int32_t *ids, int n, qp_error *err);
void seq_best_close(struct seq_best *b);

#endif
