/* temperature.c — division of the logits before the truncations, or of the surviving probabilities after them. */
#include "sampler_table.h"
#include <math.h>

bool temperature_is_greedy(const qp_sampling *s) { return s->temperature < 0.01f || s->top_k == 1; }
float temperature_first(const qp_sampling *s) { return s->temperature_last ? 1.0f : s->temperature; }

static bool is_on(const qp_sampling *s) { return s->temperature_last && s->temperature != 1.0f; }

/* p^(1/T), relative to the largest so that nothing over- or underflows before it must. */
static void apply(candidate_list *c, const qp_sampling *s) {
    float largest = c->at[0].p;
    for (int i = 1; i < c->n; i++) largest = c->at[i].p > largest ? c->at[i].p : largest;
    c->sum = 0;
    for (int i = 0; i < c->n; i++) {
        c->at[i].p = powf(c->at[i].p / largest, 1.0f / s->temperature);
        c->sum += c->at[i].p;
    }
}

const sampler_row sampler_temperature_last = {"temperature_last", is_on, apply};
