/* sched.c — which jobs start, and which rows this step computes.
 *
 * Called by engine.c at the beginning of each step. Jobs stand in one order, in the queue as among the running: by
 * priority, then by their number. Every running answer gets its row in every step; prompts share what pace.c leaves,
 * in turn. Pages are taken when rows need them; where none is left, the last in the order gives its own back and waits
 * again (preemption): whoever is first always gets on. Before that, where every layer has a window, all give up what is
 * older than it: not sooner, because others may still begin alike. Jobs that would compute the same page wait for the
 * one that does, and answers whose reader wants no more at once wait for their reader. */
#include "engine.h"
#include "base/clock.h"
#include "base/mem.h"

enum { KEPT_WHOLE = 3 }; /* pages of a window: the two whole ones that stay, and one that it begins in */

static bool goes_before(const job *a, const job *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    return (int64_t)(a->serial - b->serial) < 0; /* right also where the numbers wrap */
}

/* ---- the queue ---- */

qp_status engine_enqueue(engine *e, job *j) {
    if (e->n_waiting == e->waiting_capacity) {
        const size_t n = e->waiting_capacity ? 2 * e->waiting_capacity : 64;
        job **more = mem_resize(e->waiting, n, sizeof(job *));
        if (!more) return QP_NO_MEMORY;
        e->waiting = more;
        e->waiting_capacity = n;
    }
    size_t at = e->n_waiting++;
    for (; at && goes_before(j, e->waiting[at - 1]); at--) e->waiting[at] = e->waiting[at - 1];
    e->waiting[at] = j;
    j->tried_at = e->n_releases - 1; /* not yet */
    atomic_store(&j->state, QP_JOB_WAITING);
    return QP_OK;
}

static void leave_queue(engine *e, size_t at) {
    e->n_waiting--;
    for (; at < e->n_waiting; at++) e->waiting[at] = e->waiting[at + 1];
}

static void join_running(engine *e, job *j) {
    int at = e->n_running++;
    for (; at && goes_before(j, e->running[at - 1]); at--) e->running[at] = e->running[at - 1];
    e->running[at] = j;
    j->is_running = true;
    atomic_store(&j->state, QP_JOB_PROMPT);
}

static int pages_for(size_t tokens) { return (int)((tokens + DEV_PAGE_TOKENS - 1) / DEV_PAGE_TOKENS); }

/* Pages that the lane's ids need beside those it has, with a window no more than are seen at once. */
static int lacking(const engine *e, const lane *l) {
    const int more = pages_for(l->n) - l->chain.n_pages;
    if (!e->window || more <= 0) return more > 0 ? more : 0;
    const int seen = pages_for((size_t)e->window + (size_t)e->options.chunk_tokens) + KEPT_WHOLE;
    const int left = seen - (l->chain.n_pages - l->chain.n_given_up);
    return more < left ? more : left > 1 ? left : 1;
}

/* Pages that running prompts were promised and have not taken yet. */
static int promised(const engine *e) {
    int n = 0;
    for (int i = 0; i < e->n_running; i++)
        for (int k = 0; k < e->running[i]->n_lanes; k++) n += lacking(e, &e->running[i]->lanes[k]);
    return n;
}

/* Whether pages came free because running jobs have given up what no layer looks at any more. */
static bool give_up_unseen(engine *e) {
    int n = 0;
    for (int i = 0; e->window && i < e->n_running; i++)
        for (int k = 0; k < e->running[i]->n_lanes; k++) {
            chain *c = &e->running[i]->lanes[k].chain;
            n += chain_give_up(c, c->length + 1 - e->window);
        }
    return n > 0;
}

static void reuse(engine *e, lane *l) {
    page_copy copy = {0};
    const int64_t gained = chain_reuse(&l->chain, l->ids, (int64_t)l->n, &copy);
    if (copy.n_tokens) store_copy(&e->store, copy);
    l->n_cached += (size_t)gained;
    e->counts.cached_tokens += (uint64_t)gained;
}

void engine_open_lane(engine *e, job *j, lane *l) {
    chain_close(&l->chain);
    chain_open(&l->chain, e->pages, engine_lane_root(e, j, l));
    if (e->options.no_reuse || job_is_private(j)) chain_make_private(&l->chain);
}

static void open_chains(engine *e, job *j) {
    for (int k = 0; k < j->n_lanes; k++) {
        j->lanes[k].n_cached = 0;
        engine_open_lane(e, j, &j->lanes[k]);
        reuse(e, &j->lanes[k]);
    }
}

static void close_chains(job *j) {
    for (int k = 0; k < j->n_lanes; k++) chain_close(&j->lanes[k].chain);
}

/* Whether the job's prompt fits beside the others, with some room for their answers to grow. */
static bool fits(engine *e, job *j) {
    int need = e->n_running / 8;
    for (int k = 0; k < j->n_lanes; k++) need += lacking(e, &j->lanes[k]);
    return pages_available(e->pages) - promised(e) >= need;
}

static bool try_start(engine *e, job *j) {
    if (j->tried_at == e->n_releases) return false;
    j->tried_at = e->n_releases;
    open_chains(e, j);
    if (fits(e, j) || (give_up_unseen(e) && fits(e, j))) return true;
    close_chains(j);
    return false;
}

static void start(engine *e, size_t at) {
    job *j = e->waiting[at];
    leave_queue(e, at);
    join_running(e, j);
    inbox_count(e->inbox, -1);
    if (!j->t_started) j->t_started = clock_now();
}

static void start_jobs(engine *e) {
    const int most = e->options.max_bypass;
    for (size_t i = 0; i < e->n_waiting && e->n_running < e->options.max_jobs;) {
        if (try_start(e, e->waiting[i])) {
            for (size_t k = 0; k < i; k++) e->waiting[k]->n_bypassed++;
            start(e, i);
            i = 0;
        } else if (e->waiting[i++]->n_bypassed >= most) {
            break;
        }
    }
    for (size_t i = 0; i < e->n_waiting; i++) atomic_store(&e->waiting[i]->queue_place, i);
}

/* ---- preemption ---- */

static void leave_running(engine *e, const job *j) {
    int at = 0;
    while (e->running[at] != j) at++;
    e->n_running--;
    for (; at < e->n_running; at++) e->running[at] = e->running[at + 1];
}

static void preempt(engine *e, job *j) {
    close_chains(j);
    leave_running(e, j);
    j->is_running = false;
    mailbox_tell(&j->mailbox); /* it is none of those who run */
    j->end.stats.preempted++;
    e->counts.jobs_preempted++;
    e->n_releases++;
    inbox_count(e->inbox, 1);
    const qp_error why = {.code = QP_NO_MEMORY, .text = "out of memory: the queue of waiting jobs"};
    if (engine_enqueue(e, j) != QP_OK) engine_fail(e, j, QP_NO_MEMORY, &why);
}

static bool is_planned(const engine *e, const job *j) {
    for (int i = 0; i < e->step.n_parts; i++)
        if (e->step.parts[i].job == j) return true;
    return false;
}

/* The last in the order that has pages and no rows in this step yet, j itself at the latest; NULL if that is none. */
static job *victim_for(const engine *e, const job *j) {
    for (int i = e->n_running; i--;) {
        job *last = e->running[i];
        if (last != j && !goes_before(j, last)) return NULL;
        if (!is_planned(e, last)) return last;
    }
    return NULL;
}

/* Pages for the lane up to `tokens`; false: the job cannot run in this step (it may have been preempted, or failed). */
static bool reserve(engine *e, job *j, lane *l, int64_t tokens) {
    qp_error why = {0};
    for (;;) {
        const qp_status status = chain_reserve(&l->chain, tokens, &why);
        if (status == QP_OK) return true;
        if (status != QP_BUSY) {
            if (!is_planned(e, j)) engine_fail(e, j, status, &why); /* else in the next step */
            return false;
        }
        if (give_up_unseen(e)) continue;
        job *victim = victim_for(e, j);
        if (!victim) return false;
        preempt(e, victim);
        if (victim == j) return false;
    }
}

/* ---- rows ---- */

static int64_t todo(const lane *l) { return (int64_t)l->n - l->chain.length; }

/* Every lane lacks its newest token alone, or those of its answer that were forced, too. */
static bool is_decoding(const job *j) {
    const int64_t n = todo(&j->lanes[0]);
    if (n < 1 || n > ENGINE_MOST_FORCED || (n > 1 && (size_t)n > job_new_tokens(j))) return false;
    for (int k = 1; k < j->n_lanes; k++)
        if (todo(&j->lanes[k]) != n) return false;
    return true;
}

static int rows_left(const engine *e) {
    return e->model->forward.max_rows - e->step.n_decode_rows - e->step.n_prompt_rows;
}

static void plan_rows(engine *e, job *j, int k, int n_rows) {
    e->step.parts[e->step.n_parts++] = (step_part){j, k, n_rows};
}

static bool reserve_answer(engine *e, job *j) {
    for (int k = 0; k < j->n_lanes; k++)
        if (!reserve(e, j, &j->lanes[k], (int64_t)j->lanes[k].n)) return false;
    return true;
}

/* Rows of each lane of the i-th running job: all that it lacks, where every job behind it still finds room for one. */
static int answer_rows(const engine *e, int i) {
    const job *j = e->running[i];
    const int kept = (e->n_running - i - 1) * JOB_LANES, room = (rows_left(e) - kept) / j->n_lanes;
    const int n = (int)todo(&j->lanes[0]);
    return n < room ? n : room > 1 ? room : 1;
}

static void plan_answers(engine *e) {
    for (int i = 0; i < e->n_running;) {
        job *j = e->running[i];
        if (is_decoding(j) && !is_planned(e, j) && !mailbox_is_full(&j->mailbox) && reserve_answer(e, j)) {
            const int n = answer_rows(e, i);
            for (int k = 0; k < j->n_lanes; k++) plan_rows(e, j, k, n);
            e->step.n_decode_rows += n * j->n_lanes;
        }
        if (i < e->n_running && e->running[i] == j) i++; /* else it has lost its place, and the next one stands here */
    }
}

/* Ids that the two lanes have in common in the page that `mine` is about to begin. */
static int64_t common_ids(const lane *mine, const lane *other) {
    const size_t from = (size_t)mine->chain.length, end = from + DEV_PAGE_TOKENS;
    size_t at = from;
    while (at < end && at < mine->n && at < other->n && mine->ids[at] == other->ids[at]) at++;
    return (int64_t)(at - from);
}

/* Whether another prompt of this step, or one before it in the order, is filling the page that the lane needs next. */
static bool is_following(const engine *e, const job *j, const lane *l) {
    const int64_t page = l->chain.length / DEV_PAGE_TOKENS;
    if (l->chain.is_private || l->chain.length % DEV_PAGE_TOKENS) return false;
    for (int i = 0; i < e->n_running && e->running[i] != j; i++)
        for (int k = 0; k < e->running[i]->n_lanes; k++) {
            const lane *other = &e->running[i]->lanes[k];
            if (todo(other) < 2 || other->chain.is_private || other->chain.root != l->chain.root ||
                other->chain.length < l->chain.length)
                continue;
            if (page && other->chain.pages[page - 1] != l->chain.pages[page - 1]) continue;
            if (other->chain.length < (page + 1) * DEV_PAGE_TOKENS && common_ids(l, other) > 1) return true;
        }
    return false;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Ids up to the end of the prompt, or behind it all: a part of a step is of one or of the other (fill.c). */
static int64_t todo_alike(const lane *l, int64_t n) {
    const int64_t left = (int64_t)l->n_prompt - l->chain.length;
    return left > 0 && left < n ? left : n;
}

/* Rows for one lane's prompt out of what is left; units: what they cost. A job of two lanes keeps the last token of
 * each for the step in which both are complete. */
static void plan_lane(engine *e, job *j, int k, double *units, int most) {
    lane *l = &j->lanes[k];
    if (l->chain.length % DEV_PAGE_TOKENS == 0) reuse(e, l);
    const int64_t left = todo_alike(l, todo(l) - (j->n_lanes > 1));
    if (left < 1 || is_following(e, j, l)) return;
    if (!k && score_is_open(&j->score))
        most = least(most, score_most_rows(e->model->shape.vocabulary) - e->step.n_score_rows);
    if (most < 1) return;
    int n = left < most ? (int)left : most;
    n = pace_rows(&e->pace, l->chain.length, *units, n);
    if (!reserve(e, j, l, l->chain.length + n)) return;
    const double cost = pace_units(&e->pace, l->chain.length, n);
    plan_rows(e, j, k, n);
    if (!k && score_is_open(&j->score)) e->step.n_score_rows += n;
    e->step.n_prompt_rows += n;
    e->step.prompt_units += cost;
    *units -= cost;
}

/* All lanes of a job that is still running: a page for one lane may have cost the job the others' (preemption). */
static void plan_prompt(engine *e, job *j, double *units) {
    for (int k = 0; k < j->n_lanes && *units >= 1 && j->is_running; k++) {
        const int most = least(rows_left(e), e->options.chunk_tokens - e->step.n_prompt_rows);
        if (most > 0) plan_lane(e, j, k, units, most);
    }
}

static void plan_prompts(engine *e) {
    job **prompts = e->step.prompts;
    int n = 0;
    for (int i = 0; i < e->n_running; i++)
        if (!is_decoding(e->running[i]) && !is_planned(e, e->running[i])) prompts[n++] = e->running[i];
    double units = 1e30;
    if (n && e->step.n_decode_rows) units = pace_budget(&e->pace, e->step.n_decode_rows, e->options.max_stall);
    for (int i = 0; i < n && units >= 1; i++) {
        job *j = prompts[(e->rotation % (uint64_t)n + (uint64_t)i) % (uint64_t)n]; /* also where rotation wraps */
        if (j->is_running) plan_prompt(e, j, &units);
    }
    e->rotation++;
}

/* ---- leaving ---- */

static bool has_to_end(const job *j, double now, qp_finish *finish) {
    *finish = QP_FINISH_NONE;
    if (atomic_load_explicit(&j->is_cancelled, memory_order_relaxed))
        *finish = QP_FINISH_CANCELLED;
    else if (now >= j->deadline || (!j->t_started && now >= j->queue_deadline))
        *finish = QP_FINISH_TIMEOUT;
    return *finish != QP_FINISH_NONE;
}

static void end_leavers(engine *e) {
    const double now = clock_now();
    qp_finish finish;
    for (int i = e->n_running; i--;)
        if (has_to_end(e->running[i], now, &finish)) engine_end(e, e->running[i], finish, NULL);
    for (size_t i = e->n_waiting; i--;)
        if (has_to_end(e->waiting[i], now, &finish)) engine_end(e, e->waiting[i], finish, NULL);
}

bool engine_choose(engine *e) {
    end_leavers(e);
    start_jobs(e);
    step *s = &e->step;
    s->n_parts = s->n_decode_rows = s->n_prompt_rows = s->n_score_rows = 0;
    s->prompt_units = 0;
    plan_answers(e);
    plan_prompts(e);
    if (!s->n_parts && e->n_running) { /* all were preempted or follow one that was: try again in the order */
        start_jobs(e);
        plan_answers(e);
        plan_prompts(e);
    }
    return s->n_parts > 0;
}
