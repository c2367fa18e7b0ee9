/* typical.c — locally typical sampling (Meister et al. 2022): keeps the mass whose surprise is nearest to the
 * entropy. */
#include "sampler_table.h"
#include "num.h"

static const double dust = 1e-8, log_dust = -26.575424759098897;

static bool is_on(const qp_sampling *s) { return s->typical > 0 && s->typical < 1; }

static float floor_of(const stage_view *v, double log_mass) { return (float)(log_mass + log_dust); }

/* The exponent of a token whose surprise is the entropy: the mean of x. */
static double mean_exponent(const candidate_list *c) {
    double sums[2] = {0};
    for (int i = 0; i < c->n; i++) sums[i % 2] += (double)c->p[i] * c->x[i];
    return (sums[0] + sums[1]) / c->sum;
}

static void apply(candidate_list *c, const stage_view *v) {
    candidates_keep_least(c, dust * c->sum);
    const double typical = mean_exponent(c);
    for (int i = 0; i < c->n; i++) c->keys[i] = num_bits((float)fabs(c->x[i] - typical));
    candidates_keep_cut(c, rank_by_mass(c->keys, c->p, c->n, v->settings->typical * c->sum, c->scratch));
}

const sampler_row sampler_typical = {"typical", is_on, apply, floor_of, true};
