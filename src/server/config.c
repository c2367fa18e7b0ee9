/* config.c — sets, checks and prints the settings of config_table.h.
 *
 * cli/cmd_serve.c calls it once for each source, weakest first. Every text that a field holds belongs to the struct, so
 * that sources may go away. */
#include "config.h"
#include "base/mem.h"
#include "load_settings.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK_NAME = 24 };

#define X(block, key, option, letter, kind, lowest, highest, choices, standard, value, help)                           \
    [CONFIG_##key] = {#block, #key,    option,  letter,   CONFIG_##kind, offsetof(config, key),                        \
                      lowest, highest, choices, standard, value,         help},
const config_row config_rows[CONFIG_COUNT] = {CONFIG_ROWS(X)};
#undef X

static void *field_of(const config *c, const config_row *row) { return (char *)c + row->field; }

static bool is_choice(const char *choices, const char *word, size_t bytes) {
    for (const char *at = choices; *at;) {
        const size_t n = strcspn(at, "|");
        if (n == bytes && !memcmp(at, word, n)) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

bool config_has(const config_list *list, const char *text) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->at[i], text)) return true;
    return false;
}

/* ---- values ---- */

static qp_status set_bool(bool *field, const char *text, const char *origin, qp_error *err) {
    if (is_choice("1|true|True|TRUE|yes|on", text, strlen(text)))
        *field = true;
    else if (is_choice("0|false|False|FALSE|no|off", text, strlen(text)))
        *field = false;
    else
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are true and false", origin, text);
    return QP_OK;
}

static qp_status set_int(int64_t *field, const config_row *row, const char *text, const char *origin, qp_error *err) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (!*text || *end || isspace((unsigned char)*text))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are whole numbers", origin, text);
    if (errno || (double)value < row->lowest || (double)value > row->highest)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found %.40s, allowed are %.0f to %.0f", origin, text, row->lowest,
                       row->highest);
    *field = value;
    return QP_OK;
}

static qp_status set_real(double *field, const config_row *row, const char *text, const char *origin, qp_error *err) {
    char *end;
    const double value = strtod(text, &end);
    if (!*text || *end || isspace((unsigned char)*text) || !isfinite(value))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are numbers", origin, text);
    if (value < row->lowest || value > row->highest)
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found %.40s, allowed are %g to %g", origin, text, row->lowest,
                       row->highest);
    *field = value;
    return QP_OK;
}

static qp_status set_text(char **field, const char *text, qp_error *err) {
    char *copy = mem_copy_text(text, strlen(text));
    if (!copy) return err_no_memory(err, strlen(text), "a setting");
    mem_free(*field);
    *field = copy;
    return QP_OK;
}

static void free_list(config_list *list) {
    for (size_t i = 0; i < list->count; i++) mem_free(list->at[i]);
    mem_free(list->at);
    *list = (config_list){0};
}

static qp_status add_item(config_list *list, const char *at, size_t bytes, qp_error *err) {
    char **longer = mem_resize(list->at, list->count + 1, sizeof *longer);
    if (!longer) return err_no_memory(err, bytes, "a setting");
    list->at = longer;
    list->at[list->count] = mem_copy_text(at, bytes);
    return list->at[list->count++] ? QP_OK : err_no_memory(err, bytes, "a setting");
}

/* Items between commas, without the blanks around them; "" is the empty list. */
static qp_status set_list(config_list *field, const config_row *row, const char *text, const char *origin,
                          qp_error *err) {
    free_list(field);
    for (const char *at = text; *at;) {
        const size_t whole = strcspn(at, ",");
        const char *first = at + strspn(at, " ");
        size_t bytes = first < at + whole ? (size_t)(at + whole - first) : 0;
        while (bytes && first[bytes - 1] == ' ') bytes--;
        if (!bytes) return err_set(err, QP_BAD_ARGUMENT, (uint64_t)(at - text), "%s: an empty item", origin);
        if (row->choices && !is_choice(row->choices, first, bytes))
            return err_set(err, QP_BAD_ARGUMENT, (uint64_t)(at - text), "%s: found '%.*s', allowed are %s", origin,
                           (int)(bytes < 80 ? bytes : 80), first, row->choices);
        ERR_TRY(add_item(field, first, bytes, err));
        at += whole + (at[whole] == ',');
    }
    return QP_OK;
}

static qp_status set_value(config *c, const config_row *row, const char *text, const char *origin, qp_error *err) {
    void *field = field_of(c, row);
    switch (row->kind) {
    case CONFIG_BOOL:
        return set_bool(field, text, origin, err);
    case CONFIG_INT:
        return set_int(field, row, text, origin, err);
    case CONFIG_REAL:
        return set_real(field, row, text, origin, err);
    case CONFIG_TEXT:
        return set_text(field, text, err);
    case CONFIG_LIST:
        return set_list(field, row, text, origin, err);
    case CONFIG_CHOICE:
        break;
    }
    if (!is_choice(row->choices, text, strlen(text)))
        return err_set(err, QP_BAD_ARGUMENT, 0, "%s: found '%.80s', allowed are %s", origin, text, row->choices);
    return set_text(field, text, err);
}

qp_status config_set(config *c, const config_row *row, const char *text, const char *origin, qp_error *err) {
    ERR_TRY(set_value(c, row, text, origin, err));
    return set_text(&c->origins[row - config_rows], origin, err);
}

qp_status config_new(config *out, qp_error *err) {
    memset(out, 0, sizeof *out);
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++)
        if (row->standard) ERR_TRY(config_set(out, row, row->standard, "default", err));
    return QP_OK;
}

void config_free(config *c) {
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        if (row->kind == CONFIG_TEXT || row->kind == CONFIG_CHOICE) mem_free(*(char **)field_of(c, row));
        if (row->kind == CONFIG_LIST) free_list(field_of(c, row));
        mem_free(c->origins[row - config_rows]);
    }
    memset(c, 0, sizeof *c);
}

/* ---- the environment ---- */

qp_status config_read_environment(config *c, qp_error *err) {
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        char name[96];
        snprintf(name, sizeof name, "QUIPU_%s_%s", row->block, row->key);
        for (char *at = name; *at; at++) *at = (char)toupper((unsigned char)*at);
        const char *value = getenv(name);
        if (value && *value) ERR_TRY(config_set(c, row, value, name, err));
    }
    return QP_OK;
}

/* ---- what no single value shows ---- */

static bool is_loopback(const char *host) {
    return !strcmp(host, "localhost") || !strcmp(host, "::1") || !strncmp(host, "127.", 4);
}

qp_status config_check(const config *c, qp_error *err) {
    if (c->disable_auth && !c->allow_unauthenticated_network && !is_loopback(c->host))
        return err_set(err, QP_BAD_ARGUMENT, 0,
                       "disable_auth with host %.80s would let anybody on the network in: use 127.0.0.1, or set "
                       "allow_unauthenticated_network",
                       c->host);
    if (c->no_model && (c->model || c->model_name))
        return err_set(err, QP_BAD_ARGUMENT, 0, "no_model excludes model and model_name");
    if (c->model && c->model_name)
        return err_set(err, QP_BAD_ARGUMENT, 0, "model (%.80s) or model_name (%.80s), not both", c->model,
                       c->model_name);
    if (c->max_seq_len && c->cache_size && c->max_seq_len > c->cache_size)
        return err_set(err, QP_BAD_ARGUMENT, 0, "max_seq_len is %lld, more than the %lld tokens of cache_size",
                       (long long)c->max_seq_len, (long long)c->cache_size);
    for (size_t i = 0; i < c->use_as_default.count; i++)
        if (!load_settings_knows(c->use_as_default.at[i]))
            return err_set(err, QP_BAD_ARGUMENT, i, "use_as_default: '%.80s' is no setting that a load takes",
                           c->use_as_default.at[i]);
    adapter_wish wishes[ADAPTERS_MOST];
    int n;
    return load_settings_wishes(wishes, &n, c, err);
}

/* ---- printing ---- */

static void print_block(strbuf *out, const char *block) {
    for (const char *at = block; *at; at++) strbuf_char(out, (char)tolower((unsigned char)*at));
    strbuf_text(out, ":\n");
}

static void print_list(strbuf *out, const config_list *list) {
    strbuf_char(out, '[');
    for (size_t i = 0; i < list->count; i++) {
        strbuf_text(out, i ? ", " : "");
        strbuf_json(out, list->at[i], strlen(list->at[i]));
    }
    strbuf_char(out, ']');
}

static void print_value(strbuf *out, const config *c, const config_row *row) {
    const void *field = field_of(c, row);
    const char *const *text = field;
    switch (row->kind) {
    case CONFIG_BOOL:
        return strbuf_text(out, *(const bool *)field ? "true" : "false");
    case CONFIG_INT:
        return strbuf_format(out, "%lld", (long long)*(const int64_t *)field);
    case CONFIG_REAL:
        return strbuf_format(out, "%g", *(const double *)field);
    case CONFIG_LIST:
        return print_list(out, field);
    case CONFIG_CHOICE:
    case CONFIG_TEXT:
        break;
    }
    if (*text)
        strbuf_json(out, *text, strlen(*text));
    else
        strbuf_text(out, "null");
}

void config_print(strbuf *out, const config *c) {
    const char *block = "";
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        if (strcmp(block, row->block)) print_block(out, block = row->block);
        const char *origin = c->origins[row - config_rows];
        strbuf_format(out, "  %s: ", row->key);
        if (origin)
            print_value(out, c, row);
        else
            strbuf_text(out, "null");
        strbuf_format(out, "  # %s\n", origin ? origin : "not set");
    }
}

void config_example(strbuf *out) {
    const char *block = "";
    strbuf_text(out, "# quipu.yml: every setting of `quipu serve`, at its default. Remove the # of what you change.\n"
                     "# Each is also an option (--max-queue 64) and an environment name (QUIPU_QUEUE_MAX_QUEUE).\n");
    for (const config_row *row = config_rows; row < config_rows + CONFIG_COUNT; row++) {
        if (strcmp(block, row->block)) {
            strbuf_char(out, '\n');
            print_block(out, block = row->block);
        }
        strbuf_format(out, "  # %s\n", row->help);
        if (row->choices && row->kind == CONFIG_CHOICE) strbuf_format(out, "  # (%s)\n", row->choices);
        strbuf_format(out, "  # %s:%s%s\n", row->key, row->standard ? " " : "", row->standard ? row->standard : "");
    }
}
