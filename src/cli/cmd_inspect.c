/* cmd_inspect.c — quipu inspect: what a model folder holds, out of its headers. */
#include "load.h"
#include "report.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_TOKENS = 256 }; /* a cache grows by pages */

static int64_t pages_of(int64_t tokens) { return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS; }

/* Adds the row of --context to the table of caches: it is a multiple of any other row. */
static qp_status add_context(json_t *document, int64_t tokens, qp_error *err) {
    json_t *memory = json_object_get(document, "memory"), *rows = json_object_get(memory, "cache");
    const json_t *first = json_array_get(rows, 0);
    if (!first) return QP_OK; /* nothing is known of a model that is not supported */
    const int64_t machine = json_integer_value(json_object_get(memory, "machine_bytes"));
    const int64_t left = machine - json_integer_value(json_object_get(memory, "weight_bytes"));
    const int64_t pages = pages_of(json_integer_value(json_object_get(first, "tokens")));
    json_t *row = json_pack("{s:I}", "tokens", (json_int_t)tokens), *value;
    const char *key;
    json_object_foreach((json_t *)first, key, value) {
        const size_t n = strlen(key);
        if (n < 6 || n > 40 || strcmp(key + n - 6, "_bytes") || !pages) continue;
        char fits[48];
        snprintf(fits, sizeof fits, "%.*s_fits", (int)(n - 6), key);
        const double bytes = (double)json_integer_value(value) / (double)pages * (double)pages_of(tokens);
        json_object_set_new(row, key, bytes < 9e18 ? json_integer((json_int_t)bytes) : json_real(bytes));
        json_object_set_new(row, fits, json_boolean(bytes < (double)left));
    }
    return json_array_append_new(rows, row) ? err_no_memory(err, 0, "the table of caches") : QP_OK;
}

/* The plan of a device that was asked for. */
static qp_status add_plan(json_t *document, session *s, const char *path, qp_error *err) {
    char *text;
    json_t *plan;
    ERR_TRY(load_plan(&text, s, path, err));
    const qp_status status = json_parse(&plan, text, strlen(text), "the plan", err);
    qp_free(text);
    if (status == QP_OK) json_object_set_new(document, "plan", plan);
    return status;
}

static qp_status print(session *s, const char *path, const char *json, qp_error *err) {
    const options *o = s->o;
    json_t *document;
    ERR_TRY(json_parse(&document, json, strlen(json), "inspect", err));
    qp_status status = o->context ? add_context(document, o->context, err) : QP_OK;
    if (status == QP_OK && (o->device || o->split)) status = add_plan(document, s, path, err);
    char *text = status == QP_OK && o->json ? json_dumps(document, JSON_INDENT(2)) : NULL;
    if (text)
        puts(text);
    else if (status == QP_OK && o->json)
        status = err_no_memory(err, 0, "the answer");
    else if (status == QP_OK)
        report_print(document, s->term.colour_out);
    free(text);
    json_decref(document);
    return status;
}

qp_status cmd_inspect(session *s, qp_error *err) {
    char path[PATH_MAX], *json;
    ERR_TRY(load_path(path, sizeof path, s, err));
    ERR_TRY(qp_inspect_json(&json, path, s->o->tensors, err));
    const qp_status status = print(s, path, json, err);
    qp_free(json);
    return status;
}
