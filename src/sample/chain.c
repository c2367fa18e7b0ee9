/* chain.c — from logits to a token: softmax, the stages of sampler_table.c, one random number, the pick.
 *
 * Called by gen/ for each token. The logits are read only. The random number comes from a counter-based generator
 * keyed by seed and position, so the same seed gives the same text whatever else runs. */
#include "chain.h"
#include "sampler_table.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

qp_status sampler_open(sampler *out, int n_vocabulary, qp_error *err) {
    *out = (sampler){mem_array((size_t)n_vocabulary, sizeof(candidate)), mem_array((size_t)n_vocabulary, sizeof(float)),
                     n_vocabulary};
    if (out->room && out->penalised) return QP_OK;
    sampler_close(out);
    return err_no_memory(err, (size_t)n_vocabulary * sizeof(candidate), "the sampler");
}

void sampler_close(sampler *s) {
    mem_free(s->room);
    mem_free(s->penalised);
    *s = (sampler){0};
}

static qp_status check_number(const char *name, double value, double lowest, qp_error *err) {
    if (value >= lowest && value <= 1e6) return QP_OK;
    return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: %s is %g, allowed are %g to 1e6", name, value, lowest);
}

qp_status sampling_check(const qp_sampling *s, qp_error *err) {
    ERR_TRY(check_number("temperature", s->temperature, 0, err));
    ERR_TRY(check_number("top_p", s->top_p, 0, err));
    ERR_TRY(check_number("min_p", s->min_p, 0, err));
    ERR_TRY(check_number("repetition_penalty", s->repetition_penalty, 0, err));
    if (s->top_k < 0)
        return err_set(err, QP_BAD_ARGUMENT, 0, "sampling: top_k is %d, allowed are 0 and more", s->top_k);
    return QP_OK;
}

/* ---- candidates ---- */

static int by_probability(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->id > y->id) - (x->id < y->id);
}

void candidates_sort(candidate_list *c) {
    if (!c->is_sorted) qsort(c->at, (size_t)c->n, sizeof *c->at, by_probability);
    c->is_sorted = true;
}

void candidates_cut(candidate_list *c, int n) {
    c->n = n;
    c->sum = 0;
    for (int i = 0; i < n; i++) c->sum += c->at[i].p;
}

/* ---- softmax ---- */

/* e^x for x <= 0, and 0 for NaN; relative error under 2e-7: 2^n by the exponent bits, the rest by a polynomial (the
 * coefficients are the Taylor series'; |r| <= ln(2)/2). A plain loop over it becomes vector code. */
static inline float exp_below(float x) {
    const float clamped = x > -87.0f ? x : -87.0f, n = rintf(clamped * 1.44269504f);
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    const float poly = 1 + r * (1 + r * (0.5f + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720))))));
    const uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return x > -87.0f ? poly * power : 0;
}

/* The highest logit's id, the lowest of equal ones; -1 if none is a number. */
static int32_t best_of(const float *logits, int n) {
    int32_t best = -1;
    float highest = -INFINITY;
    for (int i = 0; i < n; i++)
        if (logits[i] > highest) highest = logits[best = i];
    return best;
}

static candidate_list softmax(sampler *s, const float *logits, float highest, float temperature) {
    candidate_list c = {.at = s->room, .n = s->n_vocabulary};
    const float inverse = 1 / temperature;
    for (int i = 0; i < c.n; i++) {
        c.at[i] = (candidate){i, exp_below((logits[i] - highest) * inverse)}; /* NaN is no candidate */
    }
    for (int i = 0; i < c.n; i++) c.sum += c.at[i].p;
    return c;
}

/* ---- the pick ---- */

/* The first candidate at which the running sum passes the random share; rounding cannot lead past the last one with
 * any probability. */
static int32_t draw(const candidate_list *c, double uniform) {
    const double target = uniform * c->sum;
    double sum = 0;
    int32_t last = c->at[0].id;
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].p <= 0) continue;
        last = c->at[i].id;
        sum += c->at[i].p;
        if (sum > target) break;
    }
    return last;
}

/* ---- repetition ---- */

static bool penalty_is_on(const qp_sampling *s) { return s->repetition_penalty != 0 && s->repetition_penalty != 1; }

/* A copy of the logits in which each id of the history is penalised once, however often it occurs. */
static const float *penalise(sampler *s, const float *logits, float penalty, const int32_t *history, size_t n) {
    memcpy(s->penalised, logits, (size_t)s->n_vocabulary * sizeof *logits);
    for (size_t i = 0; i < n; i++) {
        const int32_t id = history[i];
        if (id < 0 || id >= s->n_vocabulary) continue;
        s->penalised[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
    return s->penalised;
}

int32_t sampler_pick(sampler *s, const float *logits, const qp_sampling *settings, uint64_t position,
                     const int32_t *history, size_t n_history) {
    if (penalty_is_on(settings)) logits = penalise(s, logits, settings->repetition_penalty, history, n_history);
    const int32_t best = best_of(logits, s->n_vocabulary);
    if (best < 0 || temperature_is_greedy(settings) || !isfinite(logits[best]))
        return best >= 0 && logits[best] < INFINITY ? best : -1;
    candidate_list c = softmax(s, logits, logits[best], temperature_first(settings));
    for (int i = 0; i < sampler_n_rows && c.n > 1; i++)
        if (sampler_rows[i]->is_on(settings)) sampler_rows[i]->apply(&c, settings);
    return draw(&c, rng_uniform(settings->seed, 0, position));
}
