/* ref_attend.c — attention over one page in plain C and double precision: the truth for every other level.
 *
 * Query by query; only what goes from page to page is float32. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include <math.h>

static double element_at(const void *elements, size_t i, kv_type type) {
    return type == KV_F16 ? quant_f16_to_f32(((const uint16_t *)elements)[i]) : ((const float *)elements)[i];
}

static const uint8_t *group_at(const void *base, int slot, kv_type type, int dim) {
    return (const uint8_t *)base + (size_t)(slot / DEV_KEY_GROUP) * dev_kv_group_bytes(type, dim);
}

static double key_at(const cpu_attend_page *a, int slot, int d) {
    if (!kv_is_quantised(a->k_type)) return element_at(a->k, dev_key_at(slot, d, a->head_dim), a->k_type);
    return kv_get_key(group_at(a->k, slot, a->k_type, a->head_dim), a->k_type, slot % DEV_KEY_GROUP, d);
}

static double value_at(const cpu_attend_page *a, int slot, int d) {
    if (!a->v) return key_at(a, slot, d);
    if (!kv_is_quantised(a->v_type)) return element_at(a->v, (size_t)slot * (size_t)a->v_dim + (size_t)d, a->v_type);
    return kv_get_value(group_at(a->v, slot, a->v_type, a->v_dim), a->v_type, a->v_dim, slot % DEV_KEY_GROUP, d);
}

/* Scores of query `i` for the slots it sees; returns the greatest. */
static double score(double *scores, const cpu_attend_page *a, int i) {
    const float *q = a->q + (size_t)i * (size_t)a->head_dim;
    double best = -INFINITY;
    for (int slot = a->begin[i]; slot < a->end[i]; slot++) {
        double sum = 0;
        for (int d = 0; d < a->head_dim; d++) sum += q[d] * key_at(a, slot, d);
        if (a->cap != 0) sum = a->cap * tanh(sum / a->cap);
        scores[slot] = sum;
        if (!(sum <= best)) best = sum; /* lets NaN through */
    }
    return best;
}

static void attend_query(const cpu_attend_page *a, int i) {
    double weights[DEV_PAGE_TOKENS], total = 0;
    const double best = (float)score(weights, a, i);
    for (int slot = a->begin[i]; slot < a->end[i]; slot++) total += weights[slot] = exp(weights[slot] - best);
    for (int d = 0; d < a->v_dim; d++) {
        double mixed = 0;
        for (int slot = a->begin[i]; slot < a->end[i]; slot++) mixed += weights[slot] * value_at(a, slot, d);
        a->to.sum[(size_t)i * (size_t)a->v_dim + (size_t)d] = (float)mixed;
    }
    a->to.best[i] = (float)best;
    a->to.total[i] = (float)total;
}

static void page_any(const cpu_attend_page *a) {
    for (int i = 0; i < a->n_queries; i++) attend_query(a, i);
}

static void merge_query(const cpu_attend_state *s, const cpu_attend_state *more, int i, int dim) {
    float *sum = s->sum + (size_t)i * (size_t)dim;
    const float *add = more->sum + (size_t)i * (size_t)dim;
    if (more->total[i] == 0) return;
    const float best = fmaxf(s->best[i], more->best[i]);
    const double old = exp((double)s->best[i] - best), new = exp((double)more->best[i] - best);
    s->best[i] = best;
    s->total[i] = (float)(s->total[i] * old + more->total[i] * new);
    for (int d = 0; d < dim; d++) sum[d] = (float)(sum[d] * old + add[d] * new);
}

static void merge(const cpu_attend_state *s, const cpu_attend_state *more, int n_queries, int v_dim) {
    for (int i = 0; i < n_queries; i++) merge_query(s, more, i, v_dim);
}

const cpu_attend_ops cpu_attend_ref = {
    .page_f16 = page_any, .page_f32 = page_any, .page_quantised = page_any, .merge = merge};
