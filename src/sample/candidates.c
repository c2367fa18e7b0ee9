/* candidates.c — thinning the list of candidates; the order of ids is never disturbed. */
#include "candidates.h"
#include <float.h>

/* ---- floors out of the peaks: each is a logit that is there ---- */

/* Never negative: whether zeros have signs must not matter. */
static uint32_t depth_key(const logit_row *r, int g) { return num_bits(r->highest - r->peaks[g]) & 0x7FFFFFFFu; }

static float lowest_kept(const candidate_list *c, const logit_row *r, rank_cut cut) {
    float floor = r->highest;
    for (int g = 0; g < r->n_groups; g++)
        if (c->keys[g] <= cut.key && r->peaks[g] < floor) floor = r->peaks[g];
    return floor > -FLT_MAX ? floor : -FLT_MAX;
}

float candidates_floor_of_rank(candidate_list *c, const logit_row *r, int k) {
    if (k >= r->n_groups || r->highest == INFINITY) return -FLT_MAX;
    for (int g = 0; g < r->n_groups; g++) c->keys[g] = depth_key(r, g);
    return lowest_kept(c, r, rank_by_mass(c->keys, NULL, r->n_groups, k, c->scratch));
}

float candidates_floor_of_mass(candidate_list *c, const logit_row *r, const softmax_curve *curve, double wanted) {
    double sum = 0;
    for (int g = 0; g < r->n_groups; g++) {
        c->p[g] = num_exp2_below(curve_at(curve, r->peaks[g]));
        c->keys[g] = depth_key(r, g);
        sum += c->p[g];
    }
    if (sum < wanted) return -FLT_MAX;
    return lowest_kept(c, r, rank_by_mass(c->keys, c->p, r->n_groups, wanted, c->scratch));
}

/* ---- sums and extremes, in independent lanes ---- */

double candidates_part(const candidate_list *c, int from, int n) {
    enum { LANES = 8 };
    const float *p = c->p + from;
    double sums[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += p[i + k];
    for (int k = 0; i < n; i++, k++) sums[k] += p[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void candidates_add_up(candidate_list *c) { c->sum = candidates_part(c, 0, c->n); }

/* No p is negative, so their bits are in the order of their values. */
float candidates_greatest(const candidate_list *c) {
    uint32_t greatest = 0;
    for (int i = 0; i < c->n; i++) {
        const uint32_t bits = num_bits(c->p[i]);
        greatest = bits > greatest ? bits : greatest;
    }
    float p;
    memcpy(&p, &greatest, sizeof p);
    return p;
}

/* ---- dropping ---- */

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
    for (int i = 0; i < c->n; i++) { /* no branch: who stays is anybody's guess */
        const bool stays = c->p[i] >= least;
        keep(c, n, i);
        n += stays;
    }
    c->n = n;
    candidates_add_up(c);
}

void candidates_keep_cut(candidate_list *c, rank_cut cut) {
    int n = 0, n_equal = 0;
    for (int i = 0; i < c->n; i++) {
        n_equal += c->keys[i] == cut.key;
        const bool stays = (c->keys[i] < cut.key) | ((c->keys[i] == cut.key) & (n_equal <= cut.n_equal));
        keep(c, n, i);
        n += stays;
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
    for (int i = 0; i < c->n; i++) c->keys[i] = candidates_key_of(c->p[i]);
}
