/* cpu_latent.c — the latents of multi-head latent attention: norm, rotation, into the pages.
 *
 * Called through the device's ops; calls the row kernels. Only what is rotated passes through here for queries: the
 * other part of q comes from a matrix product that writes beside it. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include <string.h>

enum { PIECE = 8192, ALONE = 4 * PIECE }; /* values of a task; so many are not worth a second thread */

typedef struct job {
    const cpu_device *c;
    const latent_store_args *a;
    int64_t n_rows, step;
} job;

static void turn(const job *j, float *x, int64_t row) {
    const latent_store_args *a = j->a;
    const int half = a->rot_dims / 2;
    (a->pairs ? j->c->row.rope_pairs : j->c->row.rope)(x, a->cos + row * half, a->sin + row * half, a->rot_dims);
}

static void do_row(const void *context, const row_span *span, int i) {
    const job *j = context;
    const latent_store_args *a = j->a;
    const int64_t row = span->row + i, position = span->past + i;
    const int rank = a->kv.v_dim, dim = a->kv.head_dim;
    float *latent = a->latent + row * dim;
    j->c->row.norm(latent, latent, a->norm, a->norm_eps, rank);
    turn(j, latent + rank, row);
    if (kv_is_quantised(a->kv.type)) kv_rotate_key(&a->kv, latent);
    const size_t page = (size_t)span->pages[position / DEV_PAGE_TOKENS] * a->kv.page_stride;
    cpu_store_keys(j->c, &a->kv, a->kv.k + page, (int)(position % DEV_PAGE_TOKENS), latent);
    for (int h = 0; h < a->n_heads; h++) {
        float *q = a->q + (row * a->n_heads + h) * dim + rank;
        memcpy(q, a->heads + (row * a->n_heads + h + 1) * a->heads_dim - a->rot_dims, (size_t)a->rot_dims * sizeof *q);
        turn(j, q, row);
    }
}

static void do_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    cpu_each_row(j->a->spans, j->a->n_spans, task * j->step, j->step, do_row, j);
}

void cpu_latent_store(device *d, const latent_store_args *a) {
    job j = {.c = cpu_of(d), .a = a};
    for (int s = 0; s < a->n_spans; s++) j.n_rows += a->spans[s].n_rows;
    const int64_t each = (int64_t)a->n_heads * a->rot_dims + 2 * (int64_t)a->kv.head_dim;
    j.step = each < PIECE ? PIECE / each : 1;
    if (j.n_rows * each <= ALONE) j.step = j.n_rows > 0 ? j.n_rows : 1;
    pool_run(j.c->pool, do_rows, &j, (j.n_rows + j.step - 1) / j.step);
}
