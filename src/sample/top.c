/* top.c — the truncations by rank, mass and ratio: top-k, top-p (Holtzman et al. 2019), min-p (Nguyen et al. 2024). */
#include "sampler_table.h"

/* ---- top-k ---- */

static bool top_k_is_on(const qp_sampling *s) { return s->top_k > 0; }

static void top_k(candidate_list *c, const qp_sampling *s) {
    if (s->top_k >= c->n) return;
    candidates_sort(c);
    candidates_cut(c, s->top_k);
}

const sampler_row sampler_top_k = {"top_k", top_k_is_on, top_k};

/* ---- top-p: the shortest prefix whose sum reaches p ---- */

static bool top_p_is_on(const qp_sampling *s) { return s->top_p > 0 && s->top_p < 1; }

/* What cannot matter is dropped before sorting: probabilities below one in a million. */
static void drop_dust(candidate_list *c) {
    const float least = (float)(c->sum * 1e-6);
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].p >= least) c->at[n++] = c->at[i];
    if (n) candidates_cut(c, n);
}

static void top_p(candidate_list *c, const qp_sampling *s) {
    const double wanted = (double)s->top_p * c->sum;
    if (!c->is_sorted) drop_dust(c);
    candidates_sort(c);
    double sum = 0;
    int n = 0;
    while (n < c->n && (n == 0 || sum < wanted)) sum += c->at[n++].p;
    candidates_cut(c, n);
}

const sampler_row sampler_top_p = {"top_p", top_p_is_on, top_p};

/* ---- min-p: at least this fraction of the most probable ---- */

static bool min_p_is_on(const qp_sampling *s) { return s->min_p > 0 && s->min_p < 1; }

static void min_p(candidate_list *c, const qp_sampling *s) {
    float largest = c->at[0].p;
    for (int i = 1; i < c->n; i++) largest = c->at[i].p > largest ? c->at[i].p : largest;
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].p >= s->min_p * largest) c->at[n++] = c->at[i];
    candidates_cut(c, n);
}

const sampler_row sampler_min_p = {"min_p", min_p_is_on, min_p};
