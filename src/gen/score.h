/* score.h — the probabilities of a prompt's own tokens, for those who score texts.
 *
 * The engine fills them while the prompt is read, some rows in each step; the reader sees how many are done. Entry i is
 * about token i + 1: the first one follows nothing. */
#ifndef GEN_SCORE_H
#define GEN_SCORE_H

#include "base/err.h"
#include <stdatomic.h>

/* Zero-initialised scores nothing. */
typedef struct score {
    qp_token *tokens;  /* [n] */
    qp_candidate *top; /* [n][n_top] */
    size_t n;
    int n_top;
    atomic_size_t n_done;
    int row, n_rows; /* logits of this step: the first one's place, how many */
} score;

qp_status score_open(score *s, size_t n_prompt, int n_top, qp_error *err);
void score_close(score *s);
static inline bool score_is_open(score *s) { return atomic_load_explicit(&s->n_done, memory_order_relaxed) < s->n; }
/* Rows whose logits one step may hold for scoring. */
int score_most_rows(int vocabulary);
/* Takes this step's rows, the next s->n_rows tokens of the prompt `ids`. */
void score_take(score *s, const float *logits, int vocabulary, const int32_t *ids);

#endif
