/* chain.c — from logits to a token: the row as the settings want it, then the draw.
 *
 * Called by gen/ for each token of each job, on any thread. The order is that of the settings' description in quipu.h.
 * What forbids (bans, filters, ids without a token) is a bit per id and commutes with everything before the softmax, so
 * it comes first: what is forbidden is then never looked at. */
#include "chain.h"
#include "draw.h"
#include "dry.h"
#include "guidance.h"
#include "logprob.h"
#include "sampler.h"
#include "base/rng.h"
#include <assert.h>

/* ---- the row ---- */

static void begin(const sampler *s, sampler_room *room, const sampler_step *step) {
    const qp_sampling *set = &s->setup.settings;
    const float *logits = step->logits;
    if (step->negative_logits && set->guidance != 0 && set->guidance != 1) {
        guidance_mix(room, logits, step->negative_logits, s->setup.n_vocabulary, set->guidance);
        logits = room->guided;
    }
    row_begin(&room->row, logits, s->n_tokens, s->open, step->allow_mask);
    for (size_t i = 0; i < step->n_ban; i++) row_forbid(&room->row, step->ban[i]);
}

/* What penalties and biases change. */
static void put_changes(sampler *s, change_sink *to, uint32_t *seen, const sampler_step *step) {
    const qp_sampling *set = &s->setup.settings;
    if (penalties_are_on(set)) penalties_apply(&s->counts, set, to, seen, step->history, step->n_history);
    for (size_t i = 0; i < s->n_bias; i++) change_put(to, &(digest_change){s->bias[i].id, 1, -s->bias[i].bias, 0});
}

static void change(sampler *s, sampler_room *room, const sampler_step *step) {
    const qp_sampling *set = &s->setup.settings;
    put_changes(s, &(change_sink){.row = &room->row}, room->seen, step);
    if (set->dry_multiplier > 0) dry_apply(room, set, s->setup.dry_breakers, step->history, step->n_history);
}

/* Why the row has no greatest logit that is a number. */
static sampler_reason reason_of(const logit_row *r) {
    if (r->highest == INFINITY) return SAMPLER_BROKEN_LOGITS;
    for (int i = 0; i < r->n; i++)
        if (fabsf(r->base[i]) <= FLT_MAX) return SAMPLER_ALL_FORBIDDEN;
    return SAMPLER_BROKEN_LOGITS;
}

/* ---- the choice ---- */

static draw_result draw(sampler *s, sampler_room *room, uint64_t position) {
    const qp_sampling *set = &s->setup.settings;
    if (temperature_is_greedy(set)) return draw_best(room);
    const bool has_mirostat = set->mirostat_tau > 0;
    const stage_view view = {set, has_mirostat ? mirostat_mu(&s->mirostat, set, position) : 0, s->setup.xtc_keep};
    const draw_result d = draw_token(room, &view, rng_uniform(set->seed, 0, position));
    if (has_mirostat && d.kind != DRAW_UNPROVEN) mirostat_note(&s->mirostat, set, position, d.p);
    return d;
}

/* What is told about the choice beside its id; the favourites' list is made before the draw, which needs its room. */
static double list_top(const sampler *s, sampler_room *room, const float *logits, sampler_choice *out) {
    const double log_mass = room_log_mass(room, logits, s->setup.n_vocabulary);
    if (s->setup.n_top && out->top)
        out->n_top = logprob_top(room, logits, s->n_tokens, log_mass, out->top, s->setup.n_top);
    return log_mass;
}

void sampler_choose(sampler *s, sampler_room *room, const sampler_step *step, sampler_choice *out) {
    assert(room->n_vocabulary >= s->setup.n_vocabulary);
    const bool tells = s->setup.wants_p || s->setup.n_top;
    *out = (sampler_choice){.id = -1, .top = out->top};
    begin(s, room, step);
    change(s, room, step);
    room->sweep->peaks(&room->row);
    if (!(room->row.highest > -INFINITY && room->row.highest < INFINITY)) {
        out->reason = reason_of(&room->row);
        return;
    }
    const double log_mass = tells ? list_top(s, room, step->logits, out) : 0;
    const draw_result d = draw(s, room, step->position);
    out->id = d.id;
    if (!tells) return;
    out->p = (float)d.p;
    out->logprob = logprob_of(log_mass, step->logits[d.id]);
    for (int i = 0; i < out->n_top; i++) out->top[i].p = draw_probability(room, &d, out->top[i].id);
}

/* ---- of a row that is not here ---- */

static bool is_simple(const sampler *s) {
    const qp_sampling *set = &s->setup.settings;
    const bool is_guided = set->guidance != 0 && set->guidance != 1;
    return !is_guided && !s->setup.wants_p && !s->setup.n_top && !(set->dry_multiplier > 0);
}

static void write_mask(const sampler *s, const sampler_step *step, uint32_t *mask) {
    const int blocks = row_blocks(s->n_tokens);
    for (int b = 0; b < blocks; b++) mask[b] = step->allow_mask ? s->open[b] & step->allow_mask[b] : s->open[b];
    for (size_t i = 0; i < step->n_ban; i++)
        if (step->ban[i] >= 0 && step->ban[i] < s->n_tokens) mask[step->ban[i] / 32] &= ~(1u << (step->ban[i] % 32));
}

bool sampler_order(sampler *s, sampler_room *room, const sampler_step *step, digest_order *out, sampler_space *space) {
    const qp_sampling *set = &s->setup.settings;
    logit_row shape = {0};
    change_sink changes = {.list = space->changes, .capacity = space->n_changes};
    row_divide(&shape, s->n_tokens);
    *out = (digest_order){.n = s->n_tokens, .group = shape.group, .n_groups = shape.n_groups};
    if (!is_simple(s) || shape.group * ROW_BLOCK > DIGEST_MOST_LISTED) return false;
    if (!temperature_is_greedy(set) && !draw_order(set, rng_uniform(set->seed, 0, step->position), out)) return false;
    put_changes(s, &changes, room->seen, step);
    if (changes.n > changes.capacity) return false;
    space->n_changes = changes.n;
    out->n_changes = (int32_t)changes.n;
    out->has_many = set->penalty_range > 0 || (s->n_bias && (s->n_bias > 1 || penalties_are_on(set)));
    out->is_masked = step->allow_mask || step->n_ban || !s->is_all_open;
    if (out->is_masked) write_mask(s, step, space->mask);
    return true;
}

bool sampler_choose_from(sampler *s, sampler_room *room, const sampler_step *step, const digest_order *order,
                         const digest_head *head, const digest_body *body, sampler_choice *out) {
    const bool is_greedy = order->want == DIGEST_BEST;
    if (head->best < 0) return false; /* the row tells why */
    *out = (sampler_choice){.id = head->best, .top = out->top};
    if (is_greedy) return true;
    row_begin_digest(&room->row, &(row_digest){order, head, body});
    const draw_result d = draw(s, room, step->position);
    room->row.digest = (row_digest){0};
    out->id = d.id;
    return d.kind != DRAW_UNPROVEN;
}
