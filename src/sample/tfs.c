/* tfs.c — tail-free sampling: cuts where the sorted probabilities stop bending. */
#include "sampler_table.h"
#include <string.h>

static const double dust = 1e-8, log_dust = -26.575424759098897;

static bool is_on(const qp_sampling *s) { return s->tfs > 0 && s->tfs < 1; }

static float floor_of(const stage_view *v, double log_mass) { return (float)(log_mass + log_dust); }

static double bend(const uint32_t *keys, int i) {
    float p[3];
    for (int k = 0; k < 3; k++) {
        const uint32_t bits = 0x7F800000u - keys[i + k];
        memcpy(&p[k], &bits, 4);
    }
    return fabs(-(double)p[0] + 2 * (double)p[1] - (double)p[2]);
}

/* Of the sorted keys: as long as the share of second differences is within z, and one more. */
static int count_kept(const uint32_t *keys, int n, double z) {
    double sum = 0, so_far = 0;
    for (int i = 0; i + 2 < n; i++) sum += bend(keys, i);
    if (!(sum > 0)) return n;
    int kept = 0;
    for (; kept + 2 < n; kept++) {
        so_far += bend(keys, kept) / sum;
        if (so_far > z) break;
    }
    return kept + 1;
}

static void apply(candidate_list *c, const stage_view *v) {
    candidates_keep_least(c, dust * c->sum);
    if (c->n < 3) return;
    candidates_key_p(c);
    uint32_t *sorted = (uint32_t *)c->scratch;
    rank_sort(c->keys, c->n, sorted);
    const int kept = count_kept(c->keys, c->n, v->settings->tfs);
    rank_cut cut = {c->keys[kept - 1], 0};
    for (int i = 0; i < kept; i++) cut.n_equal += c->keys[i] == cut.key;
    candidates_key_p(c);
    candidates_keep_cut(c, cut);
}

const sampler_row sampler_tfs = {"tfs", is_on, apply, floor_of, true};
