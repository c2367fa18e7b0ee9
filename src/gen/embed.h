/* embed.h — a prompt as one vector, for those who compare texts: its hidden states behind the final norm, pooled.
 *
 * The engine takes them while the prompt is read; the reader may look when the job has ended. */
#ifndef GEN_EMBED_H
#define GEN_EMBED_H

#include "base/err.h"

/* Zero-initialised embeds nothing. */
typedef struct embed {
    qp_pooling pooling;
    int width;
    double *sum;   /* [width] */
    float *vector; /* [width], of length 1, when it is complete */
    size_t n, n_done;
    int row, n_rows; /* states of this step: the first one's place, how many */
} embed;

qp_status embed_open(embed *e, qp_pooling pooling, size_t n_prompt, int width, qp_error *err);
void embed_close(embed *e);
static inline bool embed_is_on(const embed *e) { return e->pooling != QP_POOL_NONE; }
static inline bool embed_is_complete(const embed *e) { return embed_is_on(e) && e->n_done == e->n; }
/* Is every state of the prompt still needed? Then nothing may be found in the cache. */
static inline bool embed_needs_all(const embed *e) { return e->pooling == QP_POOL_MEAN && e->n_done < e->n; }
/* Is the state at this position of the prompt needed? */
bool embed_wants(const embed *e, size_t position);
/* Takes this step's rows, e->n_rows of them from e->row on. */
void embed_take(embed *e, const float *states);

#endif
