/* models_routes.c — /v1/models for every client, /v1/model* for those who load and unload (names as TabbyAPI's). */
#include "adapters.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "handlers.h"
#include "load_settings.h"
#include "reply.h"
#include "server.h"
#include <limits.h>
#include <stdio.h>

enum { MOST_MODELS = 10000 };

/* ---- listing ---- */

static json_t *bare_card(const http_request *r, const char *id) {
    return json_pack("{s:s,s:s,s:I,s:s}", "id", id, "object", "model", "created", (json_int_t)r->server->started_unix,
                     "owned_by", "quipu");
}

/* To an admin, every folder of model_dir that has a config.json. */
static void add_folders(http_request *r, json_t *list, const char *loaded) {
    char **names = NULL;
    size_t n = 0;
    const char *folder = r->server->config->model_dir;
    if (file_list(&names, &n, folder, MOST_MODELS, NULL) != QP_OK) return;
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        const int bytes = snprintf(path, sizeof path, "%s/%s/config.json", folder, names[i]);
        if (bytes < (int)sizeof path && file_exists(path) && (!loaded || strcmp(loaded, names[i])))
            json_array_append_new(list, bare_card(r, names[i]));
    }
    mem_free(names);
}

/* A request may name one as its model. */
static json_t *adapter_card(const http_request *r, const char *name, const char *model) {
    json_t *card = bare_card(r, name);
    json_object_set_new(card, "parent", json_string(model));
    return card;
}

static void add_adapters(const http_request *r, json_t *list, model_slot *m) {
    adapter_set *set = adapters_take(m);
    for (int i = 0; set && i < set->n; i++) json_array_append_new(list, adapter_card(r, set->items[i].name, m->id));
    adapters_drop(set);
}

void models_list(http_request *r) {
    const config *c = r->server->config;
    json_t *list = json_array();
    model_slot *m = models_take(r->server);
    for (size_t i = 0; c->use_dummy_models && i < c->dummy_model_names.count; i++)
        json_array_append_new(list, bare_card(r, c->dummy_model_names.at[i]));
    if (m) json_array_append_new(list, models_card(m));
    if (m) add_adapters(r, list, m);
    if (r->access == ACCESS_ADMIN) add_folders(r, list, m ? m->id : NULL);
    models_drop(m);
    reply_json(r, 200, json_pack("{s:s,s:o}", "object", "list", "data", list));
}

void models_one(http_request *r) {
    const config *c = r->server->config;
    model_slot *m = models_take(r->server);
    const bool is_loaded = m && (!strcmp(m->id, r->parameter) || config_has(&c->model_alias, r->parameter));
    if (is_loaded)
        reply_json(r, 200, models_card(m));
    else if (m && adapters_has(m, r->parameter))
        reply_json(r, 200, adapter_card(r, r->parameter, m->id));
    else if (c->use_dummy_models && config_has(&c->dummy_model_names, r->parameter))
        reply_json(r, 200, bare_card(r, r->parameter));
    else
        reply_error(r, FAULT_NO_MODEL_NAMED, NULL, "there is no model '%.200s'", r->parameter);
    models_drop(m);
}

void models_current(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (m) reply_json(r, 200, models_card(m));
    models_drop(m);
}

void models_drafts(http_request *r) { reply_json(r, 200, json_pack("{s:s,s:[]}", "object", "list", "data")); }

/* ---- loading ---- */

static qp_status read_order(load_order *o, const config *c, const json_t *body, qp_error *err) {
    const char *name = NULL;
    ERR_TRY(json_get_text(body, "model_name", &name, "the body", err));
    if (!name) return err_set(err, QP_BAD_ARGUMENT, 0, "model_name: is missing");
    const qp_status status = load_settings_find(o, c, name, err);
    if (status == QP_NO_FILE) return err_set(err, QP_BAD_ARGUMENT, 0, "model_name: %.400s", err->text);
    ERR_TRY(status);
    ERR_TRY(json_get_bool(body, "skip_queue", &o->skip_queue, "the body", err));
    return load_settings_read(o, body, "the body", err);
}

void models_load(http_request *r) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    load_order order = {.skip_queue = false};
    qp_error err = {0};
    qp_status status = read_order(&order, r->server->config, body, &err);
    json_decref(body);
    if (status == QP_OK) {
        status = loader_start(r->server->loader, &order, r, &err);
        if (status == QP_BUSY) return reply_error(r, FAULT_BUSY_LOADING, NULL, "%s", err.text);
    }
    if (status != QP_OK) reply_failure(r, NULL, &err);
}

void models_unload(http_request *r) {
    qp_error err = {0};
    bool skip_queue = false;
    json_t *body = r->body.bytes ? reply_read_body(r) : NULL;
    if (r->body.bytes && !body) return;
    qp_status status = body ? json_get_bool(body, "skip_queue", &skip_queue, "the body", &err) : QP_OK;
    json_decref(body);
    if (status != QP_OK) return reply_failure(r, "skip_queue", &err);
    status = loader_start_unload(r->server->loader, skip_queue, r, &err);
    if (status == QP_BUSY) return reply_error(r, FAULT_BUSY_LOADING, NULL, "%s", err.text);
    if (status == QP_NO_FILE) return reply_error(r, FAULT_NO_MODEL, NULL, "%s", err.text);
    if (status != QP_OK) reply_failure(r, NULL, &err);
}
