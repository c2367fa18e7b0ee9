/* load_settings.c — gathers what a model is loaded with.
 *
 * Called by models_routes.c for requests and by loader.c before it loads. Three sources have the same names: the body
 * of /v1/model/load, tabby_config.yml in the model's folder, and the configuration's block `model`. The first that says
 * something wins; for the model at the start the order of the last two is the other way round, as it is for every
 * setting that the user made. */
#include "load_settings.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "config.h"
#include "templates.h"
#include "yaml.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { LONGEST_FILE = 1 << 20 };
static const int64_t MANY = (int64_t)1 << 30;

/* ---- a document ---- */

/* Settings of TabbyAPI that ask for what this server does not have, unless they say so. */
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

static const char *absent_in(const json_t *document) {
    for (size_t i = 0; i < sizeof absent_fields / sizeof *absent_fields; i++)
        if (!is_neutral(json_object_get(document, absent_fields[i].name), absent_fields[i].neutral))
            return absent_fields[i].name;
    return NULL;
}

/* QP_CACHE_DEFAULT where there is no such type. */
static qp_cache_type cache_type_called(const char *mode) {
    qp_cache_type type = QP_CACHE_FP16;
    while (qp_cache_type_name(type) && strcasecmp(mode, qp_cache_type_name(type)) != 0) type++;
    return qp_cache_type_name(type) ? type : QP_CACHE_DEFAULT;
}

static qp_status read_cache_mode(load_order *o, const json_t *document, const char *where, qp_error *err) {
    const char *mode = NULL;
    ERR_TRY(json_get_text(document, "cache_mode", &mode, where, err));
    if (!mode) return QP_OK;
    o->cache_type = cache_type_called(mode);
    if (o->cache_type != QP_CACHE_DEFAULT) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "cache_mode: found '%.40s', allowed are FP16, FP32, Q8, Q6 and Q4", mode);
}

static qp_status read_rope(load_order *o, const json_t *document, const char *where, qp_error *err) {
    const char *word = json_string_value(json_object_get(document, "rope_alpha"));
    const bool is_auto = word && !strcmp(word, "auto"); /* what the model itself says */
    if (!is_auto) ERR_TRY(json_get_real(document, "rope_alpha", &o->rope_alpha, where, err));
    ERR_TRY(json_get_real(document, "rope_scale", &o->rope_scale, where, err));
    if (o->rope_alpha < 0 || o->rope_alpha > 1e6 || o->rope_scale < 0 || o->rope_scale > 1e6)
        return err_set(err, QP_BAD_ARGUMENT, 0, "rope_alpha, rope_scale: allowed are 0 to 1000000");
    return QP_OK;
}

qp_status load_settings_read(load_order *o, const json_t *document, const char *where, qp_error *err) {
    const char *name = NULL, *absent = absent_in(document);
    if (absent) return err_set(err, QP_UNSUPPORTED, 0, "%s: this server does not have it", absent);
    ERR_TRY(json_get_text(document, "prompt_template", &name, where, err));
    if (name && !templates_is_name(name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "prompt_template: '%.100s' is not a name", name);
    if (name) snprintf(o->prompt_template, sizeof o->prompt_template, "%s", name);
    ERR_TRY(json_get_int(document, "max_seq_len", 16, MANY, &o->max_seq_len, where, err));
    ERR_TRY(json_get_int(document, "cache_size", 256, MANY, &o->cache_size, where, err));
    ERR_TRY(json_get_int(document, "chunk_size", 16, 65536, &o->chunk_size, where, err));
    ERR_TRY(json_get_int(document, "max_batch_size", 1, 4096, &o->max_batch_size, where, err));
    ERR_TRY(read_cache_mode(o, document, where, err));
    return read_rope(o, document, where, err);
}

qp_status load_settings_find(load_order *o, const config *c, const char *name, qp_error *err) {
    char config_path[PATH_MAX];
    if (!templates_is_name(name))
        return err_set(err, QP_NO_FILE, 0, "'%.100s' is not the name of a folder in %.200s", name, c->model_dir);
    snprintf(o->id, sizeof o->id, "%s", name);
    ERR_TRY(file_join(o->path, sizeof o->path, c->model_dir, name, err));
    ERR_TRY(file_join(config_path, sizeof config_path, o->path, "config.json", err));
    if (file_exists(config_path)) return QP_OK;
    return err_set(err, QP_NO_FILE, 0, "there is no model '%.100s' in %.200s", name, c->model_dir);
}

/* ---- the rest ---- */

/* Takes of `from` what is not set yet. */
static void fill(load_order *o, const load_order *from) {
    if (!o->max_seq_len) o->max_seq_len = from->max_seq_len;
    if (!o->cache_size) o->cache_size = from->cache_size;
    if (!o->chunk_size) o->chunk_size = from->chunk_size;
    if (!o->max_batch_size) o->max_batch_size = from->max_batch_size;
    if (!o->cache_type) o->cache_type = from->cache_type;
    if (o->rope_scale <= 0) o->rope_scale = from->rope_scale;
    if (o->rope_alpha <= 0) o->rope_alpha = from->rope_alpha;
    if (!*o->prompt_template) memcpy(o->prompt_template, from->prompt_template, sizeof o->prompt_template);
}

/* Of the folder's file only the block `model` is ours. */
static qp_status fill_from_folder(load_order *o, const qp_log *warn, qp_error *err) {
    char path[PATH_MAX];
    json_t *document;
    load_order own = {.is_first = false};
    ERR_TRY(file_join(path, sizeof path, o->path, "tabby_config.yml", err));
    if (!file_exists(path)) return QP_OK;
    ERR_TRY(yaml_read_path(&document, path, LONGEST_FILE, YAML_TYPED, err));
    json_t *block = json_object_get(document, "model");
    for (const char *absent; (absent = absent_in(block)); json_object_del(block, absent))
        log_line(warn, QP_LOG_WARN, "%s: %s: this server does not have it", path, absent);
    const qp_status status = block ? load_settings_read(&own, block, path, err) : QP_OK;
    json_decref(document);
    if (status == QP_OK) fill(o, &own);
    return status;
}

typedef enum config_share { ALL_SET, NAMED } config_share;

static bool is_wanted(const config *c, int row, config_share share) {
    if (share == NAMED) return config_has(&c->use_as_default, config_rows[row].key);
    return c->origins[row] && strcmp(c->origins[row], "default") != 0;
}

static void fill_from_config(load_order *o, const config *c, config_share share) {
    load_order own = {.is_first = false};
    if (is_wanted(c, CONFIG_max_seq_len, share)) own.max_seq_len = c->max_seq_len;
    if (is_wanted(c, CONFIG_cache_size, share)) own.cache_size = c->cache_size;
    if (is_wanted(c, CONFIG_chunk_size, share)) own.chunk_size = c->chunk_size;
    if (is_wanted(c, CONFIG_max_batch_size, share)) own.max_batch_size = c->max_batch_size;
    if (is_wanted(c, CONFIG_cache_mode, share) && c->cache_mode) own.cache_type = cache_type_called(c->cache_mode);
    if (is_wanted(c, CONFIG_rope_scale, share)) own.rope_scale = c->rope_scale;
    if (is_wanted(c, CONFIG_rope_alpha, share)) own.rope_alpha = c->rope_alpha;
    if (is_wanted(c, CONFIG_prompt_template, share) && c->prompt_template)
        snprintf(own.prompt_template, sizeof own.prompt_template, "%s", c->prompt_template);
    fill(o, &own);
}

static int64_t standard_of(int row) { return strtoll(config_rows[row].standard, NULL, 10); }

qp_status load_settings_wishes(adapter_wish *out, int *n, const config *c, qp_error *err) {
    *n = 0;
    if (c->loras.count > ADAPTERS_MOST)
        return err_set(err, QP_BAD_ARGUMENT, 0, "loras: found %zu, allowed are %d", c->loras.count, ADAPTERS_MOST);
    for (; *n < (int)c->loras.count; ++*n) ERR_TRY(adapters_read_wish(&out[*n], c->loras.at[*n], err));
    return QP_OK;
}

qp_status load_settings_complete(load_order *o, const config *c, const qp_log *warn, qp_error *err) {
    if (o->is_first) ERR_TRY(load_settings_wishes(o->adapters, &o->n_adapters, c, err));
    if (o->is_first) fill_from_config(o, c, ALL_SET);
    ERR_TRY(fill_from_folder(o, warn, err));
    if (!o->is_first) fill_from_config(o, c, NAMED);
    const load_order standard = {.chunk_size = standard_of(CONFIG_chunk_size),
                                 .max_batch_size = standard_of(CONFIG_max_batch_size)};
    fill(o, &standard);
    return QP_OK;
}

bool load_settings_knows(const char *name) {
    static const char *const names[] = {"max_seq_len", "cache_size", "chunk_size", "max_batch_size",
                                        "cache_mode",  "rope_scale", "rope_alpha", "prompt_template"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}
