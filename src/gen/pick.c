/* pick.c — chooses the next token of every job whose logits are there.
 *
 * Called by engine.c after run.c; by run.c, while the device works, for what can be said before: masks, bans, forced
 * tokens, and what a device that makes digests is asked. Jobs are independent of each other, so with several of them
 * and a large vocabulary a pool shares the work; what is chosen does not depend on it. Filters are asked here, on
 * whatever thread has the job. */
#include "engine.h"
#include "base/mem.h"

enum { WORTH_THREADS = 1 << 17 }; /* logits */

/* ---- masks ---- */

static void set_bits(uint32_t *mask, const int32_t *ids, size_t n, bool value) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t bit = 1u << (ids[i] % 32);
        mask[ids[i] / 32] = value ? mask[ids[i] / 32] | bit : mask[ids[i] / 32] & ~bit;
    }
}

static bool is_empty(const uint32_t *mask, size_t words) {
    for (size_t i = 0; i < words; i++)
        if (mask[i]) return false;
    return true;
}

static qp_status ask_filters(pick *p, int vocabulary, qp_error *err) {
    job *j = p->job;
    const size_t words = ((size_t)vocabulary + 31) / 32;
    bool may_end = true;
    for (size_t i = 0; i < j->n_filters; i++) {
        bool may = false;
        ERR_TRY(j->filters[i].mask(j->filters[i].user, j->mask, vocabulary, &may, err));
        may_end = may_end && may;
    }
    set_bits(j->mask, j->end_ids, j->n_end_ids, false);
    p->is_complete = may_end && is_empty(j->mask, words);
    if (may_end) set_bits(j->mask, j->end_ids, j->n_end_ids, true);
    return QP_OK;
}

/* What filters and the completion of the prompt's last token allow; NULL: everything. */
static qp_status make_mask(pick *p, int vocabulary, const uint32_t **mask, qp_error *err) {
    job *j = p->job;
    const size_t words = ((size_t)vocabulary + 31) / 32;
    const bool heals = j->heal_mask && !job_new_tokens(j);
    *mask = NULL;
    if (!heals && !j->n_filters) return QP_OK;
    if (heals)
        memcpy(j->mask, j->heal_mask, words * sizeof *j->mask);
    else
        memset(j->mask, 0xFF, words * sizeof *j->mask);
    if (vocabulary % 32) j->mask[words - 1] &= (1u << (vocabulary % 32)) - 1;
    *mask = j->mask;
    return j->n_filters ? ask_filters(p, vocabulary, err) : QP_OK;
}

/* ---- bans of this place ---- */

static size_t list_bans(job *j) {
    const size_t place = job_new_tokens(j);
    size_t n = 0;
    if (place < j->min_new_tokens)
        for (; n < j->n_end_ids; n++) j->banned[n] = j->end_ids[n];
    for (size_t i = 0; i < j->n_blocked; i++)
        if (j->blocked[i].place == place) j->banned[n++] = j->blocked[i].id;
    return n;
}

/* ---- forced tokens ---- */

static bool is_listed(const int32_t *ids, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Asks the filter for tokens that need no sampling; those that end the job or are banned at this place do. */
static bool is_forced(pick *p, const sampler_step *s, int vocabulary) {
    job *j = p->job;
    if (!j->may_force || (j->heal_mask && !job_new_tokens(j))) return false;
    const size_t n = j->filters[0].forced(j->filters[0].user, p->forced, ENGINE_MOST_FORCED);
    for (; p->n_forced < n && p->n_forced < ENGINE_MOST_FORCED; p->n_forced++) {
        const int32_t id = p->forced[p->n_forced];
        if (id < 0 || id >= vocabulary || is_listed(j->end_ids, j->n_end_ids, id)) break;
    }
    if (p->n_forced && is_listed(s->ban, s->n_ban, p->forced[0])) p->n_forced = 0;
    return p->n_forced > 0;
}

/* ---- one job ---- */

static const float *logits_of(const engine *e, const job *j, int k) {
    return e->logits + (size_t)j->logit_row[k] * (size_t)e->model->shape.vocabulary;
}

/* All that can be said before the logits are there. */
static qp_status prepare(const engine *e, pick *p, qp_error *err) {
    job *j = p->job;
    const lane *l = &j->lanes[0];
    sampler_step *s = &p->sampling;
    *s = (sampler_step){.history = l->ids, .n_history = l->n, .n_prompt = l->n_prompt, .position = job_new_tokens(j)};
    ERR_TRY(make_mask(p, e->model->shape.vocabulary, &s->allow_mask, err));
    if (p->is_complete) return QP_OK;
    s->n_ban = list_bans(j);
    s->ban = j->banned;
    is_forced(p, s, e->model->shape.vocabulary);
    return QP_OK;
}

static bool wants_nothing(const pick *p) { return p->status != QP_OK || p->is_complete || p->n_forced; }

static qp_status choose(engine *e, pick *p, sampler_room *room, qp_error *err) {
    job *j = p->job;
    p->choice.top = j->top;
    if (p->is_digested && digests_choose(&e->digests, p->row, j->sampler, room, &p->sampling, &p->choice)) return QP_OK;
    p->sampling.logits = engine_logits(e, p);
    p->sampling.negative_logits = j->n_lanes > 1 ? logits_of(e, j, 1) : NULL;
    sampler_choose(j->sampler, room, &p->sampling, &p->choice);
    if (p->choice.id >= 0) return QP_OK;
    if (p->choice.reason == SAMPLER_BROKEN_LOGITS)
        return err_set(err, QP_INTERNAL, job_new_tokens(j), "new token %zu: the model's logits are no numbers",
                       job_new_tokens(j) + 1);
    return err_set(err, QP_BAD_ARGUMENT, job_new_tokens(j),
                   "new token %zu: no token is left that bans, filters and biases all allow", job_new_tokens(j) + 1);
}

static void prepare_one(void *context, int64_t task, int worker) {
    engine *e = context;
    pick *p = &e->step.picks[task];
    p->status = prepare(e, p, &p->error);
    p->is_prepared = true;
}

static void pick_one(void *context, int64_t task, int worker) {
    engine *e = context;
    pick *p = &e->step.picks[task];
    if (!p->is_prepared) prepare_one(e, task, worker);
    if (!wants_nothing(p)) p->status = choose(e, p, e->rooms[worker], &p->error);
}

/* ---- all of them ---- */

/* Both lanes' logits come out of this step. */
static bool is_ready(const job *j) {
    for (int k = 0; k < j->n_lanes; k++)
        if (j->logit_row[k] < 0) return false;
    return true;
}

void engine_list_picks(engine *e) {
    step *s = &e->step;
    s->n_picks = 0;
    for (int i = 0; i < s->n_parts; i++) {
        job *j = s->parts[i].job;
        if (s->parts[i].lane == 0 && is_ready(j))
            s->picks[s->n_picks++] = (pick){.job = j, .logits = logits_of(e, j, 0), .row = j->logit_row[0]};
    }
}

/* Threads for sampling are made when they are first worth it; where they cannot be, it goes on without. */
static bool has_threads(engine *e) {
    const int n = e->model->dev->threads < ENGINE_MOST_ROOMS ? e->model->dev->threads : ENGINE_MOST_ROOMS;
    if (e->pool || n < 2 || e->pool_failed) return e->pool != NULL;
    for (; e->n_rooms < n; e->n_rooms++)
        if (sampler_room_new(&e->rooms[e->n_rooms], e->model->shape.vocabulary, NULL) != QP_OK) break;
    e->pool_failed = e->n_rooms < n || pool_new(&e->pool, n, false, NULL) != QP_OK;
    return !e->pool_failed;
}

/* n_much: how many of them take as long as the vocabulary is large. */
static void do_all(engine *e, pool_fn *task, int n_much) {
    const int n = e->step.n_picks;
    const bool is_much = n_much > 1 && (int64_t)n_much * e->model->shape.vocabulary >= WORTH_THREADS;
    if (is_much && has_threads(e))
        pool_run(e->pool, task, e, n);
    else
        for (int i = 0; i < n; i++) task(e, i, 0);
}

/* The last token's logits leave a hash behind. */
static bool wants_row(const pick *p) {
    const job *j = p->job;
    return j->n_lanes > 1 || j->wants.n_logits || job_new_tokens(j) + 1 >= j->max_new_tokens;
}

void engine_prepare(void *context) {
    engine *e = context;
    digests *d = &e->digests;
    int n_masks = 0, n_best = 0;
    engine_tell(e);
    for (int i = 0; i < e->step.n_picks; i++) n_masks += e->step.picks[i].job->n_filters > 0;
    do_all(e, prepare_one, n_masks);
    digests_begin(d, e->step.in.n_logit_rows);
    for (int i = 0; i < e->step.n_picks; i++) {
        pick *p = &e->step.picks[i];
        job *j = p->job;
        if (wants_nothing(p) && !wants_row(p)) {
            p->logits = NULL;
        } else if (!wants_row(p) && digests_ask(d, p->row, j->sampler, e->rooms[0], &p->sampling)) {
            p->is_digested = true;
            p->logits = NULL;
            n_best += digests_is_greedy(d, p->row);
        } else {
            for (int k = 0; k < j->n_lanes; k++) digests_ask_row(d, j->logit_row[k]);
        }
    }
    d->step.may_lead = n_best == e->step.in.n_logit_rows && !e->n_waiting;
}

const float *engine_logits(engine *e, pick *p) {
    if (p->logits || p->row < 0) return p->logits;
    float *out = e->logits + (size_t)p->row * (size_t)e->model->shape.vocabulary;
    digests_fetch(&e->digests, p->row, out);
    return p->logits = out;
}

/* Out of its digest or not: whoever draws looks at many numbers. */
static bool is_work(const engine *e, const pick *p) {
    return !p->is_digested || !digests_is_greedy(&e->digests, p->row);
}

void engine_sample(engine *e) {
    int n_much = 0;
    for (int i = 0; i < e->step.n_picks; i++) n_much += is_work(e, &e->step.picks[i]);
    do_all(e, pick_one, n_much);
}
