/* call_grammar.c — calls of tools as parts of a constraint.
 *
 * Called by form.c. What surrounds name and arguments comes from the row of tool_format.c; arguments are the tool's
 * schema, as JSON where the notation has JSON, else field by field (call_fields.c). A tool whose schema is `strict` is
 * refused where something in it cannot be enforced, others leave it out. */
#include "call_grammar.h"
#include "demand.h"
#include <stdio.h>

/* ---- nodes ---- */

void node_add(node_list *l, json_t *node) {
    if (!l->list) l->list = json_array();
    if (json_array_append_new(l->list, node)) l->failed = true;
}

json_t *node_join(node_list *l, const char *member) {
    json_t *list = l->list ? l->list : json_array();
    const bool failed = l->failed;
    *l = (node_list){.list = NULL};
    if (!failed) return json_pack("{s:o}", member, list);
    json_decref(list);
    return NULL;
}

json_t *node_of(const char *member, const char *text) { return json_pack("{s:s}", member, text); }

json_t *node_kind(const char *kind, const char *source) {
    return json_pack("{s:s,s:s}", "kind", kind, "source", source);
}

json_t *node_free(const char *const *tags, size_t n, const char *not_first) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (*tags[i]) json_array_append_new(list, json_string(tags[i]));
    return json_pack("{s:o,s:s}", "free", list, "not_first", not_first);
}

json_t *node_repeat(json_t *node, int min, int max, json_t *between) {
    json_t *made = node ? json_pack("{s:o,s:i}", "repeat", node, "min", min) : NULL;
    if (made && max) json_object_set_new(made, "max", json_integer(max));
    if (made && between) return json_object_set_new(made, "between", between), made;
    json_decref(between);
    return made;
}

/* ---- arguments as JSON ---- */

/* A copy of the parameters that only objects satisfy: models call functions with named arguments. */
static json_t *object_schema(const json_t *parameters) {
    json_t *copy = json_is_object(parameters) ? json_copy((json_t *)parameters) : json_object();
    const json_t *type = json_object_get(copy, "type");
    if (!json_is_string(type)) json_object_set_new(copy, "type", json_string("object"));
    return copy;
}

static json_t *schema_node(const call_tool *t, const json_t *schema, const char *place, refusal *why) {
    const span source = demand_dump(t->setup->ask, schema);
    json_t *node = source.at ? node_kind("json_schema", source.at) : NULL;
    if (!node || json_object_set_new(node, "lenient", json_boolean(!t->is_strict)) ||
        json_object_set_new(node, "ignore_formats", json_boolean(!t->is_strict)) ||
        json_object_set_new(node, "name", json_string(place))) {
        json_decref(node);
        return refuse_memory(why, "tools"), NULL;
    }
    return node;
}

json_t *call_schema(const call_tool *t, const json_t *schema, const char *key, refusal *why) {
    static const char *const shared[] = {"$defs", "definitions"};
    char place[sizeof t->place + 80];
    json_t *copy = json_is_object(schema) ? json_copy((json_t *)schema) : json_object();
    for (size_t i = 0; i < 2; i++) {
        json_t *defs = json_object_get(t->parameters, shared[i]);
        if (defs && !json_object_get(copy, shared[i])) json_object_set(copy, shared[i], defs);
    }
    snprintf(place, sizeof place, "%s, \"%.60s\"", t->place, key);
    json_t *node = copy ? schema_node(t, copy, place, why) : (refuse_memory(why, "tools"), NULL);
    json_decref(copy);
    return node;
}

static json_t *json_arguments(const call_tool *t, refusal *why) {
    json_t *schema = object_schema(t->parameters);
    json_t *node = schema ? schema_node(t, schema, t->place, why) : (refuse_memory(why, "tools"), NULL);
    json_decref(schema);
    return node;
}

/* ---- one call ---- */

static bool is_json_body(const tool_format *f) { return f->body == BODY_JSON || f->body == BODY_KEYED; }

/* What stands before the name, between name and arguments, after them. */
static const char *spelled(const tool_format *f, int i) {
    static const char *const json[] = {"{\"name\": \"", "\", \"arguments\": ", "}"};
    static const char *const keyed[] = {"{\"", "\": ", "}"};
    static const char *const python[] = {"", "(", ")"};
    static const char *const gemma[] = {"", "{", "}"};
    if (*f->spell[0] || *f->spell[1] || *f->spell[2]) return f->spell[i];
    switch (f->body) {
    case BODY_JSON:
        return json[i];
    case BODY_KEYED:
        return keyed[i];
    case BODY_PYTHON:
        return python[i];
    case BODY_GEMMA:
        return gemma[i];
    default:
        return i == 1 ? f->after_name : "";
    }
}

/* Line breaks are free where tags are text or stand in a row. */
static json_t *gap(void) { return node_kind("regex", "\\n?"); }

static json_t *arguments_of(const call_tool *t, refusal *why) {
    const tool_body body = t->setup->format->body;
    const bool has_fields = body == BODY_PARAMS || body == BODY_PYTHON || body == BODY_GEMMA;
    return has_fields ? call_fields(t, why) : json_arguments(t, why);
}

/* A message to the function: the recipient stands behind the channel or before it. */
static void add_harmony_header(node_list *l, const char *name) {
    static const char *const parts[][2] = {{"<|channel|>commentary to=functions.", ""},
                                           {" to=functions.", "<|channel|>commentary"}};
    node_list either = {.list = NULL};
    for (size_t i = 0; i < 2; i++) {
        node_list one = {.list = NULL};
        node_add(&one, node_of("tag", parts[i][0]));
        node_add(&one, node_of("text", name));
        node_add(&one, node_of("tag", parts[i][1]));
        node_add(&either, node_join(&one, "sequence"));
    }
    node_add(l, node_join(&either, "any"));
    node_add(l, node_repeat(node_of("tag", " <|constrain|>json"), 0, 1, NULL));
    node_add(l, node_of("tag", "<|message|>"));
}

static void add_header(node_list *l, const tool_format *f, const char *name) {
    if (f->body == BODY_HARMONY) return add_harmony_header(l, name);
    node_add(l, node_of("tag", spelled(f, 0)));
    node_add(l, node_of("text", name));
    if (f->flags & TOOLS_COUNTED) node_add(l, node_kind("regex", ":[0-9]{1,3}"));
    if (!(f->flags & TOOLS_LINE)) node_add(l, node_of("tag", spelled(f, 1)));
}

/* Name and arguments, without what surrounds calls. */
static json_t *one_tool(const call_tool *t, refusal *why) {
    const tool_format *f = t->setup->format;
    node_list l = {.list = NULL};
    add_header(&l, f, t->name);
    json_t *arguments = arguments_of(t, why);
    if (!arguments) return json_decref(node_join(&l, "sequence")), NULL;
    node_add(&l, arguments);
    node_add(&l, node_of("tag", spelled(f, 2)));
    json_t *made = node_join(&l, "sequence");
    if (!made) refuse_memory(why, "tools");
    return made;
}

static bool fill_tool(call_tool *out, const call_setup *c, const json_t *function, refusal *why) {
    const json_t *parameters = json_object_get(function, "parameters"), *type = json_object_get(parameters, "type");
    *out = (call_tool){.setup = c,
                       .parameters = parameters,
                       .name = json_string_value(json_object_get(function, "name")),
                       .is_strict = json_is_true(json_object_get(function, "strict"))};
    snprintf(out->place, sizeof out->place, "tools: the parameters of \"%.64s\"", out->name);
    if (!json_is_string(type) || !strcmp(json_string_value(type), "object")) return true;
    return refuse(why, FAULT_SCHEMA, "tools", "%s: found \"type\": \"%.40s\", allowed is object", out->place,
                  json_string_value(type));
}

/* One of the tools that may be called. */
static json_t *any_tool(const call_setup *c, refusal *why) {
    size_t i;
    const json_t *tool;
    node_list l = {.list = NULL};
    json_array_foreach(c->ask->tools, i, tool) {
        call_tool t;
        if (!fill_tool(&t, c, json_object_get(tool, "function"), why)) return json_decref(node_join(&l, "any")), NULL;
        if (c->ask->choice == CHOOSE_NAMED && strcmp(t.name, c->ask->chosen)) continue;
        json_t *node = one_tool(&t, why);
        if (!node) return json_decref(node_join(&l, "any")), NULL;
        node_add(&l, node);
    }
    json_t *made = node_join(&l, "any");
    if (!made) refuse_memory(why, "tools");
    return made;
}

/* ---- what surrounds calls ---- */

static json_t *surround(const char *open, json_t *inner, const char *close, bool has_gaps) {
    node_list l = {.list = NULL};
    node_add(&l, node_of("tag", open));
    if (has_gaps) node_add(&l, gap());
    node_add(&l, inner);
    if (has_gaps) node_add(&l, gap());
    node_add(&l, node_of("tag", close));
    return node_join(&l, "sequence");
}

static json_t *tagged(const call_setup *c, json_t *any) {
    const tool_format *f = c->format;
    const bool has_brackets = f->body == BODY_PYTHON || f->body == BODY_KEYED, has_list = *f->list[0] || has_brackets;
    const int most = c->is_single ? 1 : 0;
    if (has_list)
        any = surround(has_brackets ? "[" : f->list[0],
                       node_repeat(any, 1, most, node_of("text", has_brackets ? ", " : f->list[1])),
                       has_brackets ? "]" : f->list[2], false);
    if (c->is_untagged)
        return has_list ? any : node_repeat(any, 1, most, node_of("text", *f->list[1] ? f->list[1] : "; "));
    const bool has_gaps = (is_json_body(f) && !has_list) || f->body == BODY_PARAMS;
    json_t *call = surround(f->call[0], any, f->call[1], has_gaps && !(f->flags & TOOLS_LINE));
    if (has_list) return call;
    json_t *calls = node_repeat(call, 1, most, gap());
    return *f->section[0] ? surround(f->section[0], calls, f->section[1], true) : calls;
}

json_t *call_grammar(const call_setup *c, refusal *why) {
    json_t *any = any_tool(c, why);
    if (!any) return NULL;
    json_t *made = c->format->body == BODY_HARMONY ? any : tagged(c, any);
    if (!made) refuse_memory(why, "tools");
    return made;
}
