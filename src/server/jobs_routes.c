/* jobs_routes.c — what runs now: /v1/jobs for people and the page, /slots as llama.cpp tells it, and cancelling. */
#include "handlers.h"
#include "models.h"
#include "pump.h"
#include "reply.h"
#include "server.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct listing {
    json_t *list;
    const char *only_key; /* jobs of this key alone; NULL: all */
    uint64_t max_length;
    size_t n_running;
} listing;

static const char *state_word(qp_job_state state) {
    static const char *const words[] = {"queued", "prefill", "decode", "finished"};
    return words[state];
}

static void add_job(void *user, const pump_job_view *v) {
    listing *l = user;
    const qp_job_progress *p = &v->progress;
    char id[HTTP_ID_BYTES + 16];
    if (l->only_key && strcmp(l->only_key, v->key_mark)) return;
    snprintf(id, sizeof id, "%s-%d", v->request_id, v->choice);
    const double decode_s = v->first_text_s >= 0 ? v->age_s - v->first_text_s : 0;
    json_t *rate = p->new_tokens > 1 && decode_s > 0 ? json_real((double)(p->new_tokens - 1) / decode_s) : json_null();
    json_array_append_new(l->list,
                          json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:o,s:f}", "id", id, "request_id", v->request_id,
                                    "state", state_word(p->state), "queue_place", (json_int_t)p->queue_place,
                                    "prompt_tokens", (json_int_t)p->prompt_tokens, "prompt_done",
                                    (json_int_t)p->prompt_done, "generated", (json_int_t)p->new_tokens, "pages",
                                    (json_int_t)p->pages, "tokens_per_sec", rate, "age_s", v->age_s));
}

void jobs_list(http_request *r) {
    listing l = {.list = json_array(), .only_key = r->access == ACCESS_ADMIN ? NULL : r->key_mark};
    pump_each(r->server->pump, add_job, &l);
    reply_json(r, 200, json_pack("{s:s,s:o}", "object", "list", "data", l.list));
}

static void add_slot(void *user, const pump_job_view *v) {
    listing *l = user;
    const qp_job_progress *p = &v->progress;
    const size_t used = p->prompt_tokens + p->new_tokens;
    if (p->state == QP_JOB_WAITING) return;
    l->n_running++;
    json_array_append_new(l->list,
                          json_pack("{s:I,s:s,s:I,s:b,s:{s:I,s:I}}", "id", (json_int_t)json_array_size(l->list),
                                    "id_task", v->request_id, "n_ctx", (json_int_t)l->max_length, "is_processing", 1,
                                    "next_token", "n_decoded", (json_int_t)p->new_tokens, "n_remain",
                                    (json_int_t)(l->max_length > used ? l->max_length - used : 0)));
}

void jobs_slots(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    const char *asked = http_query(r, "fail_on_no_slot");
    if (!m) return;
    listing l = {.list = json_array(), .max_length = m->max_length};
    pump_each(r->server->pump, add_slot, &l);
    const bool is_full = l.n_running >= (size_t)m->limits.max_jobs;
    models_drop(m);
    if (is_full && asked && !strcmp(asked, "1")) {
        json_decref(l.list);
        return reply_error(r, FAULT_OVERLOADED, NULL, "all slots are taken");
    }
    reply_json(r, 200, l.list);
}

/* ---- cancelling ---- */

typedef struct search {
    const char *id;
    const char *key; /* that may cancel it; NULL: any */
    char request[HTTP_ID_BYTES + 1];
    bool is_found;
} search;

/* A job's id, its request's, or that of an answer, which ends with the request's. */
static void match_job(void *user, const pump_job_view *v) {
    search *s = user;
    char id[HTTP_ID_BYTES + 16];
    if (s->is_found || (s->key && strcmp(s->key, v->key_mark))) return;
    snprintf(id, sizeof id, "%s-%d", v->request_id, v->choice);
    const size_t bytes = strlen(s->id), own = strlen(v->request_id);
    const bool is_answer = bytes > own && s->id[bytes - own - 1] == '-' && !strcmp(s->id + bytes - own, v->request_id);
    s->is_found = is_answer || !strcmp(s->id, id) || !strcmp(s->id, v->request_id);
    if (s->is_found) snprintf(s->request, sizeof s->request, "%s", v->request_id);
}

void jobs_cancel(http_request *r) {
    search s = {.id = r->parameter, .key = r->access == ACCESS_ADMIN ? NULL : r->key_mark};
    pump_each(r->server->pump, match_job, &s);
    if (!s.is_found) return reply_error(r, FAULT_NOT_FOUND, NULL, "there is no job '%.150s'", r->parameter);
    const size_t n = pump_cancel(r->server->pump, s.request, CAUSE_API);
    reply_json(r, 200, json_pack("{s:s,s:b}", "id", s.request, "cancelled", n > 0));
}
