/* presets.c — the selected sampling preset, and how it changes a request.
 *
 * A preset is a mapping of fields to {override, force, additive}: the value is a default; forced, it replaces what the
 * request says; additive, a list is appended to the request's. Requests hold the selected document while they use it,
 * so that switching needs no pause. */
#include "presets.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "config.h"
#include "server.h"
#include "templates.h"
#include "yaml.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

enum { LONGEST_FILE = 1 << 20, MOST_FILES = 4096, NAME = 104 };
static const char END[] = ".yml";

struct presets {
    pthread_mutex_t lock;
    const config *config;
    char selected[NAME]; /* "" where none is, or where overrides were given by hand */
    json_t *overrides;   /* never changed once it is here; jansson's counts are not for threads, so it is copied */
};

/* What comes with quipu. */
static const struct shipped {
    const char *name, *yaml;
} shipped[] = {
    {"sample_preset", "temperature: {override: 0.8, force: false}\nmin_p: {override: 0.05, force: false}\n"
                      "stop: {override: [], force: false, additive: true}\n"},
    {"safe_defaults",
     "temperature: {override: 0.7, force: false}\ntop_p: {override: 0.95, force: false}\n"
     "repetition_penalty: {override: 1.05, force: false}\nmax_tokens: {override: 1024, force: false}\n"},
};

static const char *const untouchable[] = {"stream", "messages", "model", "prompt", "input"};

/* ---- reading ---- */

static qp_status check_field(const char *name, const json_t *field, const char *where, qp_error *err) {
    const char *key;
    json_t *value;
    bool flag;
    for (size_t i = 0; i < sizeof untouchable / sizeof *untouchable; i++)
        if (!strcmp(name, untouchable[i]))
            return err_set(err, QP_BAD_ARGUMENT, 0, "%s: a preset cannot change '%s'", where, name);
    if (!json_is_object(field) || !json_object_get(field, "override"))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: %.80s: found %s, expected {override: VALUE, force: BOOL}", where,
                       name, json_is_object(field) ? "no override" : json_kind(field));
    json_object_foreach((json_t *)field, key, value) {
        if (strcmp(key, "override") && strcmp(key, "force") && strcmp(key, "additive"))
            return err_set(err, QP_BAD_ARGUMENT, 0, "%s: %.80s: found '%.80s', allowed are override, force, additive",
                           where, name, key);
    }
    ERR_TRY(json_get_bool(field, "force", &flag, where, err));
    ERR_TRY(json_get_bool(field, "additive", &flag, where, err));
    if (json_is_true(json_object_get(field, "additive")) && !json_is_array(json_object_get(field, "override")))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: %.80s: additive is for lists", where, name);
    return QP_OK;
}

static qp_status check_document(const json_t *document, const char *where, qp_error *err) {
    const char *name;
    json_t *field;
    if (!json_is_object(document))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found %s, expected fields", where, json_kind(document));
    json_object_foreach((json_t *)document, name, field) { ERR_TRY(check_field(name, field, where, err)); }
    return QP_OK;
}

static const struct shipped *find_shipped(const char *name) {
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
        if (!strcmp(shipped[i].name, name)) return &shipped[i];
    return NULL;
}

static qp_status read_preset(json_t **out, const config *c, const char *name, qp_error *err) {
    char path[PATH_MAX];
    *out = NULL;
    if (!templates_is_name(name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "preset '%.100s': a name has no path in it", name);
    snprintf(path, sizeof path, "%s/%s%s", c->preset_dir, name, END);
    const struct shipped *own = find_shipped(name);
    if (!file_exists(path) && !own)
        return err_set(err, QP_NO_FILE, 0, "preset '%.100s': not in %.200s, nor one of quipu's own", name,
                       c->preset_dir);
    ERR_TRY(file_exists(path) ? yaml_read_path(out, path, LONGEST_FILE, YAML_TYPED, err)
                              : yaml_read(out, own->yaml, strlen(own->yaml), YAML_TYPED, name, err));
    const qp_status status = check_document(*out, path, err);
    if (status != QP_OK) json_decref(*out), *out = NULL;
    return status;
}

/* ---- selecting ---- */

static void put(presets *p, const char *name, json_t *overrides) {
    pthread_mutex_lock(&p->lock);
    json_decref(p->overrides);
    p->overrides = overrides;
    snprintf(p->selected, sizeof p->selected, "%s", name);
    pthread_mutex_unlock(&p->lock);
}

qp_status presets_select(presets *p, const char *name, qp_error *err) {
    json_t *document;
    ERR_TRY(read_preset(&document, p->config, name, err));
    put(p, name, document);
    return QP_OK;
}

qp_status presets_set(presets *p, const json_t *overrides, qp_error *err) {
    ERR_TRY(check_document(overrides, "overrides", err));
    json_t *copy = json_deep_copy(overrides);
    if (!copy) return err_no_memory(err, 0, "overrides");
    put(p, "", copy);
    return QP_OK;
}

void presets_clear(presets *p) { put(p, "", NULL); }

qp_status presets_new(presets **out, const config *c, qp_error *err) {
    presets *p = *out = MEM_NEW(presets);
    if (!p) return err_no_memory(err, sizeof *p, "the presets");
    pthread_mutex_init(&p->lock, NULL);
    p->config = c;
    const qp_status status = c->override_preset ? presets_select(p, c->override_preset, err) : QP_OK;
    if (status != QP_OK) presets_free(p), *out = NULL;
    return status;
}

void presets_free(presets *p) {
    if (!p) return;
    json_decref(p->overrides);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

/* ---- applying ---- */

static int append_all(json_t *body, const char *name, const json_t *more) {
    json_t *given = json_object_get(body, name), *list = json_array();
    if (json_is_array(given))
        json_array_extend(list, given);
    else if (given && !json_is_null(given))
        json_array_append(list, given);
    json_t *copy = json_deep_copy(more);
    const bool is_whole = list && copy && !json_array_extend(list, copy);
    json_decref(copy);
    if (is_whole) return json_object_set_new(body, name, list);
    json_decref(list);
    return -1;
}

static int apply_field(json_t *body, const char *name, const json_t *field) {
    const json_t *given = json_object_get(body, name), *value = json_object_get(field, "override");
    const bool is_given = given && !json_is_null(given);
    if (is_given && !json_is_true(json_object_get(field, "force"))) {
        if (!json_is_true(json_object_get(field, "additive"))) return 0;
        return append_all(body, name, value);
    }
    return json_object_set_new(body, name, json_deep_copy(value));
}

qp_status presets_apply(struct server *s, json_t *body, qp_error *err) {
    presets *p = s->presets;
    const char *name;
    json_t *field;
    int failed = 0;
    pthread_mutex_lock(&p->lock);
    json_object_foreach(p->overrides, name, field) { failed |= apply_field(body, name, field); }
    pthread_mutex_unlock(&p->lock);
    return failed ? err_no_memory(err, 0, "a preset") : QP_OK;
}

/* ---- listing ---- */

static json_t *names(const config *c) {
    char **files = NULL;
    size_t n = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
        json_array_append_new(list, json_string(shipped[i].name));
    if (file_list(&files, &n, c->preset_dir, MOST_FILES, NULL) != QP_OK) files = NULL, n = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(files[i]), end = sizeof END - 1;
        if (bytes <= end || strcmp(files[i] + bytes - end, END)) continue;
        files[i][bytes - end] = 0;
        if (!find_shipped(files[i])) json_array_append_new(list, json_string(files[i]));
    }
    mem_free(files);
    return list;
}

json_t *presets_describe(presets *p) {
    json_t *list = names(p->config);
    pthread_mutex_lock(&p->lock);
    json_t *overrides = p->overrides ? json_deep_copy(p->overrides) : json_object();
    json_t *answer = json_pack("{s:s?,s:o,s:o}", "selected_preset", *p->selected ? p->selected : NULL, "overrides",
                               overrides, "presets", list);
    pthread_mutex_unlock(&p->lock);
    return answer;
}
