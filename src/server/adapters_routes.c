/* adapters_routes.c — /v1/lora*: what is loaded, what could be, loading and unloading (names as TabbyAPI's). */
#include "adapters.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "handlers.h"
#include "loader.h"
#include "server.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { MOST_FOLDERS = 10000 };

/* ---- listing ---- */

static json_t *card(const char *name, int64_t created, json_t *scale) {
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", name, "object", "lora", "created", (json_int_t)created, "owned_by",
                     "quipu", "scaling", scale);
}

static void add_folders(json_t *list, const struct server *s, const adapter_set *loaded) {
    char **names = NULL;
    size_t n = 0;
    const char *folder = s->config->lora_dir;
    if (file_list(&names, &n, folder, MOST_FOLDERS, NULL) != QP_OK) return;
    for (size_t i = 0; i < n; i++) {
        char path[PATH_MAX];
        bool is_loaded = false;
        for (int k = 0; loaded && k < loaded->n; k++) is_loaded |= !strcmp(loaded->items[k].name, names[i]);
        const int bytes = snprintf(path, sizeof path, "%s/%s/adapter_config.json", folder, names[i]);
        if (!is_loaded && bytes < (int)sizeof path && file_exists(path))
            json_array_append_new(list, card(names[i], s->started_unix, json_null()));
    }
    mem_free(names);
}

static void list_adapters(http_request *r, bool with_folders) {
    model_slot *m = models_take(r->server);
    adapter_set *set = m ? adapters_take(m) : NULL;
    json_t *list = json_array();
    for (int i = 0; set && i < set->n; i++)
        json_array_append_new(list,
                              card(set->items[i].name, set->items[i].created, json_real((double)set->items[i].scale)));
    if (with_folders && r->access == ACCESS_ADMIN) add_folders(list, r->server, set);
    adapters_drop(set);
    models_drop(m);
    reply_json(r, 200, json_pack("{s:s,s:o}", "object", "list", "data", list));
}

void adapters_loaded(http_request *r) { list_adapters(r, false); }
void adapters_list(http_request *r) { list_adapters(r, true); }

/* ---- loading ---- */

static qp_status read_wish(adapter_wish *out, const json_t *entry, size_t i, qp_error *err) {
    char place[32];
    const char *name = NULL;
    double scale = 1;
    snprintf(place, sizeof place, "loras[%zu]", i);
    if (!json_is_object(entry))
        return err_set(err, QP_BAD_ARGUMENT, i, "%s: found %s, expected an object of name and scaling", place,
                       json_kind(entry));
    ERR_TRY(json_get_text(entry, "name", &name, place, err));
    ERR_TRY(json_get_real(entry, "scaling", &scale, place, err));
    if (!name || !*name || strlen(name) >= sizeof out->name)
        return err_set(err, QP_BAD_ARGUMENT, i, "%s: name: missing or longer than %zu bytes", place,
                       sizeof out->name - 1);
    if (!(fabs(scale) <= 1e6))
        return err_set(err, QP_BAD_ARGUMENT, i, "%s: scaling: found %g, allowed are -1000000 to 1000000", place, scale);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->scale = (float)scale;
    return QP_OK;
}

static qp_status read_order(load_order *o, const json_t *body, qp_error *err) {
    const json_t *list = json_object_get(body, "loras");
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || !n)
        return err_set(err, QP_BAD_ARGUMENT, 0, "loras: expected an array of {\"name\", \"scaling\"}, not empty");
    if (n > ADAPTERS_MOST)
        return err_set(err, QP_BAD_ARGUMENT, 0, "loras: found %zu, allowed are %d at the same time", n, ADAPTERS_MOST);
    ERR_TRY(json_get_bool(body, "skip_queue", &o->skip_queue, "the body", err));
    for (size_t i = 0; i < n; i++) ERR_TRY(read_wish(&o->adapters[i], json_array_get(list, i), i, err));
    o->n_adapters = (int)n;
    return QP_OK;
}

static void refuse_load(http_request *r, qp_status status, const qp_error *err) {
    if (status == QP_BUSY) return reply_error(r, FAULT_BUSY_LOADING, NULL, "%s", err->text);
    if (status == QP_NO_FILE) return reply_error(r, FAULT_NO_MODEL, NULL, "%s", err->text);
    reply_failure(r, "loras", err);
}

/* The answer comes when they are loaded. */
void adapters_load(http_request *r) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    load_order order = {.skip_queue = false};
    qp_error err = {0};
    qp_status status = read_order(&order, body, &err);
    json_decref(body);
    if (status == QP_OK) status = loader_start_adapters(r->server->loader, &order, r, &err);
    if (status != QP_OK) refuse_load(r, status, &err);
}

void adapters_unload(http_request *r) {
    double share;
    model_slot *m = models_take(r->server);
    if (!m && loader_is_running(r->server, &share))
        return reply_error(r, FAULT_LOADING, NULL, "a model is being loaded");
    if (!m) return reply_error(r, FAULT_NO_MODEL, NULL, "no model is loaded");
    adapters_put(m, NULL);
    models_drop(m);
    reply_null(r);
}
