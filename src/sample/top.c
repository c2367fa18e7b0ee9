/* top.c — the truncations by rank, mass and ratio: top-k, top-p (Holtzman et al. 2019), top-a, min-p (Nguyen et al.
 * 2024). */
#include "sampler_table.h"
#include "num.h"
#include <limits.h>

/* ---- top-k: those that tie with the last one stay too, whichever ids they have ---- */

static bool top_k_is_on(const qp_sampling *s) { return s->top_k > 0; }

static void top_k(candidate_list *c, const stage_view *v) {
    if (v->settings->top_k >= c->n) {
        candidates_add_up(c);
        return;
    }
    candidates_key_x(c);
    rank_cut cut = rank_by_mass(c->keys, NULL, c->n, v->settings->top_k, c->scratch);
    cut.n_equal = INT_MAX;
    candidates_keep_cut(c, cut);
}

const sampler_row sampler_top_k = {"top_k", top_k_is_on, top_k, NULL, false};

/* ---- top-p: the shortest prefix whose sum reaches p; what is less probable than one in a million is not looked at,
 * unless all are ---- */

static const double dust = 1e-6, log_dust = -19.931568569324174;

static bool top_p_is_on(const qp_sampling *s) { return s->top_p > 0 && s->top_p < 1; }

static float top_p_floor(const stage_view *v, double log_mass) {
    return log_mass + log_dust < 0 ? (float)(log_mass + log_dust) : -INFINITY;
}

static void top_p(candidate_list *c, const stage_view *v) {
    const double least = dust * c->sum;
    candidates_key_p(c);
    rank_cut cut = rank_by_mass(c->keys, c->p, c->n, v->settings->top_p * c->sum, c->scratch);
    const uint32_t last = candidates_key_of((float)least);
    if (cut.key > last && candidates_greatest(c) >= least) cut = (rank_cut){last, INT_MAX};
    candidates_keep_cut(c, cut);
}

const sampler_row sampler_top_p = {"top_p", top_p_is_on, top_p, top_p_floor, true};

/* ---- top-a: at least a * (greatest probability)^2 ---- */

static bool top_a_is_on(const qp_sampling *s) { return s->top_a > 0; }

static float top_a_floor(const stage_view *v, double log_mass) {
    return (float)(num_log2(v->settings->top_a) - log_mass); /* the greatest has 2^0 */
}

static void top_a(candidate_list *c, const stage_view *v) {
    const double greatest = candidates_greatest(c);
    candidates_keep_least(c, v->settings->top_a * greatest * greatest / c->sum);
}

const sampler_row sampler_top_a = {"top_a", top_a_is_on, top_a, top_a_floor, true};

/* ---- min-p: at least this fraction of the most probable ---- */

static bool min_p_is_on(const qp_sampling *s) { return s->min_p > 0 && s->min_p < 1; }

static float min_p_floor(const stage_view *v, double log_mass) { return (float)num_log2(v->settings->min_p); }

static void min_p(candidate_list *c, const stage_view *v) {
    candidates_keep_least(c, (double)v->settings->min_p * candidates_greatest(c));
}

const sampler_row sampler_min_p = {"min_p", min_p_is_on, min_p, min_p_floor, false};
