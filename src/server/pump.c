/* pump.c — from the engine's events to the callbacks of those who write answers.
 *
 * Requests are submitted by worker threads, cancelled and given room by the network's threads; all of it ends as a note
 * in the inbox, and only the pump's thread touches jobs and callbacks. That is why nothing here waits for a lock while
 * it calls out. A group is freed by the pump alone, also when its submission fails, because the engine may already have
 * told of one of its jobs. */
#include "pump.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include "exchange.h"
#include "gaps.h"
#include "metrics.h"
#include "server.h"
#include "slog.h"
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

static const double LATE_LOOK = 0.1; /* seconds between two looks for answers that should begin */

typedef struct group group;

typedef struct pump_job {
    group *group;
    int choice;
    qp_job *job;            /* NULL: ended */
    double t_last;          /* the engine's clock, of the newest token */
    _Atomic double t_first; /* clock_now() of the first text; 0: none yet. Others look at it */
} pump_job;

typedef enum group_state { GROUP_SUBMITTING, GROUP_OPEN, GROUP_REFUSED } group_state;

/* One request. */
struct group {
    group *next, *previous; /* of those alive, by the pump's lock */
    group *inbox_next;
    bool is_in_inbox, is_cancelled; /* by the lock */
    group_state state;              /* likewise */
    pump *pump;
    http_request *request;
    model_slot *model;
    const pump_calls *calls;
    void *user;
    pump_job *jobs;
    int n_jobs, n_left;
    double t_submitted;
    bool was_late;
    gaps gaps;
};

/* Somebody waits until the pump's thread has looked. */
typedef struct errand {
    struct errand *next;
    pump_visitor *visit;
    void *user;
    bool is_done;
} errand;

struct pump {
    struct server *server;
    pthread_mutex_t lock;
    pthread_t thread;
    qp_watch *watch;
    int wake, epoll;
    group *alive, *inbox;
    size_t n_alive;
    errand *errands; /* by the lock */
    pthread_cond_t errand_done;
    bool is_ending;
};

/* ---- notes to the pump ---- */

static void note(group *g, bool cancels) {
    pump *p = g->pump;
    pthread_mutex_lock(&p->lock);
    g->is_cancelled |= cancels;
    if (!g->is_in_inbox) {
        g->is_in_inbox = true;
        g->inbox_next = p->inbox;
        p->inbox = g;
        wake_set(p->wake);
    }
    pthread_mutex_unlock(&p->lock);
}

static void on_cancel(void *user) { note(user, true); }
static void on_room(void *user) { note(user, false); }

/* ---- submitting ---- */

static group *group_new(pump *p, const pump_order *o) {
    const int n_jobs = o->n_prompts * o->n;
    group *g = MEM_NEW(group);
    pump_job *jobs = mem_zarray((size_t)n_jobs, sizeof *jobs);
    if (!g || !jobs) {
        mem_free(jobs);
        mem_free(g);
        return NULL;
    }
    *g = (group){.pump = p, .calls = o->calls, .user = o->user, .jobs = jobs, .n_jobs = n_jobs, .n_left = n_jobs};
    for (int i = 0; i < n_jobs; i++) jobs[i] = (pump_job){.group = g, .choice = i};
    g->request = http_hold(o->request);
    g->model = o->model;
    atomic_fetch_add(&o->model->users, 1);
    g->t_submitted = clock_now();
    return g;
}

static void group_free(group *g) {
    for (int i = 0; i < g->n_jobs; i++) qp_job_free(g->jobs[i].job);
    models_drop(g->model);
    http_drop(g->request);
    mem_free(g->jobs);
    mem_free(g);
}

static void enter(pump *p, group *g) {
    pthread_mutex_lock(&p->lock);
    g->next = p->alive;
    if (g->next) g->next->previous = g;
    p->alive = g;
    p->n_alive++;
    pthread_mutex_unlock(&p->lock);
}

static void leave(pump *p, group *g) {
    pthread_mutex_lock(&p->lock);
    *(g->previous ? &g->previous->next : &p->alive) = g->next;
    if (g->next) g->next->previous = g->previous;
    p->n_alive--;
    pthread_mutex_unlock(&p->lock);
}

/* The limits of the configuration, where the request does not have a shorter one. */
static void limit_times(qp_job_options *o, const config *c) {
    if (c->queue_timeout > 0 && (o->max_queue_s <= 0 || o->max_queue_s > c->queue_timeout))
        o->max_queue_s = c->queue_timeout;
    if (c->max_generation_seconds > 0 && (o->max_total_s <= 0 || o->max_total_s > c->max_generation_seconds))
        o->max_total_s = c->max_generation_seconds;
    if (!c->allow_client_priority) o->priority = 0;
}

static qp_status submit_prompt(group *g, const pump_order *o, int i, qp_error *err) {
    qp_job_options options = o->prompts[i];
    pump_job *jobs = &g->jobs[i * o->n];
    options.watch = g->pump->watch;
    limit_times(&options, g->request->server->config);
    qp_filter filters[FORM_FILTERS];
    if (o->form) ERR_TRY(form_filters(o->form, filters, &options, err));
    if (o->n == 1) {
        options.user = jobs;
        return qp_job_new(&jobs->job, g->model->generator, &options, err);
    }
    qp_job **made = mem_zarray((size_t)o->n, sizeof *made);
    if (!made) {
        form_drop(&options);
        return err_no_memory(err, (size_t)o->n * sizeof *made, "choices");
    }
    options.user = jobs; /* one for all: whichever is told of, the whole group is looked at */
    const qp_status status = qp_jobs_new(made, o->n, g->model->generator, &options, err);
    for (int k = 0; k < o->n; k++) jobs[k].job = made[k];
    mem_free(made);
    return status;
}

/* For those who have asked for it (log_prompt): the prompts as the engine gets them, ids as text. */
static void log_prompts(const pump_order *o) {
    const struct server *s = o->request->server;
    for (int i = 0; s->config->log_prompt && i < o->n_prompts; i++) {
        const qp_job_options *p = &o->prompts[i];
        char *text = NULL;
        size_t bytes;
        if (!p->prompt && qp_detokenize(o->model->tokenizer, p->ids, p->n_ids, 0, &text, &bytes, NULL) != QP_OK)
            continue;
        const slog_field fields[] = {SLOG_W("request_id", o->request->id), SLOG_W("prompt", text ? text : p->prompt)};
        slog_event(s->log, QP_LOG_INFO, "prompt", fields, sizeof fields / sizeof *fields);
        qp_free(text);
    }
}

static void set_state(group *g, group_state state) {
    pthread_mutex_lock(&g->pump->lock);
    g->state = state;
    pthread_mutex_unlock(&g->pump->lock);
    note(g, false);
}

qp_status pump_submit(const pump_order *o, qp_error *err) {
    pump *p = o->request->server->pump;
    group *g = group_new(p, o);
    if (!g) return err_no_memory(err, sizeof *g, "a request");
    enter(p, g);
    qp_status status = QP_OK;
    for (int i = 0; status == QP_OK && i < o->n_prompts; i++) status = submit_prompt(g, o, i, err);
    if (status != QP_OK) return set_state(g, GROUP_REFUSED), status;
    o->request->figures.is_generation = true;
    o->request->figures.n = g->n_jobs;
    snprintf(o->request->figures.model, sizeof o->request->figures.model, "%.127s", g->model->id);
    metrics_observe(p->server->metrics, METRIC_request_params_n, o->n, 1);
    if (o->prompts[0].max_new_tokens)
        metrics_observe(p->server->metrics, METRIC_request_params_max_tokens, (double)o->prompts[0].max_new_tokens, 1);
    log_prompts(o);
    exchange_of(g->request)->group = g;
    http_listen(g->request, &(http_listener){on_cancel, on_room, g});
    set_state(g, GROUP_OPEN);
    return QP_OK;
}

/* ---- events ---- */

static void measure_text(group *g, pump_job *j, const qp_event *e) {
    metrics *m = g->pump->server->metrics;
    http_figures *f = &g->request->figures;
    if (e->kind != QP_EVENT_TEXT || !e->n_ids) return;
    if (atomic_load(&j->t_first) <= 0) {
        const double now = clock_now(), ttft = now - g->request->arrived;
        atomic_store(&j->t_first, now);
        metrics_observe(m, METRIC_time_to_first_token_seconds, ttft, 1);
        if (f->ttft_s <= 0) f->ttft_s = ttft;
    } else {
        const double gap = e->sampled_at - j->t_last;
        metrics_observe(m, METRIC_inter_token_latency_seconds, gap / (double)e->n_ids, e->n_ids);
        if (!j->choice) gaps_add(&g->gaps, gap);
    }
    j->t_last = e->sampled_at;
}

/* Is it told to a client that is still there? A job that the server itself has ended is cancelled, too. */
static bool is_told(const group *g, const char *told) {
    const http_cause cause = http_cancel_cause(g->request);
    return told && (cause == CAUSE_NONE || cause == CAUSE_DRAIN || cause == CAUSE_TIMEOUT);
}

static metric_finish finish_of(const group *g, const qp_event *e, const char *told, bool has_failed) {
    if (has_failed || e->finish == QP_FINISH_ERROR) return METRIC_FINISH_error;
    if (is_told(g, told) && !strcmp(told, "tool_calls")) return METRIC_FINISH_tool_calls;
    if (is_told(g, told)) return !strcmp(told, "length") ? METRIC_FINISH_length : METRIC_FINISH_stop;
    if (e->finish == QP_FINISH_CANCELLED) return METRIC_FINISH_cancelled;
    return e->finish == QP_FINISH_LENGTH || e->finish == QP_FINISH_TIMEOUT ? METRIC_FINISH_length : METRIC_FINISH_stop;
}

static const char *finish_word(const qp_event *e, bool has_failed) {
    return has_failed ? "error" : e->finish == QP_FINISH_CANCELLED ? "cancelled" : qp_finish_text(e->finish);
}

static void end_job(group *g, pump_job *j, const qp_event *e, const qp_error *failure) {
    http_figures *f = &g->request->figures;
    const qp_job_stats *s = &e->stats;
    if (!j->choice || s->prompt_tokens > f->prompt_tokens) {
        f->prompt_tokens = s->prompt_tokens;
        f->cached_tokens = s->cached_tokens;
        f->queue_s = s->queue_s;
        f->prefill_s = s->prefill_s;
    }
    f->completion_tokens += s->new_tokens;
    if (s->decode_s > f->decode_s) f->decode_s = s->decode_s;
    const char *told = g->calls->on_end(g->user, j->choice, e, failure);
    if (!f->finish) f->finish = finish_word(e, failure != NULL);
    metrics_job(g->pump->server->metrics, finish_of(g, e, told, failure != NULL), s);
    pthread_mutex_lock(&g->pump->lock); /* others look at jobs under it */
    qp_job *ended = j->job;
    j->job = NULL;
    pthread_mutex_unlock(&g->pump->lock);
    qp_job_free(ended);
    g->n_left--;
}

static void read_job(group *g, pump_job *j) {
    while (j->job && !http_is_full(g->request)) {
        qp_event event;
        qp_error err = {0};
        const qp_status status = qp_job_poll(j->job, 0, &event, &err);
        if (status == QP_BUSY) return;
        if (status == QP_OK && event.kind != QP_EVENT_END) {
            measure_text(g, j, &event);
            g->calls->on_event(g->user, j->choice, &event);
            continue;
        }
        if (status != QP_OK) err.code = status;
        end_job(g, j, &event, status == QP_OK ? NULL : &err);
    }
}

static void finish_group(group *g) {
    struct server *s = g->pump->server;
    http_figures *f = &g->request->figures;
    const http_cause cause = http_cancel_cause(g->request);
    gaps_summarise(&g->gaps, &f->gap_p50_s, &f->gap_p99_s, &f->gap_max_s);
    if (cause != CAUSE_NONE && cause != CAUSE_STOP) metrics_cancelled(s->metrics, cause);
    metrics_observe(s->metrics, METRIC_e2e_request_latency_seconds, clock_now() - g->request->arrived, 1);
    http_listen(g->request, NULL);
    exchange_of(g->request)->group = NULL;
    g->calls->on_done(g->user); /* may submit the request's next jobs */
    leave(g->pump, g);
    /* A note that came before http_listen is still in the inbox: it frees the group then. */
    pthread_mutex_lock(&g->pump->lock);
    g->state = GROUP_REFUSED;
    const bool is_noted = g->is_in_inbox;
    pthread_mutex_unlock(&g->pump->lock);
    if (!is_noted) group_free(g);
}

static void read_group(group *g) {
    for (int i = 0; i < g->n_jobs; i++) read_job(g, &g->jobs[i]);
    if (!g->n_left) finish_group(g);
}

/* ---- the thread ---- */

static void read_inbox(pump *p) {
    pthread_mutex_lock(&p->lock);
    group *list = p->inbox;
    p->inbox = NULL;
    if (list) wake_clear(p->wake);
    pthread_mutex_unlock(&p->lock);
    while (list) {
        group *g = list;
        list = g->inbox_next;
        pthread_mutex_lock(&p->lock);
        g->is_in_inbox = false;
        const group_state state = g->state;
        const bool is_cancelled = g->is_cancelled;
        pthread_mutex_unlock(&p->lock);
        if (state == GROUP_REFUSED) {
            if (g->n_left) leave(p, g);
            group_free(g);
        } else if (state == GROUP_OPEN) {
            for (int i = 0; is_cancelled && i < g->n_jobs; i++)
                if (g->jobs[i].job) qp_job_cancel(g->jobs[i].job);
            read_group(g);
        }
    }
}

static void read_watch(pump *p) {
    void *user;
    while (qp_watch_next(p->watch, 0, &user)) {
        group *g = ((pump_job *)user)->group;
        pthread_mutex_lock(&p->lock);
        const bool is_open = g->state == GROUP_OPEN;
        pthread_mutex_unlock(&p->lock);
        if (is_open) read_group(g); /* else all of it is read when its submission is over */
    }
}

/* Whoever waits for an answer that has not begun gets a sign of life. */
static double look_for_late(pump *p, double now) {
    const double interval = p->server->config->sse_ping_interval;
    bool has_quiet = false;
    pthread_mutex_lock(&p->lock);
    group *g = p->alive;
    pthread_mutex_unlock(&p->lock);
    while (g && interval > 0) {
        pthread_mutex_lock(&p->lock);
        group *next = g->next;
        const bool is_quiet = g->state == GROUP_OPEN && !g->was_late;
        pthread_mutex_unlock(&p->lock);
        const bool is_due = is_quiet && now - g->t_submitted >= interval;
        has_quiet |= is_quiet && !is_due;
        if (is_due) g->was_late = true;
        if (is_due && g->calls->on_late && !http_has_begun(g->request)) g->calls->on_late(g->user);
        g = next;
    }
    return has_quiet ? LATE_LOOK : 1;
}

static void run_errand(pump *p, const errand *e) {
    pthread_mutex_lock(&p->lock);
    group *g = p->alive;
    pthread_mutex_unlock(&p->lock);
    for (bool is_over = false; g && !is_over;) {
        pthread_mutex_lock(&p->lock);
        group *next = g->next;
        const bool is_open = g->state == GROUP_OPEN;
        pthread_mutex_unlock(&p->lock);
        is_over = is_open && e->visit(e->user, g->request, g->calls, g->user);
        g = next;
    }
}

static void run_errands(pump *p) {
    for (;;) {
        pthread_mutex_lock(&p->lock);
        errand *e = p->errands;
        if (e) p->errands = e->next;
        pthread_mutex_unlock(&p->lock);
        if (!e) return;
        run_errand(p, e);
        pthread_mutex_lock(&p->lock);
        e->is_done = true;
        pthread_cond_broadcast(&p->errand_done);
        pthread_mutex_unlock(&p->lock);
    }
}

static void *run(void *user) {
    pthread_setname_np(pthread_self(), "quipu-pump");
    pump *p = user;
    struct epoll_event events[2];
    double wait = 1, next_look = 0;
    for (;;) {
        epoll_wait(p->epoll, events, 2, (int)(wait * 1000));
        pthread_mutex_lock(&p->lock);
        const bool is_over = p->is_ending && !p->alive && !p->inbox;
        pthread_mutex_unlock(&p->lock);
        if (is_over) return NULL;
        read_inbox(p);
        read_watch(p);
        run_errands(p);
        const double now = clock_now();
        if (now < next_look) continue;
        wait = look_for_late(p, now);
        next_look = now + LATE_LOOK;
    }
}

static qp_status start(pump *p, qp_error *err) {
    ERR_TRY(qp_watch_new(&p->watch, err));
    ERR_TRY(wake_open(&p->wake, err));
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event notes = {.events = EPOLLIN}, jobs = {.events = EPOLLIN};
    if (p->epoll < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->wake, &notes) ||
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, qp_watch_descriptor(p->watch), &jobs))
        return err_set(err, QP_IO, 0, "no epoll set for events");
    sigset_t before;
    signals_block(&before);
    const int failed = pthread_create(&p->thread, NULL, run, p);
    signals_restore(&before);
    return failed ? err_set(err, QP_NO_MEMORY, 0, "no thread for events: %s", strerror(failed)) : QP_OK;
}

static void release(pump *p) {
    qp_watch_free(p->watch);
    if (p->wake >= 0) wake_close(p->wake);
    if (p->epoll >= 0) close(p->epoll);
    pthread_cond_destroy(&p->errand_done);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

qp_status pump_new(pump **out, struct server *s, qp_error *err) {
    *out = NULL;
    pump *p = MEM_NEW(pump);
    if (!p) return err_no_memory(err, sizeof *p, "the pump");
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->errand_done, NULL);
    p->server = s;
    p->wake = p->epoll = -1;
    const qp_status status = start(p, err);
    if (status != QP_OK) return release(p), status;
    *out = p;
    return QP_OK;
}

void pump_free(pump *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->is_ending = true;
    wake_set(p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    release(p);
}

/* ---- asked by others ---- */

void pump_look(pump *p, pump_visitor *visit, void *user) {
    errand e = {NULL, visit, user, false};
    pthread_mutex_lock(&p->lock);
    e.next = p->errands;
    p->errands = &e;
    wake_set(p->wake);
    while (!e.is_done) pthread_cond_wait(&p->errand_done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

qp_job *pump_peek_job(http_request *r, int choice) {
    const group *g = exchange_of(r)->group;
    return g && choice < g->n_jobs ? g->jobs[choice].job : NULL;
}

size_t pump_count(pump *p) {
    pthread_mutex_lock(&p->lock);
    const size_t n = p->n_alive;
    pthread_mutex_unlock(&p->lock);
    return n;
}

static bool is_waiting(const group *g) {
    for (int i = 0; i < g->n_jobs; i++) {
        qp_job_progress progress = {0};
        if (g->jobs[i].job) qp_job_get_progress(g->jobs[i].job, &progress);
        if (progress.state != QP_JOB_WAITING) return false;
    }
    return true;
}

static bool is_wanted(const group *g, const char *id, bool only_waiting) {
    return g->state == GROUP_OPEN && (!id || !strcmp(g->request->id, id)) && (!only_waiting || is_waiting(g));
}

/* http_cancel calls back, so the requests are held and the lock is not. */
static size_t cancel_wanted(pump *p, const char *id, bool only_waiting, http_cause cause) {
    enum { AT_ONCE = 64 };
    size_t n_all = 0;
    for (;;) {
        http_request *found[AT_ONCE];
        size_t n = 0;
        pthread_mutex_lock(&p->lock);
        for (group *g = p->alive; g && n < AT_ONCE; g = g->next)
            if (http_cancel_cause(g->request) == CAUSE_NONE && is_wanted(g, id, only_waiting))
                found[n++] = http_hold(g->request);
        pthread_mutex_unlock(&p->lock);
        for (size_t i = 0; i < n; i++) {
            http_cancel(found[i], cause);
            http_drop(found[i]);
        }
        n_all += n;
        if (n < AT_ONCE) return n_all;
    }
}

size_t pump_cancel(pump *p, const char *id, http_cause cause) { return cancel_wanted(p, id, false, cause); }
size_t pump_cancel_waiting(pump *p, http_cause cause) { return cancel_wanted(p, NULL, true, cause); }

void pump_each(pump *p, void (*visit)(void *user, const pump_job_view *view), void *user) {
    const double now = clock_now();
    pthread_mutex_lock(&p->lock);
    for (group *g = p->alive; g; g = g->next) {
        if (g->state != GROUP_OPEN) continue;
        for (int i = 0; i < g->n_jobs; i++) {
            pump_job *j = &g->jobs[i];
            if (!j->job) continue;
            const double t_first = atomic_load(&j->t_first);
            pump_job_view view = {.request_id = g->request->id,
                                  .key_mark = g->request->key_mark,
                                  .choice = i,
                                  .age_s = now - g->t_submitted,
                                  .first_text_s = t_first > 0 ? t_first - g->t_submitted : -1};
            qp_job_get_progress(j->job, &view.progress);
            visit(user, &view);
        }
    }
    pthread_mutex_unlock(&p->lock);
}
