/* penalties.c — repetition (Keskar et al. 2019), frequency and presence penalties, with range and decay.
 *
 * Over all of the history the penalties depend on counts alone, which grow by one a step. Over a range they are found
 * by walking it from the newest token: the newest occurrence of an id decides how far its repetition and presence
 * penalties have faded, each occurrence adds its own share of the frequency penalty. */
#include "penalties.h"
#include "num.h"
#include "base/mem.h"

bool penalties_are_on(const qp_sampling *s) {
    return (s->repetition_penalty != 0 && s->repetition_penalty != 1) || s->frequency_penalty != 0 ||
           s->presence_penalty != 0;
}

qp_status penalties_open(penalty_counts *c, const qp_sampling *s, int n_tokens, qp_error *err) {
    *c = (penalty_counts){.n_tokens = n_tokens};
    if (!penalties_are_on(s) || s->penalty_range > 0) return QP_OK;
    c->counts = mem_zarray((size_t)n_tokens, sizeof *c->counts);
    c->ids = mem_array((size_t)n_tokens, sizeof *c->ids);
    if (c->counts && c->ids) return QP_OK;
    penalties_close(c);
    return err_no_memory(err, (size_t)n_tokens * sizeof *c->counts, "counts for repetition penalties");
}

void penalties_close(penalty_counts *c) {
    mem_free(c->counts);
    mem_free(c->ids);
    *c = (penalty_counts){0};
}

void penalties_forget(penalty_counts *c) {
    for (int i = 0; i < c->n_ids; i++) c->counts[c->ids[i]] = 0;
    c->n_ids = 0;
    c->n_counted = 0;
}

/* ---- all of the history ---- */

static void count(penalty_counts *c, const int32_t *history, size_t n) {
    if (n < c->n_counted || (c->n_counted && history[c->n_counted - 1] != c->last)) penalties_forget(c);
    for (size_t i = c->n_counted; i < n; i++) {
        const int32_t id = history[i];
        if (id >= 0 && id < c->n_tokens && !c->counts[id]++) c->ids[c->n_ids++] = id;
    }
    c->n_counted = n;
    c->last = n ? history[n - 1] : 0;
}

static void apply_counts(const penalty_counts *c, const qp_sampling *s, change_sink *to) {
    for (int i = 0; i < c->n_ids; i++) {
        const float count = (float)c->counts[c->ids[i]];
        const digest_change change = {c->ids[i], s->repetition_penalty, s->presence_penalty,
                                      s->frequency_penalty * count};
        change_put(to, &change);
    }
}

/* ---- a range ---- */

/* How much of the penalties is left for the i-th newest token. */
static float left(size_t i, size_t range, size_t decay) {
    return i <= range ? 1 : 1 - (float)(i - range) / (float)decay;
}

static void apply_once(const qp_sampling *s, change_sink *to, uint32_t *seen, int32_t id, float share) {
    digest_change change = {id, 1, 0, s->frequency_penalty * share};
    if (!row_bit(seen, id)) {
        change.divisor = 1 + (s->repetition_penalty - 1) * share;
        change.minus = s->presence_penalty * share;
    }
    seen[id / 32] |= 1u << (id % 32);
    change_put(to, &change);
}

static void apply_range(const penalty_counts *c, const qp_sampling *s, change_sink *to, uint32_t *seen,
                        const int32_t *history, size_t n) {
    const size_t range = (size_t)s->penalty_range, decay = (size_t)s->penalty_decay;
    const size_t end = n < range + decay ? n : range + decay;
    for (size_t i = 0; i < end; i++) {
        const int32_t id = history[n - 1 - i];
        if (id >= 0 && id < c->n_tokens) apply_once(s, to, seen, id, left(i, range, decay));
    }
    for (size_t i = 0; i < end; i++) {
        const int32_t id = history[n - 1 - i];
        if (id >= 0 && id < c->n_tokens) seen[id / 32] = 0;
    }
}

void penalties_apply(penalty_counts *c, const qp_sampling *s, change_sink *to, uint32_t *seen, const int32_t *history,
                     size_t n) {
    if (!c->counts) {
        apply_range(c, s, to, seen, history, n);
        return;
    }
    count(c, history, n);
    apply_counts(c, s, to);
}
