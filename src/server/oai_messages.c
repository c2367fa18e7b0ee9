/* oai_messages.c — the messages of a chat request in the one form that templates are given.
 *
 * Called by oai_chat_request.c. Clients differ in what they send and templates in what they can read; everything that
 * two clients spell in two ways becomes one here, so that a template sees what its makers tried it with. */
#include "oai_messages.h"
#include "base/json.h"

enum { PLACE = 96 };

/* ---- content ---- */

typedef enum part_rule { PART_TEXT, PART_REFUSAL, PART_MEDIA } part_rule;
static const struct {
    const char *type;
    part_rule rule;
} part_rules[] = {
    {"text", PART_TEXT},       {"input_text", PART_TEXT},   {"output_text", PART_TEXT}, {"refusal", PART_REFUSAL},
    {"image_url", PART_MEDIA}, {"input_image", PART_MEDIA}, {"image", PART_MEDIA},      {"input_audio", PART_MEDIA},
    {"video_url", PART_MEDIA}, {"file", PART_MEDIA},        {"input_file", PART_MEDIA}, {"audio_url", PART_MEDIA},
};

static bool add_part(strbuf *out, const json_t *part, const char *place, refusal *why) {
    char inner[PLACE + 16];
    const char *type = json_string_value(json_object_get(part, "type"));
    if (json_is_string(part)) return strbuf_add(out, json_string_value(part), json_string_length(part)), true;
    if (!json_is_object(part)) return field_wrong_kind(why, place, part, "an object");
    for (size_t i = 0; type && i < sizeof part_rules / sizeof *part_rules; i++) {
        if (strcmp(type, part_rules[i].type)) continue;
        if (part_rules[i].rule == PART_MEDIA)
            return refuse(why, FAULT_PARAMETER, place,
                          "%s: \"%s\" needs a model that sees or hears; this one reads text", place, type);
        const char *key = part_rules[i].rule == PART_TEXT ? "text" : "refusal";
        const json_t *text = json_object_get(part, key);
        snprintf(inner, sizeof inner, "%s.%s", place, key);
        if (!json_is_string(text)) return field_wrong_kind(why, inner, text, "a string");
        strbuf_add(out, json_string_value(text), json_string_length(text));
        return true;
    }
    snprintf(inner, sizeof inner, "%s.type", place);
    return refuse(why, FAULT_BAD_REQUEST, inner, "%s: found \"%.40s\", expected \"text\"", inner,
                  type ? type : "nothing");
}

bool oai_messages_text(strbuf *out, const json_t *content, const char *place, refusal *why) {
    size_t i;
    json_t *part;
    strbuf_add(out, "", 0);
    if (!content || json_is_null(content)) return true;
    if (json_is_string(content)) return strbuf_add(out, json_string_value(content), json_string_length(content)), true;
    if (!json_is_array(content)) return field_wrong_kind(why, place, content, "a string or an array of parts");
    json_array_foreach(content, i, part) {
        char inner[PLACE];
        snprintf(inner, sizeof inner, "%.80s[%zu]", place, i);
        if (!add_part(out, part, inner, why)) return false;
    }
    return true;
}

/* ---- calls in the history ---- */

/* An object where the text parses to one, else the text. */
static json_t *read_arguments(const json_t *arguments) {
    if (!json_is_string(arguments)) return arguments ? json_deep_copy(arguments) : json_object();
    json_t *parsed = json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
    if (json_is_object(parsed)) return parsed;
    json_decref(parsed);
    return json_string_length(arguments) ? json_copy((json_t *)arguments) : json_object();
}

/* One call: {"id", "type", "function": {"name", "arguments"}}. */
static bool add_call(json_t *calls, const json_t *function, const json_t *id, const char *place, refusal *why) {
    const json_t *name = json_object_get(function, "name");
    if (!json_is_object(function)) return field_wrong_kind(why, place, function, "an object");
    if (!json_is_string(name)) return field_wrong_kind(why, place, name, "the name of a function");
    json_t *call = json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name, "arguments",
                             read_arguments(json_object_get(function, "arguments")));
    if (!call || (json_is_string(id) && json_object_set(call, "id", (json_t *)id)) ||
        json_array_append_new(calls, call)) {
        return refuse_memory(why, "tool calls");
    }
    return true;
}

static bool read_calls(json_t *to, const json_t *from, const char *place, refusal *why) {
    const json_t *list = json_object_get(from, "tool_calls"), *old = json_object_get(from, "function_call");
    char inner[PLACE + 32];
    size_t i;
    json_t *call;
    if (list && !json_is_null(list) && !json_is_array(list)) {
        snprintf(inner, sizeof inner, "%s.tool_calls", place);
        return field_wrong_kind(why, inner, list, "an array");
    }
    if (!json_array_size(list) && !json_is_object(old)) return true;
    json_t *calls = json_array();
    if (!calls || json_object_set_new(to, "tool_calls", calls)) return refuse_memory(why, "tool calls");
    json_array_foreach(list, i, call) {
        snprintf(inner, sizeof inner, "%s.tool_calls[%zu].function", place, i);
        if (!add_call(calls, json_object_get(call, "function"), json_object_get(call, "id"), inner, why)) return false;
    }
    snprintf(inner, sizeof inner, "%s.function_call", place);
    return json_array_size(list) || add_call(calls, old, json_object_get(from, "name"), inner, why);
}

/* ---- one message ---- */

static const struct {
    const char *role, *becomes;
} roles[] = {{"system", "system"},       {"developer", "system"}, {"user", "user"},
             {"assistant", "assistant"}, {"tool", "tool"},        {"function", "tool"}};

static const char *role_of(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (!strcmp(role, roles[i].role)) return roles[i].becomes;
    return NULL;
}

static bool set_content(json_t *to, const json_t *from, const char *role, const char *place, refusal *why) {
    const json_t *content = json_object_get(from, "content");
    const bool is_absent = !content || json_is_null(content);
    char inner[PLACE + 16];
    strbuf text = {0};
    snprintf(inner, sizeof inner, "%s.content", place);
    if (is_absent && strcmp(role, "assistant"))
        return refuse(why, FAULT_BAD_REQUEST, inner, "%s: missing; a %s message needs one", inner, role);
    bool is_good = oai_messages_text(&text, content, inner, why);
    json_t *value = is_good && !text.failed ? json_stringn_nocheck(text.at, text.bytes) : NULL;
    if (is_good && json_object_set_new(to, "content", value)) is_good = refuse_memory(why, inner);
    strbuf_free(&text);
    return is_good;
}

static bool set_reasoning(json_t *to, const json_t *from, refusal *why) {
    json_t *text = json_object_get(from, "reasoning_content");
    if (!json_is_string(text)) text = json_object_get(from, "reasoning");
    if (!json_is_string(text)) return true;
    if (json_object_set(to, "reasoning_content", text) || json_object_set(to, "reasoning", text))
        return refuse_memory(why, "reasoning");
    return true;
}

static bool set_plain(json_t *to, const json_t *from, const char *key, refusal *why) {
    json_t *value = json_object_get(from, key);
    return !json_is_string(value) || !json_object_set(to, key, value) || refuse_memory(why, key);
}

static bool fill_message(json_t *to, const json_t *from, const char *role, const char *place, refusal *why) {
    const bool is_tool = !strcmp(role, "tool"), is_assistant = !strcmp(role, "assistant");
    char inner[PLACE + 16];
    if (json_object_set_new(to, "role", json_string(role))) return refuse_memory(why, "a message");
    if (!set_content(to, from, role, place, why) || !set_plain(to, from, "name", why)) return false;
    if (is_tool && !set_plain(to, from, "tool_call_id", why)) return false;
    const char *spelled = json_string_value(json_object_get(from, "role"));
    if (is_tool && !strcmp(spelled, "tool") && !json_object_get(to, "tool_call_id")) {
        snprintf(inner, sizeof inner, "%s.tool_call_id", place);
        return refuse(why, FAULT_BAD_REQUEST, inner, "%s: missing; a tool message answers a call", inner);
    }
    if (is_tool && !strcmp(spelled, "function") && json_object_get(to, "name"))
        json_object_set(to, "tool_call_id", json_object_get(to, "name"));
    return !is_assistant || (read_calls(to, from, place, why) && set_reasoning(to, from, why));
}

static bool add_message(json_t *out, const json_t *from, const char *place, refusal *why) {
    char inner[PLACE + 8];
    if (!json_is_object(from)) return field_wrong_kind(why, place, from, "an object");
    const char *role = role_of(from), *found = json_string_value(json_object_get(from, "role"));
    snprintf(inner, sizeof inner, "%s.role", place);
    if (!role)
        return refuse(why, FAULT_BAD_REQUEST, inner,
                      "%s: found \"%.40s\", allowed are system, developer, user, assistant, tool and function", inner,
                      found ? found : "nothing");
    json_t *to = json_object();
    if (!to || json_array_append_new(out, to)) return refuse_memory(why, "a message");
    return fill_message(to, from, role, place, why);
}

/* ---- the order of tool results ---- */

static size_t call_place(const json_t *calls, const json_t *result) {
    const char *id = json_string_value(json_object_get(result, "tool_call_id"));
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call) {
        const char *other = json_string_value(json_object_get(call, "id"));
        if (id && other && !strcmp(id, other)) return i;
    }
    return SIZE_MAX;
}

static bool is_role(const json_t *message, const char *role) {
    const char *found = json_string_value(json_object_get(message, "role"));
    return found && !strcmp(found, role);
}

/* Insertion sort of messages[from .. to) by the place of their calls; results of unknown calls stay behind. */
static bool sort_results(json_t *messages, size_t from, size_t to, const json_t *calls, refusal *why) {
    for (size_t i = from + 1; i < to; i++) {
        json_t *moved = json_incref(json_array_get(messages, i));
        const size_t place = call_place(calls, moved);
        size_t at = i;
        while (at > from && call_place(calls, json_array_get(messages, at - 1)) > place) at--;
        const bool failed = at < i && (json_array_remove(messages, i) || json_array_insert(messages, at, moved));
        json_decref(moved);
        if (failed) return refuse_memory(why, "the messages");
    }
    return true;
}

/* The longest run of results that is sorted; more are left as they came, so that nobody can buy quadratic time. */
enum { MOST_RESULTS = 64 };

static bool order_results(json_t *messages, refusal *why) {
    const size_t n = json_array_size(messages);
    for (size_t i = 0; i < n; i++) {
        const json_t *calls = json_object_get(json_array_get(messages, i), "tool_calls");
        size_t end = i + 1;
        while (calls && end < n && is_role(json_array_get(messages, end), "tool")) end++;
        if (end - i > MOST_RESULTS || json_array_size(calls) > MOST_RESULTS) continue;
        if (end > i + 2 && !sort_results(messages, i + 1, end, calls, why)) return false;
    }
    return true;
}

bool oai_messages_read(json_t **out, const json_t *messages, const char *name, refusal *why) {
    size_t i;
    json_t *message;
    *out = NULL;
    if (!messages) return refuse(why, FAULT_BAD_REQUEST, name, "%s: missing", name);
    if (!json_is_array(messages)) return field_wrong_kind(why, name, messages, "an array");
    if (!json_array_size(messages)) return refuse(why, FAULT_BAD_REQUEST, name, "%s: the array is empty", name);
    json_t *made = json_array();
    if (!made) return refuse_memory(why, name);
    bool is_good = true;
    json_array_foreach(messages, i, message) {
        char place[PLACE];
        snprintf(place, sizeof place, "%.60s[%zu]", name, i);
        is_good = is_good && add_message(made, message, place, why);
    }
    if (is_good && order_results(made, why)) return *out = made, true;
    json_decref(made);
    return false;
}
