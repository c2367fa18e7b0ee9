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

/* Divided where positive, else multiplied: chosen by the sign's bit, which no branch could foresee. */
typedef struct repetition {
    float divisors[2], factors[2];
} repetition;

static inline repetition repetition_of(float penalty) { return (repetition){{penalty, 1}, {1, penalty}}; }

static inline float repeated(const repetition *r, float logit) {
    const uint32_t is_negative = num_bits(logit) >> 31;
    return logit / r->divisors[is_negative] * r->factors[is_negative];
}

static void apply_counts(const penalty_counts *c, const qp_sampling *s, logit_row *row) {
    const repetition r = repetition_of(s->repetition_penalty);
    const float presence = s->presence_penalty, frequency = s->frequency_penalty;
    for (int i = 0; i < c->n_ids; i++) {
        const int32_t id = c->ids[i];
        float *logit = row_touch(row, id);
        if (logit) *logit = row_within(*logit, repeated(&r, *logit) - presence - frequency * (float)c->counts[id]);
    }
}

/* ---- a range ---- */

/* How much of the penalties is left for the i-th newest token. */
static float left(size_t i, size_t range, size_t decay) {
    return i <= range ? 1 : 1 - (float)(i - range) / (float)decay;
}

static void apply_once(const qp_sampling *s, sampler_room *room, int32_t id, float share) {
    float *logit = row_touch(&room->row, id);
    if (!logit) return;
    const bool is_newest = !row_bit(room->seen, id);
    room->seen[id / 32] |= 1u << (id % 32);
    float changed = *logit;
    const repetition r = repetition_of(1 + (s->repetition_penalty - 1) * share);
    if (is_newest) changed = repeated(&r, changed) - s->presence_penalty * share;
    *logit = row_within(*logit, changed - s->frequency_penalty * share);
}

static void apply_range(const qp_sampling *s, sampler_room *room, const int32_t *history, size_t n) {
    const size_t range = (size_t)s->penalty_range, decay = (size_t)s->penalty_decay;
    const size_t end = n < range + decay ? n : range + decay;
    for (size_t i = 0; i < end; i++) {
        const int32_t id = history[n - 1 - i];
        if (id >= 0 && id < room->row.n) apply_once(s, room, id, left(i, range, decay));
    }
    for (size_t i = 0; i < end; i++) {
        const int32_t id = history[n - 1 - i];
        if (id >= 0 && id < room->row.n) room->seen[id / 32] = 0;
    }
}

void penalties_apply(penalty_counts *c, const qp_sampling *s, sampler_room *room, const int32_t *history, size_t n) {
    if (!c->counts) {
        apply_range(s, room, history, n);
        return;
    }
    count(c, history, n);
    apply_counts(c, s, &room->row);
}
