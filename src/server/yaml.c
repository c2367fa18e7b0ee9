/* yaml.c — walks libyaml's events and builds jansson's values.
 *
 * Called for configuration files. Its input is a person's file, so the limits are small and the errors have lines. What
 * libyaml allocates is not under mem.h: it has no hook for that. */
#include "yaml.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MOST_DEPTH = 16, MOST_NODES = 100000 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    yaml_scalars scalars;
    const char *where;
    size_t n_nodes;
    qp_error *err;
} reader;

static qp_status fail(reader *r, const yaml_mark_t *mark, const char *what, const char *name) {
    return err_set(r->err, QP_BAD_FORMAT, mark->index, "%s, line %zu: %s%s%.80s%s", r->where, mark->line + 1, what,
                   name ? " '" : "", name ? name : "", name ? "'" : "");
}

static void drop_event(reader *r) {
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = false;
}

static qp_status next_event(reader *r) {
    drop_event(r);
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        if (r->parser.error == YAML_MEMORY_ERROR) return err_no_memory(r->err, 0, r->where);
        const bool has_mark = r->parser.problem_mark.index || r->parser.problem_mark.line;
        return fail(r, has_mark ? &r->parser.problem_mark : &r->parser.mark,
                    r->parser.problem ? r->parser.problem : "malformed", NULL);
    }
    r->has_event = true;
    return QP_OK;
}

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (!strcmp(text, *words)) return true;
    return false;
}

/* A plain scalar of the core schema, or NULL if it is just a string. */
static json_t *plain_value(const char *text, size_t bytes) {
    static const char *const yes[] = {"true", "True", "TRUE", NULL}, *const no[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, yes)) return json_true();
    if (is_one_of(text, no)) return json_false();
    if (bytes > 40 || !*text || !strchr("+-.0123456789", *text)) return NULL;
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (!*end && !errno) return json_integer(whole);
    if (strspn(text, "+-.0123456789eE") != bytes) return NULL;
    const double real = strtod(text, &end);
    return !*end && isfinite(real) ? json_real(real) : NULL;
}

static json_t *scalar_value(const reader *r) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    const char *text = (const char *)r->event.data.scalar.value;
    const size_t bytes = r->event.data.scalar.length;
    const bool is_plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && is_one_of(text, nulls)) return json_null();
    json_t *typed = is_plain && r->scalars == YAML_TYPED ? plain_value(text, bytes) : NULL;
    return typed ? typed : json_stringn(text, bytes);
}

static qp_status read_value(reader *r, int depth, json_t **out);

static qp_status read_sequence(reader *r, int depth, json_t *list) {
    for (;;) {
        json_t *item;
        ERR_TRY(next_event(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return QP_OK;
        ERR_TRY(read_value(r, depth + 1, &item));
        if (json_array_append_new(list, item)) return err_no_memory(r->err, 0, r->where);
    }
}

static qp_status read_mapping(reader *r, int depth, json_t *object) {
    for (;;) {
        json_t *value;
        ERR_TRY(next_event(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return QP_OK;
        const yaml_mark_t mark = r->event.start_mark;
        if (r->event.type != YAML_SCALAR_EVENT) return fail(r, &mark, "a key must be a word", NULL);
        const char *read = (const char *)r->event.data.scalar.value;
        if (json_object_get(object, read)) return fail(r, &mark, "a second time the key", read);
        char *key = mem_copy_text(read, strlen(read));
        if (!key) return err_no_memory(r->err, strlen(read), r->where);
        qp_status status = next_event(r);
        if (status == QP_OK) status = read_value(r, depth + 1, &value);
        if (status == QP_OK && json_object_set_new(object, key, value))
            status = fail(r, &mark, "a key that is not UTF-8", NULL);
        mem_free(key);
        ERR_TRY(status);
    }
}

static const char *anchor_of(const yaml_event_t *e) {
    const yaml_char_t *anchor = e->type == YAML_SCALAR_EVENT           ? e->data.scalar.anchor
                                : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.anchor
                                : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.anchor
                                                                       : NULL;
    return (const char *)anchor;
}

/* The value that the current event begins. */
static qp_status read_value(reader *r, int depth, json_t **out) {
    *out = NULL;
    const yaml_mark_t mark = r->event.start_mark;
    if (r->event.type == YAML_ALIAS_EVENT || anchor_of(&r->event))
        return fail(r, &mark, "anchors and aliases are not read", NULL);
    if (depth > MOST_DEPTH) return fail(r, &mark, "nested too deep", NULL);
    if (++r->n_nodes > MOST_NODES) return fail(r, &mark, "more than 100000 values", NULL);
    qp_status status = QP_OK;
    if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        *out = json_array();
        if (*out) status = read_sequence(r, depth, *out);
    } else if (r->event.type == YAML_MAPPING_START_EVENT) {
        *out = json_object();
        if (*out) status = read_mapping(r, depth, *out);
    } else {
        *out = scalar_value(r);
        if (!*out) return fail(r, &mark, "text that is not UTF-8", NULL);
    }
    if (!*out) return err_no_memory(r->err, 0, r->where);
    if (status != QP_OK) json_decref(*out), *out = NULL;
    return status;
}

static qp_status read_document(reader *r, json_t **out) {
    ERR_TRY(next_event(r)); /* the stream's start */
    ERR_TRY(next_event(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return *out = json_null(), QP_OK;
    ERR_TRY(next_event(r));
    ERR_TRY(read_value(r, 0, out));
    ERR_TRY(next_event(r)); /* the document's end */
    ERR_TRY(next_event(r));
    if (r->event.type != YAML_STREAM_END_EVENT) return fail(r, &r->event.start_mark, "a second document", NULL);
    return QP_OK;
}

qp_status yaml_read(json_t **out, const char *text, size_t bytes, yaml_scalars scalars, const char *where,
                    qp_error *err) {
    reader r = {.scalars = scalars, .where = where, .err = err};
    *out = NULL;
    if (!yaml_parser_initialize(&r.parser)) return err_no_memory(err, sizeof r.parser, where);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    const qp_status status = read_document(&r, out);
    drop_event(&r);
    yaml_parser_delete(&r.parser);
    if (status != QP_OK) json_decref(*out), *out = NULL;
    return status;
}

qp_status yaml_read_path(json_t **out, const char *path, size_t limit, yaml_scalars scalars, qp_error *err) {
    char *text;
    size_t bytes;
    *out = NULL;
    ERR_TRY(file_read(&text, &bytes, path, limit, err));
    const qp_status status = yaml_read(out, text, bytes, scalars, path, err);
    mem_free(text);
    return status;
}
