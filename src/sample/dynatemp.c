/* dynatemp.c — dynamic temperature: the surer the distribution, the lower. */
#include "sampler_table.h"
#include "num.h"

bool dynatemp_is_on(const qp_sampling *s) { return s->max_temperature > s->min_temperature; }

/* Of the candidates, as a share of the greatest that so many can have. */
static double entropy_share(const candidate_list *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += (double)c->p[i] * c->x[i];
    const double entropy = num_log2(c->sum) - sum / c->sum, share = entropy / num_log2(c->n);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static void apply(candidate_list *c, const stage_view *v) {
    const qp_sampling *s = v->settings;
    const double share = entropy_share(c);
    const double bent = share > 1e-300 ? num_exp2(s->temperature_exponent * num_log2(share)) : 0;
    temperature_apply(c, s->min_temperature + ((double)s->max_temperature - s->min_temperature) * bent);
}

const sampler_row sampler_dynatemp = {"dynamic temperature", dynatemp_is_on, apply, NULL, false};
