/* demand.c — what a request demands of the form of its answer.
 *
 * Called by generate.c before a job is made. Demands are checked as far as they can be without compiling them, so that
 * a client with a wrong one learns that; a right one is refused as not implemented, because the server does not give
 * jobs their filters yet. */
#include "demand.h"

enum { LONGEST_NAME = 64 };

typedef struct wish {
    const char *param; /* of the only demand; NULL: none */
    int count;
} wish;

static void add(wish *w, const char *param, const json_t *value) {
    if (!value || json_is_null(value)) return;
    if (json_is_string(value) && !json_string_length(value)) return; /* old front ends send all fields, empty */
    w->param = param;
    w->count++;
}

static bool is_schema(const json_t *value) { return json_is_object(value) || json_is_boolean(value); }

static bool check_schema(const json_t *schema, const char *param, refusal *why) {
    const json_t *type = json_object_get(schema, "type");
    if (!is_schema(schema)) return refuse(why, FAULT_SCHEMA, param, "%s: a schema is an object, true or false", param);
    if (type && !json_is_string(type) && !json_is_array(type))
        return refuse(why, FAULT_SCHEMA, param, "%s: \"type\" is a string or an array of strings", param);
    return true;
}

static bool check_named_schema(const json_t *holder, refusal *why) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    static const char param[] = "response_format.json_schema";
    const json_t *inner = json_object_get(holder, "json_schema"), *schema = json_object_get(inner, "schema");
    const char *name = json_string_value(json_object_get(inner, "name"));
    if (name && (!*name || strlen(name) > LONGEST_NAME || strspn(name, letters) != strlen(name)))
        return refuse(why, FAULT_BAD_REQUEST, "response_format.json_schema.name",
                      "response_format.json_schema.name: found \"%.80s\", allowed are 1 to %d of A-Z a-z 0-9 _ -", name,
                      LONGEST_NAME);
    if (!schema) schema = inner ? inner : json_object_get(holder, "schema");
    if (!schema) return refuse(why, FAULT_BAD_REQUEST, param, "%s: missing", param);
    return check_schema(schema, param, why);
}

static bool check_format(wish *w, const json_t *format, refusal *why) {
    if (!format) return true;
    if (!json_is_object(format)) return field_wrong_kind(why, "response_format", format, "an object");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || !strcmp(type, "text")) return true;
    const bool is_json = !strcmp(type, "json_object") || !strcmp(type, "json");
    if (!is_json && strcmp(type, "json_schema"))
        return refuse(why, FAULT_BAD_REQUEST, "response_format.type",
                      "response_format.type: found \"%.40s\", allowed are text, json_object and json_schema", type);
    add(w, "response_format", format);
    return is_json || check_named_schema(format, why);
}

static bool check_text(const json_t *value, const char *param, refusal *why) {
    return !value || json_is_string(value) || field_wrong_kind(why, param, value, "a string");
}

static bool check_all(wish *w, const ask *a, refusal *why) {
    const gen_fields *g = &a->gen;
    if (!check_format(w, a->f.response_format, why) || !check_text(g->regex_pattern, "regex_pattern", why) ||
        !check_text(g->grammar_string, "grammar_string", why) || !check_text(g->guided_regex, "guided_regex", why) ||
        !check_text(g->guided_grammar, "guided_grammar", why))
        return false;
    if (g->json_schema && !json_is_string(g->json_schema) && !check_schema(g->json_schema, "json_schema", why))
        return false;
    add(w, "json_schema", g->json_schema);
    add(w, "regex_pattern", g->regex_pattern);
    add(w, "grammar_string", g->grammar_string);
    add(w, "structured_outputs", g->structured_outputs);
    add(w, "guided_json", g->guided_json);
    add(w, "guided_regex", g->guided_regex);
    add(w, "guided_choice", g->guided_choice);
    add(w, "guided_grammar", g->guided_grammar);
    if (w->count < 2) return true;
    return refuse(why, FAULT_BAD_REQUEST, w->param, "%s: the form of the answer is demanded %d times, allowed is once",
                  w->param, w->count);
}

bool demand_apply(qp_job_options *options, const ask *a, refusal *why) {
    wish w = {NULL, 0};
    if (!check_all(&w, a, why)) return false;
    if (a->tools && (a->choice == CHOOSE_REQUIRED || a->choice == CHOOSE_NAMED)) w.param = "tool_choice";
    if (a->tools && a->has_strict) w.param = "tools";
    if (!w.param) return true;
    return refuse(why, FAULT_NOT_IMPLEMENTED, w.param,
                  "%s: this needs constrained decoding, which this version cannot do; nothing was generated", w.param);
}
