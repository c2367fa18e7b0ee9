/* rounded.c — float16 weights as BF16 rows of their own.
 *
 * See rounded.h. Each task is some numbers in the order of the matrix, so the source is read once, piece by piece. To
 * round on the way into every product instead costs more than the rest of it where rows are few: three instructions of
 * a float unit for each that multiplies. */
#include "rounded.h"
#include "base/hash.h"
#include "base/mem.h"

enum { TASK = 1 << 16 }; /* numbers */

typedef struct job {
    cpu_round_f16 *round;
    const uint8_t *from;
    uint16_t *to;
    int64_t n;
} job;

static void round_some(void *context, int64_t task, int worker) {
    const job *j = context;
    const int64_t begin = task * TASK, left = j->n - begin;
    j->round(j->to + begin, j->from + 2 * begin, left < TASK ? left : TASK);
}

static uint64_t key_of(const dev_weight *w) {
    const int64_t numbers[] = {w->type->id, QUANT_BF16, w->n_out, w->n_in};
    return hash_bytes(numbers, sizeof numbers, w->key);
}

static qp_status make(void **out, const dev_weight *w, size_t bytes, cpu_round_f16 *round, pool *p, qp_error *err) {
    *out = mem_big(bytes);
    if (!*out) return err_no_memory(err, bytes, "a rounded weight");
    job j = {round, w->data, *out, w->n_out * w->n_in};
    pool_run(p, round_some, &j, (j.n + TASK - 1) / TASK);
    return QP_OK;
}

qp_status rounded_open(dev_weight *w, cpu_round_f16 *round, pool *p, pack_cache *cache, qp_error *err) {
    if (w->type->id != QUANT_F16) return QP_OK;
    const size_t bytes = 2 * (size_t)w->n_out * (size_t)w->n_in; /* as many as are stored: weight_open looked */
    const uint64_t key = w->key && cache ? key_of(w) : 0;
    const void *at = key ? pack_cache_find(cache, key, bytes) : NULL;
    if (!at) {
        ERR_TRY(make(&w->owned, w, bytes, round, p, err));
        w->owned_bytes = bytes;
        at = w->owned;
        if (key) pack_cache_add(cache, key, at, bytes);
    }
    w->data = at;
    w->type = quant_type_of(QUANT_BF16);
    return QP_OK;
}

bool rounded_is(const dev_weight *w) { return w->type && w->type != w->stored.type; }

void rounded_close(dev_weight *w) {
    if (w->owned) mem_big_free(w->owned, w->owned_bytes); /* else it is the cache's */
    w->owned = NULL;
    w->data = NULL;
}
