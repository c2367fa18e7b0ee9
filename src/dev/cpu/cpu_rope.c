/* cpu_rope.c — what happens to q, k and v between their products and attention: norm, rotation, into the pages.
 *
 * Called through the device's ops; calls the row kernels. Rows are counted through all spans, so that a step of many
 * short sequences is shared out as evenly as one long prompt. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include <string.h>

enum {
    PIECE = 8192,      /* values of a task */
    ALONE = 4 * PIECE, /* so many are not worth a second thread */
    SPREAD = 64,       /* elements of a key converted at once */
};

typedef struct job {
    const cpu_device *c;
    const rope_store_args *a;
    int64_t n_rows, step;
} job;

static void turn(const job *j, float *heads, int n_heads, const float *norm, int64_t row) {
    const rope_store_args *a = j->a;
    const cpu_row_ops *ops = &j->c->row;
    const int dim = a->kv.head_dim, half = a->rot_dims / 2;
    for (int h = 0; h < n_heads; h++) {
        float *head = heads + (row * n_heads + h) * dim;
        if (a->norm == HEAD_NORM_FIRST) ops->norm(head, head, norm, a->norm_eps, dim);
        if (half) (a->pairs ? ops->rope_pairs : ops->rope)(head, a->cos + row * half, a->sin + row * half, a->rot_dims);
        if (a->norm == HEAD_NORM_LAST) ops->norm(head, head, norm, a->norm_eps, dim);
    }
}

/* The group of slots that `slot` is in, of head h, in what has `dim` elements a slot. */
static uint8_t *group_at(uint8_t *page, int h, int slot, kv_type type, int dim) {
    const int group = (h * DEV_PAGE_TOKENS + slot) / DEV_KEY_GROUP;
    return page + (size_t)group * dev_kv_group_bytes(type, dim);
}

/* One row's values into slot `slot` of the page at `page`. */
static void store_values(const job *j, uint8_t *page, int slot, const float *heads) {
    const kv_view *kv = &j->a->kv;
    const size_t dim = (size_t)kv->v_dim;
    for (int h = 0; h < kv->n_kv_heads; h++, heads += dim) {
        const size_t at = ((size_t)h * DEV_PAGE_TOKENS + (size_t)slot) * dim;
        if (kv_is_quantised(kv->type))
            kv_put_value(group_at(page, h, slot, kv->type, kv->v_dim), kv->type, slot % DEV_KEY_GROUP, heads,
                         kv->v_dim);
        else if (kv->type == KV_F16)
            j->c->row.store_f16((uint16_t *)page + at, heads, kv->v_dim);
        else
            memcpy((float *)page + at, heads, dim * sizeof(float));
    }
}

/* A key's elements lie DEV_KEY_GROUP apart. */
static void spread_f16(const cpu_device *c, uint16_t *to, const float *from, int n) {
    uint16_t halves[SPREAD];
    for (int d = 0; d < n; d += SPREAD) {
        const int some = n - d < SPREAD ? n - d : SPREAD;
        c->row.store_f16(halves, from + d, some);
        for (int i = 0; i < some; i++, to += DEV_KEY_GROUP) *to = halves[i];
    }
}

static void spread_f32(float *to, const float *from, int n) {
    for (int d = 0; d < n; d++, to += DEV_KEY_GROUP) *to = from[d];
}

void cpu_store_keys(const cpu_device *c, const kv_view *kv, uint8_t *page, int slot, const float *heads) {
    const size_t dim = (size_t)kv->head_dim;
    const kv_type type = dev_key_type(kv->type);
    for (int h = 0; h < kv->n_kv_heads; h++, heads += dim) {
        const size_t at = (size_t)h * DEV_PAGE_TOKENS * dim + dev_key_at(slot, 0, kv->head_dim);
        if (kv_is_quantised(kv->type))
            kv_put_key(group_at(page, h, slot, type, kv->head_dim), type, slot % DEV_KEY_GROUP, heads, kv->head_dim);
        else if (kv->type == KV_F16)
            spread_f16(c, (uint16_t *)page + at, heads, kv->head_dim);
        else
            spread_f32((float *)page + at, heads, kv->head_dim);
    }
}

static void do_row(const void *context, const row_span *span, int i) {
    const job *j = context;
    const rope_store_args *a = j->a;
    const int64_t row = span->row + i, position = span->past + i;
    const size_t page = (size_t)span->pages[position / DEV_PAGE_TOKENS] * a->kv.page_stride;
    const int slot = (int)(position % DEV_PAGE_TOKENS);
    const int64_t kv_heads = a->kv.n_kv_heads, q_width = (int64_t)a->n_heads * a->kv.head_dim;
    turn(j, a->q, a->n_heads, a->q_norm, row);
    turn(j, a->k, a->kv.n_kv_heads, a->k_norm, row);
    if (a->q_scale) j->c->row.limit(a->q + row * q_width, (int)q_width, a->q_scale[row], 0, 0);
    if (kv_is_quantised(a->kv.type))
        for (int64_t h = 0; h < kv_heads; h++) kv_rotate_key(&a->kv, a->k + (row * kv_heads + h) * a->kv.head_dim);
    cpu_store_keys(j->c, &a->kv, a->kv.k + page, slot, a->k + row * kv_heads * a->kv.head_dim);
    store_values(j, a->kv.v + page, slot, a->v + row * kv_heads * a->kv.v_dim);
}

static void do_rows(void *context, int64_t task, int worker) {
    const job *j = context;
    cpu_each_row(j->a->spans, j->a->n_spans, task * j->step, j->step, do_row, j);
}

void cpu_each_row(const row_span *spans, int n_spans, int64_t first, int64_t count, cpu_row_fn *row,
                  const void *context) {
    for (int s = 0; s < n_spans && count > 0; s++) {
        for (; first < spans[s].n_rows && count > 0; first++, count--) row(context, &spans[s], (int)first);
        first -= spans[s].n_rows;
    }
}

void cpu_rope_store(device *d, const rope_store_args *a) {
    job j = {.c = cpu_of(d), .a = a};
    for (int s = 0; s < a->n_spans; s++) j.n_rows += a->spans[s].n_rows;
    const int64_t each = (int64_t)(a->n_heads + 2 * a->kv.n_kv_heads) * a->kv.head_dim;
    j.step = each < PIECE ? PIECE / each : 1;
    /* The keys of a group share cache lines: with many rows, one thread should write all of them. */
    const int64_t share = j.n_rows / pool_threads(j.c->pool);
    if (share >= 2 * DEV_KEY_GROUP) j.step = (j.step + DEV_KEY_GROUP - 1) / DEV_KEY_GROUP * DEV_KEY_GROUP;
    if (j.n_rows * each <= ALONE) j.step = j.n_rows > 0 ? j.n_rows : 1;
    pool_run(j.c->pool, do_rows, &j, (j.n_rows + j.step - 1) / j.step);
}
