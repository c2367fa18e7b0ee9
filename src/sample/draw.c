/* draw.c — softmax, the stages of sampler_table.c, and the pick.
 *
 * Called by chain.c when the row is as penalties, biases and bans want it. Only tokens that the first stage may keep
 * are ever listed: it gives a floor, and blocks whose peak lies lower are not looked at. With no stage on at all, there
 * is no list: the masses of the blocks lead to the one in which the token lies. */
#include "draw.h"
#include "num.h"

/* ---- the best ---- */

draw_result draw_best(const sampler_room *room) {
    const logit_row *r = &room->row;
    int g = 0;
    if (r->digest.head) return (draw_result){.id = r->digest.head->best, .p = 1, .kind = DRAW_BEST};
    while (r->peaks[g] < r->highest) g++;
    int32_t id = g * r->group * ROW_BLOCK;
    while (!(row_value(r, id) == r->highest)) id++;
    return (draw_result){.id = id, .p = 1, .kind = DRAW_BEST};
}

/* ---- softmax ---- */

static softmax_curve curve_of(const qp_sampling *s, float highest) {
    const float scale = (float)(NUM_LOG2_E / temperature_first(s));
    if (s->smoothing_factor > 0) return (softmax_curve){highest, 0, -s->smoothing_factor * scale};
    return (softmax_curve){highest, scale, 0};
}

/* The logit at which the curve has this exponent, or a little below it: the stages themselves cut exactly. */
static float logit_at(const softmax_curve *c, float exponent) {
    const float wider = exponent * 1.0001f - 1e-4f;
    const float depth = c->slope > 0 ? wider / c->slope : -sqrtf(wider / c->bend);
    const float logit = c->highest + depth;
    return logit > -FLT_MAX ? logit : -FLT_MAX;
}

static const sampler_row *first_stage(const qp_sampling *s) {
    for (int i = 0; i < sampler_n_rows; i++)
        if (sampler_rows[i]->is_on(s)) return sampler_rows[i];
    return NULL;
}

/* Its masses, and their sum. */
static double mass_of(sampler_room *room, const softmax_curve *curve) {
    const logit_row *r = &room->row;
    if (!r->digest.head) return room->sweep->masses(room->masses, r, curve);
    double total = 0;
    for (int g = 0; g < r->n_groups; g++) total += room->masses[g] = r->digest.body->masses[g];
    return total;
}

/* ---- what a digest must have ---- */

bool draw_order(const qp_sampling *s, double uniform, digest_order *out) {
    enum { FEW = 256 }; /* peaks: what truncations leave is seldom more */
    const sampler_row *first = first_stage(s);
    const softmax_curve curve = curve_of(s, 0);
    out->slope = curve.slope;
    out->bend = curve.bend;
    out->uniform = uniform;
    out->want = first ? DIGEST_LIST : DIGEST_DRAW;
    out->least = first == &sampler_top_k ? s->top_k : FEW;
    if (!first) return s->skew == 0;
    return first->floor || (first == &sampler_top_k && s->top_k <= DIGEST_MOST_LISTED / 2);
}

/* ---- with a list ---- */

/* What lies lower, the first stage drops for certain. Only that stage: those behind it count what it left. */
static float floor_of(sampler_room *room, const sampler_row *first, const stage_view *v, const draw_result *d) {
    float floor = logit_at(&d->curve, EXP2_LEAST), other = -FLT_MAX;
    if (first && first->floor) {
        const float exponent = first->floor(v, first->wants_mass ? num_log2(d->mass) : 0);
        if (exponent > EXP2_LEAST) floor = logit_at(&d->curve, exponent < 0 ? exponent : 0);
    }
    if (first == &sampler_top_k)
        other = candidates_floor_of_rank(&room->list, &room->row, v->settings->top_k);
    else if (first == &sampler_top_p)
        other = candidates_floor_of_mass(&room->list, &room->row, &d->curve, v->settings->top_p * d->mass);
    return floor > other ? floor : other;
}

/* Of the digest's list what the row's would be; -1: it does not go down to the floor. */
static int gather(sampler_room *room, float floor) {
    const row_digest *g = &room->row.digest;
    candidate_list *c = &room->list;
    int n = 0;
    if (!g->head) return room->sweep->gather(c->ids, c->x, &room->row, floor);
    if (!(floor >= g->head->floor)) return -1;
    for (int i = 0; i < g->head->n_listed; i++) {
        c->ids[n] = g->body->ids[i];
        c->x[n] = g->body->values[i];
        n += c->x[n] >= floor;
    }
    return n;
}

/* False: a digest does not say enough. */
static bool fill_list(sampler_room *room, const stage_view *v, draw_result *d) {
    const sampler_row *first = first_stage(v->settings);
    candidate_list *c = &room->list;
    const bool wants_mass = first && first->wants_mass;
    if (wants_mass) d->mass = mass_of(room, &d->curve);
    const float floor = floor_of(room, first, v, d);
    c->n = gather(room, floor);
    if (c->n < 0) return false;
    room->sweep->powers(c->p, c->x, c->n, &d->curve);
    if (floor <= logit_at(&d->curve, EXP2_LEAST))
        candidates_keep_least(c, FLT_MIN); /* who has no chance at all is not counted */
    else
        candidates_add_up(c);
    if (wants_mass) c->sum = d->mass;
    return true;
}

/* u bent by skew; ranks count then instead of ids. */
static int draw_by_rank(candidate_list *c, double uniform, float skew) {
    const double bent = uniform > 0 ? num_exp2(num_log2(uniform) * num_exp2(-skew * NUM_LOG2_E)) : 0;
    candidates_key_p(c);
    const rank_cut cut = rank_by_mass(c->keys, c->p, c->n, bent * c->sum, c->scratch);
    int i = 0, n_equal = cut.n_equal;
    while (c->keys[i] != cut.key || --n_equal > 0) i++;
    return i;
}

/* First by stretches, then one by one. Rounding cannot lead past the last one with any probability. */
static int draw_by_id(const candidate_list *c, double uniform) {
    enum { STRETCH = 64 };
    const double target = uniform * c->sum;
    double before = 0, sum = 0;
    int first = 0, last = 0;
    for (int i = 0; i < c->n && sum <= target; i += STRETCH) {
        const double part = candidates_part(c, i, c->n - i < STRETCH ? c->n - i : STRETCH);
        if (!(part > 0)) continue;
        first = i;
        before = sum;
        sum += part;
    }
    for (int i = first; i < c->n && i < first + STRETCH && before <= target; i++) {
        if (!(c->p[i] > 0)) continue;
        last = i;
        before += c->p[i];
    }
    return last;
}

static void draw_from_list(sampler_room *room, const stage_view *v, double uniform, draw_result *d) {
    candidate_list *c = &room->list;
    d->kind = fill_list(room, v, d) ? DRAW_FROM_LIST : DRAW_UNPROVEN;
    if (d->kind == DRAW_UNPROVEN) return;
    for (int i = 0; i < sampler_n_rows && c->n > 1; i++)
        if (sampler_rows[i]->is_on(v->settings)) sampler_rows[i]->apply(c, v);
    candidates_add_up(c);
    const float skew = v->settings->skew;
    const int i = skew != 0 ? draw_by_rank(c, uniform, skew) : draw_by_id(c, uniform);
    d->id = c->ids[i];
    d->p = c->p[i] / c->sum;
}

/* ---- without ---- */

static void draw_from_row(sampler_room *room, double uniform, draw_result *d) {
    const logit_row *r = &room->row;
    d->kind = DRAW_FROM_ROW;
    d->mass = mass_of(room, &d->curve);
    const double target = uniform * d->mass;
    double before = 0, sum = 0;
    int group = 0;
    for (int g = 0; g < r->n_groups && sum <= target; g++) {
        if (!(room->masses[g] > 0)) continue;
        group = g;
        before = sum;
        sum += room->masses[g];
    }
    const int32_t first = group * r->group * ROW_BLOCK, end = first + r->group * ROW_BLOCK;
    if (r->digest.head && r->digest.body->ids[0] != first) d->kind = DRAW_UNPROVEN;
    if (d->kind == DRAW_UNPROVEN) return;
    for (int32_t id = first; id < end && id < r->n && before <= target; id++) {
        const float p = num_exp2_below(curve_at(&d->curve, row_value(r, id)));
        if (!(p > 0)) continue;
        d->id = id;
        d->p = p / d->mass;
        before += p;
    }
}

draw_result draw_token(sampler_room *room, const stage_view *v, double uniform) {
    const qp_sampling *s = v->settings;
    draw_result d = {.curve = curve_of(s, room->row.highest)};
    if (first_stage(s) || s->skew != 0)
        draw_from_list(room, v, uniform, &d);
    else
        draw_from_row(room, uniform, &d);
    return d;
}

/* ---- what chance an id had ---- */

static float listed(const candidate_list *c, int32_t id) {
    int low = 0, high = c->n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (c->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->n && c->ids[low] == id ? (float)(c->p[low] / c->sum) : 0;
}

float draw_probability(const sampler_room *room, const draw_result *d, int32_t id) {
    if (d->kind == DRAW_BEST) return id == d->id;
    if (d->kind == DRAW_FROM_LIST) return listed(&room->list, id);
    return (float)(num_exp2_below(curve_at(&d->curve, row_value(&room->row, id))) / d->mass);
}
