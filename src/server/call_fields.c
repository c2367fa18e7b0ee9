/* call_fields.c — arguments of a call that have a place each: between tags, as Python's keyword arguments, as Gemma's
 * braces.
 *
 * Called by call_grammar.c. Fields come in the order of the tool's properties, none besides them. A value that is a
 * text stands bare in these notations, so of a schema for texts only the list of words can be kept; what else a strict
 * schema says of one is refused. */
#include "call_grammar.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 32, LONGEST_KEY = 200 };
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

static const char *type_of(const json_t *schema) {
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type ? type : "";
}

/* ---- texts ---- */

/* The words that the text may be, or NULL where it may be any. */
static json_t *words_of(const json_t *schema) {
    const json_t *only = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    json_t *words = json_array();
    size_t i;
    json_t *word;
    if (json_is_string(only)) json_array_append(words, (json_t *)only);
    json_array_foreach(list, i, word) if (!only && json_is_string(word)) json_array_append(words, word);
    if (json_array_size(words)) return words;
    json_decref(words);
    return NULL;
}

/* A text up to `close`, which cannot be in it. */
static json_t *text_node(const call_tool *t, const json_t *schema, const char *key, const char *close, refusal *why) {
    static const char *const known[] = {"type", "enum", "const", NULL};
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *words = words_of(schema);
    if (words) {
        char *source = json_dumps(words, JSON_COMPACT);
        json_t *node = source ? node_kind("choices", source) : NULL;
        json_decref(words);
        free(source);
        return node;
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

/* A word or number of an enum. */
static json_t *literal(const json_t *value) {
    if (json_is_string(value)) return quoted(node_of("text", json_string_value(value)));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_t *node = text ? node_of("text", text) : NULL;
    free(text);
    return node;
}

static json_t *enum_node(const json_t *schema) {
    const json_t *only = json_object_get(schema, "const"), *list = json_object_get(schema, "enum"), *value;
    size_t i;
    node_list l = {.list = NULL};
    if (only) return literal(only);
    json_array_foreach(list, i, value) node_add(&l, literal(value));
    return node_join(&l, "any");
}

static json_t *gemma_array(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const known[] = {"type", "items", "minItems", "maxItems", NULL};
    const json_t *items = json_object_get(schema, "items");
    const json_int_t least = json_integer_value(json_object_get(schema, "minItems")),
                     most = json_integer_value(json_object_get(schema, "maxItems"));
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *item = items ? value_of(t, items, key, depth + 1, why) : node_of("use", "any");
    if (!item) return NULL;
    return around("[", node_repeat(item, (int)(least & 0xFFFF), (int)(most & 0xFFFF), comma()), "]");
}

static json_t *fields_of(const call_tool *t, const json_t *schema, int depth, refusal *why);

static json_t *gemma_object(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const known[] = {"type", "properties", "required", "additionalProperties", NULL};
    if (!check_keywords(t, schema, key, known, why)) return NULL;
    json_t *fields = fields_of(t, schema, depth + 1, why);
    return fields ? around("{", fields, "}") : NULL;
}

static json_t *gemma_any_of(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    const json_t *types = json_object_get(schema, "type"), *list = json_object_get(schema, "anyOf"), *one;
    size_t i;
    node_list l = {.list = NULL};
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

static json_t *gemma_value(const call_tool *t, const json_t *schema, const char *key, int depth, refusal *why) {
    static const char *const scalars[] = {"integer", "number", "boolean", "null", NULL};
    const char *type = type_of(schema);
    if (json_object_get(schema, "enum") || json_object_get(schema, "const")) return enum_node(schema);
    if (json_is_array(json_object_get(schema, "type")) || json_is_array(json_object_get(schema, "anyOf")))
        return gemma_any_of(t, schema, key, depth, why);
    if (!strcmp(type, "array")) return gemma_array(t, schema, key, depth, why);
    if (!strcmp(type, "object") && json_object_size(json_object_get(schema, "properties")))
        return gemma_object(t, schema, key, depth, why);
    if (is_one_of(type, scalars)) return call_schema(t, schema, key, why);
    if (!strcmp(type, "string")) {
        json_t *text = text_node(t, schema, key, quote, why);
        return text ? quoted(text) : NULL;
    }
    if (!t->is_strict) return node_of("use", "any");
    refuse(why, FAULT_SCHEMA, "tools", "%s, \"%.60s\": without a type it cannot be enforced in this model's notation",
           t->place, key);
    return NULL;
}

/* ---- one field ---- */

static json_t *gap(void) { return node_kind("regex", "\\n?"); }

/* <parameter=city>Rome</parameter> */
static json_t *tagged_field(const call_tool *t, const json_t *schema, const char *key, refusal *why) {
    const tool_format *f = t->setup->format;
    const bool is_text = !strcmp(type_of(schema), "string"), trims = f->flags & TOOLS_TRIM;
    json_t *value = is_text ? text_node(t, schema, key, f->value[1], why) : call_schema(t, schema, key, why);
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
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const bool is_tagged = t->setup->format->body == BODY_PARAMS;
    const size_t bytes = strlen(key), good = is_tagged ? strcspn(key, "<>\"\n") : strspn(key, letters);
    if (bytes && bytes <= LONGEST_KEY && good == bytes) return true;
    return refuse(why, FAULT_SCHEMA, "tools", "%s: the name \"%.60s\" cannot be written in this model's notation",
                  t->place, key);
}

/* ---- all fields ---- */

static bool add_field(node_list *l, const call_tool *t, const json_t *schema, const char *key, bool is_needed,
                      int depth, refusal *why) {
    if (json_is_false(schema)) return true;
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

static bool add_fields(node_list *l, const call_tool *t, const json_t *schema, int depth, refusal *why) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const char *key;
    json_t *inner;
    size_t i;
    json_object_foreach((json_t *)properties, key,
                        inner) if (!add_field(l, t, inner, key, is_required(required, key), depth, why)) return false;
    json_array_foreach(required, i, inner) {
        const char *name = json_string_value(inner);
        if (!name || json_object_get(properties, name)) continue;
        if (!add_field(l, t, NULL, name, true, depth, why)) return false;
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
