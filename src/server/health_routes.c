/* health_routes.c — /health/live, /health, /health/ready and /metrics: what supervisors and dashboards ask.
 *
 * Live is answered by the network thread, whatever the engine does. Ready with ?deep=1 sends one token through the
 * engine as any request does. */
#include "base/mem.h"
#include "handlers.h"
#include "health.h"
#include "keys.h"
#include "metrics.h"
#include "pump.h"
#include "reply.h"
#include "server.h"
#include <stdio.h>

static const double DEEP_LIMIT = 10; /* seconds */

void health_live(http_request *r) { reply_json(r, 200, json_pack("{s:s}", "status", "alive")); }

static void answer(http_request *r, bool is_ready, json_t *issues) {
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", health_retry_after(r->server));
    if (!is_ready) http_add_header(r, "Retry-After", seconds);
    reply_json(
        r, is_ready ? 200 : 503,
        json_pack("{s:s,s:o}", "status", is_ready ? "healthy" : "unhealthy", "issues", issues ? issues : json_array()));
}

/* ---- one token ---- */

typedef struct deep {
    http_request *request;
    bool has_failed;
    char why[200];
} deep;

static void deep_event(void *user, int choice, const qp_event *event) {}

static const char *deep_end(void *user, int choice, const qp_event *event, const qp_error *failure) {
    deep *d = user;
    d->has_failed = failure || event->finish == QP_FINISH_TIMEOUT || event->finish == QP_FINISH_CANCELLED;
    if (d->has_failed)
        snprintf(d->why, sizeof d->why, "One token: %.180s", failure ? failure->text : qp_finish_text(event->finish));
    return NULL;
}

static void deep_done(void *user) {
    deep *d = user;
    json_t *issues = json_array();
    if (d->has_failed) json_array_append_new(issues, json_pack("{s:s}", "description", d->why));
    answer(d->request, !d->has_failed, issues);
    mem_free(d);
}

static const pump_calls deep_calls = {.on_event = deep_event, .on_end = deep_end, .on_done = deep_done};

static void look_deep(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (!m) return;
    deep *d = MEM_NEW(deep);
    const int32_t id = m->info.bos >= 0 ? m->info.bos : 0;
    const qp_job_options options = {.size = sizeof options,
                                    .ids = &id,
                                    .n_ids = 1,
                                    .max_new_tokens = 1,
                                    .ignore_eos = true,
                                    .max_total_s = DEEP_LIMIT,
                                    .max_queue_s = DEEP_LIMIT};
    qp_error err = {0};
    if (d) d->request = r;
    const pump_order order = {
        .request = r, .model = m, .prompts = &options, .n_prompts = 1, .n = 1, .calls = &deep_calls, .user = d};
    const qp_status status = d ? pump_submit(&order, &err) : err_no_memory(&err, sizeof *d, "a token");
    if (status != QP_OK) {
        mem_free(d);
        reply_failure(r, NULL, &err);
    }
    models_drop(m);
}

void health_ready(http_request *r) {
    json_t *issues;
    const char *asked = http_query(r, "deep");
    const bool is_deep = asked && !strcmp(asked, "1"), is_ready = health_is_ready(r->server, &issues);
    if (!is_ready || !is_deep) return answer(r, is_ready, issues);
    json_decref(issues);
    if (r->access < ACCESS_API) return reply_error(r, FAULT_KEY, NULL, "deep needs an api key");
    look_deep(r);
}

void health_metrics(http_request *r) {
    strbuf text = {0};
    size_t bytes;
    metrics_write(&text, r->server);
    char *body = strbuf_move(&text, &bytes);
    if (!body) return reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
    http_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", body, bytes);
}
