/* rounded.c — float16 weights as BF16 ones of their own, in rows or woven.
 *
 * See rounded.h. Each task is some numbers in the order of the matrix, or some columns, so the source is read once. To
 * round on the way into every product instead costs more than the rest of it where rows are few: three instructions of
 * a float unit for each that multiplies. */
#include "rounded.h"
#include "base/hash.h"
#include "base/mem.h"

enum { TASK = 1 << 16 }; /* numbers */

typedef struct job {
    const dev_weight *w;
    cpu_round_f16 *round;
    const cpu_weaving *weaving; /* NULL: rows */
    void *to;
    size_t bytes;
    int64_t n, task; /* numbers or columns, in all and of a task */
} job;

static void round_some(void *context, int64_t task, int worker) {
    const job *j = context;
    const int64_t begin = task * j->task, end = j->n - begin < j->task ? j->n : begin + j->task;
    if (j->weaving)
        j->weaving->weave(j->to, j->w, begin, end);
    else
        j->round((uint16_t *)j->to + begin, (const uint8_t *)j->w->data + 2 * begin, end - begin);
}

static job plan(const dev_weight *w, const cpu_matmul_ops *by) {
    const cpu_matmul_kernel *kernel = by->fast[QUANT_BF16];
    const cpu_weaving *weaving = kernel ? kernel->weaving : NULL;
    job j = {.w = w, .round = by->round_f16, .weaving = weaving};
    j.n = weaving ? w->n_out : w->n_out * w->n_in;
    j.task = weaving ? weaving->columns : TASK;
    /* as many as are stored: weight_open looked */
    j.bytes = weaving ? weaving->bytes(w->n_out, w->n_in) : 2 * (size_t)w->n_out * (size_t)w->n_in;
    return j;
}

static uint64_t key_of(const job *j) {
    const dev_weight *w = j->w;
    const int64_t numbers[] = {w->type->id, QUANT_BF16, w->n_out, w->n_in, j->weaving ? j->weaving->columns : 0};
    return hash_bytes(numbers, sizeof numbers, w->key);
}

static qp_status make(job *j, pool *p, qp_error *err) {
    j->to = mem_big(j->bytes);
    if (!j->to) return err_no_memory(err, j->bytes, "a rounded weight");
    pool_run(p, round_some, j, (j->n + j->task - 1) / j->task);
    return QP_OK;
}

qp_status rounded_open(dev_weight *w, const cpu_matmul_ops *by, pool *p, pack_cache *cache, qp_error *err) {
    if (w->type->id != QUANT_F16) return QP_OK;
    job j = plan(w, by);
    const uint64_t key = w->key && cache ? key_of(&j) : 0;
    const void *at = key ? pack_cache_find(cache, key, j.bytes) : NULL;
    if (!at) {
        ERR_TRY(make(&j, p, err));
        w->owned = j.to;
        w->owned_bytes = j.bytes;
        at = w->owned;
        if (key) pack_cache_add(cache, key, at, j.bytes);
    }
    w->data = at;
    w->type = quant_type_of(QUANT_BF16);
    w->is_woven = j.weaving;
    return QP_OK;
}

bool rounded_is(const dev_weight *w) { return w->type && w->type != w->stored.type; }

void rounded_close(dev_weight *w) {
    if (w->owned) mem_big_free(w->owned, w->owned_bytes); /* else it is the cache's */
    w->owned = NULL;
    w->data = NULL;
}
