/* models_routes.c — /v1/models for every client, /v1/model* for those who load and unload (names as TabbyAPI's). */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "handlers.h"
#include "loader.h"
#include "reply.h"
#include "server.h"
#include "templates.h"
#include <limits.h>
#include <stdio.h>
#include <strings.h>

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

void models_list(http_request *r) {
    const config *c = r->server->config;
    json_t *list = json_array();
    model_slot *m = models_take(r->server);
    for (size_t i = 0; c->use_dummy_models && i < c->dummy_model_names.count; i++)
        json_array_append_new(list, bare_card(r, c->dummy_model_names.at[i]));
    if (m) json_array_append_new(list, models_card(m));
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

/* Fields of TabbyAPI's request that ask for what this server does not have, unless they say so. */
static const struct absent_field {
    const char *name, *neutral;
} absent_fields[] = {
    {"backend", "exllamav2|exllamav3"},
    {"tensor_parallel", "false"},
    {"gpu_split", ""},
    {"draft_model", ""},
    {"vision", "false"},
};

static bool is_neutral(const json_t *value, const char *neutral) {
    if (!value || json_is_null(value) || json_is_false(value)) return true;
    if ((json_is_array(value) && !json_array_size(value)) || (json_is_object(value) && !json_object_size(value)))
        return true;
    const char *word = json_string_value(value), *found = word && *word ? strstr(neutral, word) : NULL;
    return found != NULL;
}

static qp_status check_absent(const json_t *body, qp_error *err) {
    for (size_t i = 0; i < sizeof absent_fields / sizeof *absent_fields; i++)
        if (!is_neutral(json_object_get(body, absent_fields[i].name), absent_fields[i].neutral))
            return err_set(err, QP_UNSUPPORTED, 0, "%s: this server does not have it", absent_fields[i].name);
    return QP_OK;
}

static qp_status read_cache_mode(load_order *o, const json_t *body, qp_error *err) {
    const char *mode = NULL;
    ERR_TRY(json_get_text(body, "cache_mode", &mode, "cache_mode", err));
    if (!mode) return QP_OK;
    if (!strcasecmp(mode, "fp16"))
        o->cache_mode = "fp16";
    else if (!strcasecmp(mode, "fp32"))
        o->cache_mode = "fp32";
    else
        return err_set(err, QP_UNSUPPORTED, 0, "cache_mode: found '%.40s', allowed are FP16 and FP32", mode);
    return QP_OK;
}

static qp_status read_alpha(load_order *o, const json_t *body, qp_error *err) {
    const char *word = json_string_value(json_object_get(body, "rope_alpha"));
    if (word && !strcmp(word, "auto")) return QP_OK; /* what the model itself says */
    ERR_TRY(json_get_real(body, "rope_alpha", &o->rope_alpha, "the body", err));
    ERR_TRY(json_get_real(body, "rope_scale", &o->rope_scale, "the body", err));
    if (o->rope_alpha < 0 || o->rope_alpha > 1e6 || o->rope_scale < 0 || o->rope_scale > 1e6)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_alpha, rope_scale: allowed are 0 to 1000000");
    return QP_OK;
}

static qp_status read_numbers(load_order *o, const json_t *body, qp_error *err) {
    const int64_t many = (int64_t)1 << 30;
    ERR_TRY(json_get_int(body, "max_seq_len", 16, many, &o->max_seq_len, "the body", err));
    ERR_TRY(json_get_int(body, "cache_size", 256, many, &o->cache_size, "the body", err));
    ERR_TRY(json_get_int(body, "chunk_size", 16, 65536, &o->chunk_size, "the body", err));
    ERR_TRY(json_get_int(body, "max_batch_size", 1, 4096, &o->max_batch_size, "the body", err));
    ERR_TRY(json_get_bool(body, "skip_queue", &o->skip_queue, "the body", err));
    return read_alpha(o, body, err);
}

static qp_status read_order(load_order *o, const config *c, const json_t *body, qp_error *err) {
    const char *name = NULL, *template_name = NULL;
    char config_path[PATH_MAX];
    ERR_TRY(json_get_text(body, "model_name", &name, "the body", err));
    if (!name) return err_set(err, QP_BAD_ARGUMENT, 0, "model_name: is missing");
    if (!templates_is_name(name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "model_name: '%.100s' is not the name of a folder in %.200s", name,
                       c->model_dir);
    snprintf(o->id, sizeof o->id, "%s", name);
    ERR_TRY(file_join(o->path, sizeof o->path, c->model_dir, name, err));
    ERR_TRY(file_join(config_path, sizeof config_path, o->path, "config.json", err));
    if (!file_exists(config_path))
        return err_set(err, QP_BAD_ARGUMENT, 0, "model_name: there is no model '%.100s' in %.200s", name, c->model_dir);
    ERR_TRY(json_get_text(body, "prompt_template", &template_name, "the body", err));
    if (template_name && !templates_is_name(template_name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "prompt_template: '%.100s' is not a name", template_name);
    if (template_name) snprintf(o->prompt_template, sizeof o->prompt_template, "%s", template_name);
    ERR_TRY(check_absent(body, err));
    ERR_TRY(read_cache_mode(o, body, err));
    return read_numbers(o, body, err);
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
