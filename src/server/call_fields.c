/* call_fields.c — arguments of a call that have a place each: between tags, as Python's keyword arguments, as Gemma's
 * braces.
 *
 * Called by call_grammar.c. Fields come in the order of the tool's properties, none besides them. A value that is a
 * text stands bare in these notations, so of a schema for texts only the list of words can be kept. Where the tool is
 * strict, a keyword is kept or the tool is refused: each function that makes a value names those that it keeps
 * (check_keywords), and what is no schema, or what nothing satisfies, is refused. Else what cannot be kept is left out.
 */
#include "call_grammar.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 32, LONGEST_KEY = 200, MOST_ITEMS = 1 << 20 };
static const char quote[] = "<|\"|>"; /* Gemma's */

static json_t *value_of(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why);

/* ---- what can be kept ---- */

static bool is_one_of(const char *word, const char *const *list) {
    while (*list && strcmp(*list, word)) list++;
    return *list != NULL;
}

/* Refuses the first keyword that is not among `known`, where the tool is strict. */
static bool check_keywords(const call_tool *t, const json_t *schema, const char *key, const char *const *known,
                           refusal *why) {
    static const char *const silent[] = {"title",    "description", "default",  "examples", "deprecated",
                                         "$comment", "$schema",     "$id",      "$defs",    "definitions",
                                         "readOnly", "writeOnly",   "nullable", "strict",   NULL};
    const char *keyword;
    json_t *value;
    if (!t->is_strict || !json_is_object(schema)) return true;
    json_object_foreach(
        (json_t *)schema, keyword,
        value) if (!is_one_of(keyword, known) &&
                   !is_one_of(keyword, silent)) return refuse(why, FAULT_SCHEMA, "tools",
                                                              "%s, \"%.60s\": \"%.40s\" cannot be enforced in this "
                                                              "model's notation of calls",
                                                              t->place, key, keyword);
    return true;
}

/* Where the tool is strict: refuses, with what is wrong with the value of `key`. */
static bool check(const call_tool *t, const char *key, bool is_fine, const char *wrong, refusal *why) {
    return is_fine || !t->is_strict || refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": %s", t->place, key, wrong);
}

static const char *type_of(const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type ? type : "";
}

/* ---- texts ---- */

/* The values that `const` and `enum` leave, those that are texts alone if wanted; NULL: any. */
static json_t *values_of(const json_t *schema, bool only_texts) {
    json_t *only = json_object_get(schema, "const"), *list = json_object_get(schema, "enum"), *value;
    json_t *values = only || list ? json_array() : NULL;
    size_t i;
    if (only && !list && (!only_texts || json_is_string(only))) json_array_append(values, only);
    json_array_foreach(list, i, value) if ((!only || json_equal(only, value)) && (!only_texts || json_is_string(value)))
        json_array_append(values, value);
    return values;
}

/* Those of the texts that do not hold what ends them. */
static json_t *without(const json_t *texts, const char *close) {
    json_t *kept = json_array(), *text;
    size_t i;
    json_array_foreach((json_t *)texts, i, text) if (!strstr(json_string_value(text), close))
        json_array_append(kept, text);
    return kept;
}

static json_t *words_node(const call_tool *t, const json_t *texts, const char *key, const char *close, refusal *why) {
    json_t *words = without(texts, close);
    const bool is_fine = check(t, key, json_array_size(words) == json_array_size(texts),
                               "a text of its list holds what ends texts in this model's notation of calls", why) &&
                         (json_array_size(words) ||
                          refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": no text satisfies it", t->place, key));
    char *source = is_fine ? json_dumps(words, JSON_COMPACT) : NULL;
    json_t *node = source ? node_kind("choices", source) : NULL;
    json_decref(words);
    free(source);
    return node;
}

/* A text up to `close`, which cannot be in it. */
static json_t *text_node(const call_tool *t, const json_t *schema, const char *key, const char *close, refusal *why) {
    static const char *const known[] = {"type", "enum", "const", NULL};
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *texts = values_of(schema, true);
    if (texts) {
        json_t *words = words_node(t, texts, key, close, why);
        json_decref(texts);
        return words;
    }
    json_t *node = node_free(&close, 1, "");
    if (node) json_object_set_new(node, "plain", json_true());
    return node;
}

/* ---- Gemma's values ---- */

static json_t *around(const char *open, json_t *inner, const char *close) {
    node_list l = {.list = NULL};
    node_add(&l, node_of("tag", open));
    node_add(&l, inner);
    node_add(&l, node_of("tag", close));
    return node_join(&l, "sequence");
}

static json_t *quoted(json_t *text) { return around(quote, text, quote); }

static json_t *comma(void) { return node_of("text", ","); }

/* What {"use": "any"} stands for. */
static json_t *any_value(void) {
    static const char *const tags[] = {quote};
    node_list member = {.list = NULL}, l = {.list = NULL};
    json_t *text = node_free(tags, 1, "");
    if (text) json_object_set_new(text, "plain", json_true());
    node_add(&member, node_kind("regex", "[A-Za-z_][A-Za-z0-9_.-]*"));
    node_add(&member, node_of("text", ":"));
    node_add(&member, node_of("use", "any"));
    node_add(&l, quoted(text));
    node_add(&l, node_kind("json_schema", "{\"type\":[\"number\",\"boolean\",\"null\"]}"));
    node_add(&l, around("[", node_repeat(node_of("use", "any"), 0, 0, comma()), "]"));
    node_add(&l, around("{", node_repeat(node_join(&member, "sequence"), 0, 0, comma()), "}"));
    return node_join(&l, "any");
}

static json_t *literal(const json_t *value);

static json_t *literal_list(const json_t *list) {
    node_list l = {.list = NULL};
    const json_t *value;
    size_t i;
    node_add(&l, node_of("text", "["));
    json_array_foreach(list, i, value) {
        if (i) node_add(&l, comma());
        node_add(&l, literal(value));
    }
    node_add(&l, node_of("text", "]"));
    return node_join(&l, "sequence");
}

static json_t *literal_members(const json_t *object) {
    node_list l = {.list = NULL};
    const char *key, *before = "{";
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        node_add(&l, node_of("text", before));
        node_add(&l, node_of("text", key));
        node_add(&l, node_of("text", ":"));
        node_add(&l, literal(value));
        before = ",";
    }
    node_add(&l, node_of("text", json_object_size(object) ? "}" : "{}"));
    return node_join(&l, "sequence");
}

/* A value of an enum. */
static json_t *literal(const json_t *value) {
    if (json_is_string(value)) return quoted(node_of("text", json_string_value(value)));
    if (json_is_array(value)) return literal_list(value);
    if (json_is_object(value)) return literal_members(value);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_t *node = text ? node_of("text", text) : NULL;
    free(text);
    return node;
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

static bool is_writable_key(const char *key) {
    return *key && strlen(key) <= LONGEST_KEY && !key[strspn(key, letters)];
}

/* Nothing in it that the notation has no way to write. */
static bool is_writable(const json_t *value, int depth) {
    const char *key;
    json_t *inner;
    size_t i;
    if (depth > MOST_DEPTH || (json_is_string(value) && strstr(json_string_value(value), quote))) return false;
    json_array_foreach((json_t *)value, i, inner) if (!is_writable(inner, depth + 1)) return false;
    json_object_foreach((json_t *)value, key,
                        inner) if (!is_writable_key(key) || !is_writable(inner, depth + 1)) return false;
    return true;
}

static bool is_of_type(const json_t *value, const char *type) {
    if (!strcmp(type, "null")) return json_is_null(value);
    if (!strcmp(type, "boolean")) return json_is_boolean(value);
    if (!strcmp(type, "string")) return json_is_string(value);
    if (!strcmp(type, "array")) return json_is_array(value);
    if (!strcmp(type, "object")) return json_is_object(value);
    if (!strcmp(type, "integer") && json_is_real(value)) return json_real_value(value) == floor(json_real_value(value));
    return json_is_number(value) && (!strcmp(type, "number") || !strcmp(type, "integer"));
}

/* `types`: a type, a list of them, or NULL. */
static bool is_of_types(const json_t *value, const json_t *types) {
    const json_t *one;
    size_t i;
    if (!json_is_array(types))
        return !types || is_of_type(value, json_is_string(types) ? json_string_value(types) : "");
    json_array_foreach(types, i, one) if (is_of_types(value, one)) return true;
    return false;
}

static json_t *enum_node(const call_tool *t, const json_t *schema, const char *key, refusal *why) {
    static const char *const known[] = {"type", "enum", "const", NULL};
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *values = values_of(schema, false), *value;
    size_t i, n = 0;
    node_list l = {.list = NULL};
    bool is_fine = true;
    json_array_foreach(values, i, value) {
        if (!is_of_types(value, json_object_get(schema, "type"))) continue;
        const bool can_be = is_writable(value, 0);
        is_fine =
            is_fine && check(t, key, can_be, "a value of its list cannot be written in this model's notation", why);
        if (can_be) node_add(&l, literal(value)), n++;
    }
    json_decref(values);
    json_t *node = node_join(&l, "any");
    if (is_fine && !n)
        is_fine = refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": no value satisfies it", t->place, key);
    if (is_fine) return node;
    json_decref(node);
    return NULL;
}

/* A count that a schema names; `least` where there is none. */
static bool read_count(const call_tool *t, const json_t *schema, const char *name, const char *key, int *out,
                       refusal *why) {
    const json_t *value = json_object_get(schema, name);
    const double n = json_number_value(value);
    if (!value) return true;
    if (json_is_number(value) && n >= 0 && n <= MOST_ITEMS && n == floor(n)) return *out = (int)n, true;
    return refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": \"%s\" is not a whole number from 0 to %d", t->place, key,
                  name, MOST_ITEMS);
}

static json_t *gemma_array(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const known[] = {"type", "items", "minItems", "maxItems", NULL};
    const json_t *items = json_object_get(schema, "items");
    int least = 0, most = -1;
    if (!check_keywords(t, schema, key, known, why) || !read_count(t, schema, "minItems", key, &least, why) ||
        !read_count(t, schema, "maxItems", key, &most, why))
        return NULL;
    if (json_is_false(items)) most = 0;
    if (most >= 0 && least > most)
        return refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": no list has %d or more items and at most %d",
                      t->place, key, least, most),
               NULL;
    if (!most) return node_of("text", "[]");
    json_t *item = items && !json_is_true(items) ? value_of(t, items, key, depth + 1, why) : node_of("use", "any");
    if (!item) return NULL;
    return around("[", node_repeat(item, least, most < 0 ? 0 : most, comma()), "]");
}

static json_t *fields_of(const call_tool *t, const json_t *schema, int depth, refusal *why);

static json_t *gemma_object(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *fields = fields_of(t, schema, depth + 1, why);
    return fields ? around("{", fields, "}") : NULL;
}

static json_t *gemma_any_of(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const known[] = {"anyOf", NULL};
    const json_t *types = json_object_get(schema, "type"), *list = json_object_get(schema, "anyOf"), *one;
    size_t i;
    node_list l = {.list = NULL};
    if (list && !check_keywords(t, schema, key, known, why)) return NULL;
    if (!json_array_size(list ? list : types))
        return refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": no value satisfies an empty list", t->place, key),
               NULL;
    json_array_foreach(list ? list : types, i, one) {
        json_t *branch = list ? json_incref((json_t *)one) : json_copy((json_t *)schema);
        if (!list && branch) json_object_set(branch, "type", (json_t *)one);
        json_t *node = branch ? value_of(t, branch, key, depth + 1, why) : NULL;
        json_decref(branch);
        if (!node) return json_decref(node_join(&l, "any")), NULL;
        node_add(&l, node);
    }
    return node_join(&l, "any");
}

/* Numbers, booleans and null are written as JSON, so all keywords hold for them. */
static bool is_scalar(const json_t *schema) {
    static const char *const scalars[] = {"integer", "number", "boolean", "null", NULL};
    return is_one_of(type_of(schema), scalars);
}

static json_t *gemma_value(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    const char *type = type_of(schema);
    if (is_scalar(schema)) return call_schema(t, schema, key, why);
    if (json_object_get(schema, "enum") || json_object_get(schema, "const")) return enum_node(t, schema, key, why);
    if (json_is_array(json_object_get(schema, "type")) || json_is_array(json_object_get(schema, "anyOf")))
        return gemma_any_of(t, schema, key, depth, why);
    if (!strcmp(type, "array")) return gemma_array(t, schema, key, depth, why);
    if (!strcmp(type, "object") && (json_object_size(json_object_get(schema, "properties")) ||
                                    json_is_false(json_object_get(schema, "additionalProperties"))))
        return gemma_object(t, schema, key, depth, why);
    if (!strcmp(type, "string")) {
        json_t *text = text_node(t, schema, key, quote, why);
        return text ? quoted(text) : NULL;
    }
    if (!t->is_strict) return node_of("use", "any");
    refuse(
        why, FAULT_SCHEMA, "tools",
        "%s, \"%.60s\": what it is (\"type\": a text, a number, an object with \"properties\", ...) must be said, else "
        "it cannot be enforced in this model's notation of calls",
        t->place, key);
    return NULL;
}

/* ---- one field ---- */

static json_t *gap(void) { return node_kind("regex", "\\n?"); }

/* <parameter=city>Rome</parameter> */
static json_t *tagged_field(const call_tool *t, const json_t *schema, const char *key, refusal *why) {
    const tool_format *f = t->setup->format;
    const bool is_text = !strcmp(type_of(schema), "string"), trims = f->flags & TOOLS_TRIM;
    json_t *value = is_text ? text_node(t, schema, key, f->value[1], why) : value_of(t, schema, key, 0, why);
    node_list l = {.list = NULL};
    if (!value) return NULL;
    node_add(&l, node_of("tag", f->key[0]));
    node_add(&l, node_of("text", key));
    node_add(&l, node_of("tag", f->key[1]));
    if (f->flags & TOOLS_LINE) node_add(&l, gap());
    if (f->flags & TOOLS_MARKED) node_add(&l, node_of("text", is_text ? " string=\"true\"" : " string=\"false\""));
    node_add(&l, node_of("tag", f->value[0]));
    if (trims) node_add(&l, gap());
    node_add(&l, value);
    if (trims) node_add(&l, gap());
    node_add(&l, node_of("tag", f->value[1]));
    return node_join(&l, "sequence");
}

static json_t *value_of(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    if (depth > MOST_DEPTH) return refuse(why, FAULT_SCHEMA, "tools", "%s: nested too deep", t->place), NULL;
    if (!check(t, key, !schema || json_is_object(schema) || json_is_boolean(schema), "this is no schema", why) ||
        !check(t, key, !json_is_false(schema), "no value satisfies it", why))
        return NULL;
    return t->setup->format->body == BODY_GEMMA ? gemma_value(t, schema, key, depth, why)
                                                : call_schema(t, schema, key, why);
}

/* city="Rome", city:"Rome" */
static json_t *named_field(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    node_list l = {.list = NULL};
    json_t *value = value_of(t, schema, key, depth, why);
    if (!value) return NULL;
    node_add(&l, node_of("text", key));
    node_add(&l, node_of("text", t->setup->format->body == BODY_GEMMA ? ":" : "="));
    node_add(&l, value);
    return node_join(&l, "sequence");
}

static bool check_key(const call_tool *t, const char *key, refusal *why) {
    const bool is_tagged = t->setup->format->body == BODY_PARAMS;
    if (is_tagged ? *key && strlen(key) <= LONGEST_KEY && !key[strcspn(key, "<>\"\n")] : is_writable_key(key))
        return true;
    return refuse(why, FAULT_SCHEMA, "tools", "%s: the name \"%.60s\" cannot be written in this model's notation",
                  t->place, key);
}

/* ---- all fields ---- */

static bool add_field(node_list *l, const call_tool *t, const json_t *schema, const char *key, bool is_needed,
                      int depth, refusal *why) {
    if (json_is_false(schema) && !is_needed) return true;
    if (!check_key(t, key, why)) return false;
    json_t *node = t->setup->format->body == BODY_PARAMS ? tagged_field(t, schema, key, why)
                                                         : named_field(t, schema, key, depth, why);
    if (!node) return false;
    if (!is_needed) json_object_set_new(node, "optional", json_true());
    return node_add(l, node), true;
}

static bool is_required(const json_t *required, const char *key) {
    size_t i;
    const json_t *name;
    json_array_foreach(required, i,
                       name) if (json_is_string(name) && !strcmp(json_string_value(name), key)) return true;
    return false;
}

/* What is no object of schemas, or no list of names, would be passed over. */
static bool check_members(const call_tool *t, const json_t *schema, refusal *why) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *more = json_object_get(schema, "additionalProperties"), *name;
    bool is_list = !required || json_is_array(required);
    size_t i;
    json_array_foreach(required, i, name) is_list = is_list && json_is_string(name);
    return check(t, "properties", !properties || json_is_object(properties), "this is no object of schemas", why) &&
           check(t, "required", is_list, "this is no list of names", why) &&
           check(t, "additionalProperties", !more || json_is_boolean(more) || json_is_object(more), "this is no schema",
                 why);
}

/* Properties that are required and not described are what additional ones are. */
static bool add_fields(node_list *l, const call_tool *t, const json_t *schema, int depth, refusal *why) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *inner;
    size_t i;
    if (!check_members(t, schema, why)) return false;
    json_object_foreach((json_t *)properties, key,
                        inner) if (!add_field(l, t, inner, key, is_required(required, key), depth, why)) return false;
    json_array_foreach(required, i, inner) {
        const char *name = json_string_value(inner);
        if (!name || json_object_get(properties, name)) continue;
        if (!add_field(l, t, json_is_true(more) ? NULL : more, name, true, depth, why)) return false;
    }
    return true;
}

static json_t *fields_of(const call_tool *t, const json_t *schema, int depth, refusal *why) {
    const tool_body body = t->setup->format->body;
    node_list l = {.list = NULL};
    const bool is_good = add_fields(&l, t, schema, depth, why);
    json_t *fields = node_join(&l, "fields");
    if (!is_good) return json_decref(fields), NULL;
    if (fields)
        json_object_set_new(fields, "between",
                            body == BODY_PARAMS ? gap() : node_of("text", body == BODY_GEMMA ? "," : ", "));
    return fields;
}

json_t *call_fields(const call_tool *t, refusal *why) {
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    const tool_body body = t->setup->format->body;
    if (!check_keywords(t, t->parameters, "", known, why)) return NULL;
    *why = (refusal){.fault = FAULT_COUNT};
    json_t *fields = fields_of(t, t->parameters, 0, why);
    if (!fields && why->fault == FAULT_COUNT) refuse_memory(why, "tools");
    if (!fields) return NULL;
    if (body == BODY_GEMMA) return json_pack("{s:{s:o},s:o}", "define", "any", any_value(), "in", fields);
    if (body != BODY_PARAMS) return fields;
    node_list l = {.list = NULL};
    node_add(&l, gap());
    node_add(&l, fields);
    node_add(&l, gap());
    return node_join(&l, "sequence");
}
