/* emit.c — what becomes of a chosen token: text for the reader, a reason to end, or a step back.
 *
 * Called by engine.c after pick.c. The order of the questions: end token, banned text, stop text, loop, length; then
 * all that can no longer change is shown. A banned text takes tokens back: ids, pages, sampler, filters and
 * detokeniser return to the token that began it, which is forbidden at that place from then on. */
#include "engine.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

enum { MOST_TAKEN_BACK = 10000, ROUND = 128 /* tokens that are told together */ };

/* ---- showing ---- */

static qp_status advance_base(job *j, size_t n_tokens, qp_error *err) {
    span text;
    bool has_text;
    for (size_t i = 0; j->detok_base && i < n_tokens; i++)
        ERR_TRY(detok_next(j->detok_base, j->hold.tokens[i].item.id, &text, &has_text, err));
    return QP_OK;
}

/* What was tried at places that are shown now cannot come back. */
static void forget_blocked(job *j, size_t places) {
    size_t n = 0;
    for (size_t i = 0; i < j->n_blocked; i++)
        if (j->blocked[i].place >= places) j->blocked[n++] = j->blocked[i];
    j->n_blocked = n;
}

/* Gives the reader the first `bytes` of what is held, and n_tokens tokens. */
static qp_status show(job *j, size_t bytes, size_t n_tokens, qp_error *err) {
    mailbox_item few[8], *items = few;
    if (!bytes && !n_tokens) return QP_OK;
    if (n_tokens > sizeof few / sizeof *few) {
        items = mem_array(n_tokens, sizeof *items);
        if (!items) return err_no_memory(err, n_tokens * sizeof *items, "generated tokens");
    }
    for (size_t i = 0; i < n_tokens; i++) items[i] = j->hold.tokens[i].item;
    const span text = {j->hold.text.at, bytes};
    const qp_status status = mailbox_add(&j->mailbox, text, items, n_tokens, clock_now(), err);
    if (items != few) mem_free(items);
    ERR_TRY(status);
    ERR_TRY(advance_base(j, n_tokens, err));
    hold_drop(&j->hold, bytes, n_tokens);
    forget_blocked(j, job_new_tokens(j) - j->hold.n_tokens);
    return QP_OK;
}

static qp_status show_ready(job *j, bool all, qp_error *err) {
    size_t bytes, n_tokens;
    hold_ready(&j->hold, all, &bytes, &n_tokens);
    return show(j, bytes, n_tokens, err);
}

/* ---- the end of a job ---- */

static void show_rest(job *j) {
    span rest = {0};
    if (j->detok && detok_flush(j->detok, &rest, NULL) != QP_OK) rest = (span){0};
    if (hold_add_rest(&j->hold, rest, NULL) == QP_OK) show_ready(j, true, NULL);
}

/* The stop text begins at `at`: what is before it is shown, the rest goes along with the end. */
static void show_before_stop(job *j, size_t at) {
    show(j, at, hold_tokens_within(&j->hold, at), NULL);
    strbuf_add(&j->end.held_text, j->hold.text.at, j->hold.text.bytes);
    j->end.held_ids = mem_array(j->hold.n_tokens + 1, sizeof *j->end.held_ids);
    for (size_t i = 0; j->end.held_ids && i < j->hold.n_tokens; i++)
        j->end.held_ids[j->end.n_held_ids++] = j->hold.tokens[i].item.id;
}

static void fill_stats(const engine *e, job *j, const float *logits) {
    qp_job_stats *s = &j->end.stats;
    const double now = clock_now();
    s->prompt_tokens = j->n_prompt;
    s->new_tokens = j->lanes[0].ids ? job_new_tokens(j) : 0;
    s->total_s = now - j->t_submitted;
    s->queue_s = (j->t_started ? j->t_started : now) - j->t_submitted;
    s->prefill_s = j->t_prefilled ? j->t_prefilled - j->t_started : 0;
    s->first_token_s = j->t_first ? j->t_first - j->t_submitted : 0;
    s->decode_s = j->t_first ? now - j->t_first : 0;
    if (logits) s->logits_hash = hash_bytes(logits, (size_t)e->model->shape.vocabulary * sizeof *logits, 0);
}

static void leave_lists(engine *e, const job *j) {
    int at = 0;
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i] != j) e->running[at++] = e->running[i];
    e->n_running = at;
    size_t kept = 0;
    for (size_t i = 0; i < e->n_waiting; i++)
        if (e->waiting[i] != j) e->waiting[kept++] = e->waiting[i];
    if (kept < e->n_waiting) inbox_count(e->inbox, -1);
    e->n_waiting = kept;
}

static void count_end(engine *e, qp_finish finish) {
    if (finish == QP_FINISH_CANCELLED)
        e->counts.jobs_cancelled++;
    else if (finish == QP_FINISH_ERROR)
        e->counts.jobs_failed++;
    else
        e->counts.jobs_finished++;
}

void engine_end(engine *e, job *j, qp_finish finish, const float *logits) {
    if (j->has_ended) return;
    j->has_ended = true;
    if (finish != QP_FINISH_STOP && finish != QP_FINISH_ERROR) show_rest(j);
    fill_stats(e, j, logits);
    for (int k = 0; j->is_running && k < j->n_lanes; k++) chain_close(&j->lanes[k].chain);
    j->is_running = false;
    leave_lists(e, j);
    e->n_releases++;
    count_end(e, finish);
    j->end.finish = finish;
    atomic_store(&j->pages, 0);
    atomic_store(&j->state, QP_JOB_ENDED);
    job_strip(j);
    mailbox_end(&j->mailbox, &j->end);
    j->next = e->ended;
    e->ended = j;
}

void engine_fail(engine *e, job *j, qp_status status, const qp_error *why) {
    j->end.status = status;
    j->end.error = *why;
    engine_end(e, j, QP_FINISH_ERROR, NULL);
}

/* ---- banned texts: back to the token that began it ---- */

static qp_status block(job *j, size_t place, int32_t id, qp_error *err) {
    size_t n = 0;
    for (size_t i = 0; i < j->n_blocked; i++)
        if (j->blocked[i].place <= place) j->blocked[n++] = j->blocked[i];
    j->n_blocked = n;
    if (n == j->blocked_capacity) {
        const size_t capacity = n ? 2 * n : 8;
        blocked *more = mem_resize(j->blocked, capacity, sizeof *more);
        if (more) j->blocked = more;
        int32_t *banned = mem_resize(j->banned, j->n_end_ids + capacity, sizeof *banned);
        if (banned) j->banned = banned;
        if (!more || !banned) return err_no_memory(err, capacity * sizeof *more, "tokens that lead to a banned text");
        j->blocked_capacity = capacity;
    }
    j->blocked[j->n_blocked++] = (blocked){place, id};
    return QP_OK;
}

static qp_status rewind_text(job *j, size_t n_held, qp_error *err) {
    span text;
    bool has_text;
    if (!n_held && !j->hold.shown) j->heal_left = j->heal_bytes;
    ERR_TRY(detok_copy(j->detok, j->detok_base, err));
    for (size_t i = 0; i < n_held; i++) ERR_TRY(detok_next(j->detok, j->hold.tokens[i].item.id, &text, &has_text, err));
    hold_cut(&j->hold, n_held);
    return QP_OK;
}

/* The token before `place` is fed again: its logits are needed once more. */
static qp_status rewind_lanes(engine *e, job *j, size_t place, qp_error *err) {
    for (int k = 0; k < j->n_lanes; k++) {
        lane *l = &j->lanes[k];
        page_copy copy = {0};
        l->n = l->n_prompt + place;
        const int64_t keep = (int64_t)l->n - 1;
        if (l->chain.length <= keep) continue;
        if (keep < chain_least(&l->chain)) { /* what it would look at has been given up */
            engine_open_lane(e, j, l);
            continue;
        }
        ERR_TRY(chain_rewind(&l->chain, keep, &copy, err));
        if (copy.n_tokens) store_copy(&e->store, copy);
    }
    return QP_OK;
}

static qp_status take_back(engine *e, job *j, size_t held, qp_error *err) {
    const size_t now = job_new_tokens(j), place = now - j->hold.n_tokens + held;
    if (++j->n_taken_back > MOST_TAKEN_BACK)
        return err_set(err, QP_TOO_LARGE, place, "new token %zu: a banned text came back %d times", place + 1,
                       MOST_TAKEN_BACK);
    ERR_TRY(block(j, place, j->hold.tokens[held].item.id, err));
    ERR_TRY(rewind_text(j, held, err));
    ERR_TRY(rewind_lanes(e, j, place, err));
    sampler_rewind(j->sampler, place);
    loop_reset(&j->loop);
    for (size_t i = 0; i < j->n_filters; i++) ERR_TRY(j->filters[i].rewind(j->filters[i].user, now - place, err));
    j->end.stats.suppressed += now - place;
    return QP_OK;
}

/* ---- one token ---- */

static bool is_end_id(const job *j, int32_t id) {
    for (size_t i = 0; i < j->n_end_ids; i++)
        if (j->end_ids[i] == id) return true;
    return false;
}

static qp_status add_text(job *j, const pick *p, qp_error *err) {
    const sampler_choice *c = &p->choice;
    const mailbox_item item = {.id = c->id,
                               .p = c->p,
                               .logprob = c->logprob,
                               .top = j->top,
                               .n_top = c->n_top,
                               .logits = j->wants.n_logits ? p->logits : NULL};
    span text = {0};
    bool has_text = true;
    if (j->detok) ERR_TRY(detok_next(j->detok, c->id, &text, &has_text, err));
    const size_t healed = j->heal_left < text.bytes ? j->heal_left : text.bytes;
    j->heal_left -= healed;
    if (healed) text = (span){text.at + healed, text.bytes - healed};
    return hold_add(&j->hold, &item, text, has_text, err);
}

static qp_status accept(engine *e, pick *p, qp_error *err) {
    job *j = p->job;
    ERR_TRY(job_append(j, p->choice.id, err));
    for (size_t i = 0; i < j->n_filters; i++) ERR_TRY(j->filters[i].accept(j->filters[i].user, p->choice.id, err));
    ERR_TRY(add_text(j, p, err));
    const int64_t banned = hold_find_banned(&j->hold);
    if (banned >= 0) return take_back(e, j, (size_t)banned, err);
    size_t at;
    const int stop = hold_find_stop(&j->hold, &at);
    const lane *l = &j->lanes[0];
    if (stop >= 0) {
        j->end.stop_text = j->hold.stops.texts[stop];
        show_before_stop(j, at);
        engine_end(e, j, QP_FINISH_STOP, engine_logits(e, p));
    } else if ((j->end.stats.loop_period = loop_feed(&j->loop, l->ids + l->n_prompt, job_new_tokens(j)))) {
        engine_end(e, j, QP_FINISH_LOOP, engine_logits(e, p));
    } else if (job_new_tokens(j) >= j->max_new_tokens) {
        engine_end(e, j, QP_FINISH_LENGTH, engine_logits(e, p));
    } else {
        return show_ready(j, false, err);
    }
    return QP_OK;
}

/* The prompt is done, whatever comes now. */
static void note_first(job *j) {
    if (j->t_prefilled) return;
    j->t_prefilled = clock_now();
    j->end.stats.cached_tokens = j->lanes[0].n_cached;
    atomic_store(&j->prompt_done, j->n_prompt);
}

static qp_status take_one(engine *e, pick *p, qp_error *err) {
    job *j = p->job;
    if (!j->t_first) j->t_first = clock_now();
    e->counts.new_tokens++;
    ERR_TRY(accept(e, p, err));
    if (j->has_ended) return QP_OK;
    atomic_store_explicit(&j->state, QP_JOB_RUNNING, memory_order_relaxed);
    atomic_store_explicit(&j->new_tokens, job_new_tokens(j), memory_order_relaxed);
    return QP_OK;
}

/* One after the other, until the job ends or a banned text takes some back. */
static qp_status take_forced(engine *e, pick *p, qp_error *err) {
    job *j = p->job;
    for (size_t i = 0; i < p->n_forced && !j->has_ended; i++) {
        const size_t before = job_new_tokens(j);
        p->choice = (sampler_choice){.id = p->forced[i]};
        if (i) p->logits = NULL, p->row = -1; /* nothing was computed behind the token before it */
        j->end.stats.forced++;
        ERR_TRY(take_one(e, p, err));
        if (!j->has_ended && job_new_tokens(j) <= before) break;
    }
    return QP_OK;
}

static void take(engine *e, pick *p) {
    job *j = p->job;
    qp_error why = {0};
    note_first(j);
    if (p->status != QP_OK) {
        engine_fail(e, j, p->status, &p->error);
    } else if (p->is_complete) {
        engine_end(e, j, QP_FINISH_FILTER, engine_logits(e, p));
    } else if (!p->n_forced && is_end_id(j, p->choice.id)) {
        j->end.stop_id = p->choice.id;
        engine_end(e, j, QP_FINISH_EOS, engine_logits(e, p));
    } else {
        const qp_status status = p->n_forced ? take_forced(e, p, &why) : take_one(e, p, &why);
        if (status != QP_OK) engine_fail(e, j, status, &why);
    }
}

/* Whose prompt has become a vector: there is nothing to choose. */
static void end_embedded(engine *e) {
    for (int i = 0; i < e->step.n_parts; i++) {
        job *j = e->step.parts[i].job;
        if (j->has_ended || !embed_is_complete(&j->embed)) continue;
        note_first(j);
        engine_end(e, j, QP_FINISH_LENGTH, NULL);
    }
}

static void take_picks(engine *e, int first, int end) {
    for (int i = first; i < end; i++) take(e, &e->step.picks[i]);
}

/* Readers are told in rounds: whoever reads many jobs then wakes once for a round and not for each token, and hears of
 * the first no later than the engine could have made it run. Where a device works by itself they are told when it has
 * got its next step: waking others takes the engine longer than all else that it does in between. */
void engine_emit(engine *e) {
    const step *s = &e->step;
    end_embedded(e);
    if (s->in.digest) return take_picks(e, 0, s->n_picks);
    for (int first = 0, end; first < s->n_picks; first = end) {
        end = first + ROUND < s->n_picks ? first + ROUND : s->n_picks;
        take_picks(e, first, end);
        for (int i = first; i < end; i++) mailbox_tell(&s->picks[i].job->mailbox);
        bell_give_way();
    }
}

void engine_tell(engine *e) {
    for (int i = 0; i < e->n_running; i++) mailbox_tell(&e->running[i]->mailbox);
}
