/* demand.c — the form that a request demands of its answer's text.
 *
 * Called by generate.c before a prompt is made. OpenAI, vLLM, llama.cpp and TabbyAPI each have their fields for the
 * same few things; all end as a kind and a source of a constraint. At most one of the fields may be there. */
#include "demand.h"
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST_NAME = 64 };

/* ---- values ---- */

span demand_dump(ask *a, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    const size_t bytes = text ? strlen(text) : 0;
    const char *kept = text ? arena_text(&a->memory, text, bytes) : NULL;
    free(text);
    return (span){kept, bytes};
}

static bool set_source(demand *d, const char *kind, span source, refusal *why) {
    d->kind = kind;
    d->source = source;
    return source.at || refuse_memory(why, d->param);
}

static bool check_schema(const json_t *schema, const char *param, refusal *why) {
    const json_t *type = json_object_get(schema, "type");
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return refuse(why, FAULT_SCHEMA, param, "%s: a schema is an object, true or false", param);
    if (type && !json_is_string(type) && !json_is_array(type))
        return refuse(why, FAULT_SCHEMA, param, "%s: \"type\" is a string or an array of strings", param);
    return true;
}

/* A schema as a document, or as a text that holds one. */
static bool take_schema(demand *d, ask *a, const json_t *value, refusal *why) {
    if (json_is_string(value))
        return set_source(d, "json_schema", (span){json_string_value(value), json_string_length(value)}, why);
    return check_schema(value, d->param, why) && set_source(d, "json_schema", demand_dump(a, value), why);
}

static bool take_json(demand *d, ask *a, const json_t *value, refusal *why) { return take_schema(d, a, value, why); }

static bool take_text(demand *d, const char *kind, const json_t *value, refusal *why) {
    if (!json_is_string(value)) return field_wrong_kind(why, d->param, value, "a string");
    return set_source(d, kind, (span){json_string_value(value), json_string_length(value)}, why);
}

static bool take_regex(demand *d, ask *a, const json_t *value, refusal *why) {
    return take_text(d, "regex", value, why);
}

static bool take_grammar(demand *d, ask *a, const json_t *value, refusal *why) {
    const char *text = json_string_value(value);
    return take_text(d, text && strstr(text, "::=") ? "gbnf" : "lark", value, why);
}

static bool take_choice(demand *d, ask *a, const json_t *value, refusal *why) {
    size_t i;
    const json_t *item;
    if (!json_array_size(value)) return field_wrong_kind(why, d->param, value, "an array of strings");
    json_array_foreach(value, i, item) if (!json_is_string(item)) return field_wrong_kind(why, d->param, item,
                                                                                          "an array of strings");
    return set_source(d, "choices", demand_dump(a, value), why);
}

static bool take_object(demand *d, ask *a, const json_t *value, refusal *why) {
    if (!json_is_boolean(value)) return field_wrong_kind(why, d->param, value, "true or false");
    if (!json_is_true(value)) return d->param = NULL, true;
    return set_source(d, "json_object", SPAN(""), why);
}

/* ---- response_format ---- */

static bool check_name(const json_t *inner, refusal *why) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    static const char param[] = "response_format.json_schema.name";
    const char *name = json_string_value(json_object_get(inner, "name"));
    if (!name || (*name && strlen(name) <= LONGEST_NAME && strspn(name, letters) == strlen(name))) return true;
    return refuse(why, FAULT_BAD_REQUEST, param, "%s: found \"%.80s\", allowed are 1 to %d of A-Z a-z 0-9 _ -", param,
                  name, LONGEST_NAME);
}

/* The schema stands in json_schema.schema, in json_schema itself, or beside it. */
static bool take_named(demand *d, ask *a, const json_t *format, refusal *why) {
    const json_t *inner = json_object_get(format, "json_schema"), *schema = json_object_get(inner, "schema");
    d->param = "response_format.json_schema";
    if (!check_name(inner, why)) return false;
    if (!schema) schema = inner ? inner : json_object_get(format, "schema");
    if (!schema) return refuse(why, FAULT_BAD_REQUEST, d->param, "%s: missing", d->param);
    const json_t *strict = json_object_get(inner, "strict");
    if (!strict) strict = json_object_get(format, "strict");
    d->is_strict = json_is_true(strict);
    d->is_lenient = !d->is_strict;
    return take_schema(d, a, schema, why);
}

static bool take_format(demand *d, ask *a, const json_t *format, refusal *why) {
    if (!json_is_object(format)) return field_wrong_kind(why, "response_format", format, "an object");
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *schema = json_object_get(format, "schema");
    d->param = NULL;
    if (!type || !strcmp(type, "text")) return true;
    d->param = "response_format";
    if (!strcmp(type, "json_schema")) return take_named(d, a, format, why);
    if (strcmp(type, "json_object") && strcmp(type, "json"))
        return refuse(why, FAULT_BAD_REQUEST, "response_format.type",
                      "response_format.type: found \"%.40s\", allowed are text, json_object and json_schema", type);
    d->is_lenient = true;
    if (!schema || json_is_null(schema)) return set_source(d, "json_object", SPAN(""), why);
    d->param = "response_format.schema";
    return take_schema(d, a, schema, why);
}

/* ---- all fields ---- */

typedef bool taker(demand *d, ask *a, const json_t *value, refusal *why);

/* Old front ends send all fields, empty. */
static bool is_absent(const json_t *value) {
    return !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value));
}

static bool take(demand *d, ask *a, const char *param, const json_t *value, taker *how, refusal *why) {
    demand found = {.param = param};
    if (is_absent(value)) return true;
    if (!how(&found, a, value, why)) return false;
    if (!found.param) return true;
    if (d->param)
        return refuse(why, FAULT_BAD_REQUEST, param,
                      "%s: the form of the answer is demanded by %s too, allowed is one demand", param, d->param);
    *d = found;
    return true;
}

static bool read_whitespace(demand *d, ask *a, const json_t *o, refusal *why) {
    static const char param[] = "structured_outputs.whitespace_pattern";
    const json_t *pattern = json_object_get(o, "whitespace_pattern");
    if (json_is_true(json_object_get(o, "disable_any_whitespace"))) d->whitespace = "compact";
    if (is_absent(pattern)) return true;
    if (!json_is_string(pattern)) return field_wrong_kind(why, param, pattern, "a string");
    const size_t bytes = json_string_length(pattern) + sizeof "regex:";
    char *text = arena_get(&a->memory, bytes, 1);
    if (!text) return refuse_memory(why, param);
    snprintf(text, bytes, "regex:%s", json_string_value(pattern));
    d->whitespace = text;
    return true;
}

/* vLLM's object; what it says besides is how vLLM should go about it. */
static bool read_structured(demand *d, ask *a, const json_t *o, refusal *why) {
    static const struct {
        const char *member, *param;
        taker *how;
    } rows[] = {{"json", "structured_outputs.json", take_json},
                {"regex", "structured_outputs.regex", take_regex},
                {"choice", "structured_outputs.choice", take_choice},
                {"grammar", "structured_outputs.grammar", take_grammar},
                {"json_object", "structured_outputs.json_object", take_object}};
    if (!o) return true;
    if (!json_is_object(o)) return field_wrong_kind(why, "structured_outputs", o, "an object");
    if (!is_absent(json_object_get(o, "structural_tag")))
        return refuse(why, FAULT_PARAMETER, "structured_outputs.structural_tag",
                      "structured_outputs.structural_tag: not supported; tools and response_format together do the "
                      "same");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!take(d, a, rows[i].param, json_object_get(o, rows[i].member), rows[i].how, why)) return false;
    return read_whitespace(d, a, o, why);
}

bool demand_read(demand *out, ask *a, refusal *why) {
    const gen_fields *g = &a->gen;
    const struct {
        const char *param;
        const json_t *value;
        taker *how;
    } rows[] = {{"response_format", a->f.response_format, take_format},
                {"json_schema", g->json_schema, take_json},
                {"regex_pattern", g->regex_pattern, take_regex},
                {"grammar_string", g->grammar_string, take_grammar},
                {"guided_json", g->guided_json, take_json},
                {"guided_regex", g->guided_regex, take_regex},
                {"guided_choice", g->guided_choice, take_choice},
                {"guided_grammar", g->guided_grammar, take_grammar}};
    *out = (demand){.param = NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!take(out, a, rows[i].param, rows[i].value, rows[i].how, why)) return false;
    return read_structured(out, a, g->structured_outputs, why);
}
