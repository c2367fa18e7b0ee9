/* info_routes.c — what the server says about itself: permissions, properties, and what it does not have. */
#include "handlers.h"
#include "models.h"
#include "reply.h"
#include "server.h"

void info_permission(http_request *r) {
    reply_json(r, 200, json_pack("{s:s}", "permission", r->access == ACCESS_ADMIN ? "admin" : "api"));
}

void info_props(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (!m) return;
    chat_template *t = NULL;
    models_take_template(&t, m, NULL, NULL);
    const qp_sampling *sampling = &m->info.sampling;
    json_t *params = json_pack(
        "{s:f,s:i,s:f,s:f,s:f}", "temperature", m->info.has_sampling ? (double)sampling->temperature : 1.0, "top_k",
        sampling->top_k, "top_p", sampling->top_p > 0 ? (double)sampling->top_p : 1.0, "min_p", (double)sampling->min_p,
        "repeat_penalty", sampling->repetition_penalty > 0 ? (double)sampling->repetition_penalty : 1.0);
    reply_json(r, 200,
               json_pack("{s:i,s:{s:I,s:o},s:s,s:s,s:s}", "total_slots", m->limits.max_jobs,
                         "default_generation_settings", "n_ctx", (json_int_t)m->max_length, "params", params,
                         "chat_template", t ? t->source : "", "model_path", m->id, "build_info",
                         "quipu/" QUIPU_VERSION));
    models_drop_template(t);
    models_drop(m);
}

void info_service(http_request *r) {
    reply_json(r, 200,
               json_pack("{s:f,s:{s:s,s:s},s:{s:{s:s,s:s,s:s}}}", "version", 0.1, "software", "name", "quipu",
                         "version", QUIPU_VERSION, "api", "openai", "name", "OpenAI API", "base_url", "/v1",
                         "documentation", "https://platform.openai.com/docs/api-reference"));
}

void info_not_implemented(http_request *r) {
    reply_error(r, FAULT_NOT_IMPLEMENTED, NULL, "%s is not implemented by this server", r->path);
}

void info_no_other_model(http_request *r) {
    reply_error(r, FAULT_NOT_IMPLEMENTED, NULL,
                "%s: the loaded model makes the embeddings; another one is loaded by /v1/model/load", r->path);
}

void info_no_ranking(http_request *r) {
    reply_error(r, FAULT_NOT_IMPLEMENTED, NULL,
                "%s: no model of this version scores pairs of texts; compare their embeddings instead", r->path);
}
