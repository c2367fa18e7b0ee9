/* xtc.c — exclude top choices, by expectation: the same chances as removing them with probability xtc_probability and
 * renormalising, without a second random number. */
#include "sampler_table.h"

static bool is_on(const qp_sampling *s) { return s->xtc_probability > 0; }

static bool is_top(const candidate_list *c, int i, double least, const stage_view *v) {
    return c->p[i] >= least && !(v->xtc_keep && row_bit(v->xtc_keep, c->ids[i]));
}

/* The one that always stays: the least probable, of equal ones the last. -1: there are fewer than two. */
static int find_kept(const candidate_list *c, double least, const stage_view *v, double *excludable) {
    int kept = -1, n = 0;
    double sum = 0;
    for (int i = 0; i < c->n; i++) {
        if (!is_top(c, i, least, v)) continue;
        n++;
        sum += c->p[i];
        if (kept < 0 || c->p[i] <= c->p[kept]) kept = i;
    }
    if (n < 2) return -1;
    *excludable = sum - c->p[kept];
    return kept;
}

static void apply(candidate_list *c, const stage_view *v) {
    const double probability = v->settings->xtc_probability, least = v->settings->xtc_threshold * c->sum;
    double excludable;
    const int kept = find_kept(c, least, v, &excludable);
    if (kept < 0) return;
    const double others = c->sum - excludable, gain = 1 + probability * excludable / others;
    for (int i = 0; i < c->n; i++) {
        const bool is_excludable = i != kept && is_top(c, i, least, v);
        c->p[i] = (float)(c->p[i] * (is_excludable ? 1 - probability : gain));
    }
    candidates_add_up(c);
}

const sampler_row sampler_xtc = {"xtc", is_on, apply, NULL, false};
