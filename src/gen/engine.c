/* engine.c — the thread that serves all jobs of a generator, and its loop.
 *
 * Called by api/. One thread, so nothing below it needs a lock; clients reach it through the inbox alone and hear from
 * it through their mailboxes. The loop: take what has come, then choose -> fill -> run -> sample -> emit, as long as
 * there is something to run. It ends when the inbox is closed, after ending every job. */
#include "engine.h"
#include "seq.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include <math.h>
#include <pthread.h>

static const double RATE_SECONDS = 10; /* over which rates are averaged */

/* ---- what came in ---- */

static void take_jobs(engine *e, job *list) {
    while (list) {
        job *j = list;
        list = j->next;
        e->counts.jobs_submitted++;
        const qp_error why = {.code = QP_NO_MEMORY, .text = "out of memory: the queue of waiting jobs"};
        if (engine_enqueue(e, j) == QP_OK) continue;
        inbox_count(e->inbox, -1);
        engine_fail(e, j, QP_NO_MEMORY, &why);
    }
}

/* They may take long: nobody shall wait for them who is only to be told. */
static void run_errands(engine *e, errand *list, bool refuse) {
    if (list) engine_tell(e);
    while (list) {
        errand *next = list->next;
        list->is_refused = refuse;
        if (!refuse) list->run(e, list->context);
        inbox_done(e->inbox, list);
        list = next;
    }
}

static void let_go_ended(engine *e) {
    while (e->ended) {
        job *j = e->ended;
        e->ended = j->next;
        job_let_go(j);
    }
}

static double next_deadline(const engine *e) {
    double soonest = (double)INFINITY;
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i]->deadline < soonest) soonest = e->running[i]->deadline;
    for (size_t i = 0; i < e->n_waiting; i++) {
        const job *j = e->waiting[i];
        if (j->deadline < soonest) soonest = j->deadline;
        if (!j->t_started && j->queue_deadline < soonest) soonest = j->queue_deadline;
    }
    return soonest;
}

/* ---- counting ---- */

static void update_rates(engine *e, double now, uint64_t new_before) {
    qp_generator_stats *c = &e->counts;
    const double passed = now - e->t_rates, keep = exp(-passed / RATE_SECONDS);
    if (passed <= 0) return;
    c->rate_new = keep * c->rate_new + (1 - keep) * (double)(c->new_tokens - new_before) / passed;
    c->rate_prompt = keep * c->rate_prompt + (1 - keep) * e->step.n_prompt_rows / passed;
    e->t_rates = now;
}

static void publish(engine *e) {
    page_stats p;
    pages_get_stats(e->pages, &p);
    qp_generator_stats *c = &e->counts;
    c->jobs_running = (size_t)e->n_running;
    c->pages = p.pages;
    c->pages_used = p.used;
    c->pages_cached = p.cached;
    c->pages_shared = p.shared;
    c->pages_evicted = p.evicted;
    c->pages_spilled = p.spilled;
    c->pages_restored = p.restored;
    bell_lock(&e->shared_bell);
    e->shared = *c;
    e->shared_t_last_step = e->t_last_step;
    bell_unlock(&e->shared_bell);
}

static void count_step(engine *e, uint64_t new_before) {
    qp_generator_stats *c = &e->counts;
    const double now = clock_now();
    c->steps++;
    c->prompt_tokens += (uint64_t)e->step.n_prompt_rows;
    c->step_s = now - e->step.t_begin;
    c->step_model_s = e->step.model_s;
    c->total_step_s += c->step_s;
    c->total_model_s += c->step_model_s;
    update_rates(e, now, new_before);
    e->t_last_step = now;
}

void engine_get_stats(engine *e, qp_generator_stats *out) {
    bell_lock(&e->shared_bell);
    *out = e->shared;
    out->idle_s = out->jobs_running ? 0 : clock_now() - e->shared_t_last_step;
    bell_unlock(&e->shared_bell);
    bell_lock(&e->inbox->bell);
    out->jobs_waiting = e->inbox->n_waiting;
    out->jobs_refused = e->inbox->n_refused;
    bell_unlock(&e->inbox->bell);
}

/* ---- the loop ---- */

/* Jobs wait, none runs and none could start: that must not be; the first is told so instead of waiting for ever. */
static void end_stuck(engine *e) {
    qp_error why = {0};
    if (e->n_running || !e->n_waiting) return;
    err_set(&why, QP_TOO_LARGE, 0, "the job does not fit into the cache of %llu tokens",
            (unsigned long long)engine_capacity(e));
    engine_fail(e, e->waiting[0], QP_TOO_LARGE, &why);
}

/* Every job that runs waits for its reader. */
static bool is_paused(const engine *e) {
    for (int i = 0; i < e->n_running; i++)
        if (!mailbox_is_full(&e->running[i]->mailbox)) return false;
    return true;
}

/* False: there is nothing to compute until something comes in. */
static bool run_step(engine *e) {
    const uint64_t new_before = e->counts.new_tokens;
    e->step.t_begin = clock_now();
    if (!engine_choose(e)) {
        engine_tell(e);
        const bool was_stuck = !e->n_running && e->n_waiting;
        end_stuck(e);
        return was_stuck || !is_paused(e);
    }
    engine_fill(e);
    if (engine_run(e)) {
        engine_sample(e);
        engine_emit(e);
    }
    count_step(e, new_before);
    return true;
}

static void end_all(engine *e) {
    while (e->n_running) engine_end(e, e->running[0], QP_FINISH_CANCELLED, NULL);
    while (e->n_waiting) engine_end(e, e->waiting[0], QP_FINISH_CANCELLED, NULL);
}

static void *work(void *argument) {
    engine *e = argument;
    pthread_setname_np(pthread_self(), "quipu-engine");
    for (bool is_closed = false, is_busy = false; !is_closed;) {
        const inbox_news news = inbox_take(e->inbox, is_busy ? 0 : next_deadline(e));
        take_jobs(e, news.jobs);
        is_closed = news.is_closed;
        run_errands(e, news.errands, is_closed);
        if (is_closed) end_all(e);
        is_busy = run_step(e);
        publish(e);
        let_go_ended(e);
    }
    return NULL;
}

/* ---- making and ending ---- */

static qp_status open_cache(engine *e, qp_error *err) {
    const uint64_t tokens = e->options.cache_tokens;
    const uint64_t pages = tokens / DEV_PAGE_TOKENS + (tokens % DEV_PAGE_TOKENS != 0);
    if (!tokens || pages > INT32_MAX / 2)
        return err_set(err, QP_BAD_ARGUMENT, 0, "cache of %llu tokens, allowed are 1 to %llu",
                       (unsigned long long)tokens, (unsigned long long)(INT32_MAX / 2) * DEV_PAGE_TOKENS);
    const store_shape shape = seq_store_shape(&e->model->shape, e->options.kv_type);
    ERR_TRY(seq_check_room(e->model, &shape, pages, err));
    ERR_TRY(store_open(&e->store, &e->model->split, &shape, (int)pages, err));
    ERR_TRY(pages_open(&e->pages, (int)pages, NULL, err));
    if (!e->options.spill_bytes) return QP_OK;
    const page_mover mover = store_mover(&e->store);
    return pages_spill(e->pages, e->options.spill_bytes, &mover, err);
}

static qp_status open_digests(engine *e, qp_error *err) {
    device *dev = e->model->split.dev[e->model->split.n - 1];
    const int rows = e->options.max_jobs * JOB_LANES, n = rows < dev->logit_rows ? rows : dev->logit_rows;
    return digests_open(&e->digests, dev, n, e->model->shape.vocabulary, err);
}

static qp_status start_thread(engine *e, qp_error *err) {
    sigset_t before;
    signals_block(&before);
    const int failed = pthread_create(&e->thread, NULL, work, e);
    signals_restore(&before);
    if (failed) return err_set(err, QP_NO_MEMORY, 0, "the engine's thread could not be started (error %d)", failed);
    e->has_thread = true;
    return QP_OK;
}

static qp_status fill(engine *e, qp_error *err) {
    const size_t n = (size_t)e->options.max_jobs;
    e->running = mem_array(n, sizeof(job *));
    e->step.prompts = mem_array(n, sizeof(job *));
    e->step.picks = mem_zarray(n, sizeof(pick));
    if (!e->running || !e->step.prompts || !e->step.picks)
        return err_no_memory(err, n * sizeof(pick), "places for running jobs");
    ERR_TRY(inbox_new(&e->inbox, e->options.max_queue, e->options.first_serial, err));
    ERR_TRY(sampler_room_new(&e->rooms[0], e->model->shape.vocabulary, err));
    e->n_rooms = 1;
    ERR_TRY(open_cache(e, err));
    ERR_TRY(open_digests(e, err));
    pace_open(&e->pace, &e->model->shape);
    e->t_rates = e->t_last_step = clock_now();
    publish(e);
    return start_thread(e, err);
}

qp_status engine_new(engine **out, model *m, const engine_options *options, qp_error *err) {
    *out = NULL;
    engine *e = MEM_NEW(engine);
    if (!e) return err_no_memory(err, sizeof *e, "a generator");
    e->model = m;
    e->options = *options;
    e->n_releases = e->rotation = options->first_serial;
    e->root = model_identity(m);
    e->window = shape_common_window(&m->shape);
    qp_status status = bell_open(&e->shared_bell, err);
    if (status != QP_OK) return mem_free(e), status;
    status = fill(e, err);
    if (status == QP_OK)
        *out = e;
    else
        engine_free(e);
    return status;
}

void engine_free(engine *e) {
    if (!e) return;
    if (e->inbox) inbox_close(e->inbox);
    if (e->has_thread) pthread_join(e->thread, NULL);
    inbox_let_go(e->inbox);
    pages_close(e->pages);
    store_close(&e->store);
    digests_close(&e->digests);
    pool_free(e->pool);
    for (int i = 0; i < e->n_rooms; i++) sampler_room_free(e->rooms[i]);
    mem_free(e->waiting);
    mem_free(e->running);
    mem_free(e->step.prompts);
    mem_free(e->step.picks);
    mem_free(e->logits);
    mem_free(e->states);
    bell_close(&e->shared_bell);
    mem_free(e);
}

uint64_t engine_capacity(const engine *e) { return (uint64_t)e->store.n_pages * DEV_PAGE_TOKENS; }
