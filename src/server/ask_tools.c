/* ask_tools.c — the tools that a request offers, and which of them the model may, must or must not call.
 *
 * Called by ask.c. Tools of kinds that only others' servers have are skipped, because agents send them everywhere. */
#include "ask.h"
#include "base/json.h"

enum { MOST_TOOLS = 1024, LONGEST_NAME = 64 };

static const char *name_of(const json_t *tool) {
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static const json_t *find(const json_t *tools, const char *name) {
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool) if (!strcmp(name_of(tool), name)) return tool;
    return NULL;
}

static bool check_name(const json_t *function, const char *place, refusal *why) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    char inner[96];
    const json_t *name = json_object_get(function, "name");
    const char *text = json_string_value(name);
    snprintf(inner, sizeof inner, "%s.name", place);
    if (!text) return field_wrong_kind(why, inner, name, "a string");
    const size_t bytes = json_string_length(name);
    if (bytes && bytes <= LONGEST_NAME && strspn(text, letters) == bytes) return true;
    return refuse(why, FAULT_BAD_REQUEST, inner, "%s: found \"%.80s\", allowed are 1 to %d of A-Z a-z 0-9 _ . -", inner,
                  text, LONGEST_NAME);
}

static bool add_function(ask *a, json_t *function, const char *place, refusal *why) {
    char inner[96];
    if (!json_is_object(function)) return field_wrong_kind(why, place, function, "an object");
    if (!check_name(function, place, why)) return false;
    const json_t *parameters = json_object_get(function, "parameters");
    snprintf(inner, sizeof inner, "%s.parameters", place);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return field_wrong_kind(why, inner, parameters, "a JSON schema");
    const char *name = json_string_value(json_object_get(function, "name"));
    if (find(a->tools, name))
        return refuse(why, FAULT_BAD_REQUEST, place, "%s: a tool of the name \"%s\" is there already", place, name);
    if (json_is_true(json_object_get(function, "strict"))) a->has_strict = true;
    json_t *tool = json_pack("{s:s,s:O}", "type", "function", "function", function);
    return tool && !json_array_append_new(a->tools, tool) ? true : refuse_memory(why, "tools");
}

static bool read_list(ask *a, const json_t *list, const char *name, bool is_old, refusal *why) {
    size_t i;
    json_t *item;
    if (!list) return true;
    if (!json_is_array(list)) return field_wrong_kind(why, name, list, "an array");
    if (json_array_size(list) > MOST_TOOLS)
        return refuse(why, FAULT_BAD_REQUEST, name, "%s: found %zu, allowed are %d", name, json_array_size(list),
                      MOST_TOOLS);
    json_array_foreach(list, i, item) {
        char place[64];
        const char *type = json_string_value(json_object_get(item, "type"));
        snprintf(place, sizeof place, is_old ? "%.20s[%zu]" : "%.20s[%zu].function", name, i);
        if (!json_is_object(item)) return field_wrong_kind(why, place, item, "an object");
        if (!is_old && (!type || strcmp(type, "function"))) continue;
        if (!add_function(a, is_old ? item : json_object_get(item, "function"), place, why)) return false;
    }
    return true;
}

/* ---- tool_choice ---- */

static bool choose_named(ask *a, const json_t *name, refusal *why) {
    const char *text = json_string_value(name);
    if (!text) return field_wrong_kind(why, "tool_choice.function.name", name, "a string");
    if (!find(a->tools, text))
        return refuse(why, FAULT_BAD_REQUEST, "tool_choice", "tool_choice: \"%.80s\" is none of the tools", text);
    a->choice = CHOOSE_NAMED;
    a->chosen = text;
    return true;
}

static bool choose_word(ask *a, const json_t *value, refusal *why) {
    static const char *const words[] = {"none", "auto", "required"};
    const char *text = json_string_value(value);
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, words[i])) return a->choice = (tool_choice)i, true;
    return refuse(why, FAULT_BAD_REQUEST, "tool_choice",
                  "tool_choice: found \"%.40s\", allowed are none, auto, required and {\"type\":\"function\",...}",
                  text);
}

/* Leaves only the tools of the list. */
static bool choose_allowed(ask *a, const json_t *allowed, refusal *why) {
    const json_t *list = json_object_get(allowed, "tools"), *mode = json_object_get(allowed, "mode");
    json_t *left = json_array(), *item;
    size_t i;
    if (!left) return refuse_memory(why, "tools");
    json_array_foreach(list, i, item) {
        const char *name = name_of(item) ? name_of(item) : json_string_value(json_object_get(item, "name"));
        const json_t *tool = name ? find(a->tools, name) : NULL;
        if (tool) json_array_append(left, (json_t *)tool);
    }
    json_decref(a->tools);
    a->tools = left;
    return !json_is_string(mode) || choose_word(a, mode, why);
}

static bool read_choice(ask *a, refusal *why) {
    const json_t *c = a->f.tool_choice ? a->f.tool_choice : a->f.function_call;
    a->choice = CHOOSE_AUTO;
    if (!c) return true;
    if (json_is_string(c)) return choose_word(a, c, why);
    if (!json_is_object(c)) return field_wrong_kind(why, "tool_choice", c, "a string or an object");
    const char *type = json_string_value(json_object_get(c, "type"));
    if (type && !strcmp(type, "allowed_tools")) {
        const json_t *inner = json_object_get(c, "allowed_tools");
        return choose_allowed(a, inner ? inner : c, why);
    }
    const json_t *function = json_object_get(c, "function");
    return choose_named(a, json_object_get(function ? function : c, "name"), why);
}

bool ask_read_tools(ask *a, refusal *why) {
    if (!(a->tools = json_array())) return refuse_memory(why, "tools");
    if (!read_list(a, a->f.tools, "tools", false, why) || !read_list(a, a->f.functions, "functions", true, why) ||
        !read_choice(a, why))
        return false;
    const bool is_empty = !json_array_size(a->tools);
    if (is_empty && a->choice == CHOOSE_REQUIRED)
        return refuse(why, FAULT_BAD_REQUEST, "tool_choice", "tool_choice: \"required\", but there is no function");
    if (is_empty || a->choice == CHOOSE_NONE) {
        json_decref(a->tools);
        a->tools = NULL;
    }
    return true;
}
