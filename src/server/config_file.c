/* config_file.c — reads the settings out of a YAML file, ours or TabbyAPI's.
 *
 * Both have blocks of keys, and where the meaning is the same the names are TabbyAPI's, so that its config.yml is read
 * as it is. Its keys without a meaning here are known by the table below: told to the log when they ask for something,
 * passed over when they do not. Anything else that is unknown is refused, with the nearest name. */
#include "config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "yaml.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <strings.h>

enum { MOST_BYTES = 1 << 20, NAME = 96 };

/* What TabbyAPI's key is when it asks for nothing; a list of words, "" stands for null and an empty list. */
static const struct foreign_key {
    const char *block, *key, *neutral;
} foreign_keys[] = {
    {"network", "disable_fetch_requests", "|true|false"},
    {"network", "send_tracebacks", "|false"},
    {"network", "api_servers", "|OAI"},
    {"logging", "log_generation_params", "|false"},
    {"logging", "log_requests", "|false|true"},
    {"model", "backend", "|exllamav2|exllamav3"},
    {"model", "tensor_parallel", "|false"},
    {"model", "tensor_parallel_backend", "|native"},
    {"model", "gpu_split_auto", "|true|false"},
    {"model", "autosplit_reserve", "|96"},
    {"model", "gpu_split", ""},
    {"model", "output_chunking", "|true"},
    {"model", "vision", "|false"},
    {"model", "reasoning", "|false|true"},
    {"model", "reasoning_start_token", "|<think>"},
    {"model", "reasoning_end_token", "|</think>"},
    {"draft_model", "draft_model_dir", "|models"},
    {"draft_model", "draft_model_name", ""},
    {"draft_model", "draft_rope_scale", "|1|1.0"},
    {"draft_model", "draft_rope_alpha", "|1|1.0"},
    {"draft_model", "draft_cache_mode", "|FP16"},
    {"draft_model", "draft_gpu_split", ""},
    {"embeddings", "embedding_model_dir", "|models"},
    {"embeddings", "embeddings_device", "|cpu"},
    {"embeddings", "embedding_model_name", ""},
    {"memory", "cuda_malloc_backend", "|false"},
    {"developer", "unsafe_launch", "|false"},
    {"developer", "disable_request_streaming", "|false"},
    {"developer", "cuda_malloc_backend", "|false"},
    {"developer", "uvloop", "|false|true"},
    {"developer", "realtime_process_priority", "|false"},
};

typedef struct place {
    const char *where, *block, *key;
    const qp_log *warn;
} place;

static const config_row *find_row(const char *block, const char *key) {
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++)
        if (!strcasecmp(row->block, block) && !strcmp(row->key, key)) return row;
    return NULL;
}

static const struct foreign_key *find_foreign(const char *block, const char *key) {
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        if (!strcmp(foreign_keys[i].block, block) && !strcmp(foreign_keys[i].key, key)) return &foreign_keys[i];
    return NULL;
}

static bool is_block(const char *name) {
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++)
        if (!strcasecmp(row->block, name)) return true;
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        if (!strcmp(foreign_keys[i].block, name)) return true;
    return false;
}

/* ---- did you mean ---- */

static int least(int a, int b) { return a < b ? a : b; }

/* Letters to add, drop or change between two words, of which the first 31 count. */
static int distance(const char *a, const char *b) {
    enum { MOST = 31 };
    int row[MOST + 1];
    const int n = (int)strnlen(a, MOST), m = (int)strnlen(b, MOST);
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const int changed = corner + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            corner = row[j];
            row[j] = least(changed, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

static qp_status unknown_key(const place *p, qp_error *err) {
    const config_row *best = config_rows;
    int best_cost = INT_MAX;
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        const int cost = 2 * distance(p->key, row->key) + (strcasecmp(row->block, p->block) != 0);
        if (cost < best_cost) best = row, best_cost = cost;
    }
    char block[32];
    snprintf(block, sizeof block, "%s", best->block);
    for (char *at = block; *at; at++) *at = (char)tolower((unsigned char)*at);
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s: unknown setting %.40s.%.60s; did you mean %s.%s?", p->where, p->block,
                   p->key, block, best->key);
}

static qp_status unknown_block(const place *p, qp_error *err) {
    const char *best = config_rows[0].block;
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++)
        if (distance(p->block, row->block) < distance(p->block, best)) best = row->block;
    char block[32];
    snprintf(block, sizeof block, "%s", best);
    for (char *at = block; *at; at++) *at = (char)tolower((unsigned char)*at);
    return err_set(err, QP_BAD_ARGUMENT, 0, "%s: unknown block '%.60s'; did you mean '%s'?", p->where, p->block, block);
}

/* ---- values ---- */

/* TabbyAPI's list of adapters has {name, scaling}: "name:scaling". False: it is none. */
static bool adapter_text(strbuf *out, const json_t *item) {
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *scale = json_string_value(json_object_get(item, "scaling"));
    if (!name || !*name || strchr(name, ',')) return false;
    strbuf_text(out, name);
    if (scale) strbuf_format(out, ":%s", scale);
    return true;
}

/* Items of a list are joined by commas, which none of them may have. */
static qp_status list_text(strbuf *out, const json_t *list, const char *origin, qp_error *err) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *item = json_string_value(json_array_get(list, i));
        if (i) strbuf_char(out, ',');
        if (adapter_text(out, json_array_get(list, i))) continue;
        if (!item || !*item || strchr(item, ','))
            return err_set(err, QP_BAD_ARGUMENT, i, "%s: item %zu is not a text without commas", origin, i + 1);
        strbuf_text(out, item);
    }
    return QP_OK;
}

static qp_status set_own(config *c, const config_row *row, const json_t *value, const place *p, qp_error *err) {
    char origin[NAME + 256];
    snprintf(origin, sizeof origin, "%.200s: %s", p->where, row->key);
    if (json_is_null(value)) return QP_OK;
    strbuf text = {0};
    qp_status status = QP_OK;
    if (json_is_array(value) && row->kind == CONFIG_LIST)
        status = list_text(&text, value, origin, err);
    else if (json_is_string(value))
        strbuf_text(&text, json_string_value(value));
    else
        status = err_set(err, QP_BAD_ARGUMENT, 0, "%s: found a %s, allowed is %s", origin,
                         json_is_array(value) ? "list" : "mapping", row->kind == CONFIG_LIST ? "a list" : "one value");
    if (status == QP_OK) status = strbuf_status(&text, err, "a setting");
    if (status == QP_OK) status = config_set(c, row, text.at ? text.at : "", origin, err);
    strbuf_free(&text);
    return status;
}

static bool is_neutral(const struct foreign_key *f, const json_t *value) {
    if (json_is_array(value) && json_array_size(value) == 1) return is_neutral(f, json_array_get(value, 0));
    const char *word = json_is_string(value) ? json_string_value(value) : "";
    if (!json_is_string(value) && !json_is_null(value) && json_array_size(value)) return false;
    for (const char *at = f->neutral;;) {
        const size_t n = strcspn(at, "|");
        if (n == strlen(word) && !strncasecmp(at, word, n)) return true;
        if (!at[n]) return false;
        at += n + 1;
    }
}

static qp_status set_key(config *c, const json_t *value, const place *p, qp_error *err) {
    const config_row *row = find_row(p->block, p->key);
    if (row) return set_own(c, row, value, p, err);
    const struct foreign_key *foreign = find_foreign(p->block, p->key);
    if (!foreign) return unknown_key(p, err);
    if (!is_neutral(foreign, value))
        log_line(p->warn, QP_LOG_WARN, "%s: %s.%s is a setting of TabbyAPI that has no effect here", p->where, p->block,
                 p->key);
    return QP_OK;
}

static qp_status read_block(config *c, const json_t *block, place *p, qp_error *err) {
    const char *key;
    json_t *value;
    if (!is_block(p->block)) return unknown_block(p, err);
    if (json_is_null(block)) return QP_OK;
    if (!json_is_object(block))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: %.60s: found no settings, allowed are 'key: value' lines under it",
                       p->where, p->block);
    json_object_foreach((json_t *)block, key, value) {
        p->key = key;
        ERR_TRY(set_key(c, value, p, err));
    }
    return QP_OK;
}

static qp_status read_document(config *c, const json_t *document, const char *where, const qp_log *warn,
                               qp_error *err) {
    const char *name;
    json_t *block;
    place p = {.where = where, .warn = warn};
    if (json_is_null(document)) return QP_OK;
    if (!json_is_object(document))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found no blocks such as 'network:'", where);
    json_object_foreach((json_t *)document, name, block) {
        p.block = name;
        ERR_TRY(read_block(c, block, &p, err));
    }
    return QP_OK;
}

qp_status config_read_text(config *c, const char *text, size_t bytes, const char *where, const qp_log *warn,
                           qp_error *err) {
    json_t *document;
    ERR_TRY(yaml_read(&document, text, bytes, YAML_RAW, where, err));
    const qp_status status = read_document(c, document, where, warn, err);
    json_decref(document);
    return status;
}

qp_status config_read_file(config *c, const char *path, const qp_log *warn, qp_error *err) {
    char *text;
    size_t bytes;
    ERR_TRY(file_read(&text, &bytes, path, MOST_BYTES, err));
    const qp_status status = config_read_text(c, text, bytes, path, warn, err);
    mem_free(text);
    return status;
}
