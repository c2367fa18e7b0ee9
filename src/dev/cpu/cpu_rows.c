/* cpu_rows.c — embedding, norm, gates and other steps row by row: which rows, and on how many threads.
 *
 * Called through the device's ops; calls the row kernels. Where a plain loop is shorter than a meeting of the threads
 * (about two microseconds), it runs on the calling thread: always so for one row of a small model. */
#include "cpu.h"
#include <assert.h>
#include <math.h>

enum {
    PIECE = 8192,      /* values of a task */
    ALONE = 2 * PIECE, /* so many are not worth a second thread */
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
    const int64_t dim = a->table->n_in;
    float *scratch = cpu_scratch(j->c, worker);
    for (int64_t row = task * j->step; row < end_of(j, task); row++) {
        float *out = a->out + row * dim;
        j->c->row.embed(a->add ? scratch : out, a->table, a->ids[row], a->scale);
        if (a->add) j->c->row.add(out, scratch, 1, (int)dim);
    }
}

void cpu_embed(device *d, const embed_args *a) {
    assert(!a->add || (size_t)a->table->n_in * sizeof(float) <= cpu_of(d)->scratch_bytes);
    share(cpu_of(d), embed_rows, a, a->n_rows, a->table->n_in);
}

/* ---- norm ---- */

typedef struct packed_norm {
    job rows;
    const norm_args *args;
    const cpu_matmul_kernel *kernel; /* of the next product */
} packed_norm;

static void norm_head(const job *j, const norm_args *a, float *out, const float *x, int head) {
    const float *weight = a->own_weights ? a->weight + (int64_t)head * a->dim : a->weight;
    if (a->kind == NORM_RMS)
        j->c->row.norm(out, x, weight, a->eps, a->dim);
    else
        j->c->row.layer_norm(out, x, weight, a->bias, a->eps, a->dim);
}

static void norm_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    const norm_args *a = j->args;
    const int heads = a->heads ? a->heads : 1;
    const int64_t width = (int64_t)heads * a->dim;
    for (int64_t row = task * j->step; row < end_of(j, task); row++) {
        const int64_t from = a->rows ? a->rows[row] : row;
        for (int h = 0; h < heads; h++)
            norm_head(j, a, a->out + row * width + (int64_t)h * a->dim, a->x + from * width + (int64_t)h * a->dim, h);
    }
}

/* As many rows as are packed together go through the worker's scratch memory. */
static void norm_packed(void *context, int64_t task, int worker) {
    const packed_norm *j = context;
    const norm_args *a = j->args;
    const int64_t begin = task * CPU_PACK_ROWS;
    const int64_t end = begin + CPU_PACK_ROWS < a->n_rows ? begin + CPU_PACK_ROWS : a->n_rows;
    const cpu_pack_part part = {cpu_scratch(j->rows.c, worker), a->dim, (int)begin, (int)end, 0, a->dim};
    float *rows = cpu_scratch(j->rows.c, worker);
    for (int64_t row = begin; row < end; row++)
        norm_head(&j->rows, a, rows + (row - begin) * a->dim, a->x + row * a->dim, 0);
    j->kernel->pack_part(a->out, a->n_rows, a->dim, &part);
}

/* Where the next product alone reads the result, it is left as that wants it. */
static bool norm_ahead(cpu_device *c, const norm_args *a) {
    const cpu_matmul_kernel *kernel = cpu_matmul_ahead(c, a->next, a->n_next, a->n_rows, a->n_prompt, a->dim);
    if (!kernel || a->rows || a->heads > 1 || a->out == a->x) return false;
    if ((size_t)a->dim * CPU_PACK_ROWS * sizeof(float) > c->scratch_bytes) return false;
    packed_norm j = {.rows = {.c = c, .args = a}, .args = a, .kernel = kernel};
    pool_run(c->pool, norm_packed, &j, (a->n_rows + CPU_PACK_ROWS - 1) / CPU_PACK_ROWS);
    c->left = a->out;
    return true;
}

void cpu_norm(device *d, const norm_args *a) {
    if (norm_ahead(cpu_of(d), a)) return;
    share(cpu_of(d), norm_rows, a, a->n_rows, (int64_t)a->dim * (a->heads ? a->heads : 1));
}

/* ---- value by value, so where a row begins does not matter ---- */

/* The values [from, from + n) of this task's next piece; false behind the last. */
static bool next_piece(const job *j, int64_t task, int64_t *from, int *n) {
    const int64_t end = end_of(j, task);
    *from = *n ? *from + *n : task * j->step;
    *n = (int)(end - *from < PIECE ? end - *from : PIECE);
    return *n > 0;
}

static void gate_values(void *context, int64_t task, int worker) {
    const job *j = context;
    const gate_args *a = j->args;
    int64_t i = 0;
    for (int n = 0; next_piece(j, task, &i, &n);) j->c->row.gate[a->act](a->gate + i, a->up ? a->up + i : NULL, n);
}

void cpu_gate(device *d, const gate_args *a) { share(cpu_of(d), gate_values, a, (int64_t)a->n_rows * a->dim, 1); }

static void clamped_values(void *context, int64_t task, int worker) {
    const job *j = context;
    const clamped_gate_args *a = j->args;
    int64_t i = 0;
    for (int n = 0; next_piece(j, task, &i, &n);) j->c->row.clamped_gate(a->gate + i, a->up + i, n, a->alpha, a->limit);
}

void cpu_clamped_gate(device *d, const clamped_gate_args *a) {
    share(cpu_of(d), clamped_values, a, (int64_t)a->n_rows * a->dim, 1);
}

static void xielu_values(void *context, int64_t task, int worker) {
    const job *j = context;
    const xielu_args *a = j->args;
    int64_t i = 0;
    for (int n = 0; next_piece(j, task, &i, &n);) j->c->row.xielu(a->x + i, n, a);
}

void cpu_xielu(device *d, const xielu_args *a) { share(cpu_of(d), xielu_values, a, (int64_t)a->n_rows * a->dim, 1); }

static void limit_values(void *context, int64_t task, int worker) {
    const job *j = context;
    const limit_args *a = j->args;
    int64_t i = 0;
    for (int n = 0; next_piece(j, task, &i, &n);) j->c->row.limit(a->x + i, n, a->scale, a->cap, a->limit);
}

void cpu_limit(device *d, const limit_args *a) { share(cpu_of(d), limit_values, a, (int64_t)a->n_rows * a->dim, 1); }

/* ---- adding ---- */

static void add_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    const add_args *a = j->args;
    for (int64_t row = task * j->step; row < end_of(j, task); row++) {
        const float gate = a->row_gate ? (float)(1 / (1 + exp(-(double)a->row_gate[row]))) : 1;
        j->c->row.add(a->to + row * a->dim, a->from + row * a->dim, a->scale * gate, a->dim);
    }
}

void cpu_add(device *d, const add_args *a) { share(cpu_of(d), add_rows, a, a->n_rows, a->dim); }
