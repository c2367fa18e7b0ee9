/* health.c — readiness: a model that is loaded, an engine that makes steps, a server that does not end.
 *
 * An answer of 200 while generation hangs is the worst that a health check can do, so the engine's progress itself is
 * looked at: its count of steps must move while it has work. Its own count of running jobs is no witness, it is as old
 * as the last step; the jobs themselves are. A stall that ends clears itself. */
#include "health.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loader.h"
#include "metrics.h"
#include "models.h"
#include "server.h"
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { MOST_ISSUES = 100, MOST_WAIT = 60 };

typedef struct issue {
    double time; /* seconds since 1970 */
    char text[200];
} issue;

struct health {
    pthread_mutex_t lock;
    double stall_timeout;
    issue issues[MOST_ISSUES];
    size_t n_issues, next;
    uint64_t steps, work; /* at the last change */
    double t_change;      /* clock_now() */
    double t_lost;        /* of the first look at a device that has failed; 0: none */
    bool is_stalled;
};

qp_status health_new(health **out, double stall_timeout, qp_error *err) {
    *out = MEM_NEW(health);
    if (!*out) return err_no_memory(err, sizeof **out, "health");
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->stall_timeout = stall_timeout;
    (*out)->t_change = clock_now();
    return QP_OK;
}

void health_free(health *h) {
    if (!h) return;
    pthread_mutex_destroy(&h->lock);
    mem_free(h);
}

void health_note(health *h, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&h->lock);
    issue *i = &h->issues[h->next];
    i->time = clock_unix();
    vsnprintf(i->text, sizeof i->text, format, arguments);
    h->next = (h->next + 1) % MOST_ISSUES;
    if (h->n_issues < MOST_ISSUES) h->n_issues++;
    pthread_mutex_unlock(&h->lock);
    va_end(arguments);
}

bool health_look(health *h, const qp_generator_stats *s, size_t n_jobs, double now) {
    pthread_mutex_lock(&h->lock);
    const bool has_work = s && n_jobs > 0;
    /* What ended counts as progress too: cancelled jobs leave without a step. */
    const uint64_t steps = s ? s->steps + s->jobs_finished + s->jobs_cancelled + s->jobs_failed : 0;
    if (!has_work || steps != h->steps) h->t_change = now;
    h->steps = steps;
    const bool is_stalled = has_work && now - h->t_change > h->stall_timeout, has_changed = is_stalled != h->is_stalled;
    h->is_stalled = is_stalled;
    if (s && s->has_device_failed && h->t_lost <= 0) h->t_lost = now;
    pthread_mutex_unlock(&h->lock);
    return has_changed;
}

bool health_is_stalled(health *h) {
    pthread_mutex_lock(&h->lock);
    const bool is = h->is_stalled;
    pthread_mutex_unlock(&h->lock);
    return is;
}

double health_lost_for(health *h, double now) {
    pthread_mutex_lock(&h->lock);
    const double seconds = h->t_lost > 0 ? now - h->t_lost : -1;
    pthread_mutex_unlock(&h->lock);
    return seconds;
}

static void add_issue(json_t *list, double when, const char *text) {
    char time[40];
    const time_t seconds = (time_t)when;
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (list) json_array_append_new(list, json_pack("{s:s,s:s}", "time", time, "description", text));
}

static void add_past(json_t *list, health *h) {
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n_issues; i++) {
        const issue *one = &h->issues[(h->next + MOST_ISSUES - 1 - i) % MOST_ISSUES];
        add_issue(list, one->time, one->text);
    }
    pthread_mutex_unlock(&h->lock);
}

bool health_is_ready(struct server *s, json_t **issues) {
    char text[200] = "";
    double share;
    json_t *list = issues ? json_array() : NULL;
    model_slot *m = models_take(s);
    if (atomic_load(&s->is_draining))
        snprintf(text, sizeof text, "Draining: the server is about to end");
    else if (loader_is_running(s, &share))
        snprintf(text, sizeof text, "Loading model, %.0f %%", share * 100);
    else if (!m)
        snprintf(text, sizeof text, "No model is loaded");
    else if (health_lost_for(s->health, clock_now()) >= 0)
        snprintf(text, sizeof text, "The device has failed; the server is about to end");
    else if (health_is_stalled(s->health))
        snprintf(text, sizeof text, "The engine has work and has made no step for %.1f s", s->config->stall_timeout);
    models_drop(m);
    if (*text) {
        add_issue(list, clock_unix(), text);
        if (list) add_past(list, s->health);
    }
    if (issues) *issues = list;
    return !*text;
}

int health_retry_after(struct server *s) {
    model_slot *m = models_take(s);
    double wait = 1;
    if (m) {
        qp_generator_stats stats;
        qp_generator_get_stats(m->generator, &stats);
        const double ahead = (double)(stats.jobs_waiting + stats.jobs_running);
        wait = ahead * metrics_mean_job(s->metrics) / (double)(m->limits.max_jobs > 0 ? m->limits.max_jobs : 1);
        models_drop(m);
    } else if (atomic_load(&s->is_draining)) {
        wait = 5;
    }
    return (int)fmin(fmax(ceil(wait), 1), MOST_WAIT);
}
