/* cpu_rows.c — embedding, norm and gate: which rows, and on how many threads.
 *
 * Called through the device's ops; calls the row kernels. Where a plain loop is shorter than a meeting of the threads
 * (about two microseconds), it runs on the calling thread: always so for one row of a small model. */
#include "cpu.h"

enum {
    PIECE = 8192,      /* values of a task */
    ALONE = 4 * PIECE, /* so many are not worth a second thread */
};

typedef struct job {
    const cpu_device *c;
    const void *args;
    int64_t n, step; /* rows, or values for gates; a task's share */
} job;

static int64_t end_of(const job *j, int64_t task) {
    const int64_t end = (task + 1) * j->step;
    return end < j->n ? end : j->n;
}

/* `n` items of `each` values. */
static void share(const cpu_device *c, pool_fn *fn, const void *args, int64_t n, int64_t each) {
    job j = {.c = c, .args = args, .n = n, .step = each < PIECE ? PIECE / each : 1};
    if (n * each <= ALONE) j.step = n > 1 ? n : 1;
    pool_run(c->pool, fn, &j, (n + j.step - 1) / j.step);
}

/* ---- embedding ---- */

static void embed_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    const embed_args *a = j->args;
    for (int64_t row = task * j->step; row < end_of(j, task); row++)
        j->c->row.embed(a->out + row * a->table->n_in, a->table, a->ids[row], a->scale);
}

void cpu_embed(device *d, const embed_args *a) { share(cpu_of(d), embed_rows, a, a->n_rows, a->table->n_in); }

/* ---- norm ---- */

static void norm_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    const norm_args *a = j->args;
    for (int64_t row = task * j->step; row < end_of(j, task); row++) {
        const int64_t from = a->rows ? a->rows[row] : row;
        j->c->row.norm(a->out + row * a->dim, a->x + from * a->dim, a->weight, a->eps, a->dim);
    }
}

void cpu_norm(device *d, const norm_args *a) { share(cpu_of(d), norm_rows, a, a->n_rows, a->dim); }

/* ---- gate ---- */

/* Value by value, so where a row begins does not matter. */
static void gate_values(void *context, int64_t task, int worker) {
    const job *j = context;
    const gate_args *a = j->args;
    const int64_t end = end_of(j, task);
    for (int64_t i = task * j->step; i < end; i += PIECE)
        j->c->row.gate[a->act](a->gate + i, a->up + i, (int)(end - i < PIECE ? end - i : PIECE));
}

void cpu_gate(device *d, const gate_args *a) { share(cpu_of(d), gate_values, a, (int64_t)a->n_rows * a->dim, 1); }
