/* server.c — puts the parts of a server together, gives them the time, and ends them in good order.
 *
 * Called by cli/cmd_serve.c and by tests. Draining is: refuse new work, answer what still waits, let what runs go on
 * for a while, end the rest as if their limit had come, and only then close the network. */
#include "server.h"
#include "base/clock.h"
#include "base/mem.h"
#include "health.h"
#include "keys.h"
#include "loader.h"
#include "metrics.h"
#include "presets.h"
#include "pump.h"
#include "rate.h"
#include "slog.h"
#include "transport.h"
#include <stdio.h>

static const double SUMMARY_PERIOD = 10; /* seconds */

qp_status server_new(server **out, const config *c, slog *log, qp_error *err) {
    *out = NULL;
    server *s = MEM_NEW(server);
    if (!s) return err_no_memory(err, sizeof *s, "the server");
    s->config = c;
    s->log = log;
    s->started = clock_now();
    s->started_unix = (int64_t)clock_unix();
    qp_status status = metrics_new(&s->metrics, err);
    if (status == QP_OK) status = keys_new(&s->keys, c, log, err);
    if (status == QP_OK) status = rate_new(&s->rate, c->max_requests_per_minute, err);
    if (status == QP_OK) status = health_new(&s->health, c->stall_timeout, err);
    if (status == QP_OK) status = presets_new(&s->presets, c, err);
    if (status == QP_OK) status = models_new(&s->models, s, err);
    if (status == QP_OK) status = pump_new(&s->pump, s, err);
    if (status == QP_OK) status = loader_new(&s->loader, s, err);
    if (status != QP_OK) return server_free(s), status;
    *out = s;
    return QP_OK;
}

void server_free(server *s) {
    if (!s) return;
    if (s->pump) pump_cancel(s->pump, NULL, CAUSE_DRAIN);
    loader_free(s->loader);
    transport_close(s->transport);
    pump_free(s->pump);
    models_free(s->models);
    presets_free(s->presets);
    health_free(s->health);
    rate_free(s->rate);
    keys_free(s->keys);
    metrics_free(s->metrics);
    mem_free(s);
}

/* ---- now and then ---- */

static void log_summary(server *s, const qp_generator_stats *stats) {
    const uint64_t looked_for = stats->prompt_tokens + stats->cached_tokens;
    const slog_field fields[] = {
        SLOG_C("running", stats->jobs_running),
        SLOG_C("waiting", stats->jobs_waiting),
        SLOG_N("cache_use", stats->pages ? (double)stats->pages_used / (double)stats->pages : 0),
        SLOG_N("hit_rate", looked_for ? (double)stats->cached_tokens / (double)looked_for : 0),
        SLOG_N("prompt_tps", stats->rate_prompt),
        SLOG_N("generation_tps", stats->rate_new),
    };
    slog_event(s->log, QP_LOG_INFO, "summary", fields, sizeof fields / sizeof *fields);
}

static void count_job(void *user, const pump_job_view *view) {
    *(size_t *)user += view->progress.state != QP_JOB_ENDED;
}

/* Those whose step failed have been told by the engine; nobody shall wait for the rest. */
static void note_loss(server *s) {
    slog_say(s->log, QP_LOG_ERROR, "the device has failed; ending in %.1f s", s->config->fatal_grace);
    health_note(s->health, "The device has failed");
    pump_cancel(s->pump, NULL, CAUSE_LOST);
}

static void look_at_engine(server *s, double now) {
    qp_generator_stats stats;
    size_t n_jobs = 0;
    const bool was_lost = health_lost_for(s->health, now) >= 0;
    pump_each(s->pump, count_job, &n_jobs);
    model_slot *m = models_take_working(s);
    if (m) qp_generator_get_stats(m->generator, &stats);
    models_drop(m);
    if (m) metrics_tick(s->metrics, &stats);
    if (health_look(s->health, m ? &stats : NULL, n_jobs, now)) {
        const bool is_stalled = health_is_stalled(s->health);
        if (is_stalled) health_note(s->health, "The engine has work and makes no step");
        slog_say(s->log, is_stalled ? QP_LOG_ERROR : QP_LOG_INFO,
                 is_stalled ? "the engine has work and has made no step for %.1f s"
                            : "the engine makes steps again (limit %.1f s)",
                 s->config->stall_timeout);
    }
    if (!was_lost && health_lost_for(s->health, now) >= 0) note_loss(s);
    if (now < s->next_summary) return;
    s->next_summary = now + SUMMARY_PERIOD;
    if (m && n_jobs) log_summary(s, &stats);
}

static void tick(void *user, double now) {
    server *s = user;
    keys_tick(s->keys, now);
    look_at_engine(s, now);
}

qp_status server_listen(server *s, int *port, qp_error *err) {
    s->next_summary = clock_now() + SUMMARY_PERIOD;
    return transport_open(&s->transport, s, tick, port, err);
}

/* ---- the end ---- */

void server_drain(server *s) {
    if (atomic_exchange(&s->is_draining, true)) return;
    slog_say(s->log, QP_LOG_INFO, "draining: %zu requests run, they have %.0f s", pump_count(s->pump),
             s->config->drain_timeout);
    pump_cancel_waiting(s->pump, CAUSE_DRAIN);
}

bool server_is_lost(server *s) { return health_lost_for(s->health, clock_now()) > s->config->fatal_grace; }

bool server_is_idle(server *s) { return !pump_count(s->pump) && !(s->transport && transport_is_busy(s->transport)); }

void server_end_jobs(server *s) {
    const size_t n = pump_cancel(s->pump, NULL, CAUSE_DRAIN);
    if (n) slog_say(s->log, QP_LOG_INFO, "draining: %zu requests are ended", n);
}
