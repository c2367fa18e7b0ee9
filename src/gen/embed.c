/* embed.c — pools hidden states into the vector of a text.
 *
 * Called by job.c, fill.c and run.c. Sums are in double and in the order of the positions, so that the vector does not
 * hang on how the prompt was cut into steps. */
#include "embed.h"
#include "base/mem.h"
#include <math.h>

qp_status embed_open(embed *e, qp_pooling pooling, size_t n_prompt, int width, qp_error *err) {
    if (pooling == QP_POOL_NONE) return QP_OK;
    if (pooling != QP_POOL_MEAN && pooling != QP_POOL_LAST)
        return err_set(err, QP_BAD_ARGUMENT, 0, "pooling is %d, allowed are none, mean and last", (int)pooling);
    e->sum = mem_zarray((size_t)width, sizeof *e->sum);
    e->vector = mem_zarray((size_t)width, sizeof *e->vector);
    if (!e->sum || !e->vector) return err_no_memory(err, (size_t)width * sizeof *e->sum, "the vector of a text");
    e->pooling = pooling;
    e->width = width;
    e->n = n_prompt;
    return QP_OK;
}

void embed_close(embed *e) {
    mem_free(e->sum);
    mem_free(e->vector);
    *e = (embed){.pooling = QP_POOL_NONE};
}

bool embed_wants(const embed *e, size_t position) {
    if (e->pooling == QP_POOL_LAST) return position + 1 == e->n;
    return e->pooling == QP_POOL_MEAN && position >= e->n_done && position < e->n;
}

/* A text whose states cancel each other out has no direction: its vector stays 0. */
static void finish(embed *e) {
    double square = 0;
    for (int i = 0; i < e->width; i++) square += e->sum[i] * e->sum[i];
    const double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (int i = 0; i < e->width; i++) e->vector[i] = (float)(e->sum[i] * scale);
}

void embed_take(embed *e, const float *states) {
    if (!e->n_rows) return;
    for (int k = 0; k < e->n_rows; k++) {
        const float *row = states + (size_t)(e->row + k) * (size_t)e->width;
        for (int i = 0; i < e->width; i++) e->sum[i] += (double)row[i];
    }
    e->n_done = e->pooling == QP_POOL_LAST ? e->n : e->n_done + (size_t)e->n_rows;
    e->n_rows = 0;
    if (e->n_done == e->n) finish(e);
}
