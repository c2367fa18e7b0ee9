/* temperature.c — division of the logits before the truncations, or of the surviving exponents after them. */
#include "sampler_table.h"
#include "num.h"

static const float greedy_below = 0.01f;

bool temperature_is_greedy(const qp_sampling *s) { return s->temperature < greedy_below || s->top_k == 1; }
float temperature_first(const qp_sampling *s) { return s->temperature_last ? 1.0f : s->temperature; }

void temperature_apply(candidate_list *c, double temperature) {
    if (temperature < greedy_below) {
        candidates_keep_best(c);
        return;
    }
    float greatest = c->x[0];
    for (int i = 1; i < c->n; i++) greatest = c->x[i] > greatest ? c->x[i] : greatest;
    const float inverse = (float)(1 / temperature);
    for (int i = 0; i < c->n; i++) {
        c->x[i] = (c->x[i] - greatest) * inverse;
        c->p[i] = num_exp2_below(c->x[i]);
    }
    candidates_add_up(c);
}

static bool is_on(const qp_sampling *s) { return s->temperature_last && s->temperature != 1.0f && !dynatemp_is_on(s); }

static void apply(candidate_list *c, const stage_view *v) { temperature_apply(c, v->settings->temperature); }

const sampler_row sampler_temperature_last = {"temperature_last", is_on, apply, NULL, false};
