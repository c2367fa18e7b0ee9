/* candidates.c — filling and thinning the list of candidates; the order of ids is never disturbed. */
#include "candidates.h"
#include "num.h"
#include <float.h>

/* Each of the k greatest peaks has one logit at least: the least of these peaks is a floor. */
float candidates_floor(const candidate_list *c, const logit_row *r, int k) {
    if (k >= r->n_groups || r->highest == INFINITY) return -FLT_MAX;
    for (int g = 0; g < r->n_groups; g++) c->keys[g] = num_bits(r->highest - r->peaks[g]);
    const rank_cut cut = rank_by_mass(c->keys, NULL, r->n_groups, k, c->scratch);
    float floor = r->highest;
    for (int g = 0; g < r->n_groups; g++)
        if (c->keys[g] <= cut.key && r->peaks[g] < floor) floor = r->peaks[g];
    return floor > -FLT_MAX ? floor : -FLT_MAX;
}

void candidates_add_up(candidate_list *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += c->p[i];
    c->sum = sum;
}

float candidates_greatest(const candidate_list *c) {
    float greatest = c->p[0];
    for (int i = 1; i < c->n; i++) greatest = c->p[i] > greatest ? c->p[i] : greatest;
    return greatest;
}

static inline void keep(candidate_list *c, int to, int from) {
    c->ids[to] = c->ids[from];
    c->x[to] = c->x[from];
    c->p[to] = c->p[from];
}

void candidates_keep_least(candidate_list *c, double least) {
    if (least > candidates_greatest(c)) {
        candidates_keep_best(c);
        return;
    }
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        const bool stays = c->p[i] >= least;
        keep(c, n, i);
        n += stays;
    }
    c->n = n;
    candidates_add_up(c);
}

void candidates_keep_cut(candidate_list *c, rank_cut cut) {
    int n = 0, n_equal = cut.n_equal;
    for (int i = 0; i < c->n; i++) {
        if (c->keys[i] > cut.key || (c->keys[i] == cut.key && n_equal-- <= 0)) continue;
        keep(c, n++, i);
    }
    c->n = n;
    candidates_add_up(c);
}

void candidates_keep_best(candidate_list *c) {
    const float greatest = candidates_greatest(c);
    int best = 0;
    while (c->p[best] < greatest) best++;
    keep(c, 0, best);
    c->n = 1;
    c->sum = greatest;
}

void candidates_key_x(candidate_list *c) {
    for (int i = 0; i < c->n; i++) c->keys[i] = num_bits(c->x[i]) & 0x7FFFFFFFu; /* x <= 0 */
}

void candidates_key_p(candidate_list *c) {
    for (int i = 0; i < c->n; i++) c->keys[i] = 0x7F800000u - num_bits(c->p[i]); /* p >= 0 and finite */
}
