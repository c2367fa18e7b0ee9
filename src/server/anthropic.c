/* anthropic.c — POST /v1/messages and /v1/messages/count_tokens: their body as one of chat, which does the rest.
 *
 * Called by route_table.c. One message of theirs can be several of ours: results of tools stand inside a user's
 * message and become messages of their own before its text. */
#include "anthropic.h"
#include "base/json.h"
#include "field.h"
#include "generate.h"
#include "handlers.h"
#include <stdio.h>

static bool put(json_t *to, const char *name, json_t *value, refusal *why) {
    return !value || json_is_null(value) || !json_object_set(to, name, value) || refuse_memory(why, name);
}

static bool put_new(json_t *to, const char *name, json_t *value, refusal *why) {
    return !json_object_set_new(to, name, value) || refuse_memory(why, name);
}

static bool append(json_t *list, json_t *item, refusal *why) {
    return item && !json_array_append_new(list, item) ? true : refuse_memory(why, "messages");
}

/* ---- blocks ---- */

/* What one message of theirs becomes. */
typedef struct gathered {
    json_t *results, *calls; /* messages of tools; calls of the assistant */
    strbuf text, thought;
    bool has_text;
} gathered;

static bool add_text(strbuf *to, const json_t *text, const char *place, refusal *why) {
    if (!json_is_string(text)) return field_wrong_kind(why, place, text, "a string");
    strbuf_add(to, json_string_value(text), json_string_length(text));
    return !to->failed || refuse_memory(why, place);
}

static bool read_text(gathered *g, const json_t *block, const char *place, refusal *why) {
    g->has_text = true;
    return add_text(&g->text, json_object_get(block, "text"), place, why);
}

static bool read_thought(gathered *g, const json_t *block, const char *place, refusal *why) {
    return add_text(&g->thought, json_object_get(block, "thinking"), place, why);
}

static bool read_call(gathered *g, const json_t *block, const char *place, refusal *why) {
    const json_t *name = json_object_get(block, "name"), *input = json_object_get(block, "input");
    if (!json_is_string(name)) return field_wrong_kind(why, place, name, "the name of a tool");
    json_t *call =
        json_pack("{s:O?,s:s,s:{s:O,s:o}}", "id", json_object_get(block, "id"), "type", "function", "function", "name",
                  name, "arguments", json_is_object(input) ? json_incref((json_t *)input) : json_object());
    return append(g->calls, call, why);
}

static bool read_result(gathered *g, const json_t *block, const char *place, refusal *why) {
    const json_t *content = json_object_get(block, "content");
    json_t *given = content && !json_is_null(content) ? json_incref((json_t *)content) : json_string("");
    json_t *message = json_pack("{s:s,s:O?,s:o}", "role", "tool", "tool_call_id", json_object_get(block, "tool_use_id"),
                                "content", given);
    return append(g->results, message, why);
}

static bool read_nothing(gathered *g, const json_t *block, const char *place, refusal *why) { return true; }

static bool refuse_media(gathered *g, const json_t *block, const char *place, refusal *why) {
    return refuse(why, FAULT_PARAMETER, place, "%s: images and documents need a model that sees; this one reads text",
                  place);
}

static const struct {
    const char *type;
    bool (*read)(gathered *g, const json_t *block, const char *place, refusal *why);
} blocks[] = {{"text", read_text},       {"thinking", read_thought},   {"redacted_thinking", read_nothing},
              {"tool_use", read_call},   {"tool_result", read_result}, {"image", refuse_media},
              {"document", refuse_media}};

static bool read_block(gathered *g, const json_t *block, const char *place, refusal *why) {
    const char *type = json_string_value(json_object_get(block, "type"));
    if (!json_is_object(block)) return field_wrong_kind(why, place, block, "an object");
    for (size_t i = 0; type && i < sizeof blocks / sizeof *blocks; i++)
        if (!strcmp(blocks[i].type, type)) return blocks[i].read(g, block, place, why);
    return refuse(why, FAULT_BAD_REQUEST, place,
                  "%s: found a block of type \"%.40s\", allowed are text, thinking, tool_use and tool_result", place,
                  type ? type : "nothing");
}

static bool read_blocks(gathered *g, const json_t *content, const char *place, refusal *why) {
    size_t i;
    json_t *block;
    if (json_is_string(content)) return g->has_text = true, add_text(&g->text, content, place, why);
    if (!json_is_array(content)) return field_wrong_kind(why, place, content, "a string or an array of blocks");
    json_array_foreach(content, i, block) {
        char inner[128];
        snprintf(inner, sizeof inner, "%.100s[%zu]", place, i);
        if (!read_block(g, block, inner, why)) return false;
    }
    return true;
}

/* ---- messages ---- */

static bool add_gathered(json_t *messages, gathered *g, const json_t *role, refusal *why) {
    const bool is_assistant = !strcmp(json_string_value(role), "assistant");
    if (json_array_extend(messages, g->results)) return refuse_memory(why, "messages");
    if (!g->has_text && json_array_size(g->results)) return true;
    json_t *message = json_pack("{s:O,s:s%}", "role", role, "content", g->text.at ? g->text.at : "", g->text.bytes);
    if (!append(messages, message, why)) return false;
    if (is_assistant && json_array_size(g->calls) && !put(message, "tool_calls", g->calls, why)) return false;
    return !is_assistant || !g->thought.bytes ||
           put_new(message, "reasoning_content", json_stringn(g->thought.at, g->thought.bytes), why);
}

static bool read_message(json_t *messages, const json_t *message, const char *place, refusal *why) {
    const json_t *role = json_object_get(message, "role");
    const char *word = json_string_value(role);
    char inner[96];
    if (!json_is_object(message)) return field_wrong_kind(why, place, message, "an object");
    snprintf(inner, sizeof inner, "%.60s.role", place);
    if (!word || (strcmp(word, "user") && strcmp(word, "assistant") && strcmp(word, "system")))
        return refuse(why, FAULT_BAD_REQUEST, inner, "%s: found \"%.40s\", allowed are user, assistant and system",
                      inner, word ? word : "nothing");
    snprintf(inner, sizeof inner, "%.60s.content", place);
    gathered g = {.results = json_array(), .calls = json_array()};
    bool is_good = g.results && g.calls ? true : refuse_memory(why, "messages");
    is_good = is_good && read_blocks(&g, json_object_get(message, "content"), inner, why) &&
              add_gathered(messages, &g, role, why);
    json_decref(g.results);
    json_decref(g.calls);
    strbuf_free(&g.text);
    strbuf_free(&g.thought);
    return is_good;
}

static bool read_system(json_t *messages, const json_t *system, refusal *why) {
    if (!system || json_is_null(system)) return true;
    json_t *message = json_pack("{s:s,s:O}", "role", "system", "content", system);
    const bool is_good = message && read_message(messages, message, "system", why);
    json_decref(message);
    return is_good;
}

static bool read_messages(json_t *messages, const json_t *body, refusal *why) {
    const json_t *list = json_object_get(body, "messages");
    size_t i;
    json_t *message;
    if (!list) return refuse(why, FAULT_BAD_REQUEST, "messages", "messages: missing");
    if (!json_is_array(list)) return field_wrong_kind(why, "messages", list, "an array");
    if (!read_system(messages, json_object_get(body, "system"), why)) return false;
    json_array_foreach(list, i, message) {
        char place[40];
        snprintf(place, sizeof place, "messages[%zu]", i);
        if (!read_message(messages, message, place, why)) return false;
    }
    return true;
}

/* ---- members ---- */

/* Their own tools run on their servers; they have no schema here and are left out. */
static bool put_tools(json_t *to, const json_t *tools, refusal *why) {
    size_t i;
    json_t *tool, *list = json_array();
    if (!put_new(to, "tools", list, why)) return false;
    json_array_foreach(tools, i, tool) {
        json_t *schema = json_object_get(tool, "input_schema"), *name = json_object_get(tool, "name");
        if (!json_is_object(schema)) continue;
        json_t *made = json_pack("{s:s,s:{s:O?,s:O*,s:O}}", "type", "function", "function", "name", name, "description",
                                 json_object_get(tool, "description"), "parameters", schema);
        if (!append(list, made, why)) return false;
    }
    return true;
}

static bool put_choice(json_t *to, const json_t *choice, refusal *why) {
    static const char *const words[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")) &&
        !put_new(to, "parallel_tool_calls", json_false(), why))
        return false;
    for (size_t i = 0; type && i < 3; i++)
        if (!strcmp(type, words[i][0])) return put_new(to, "tool_choice", json_string(words[i][1]), why);
    if (type && !strcmp(type, "tool"))
        return put_new(
            to, "tool_choice",
            json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name", json_object_get(choice, "name")), why);
    return !type || refuse(why, FAULT_BAD_REQUEST, "tool_choice.type",
                           "tool_choice.type: found \"%.40s\", allowed are auto, any, tool and none", type);
}

static bool put_thinking(json_t *to, const json_t *thinking, refusal *why) {
    const char *type = json_string_value(json_object_get(thinking, "type"));
    if (!type) return true;
    if (strcmp(type, "adaptive") && !put_new(to, "enable_thinking", json_boolean(!strcmp(type, "enabled")), why))
        return false;
    return put(to, "reasoning_budget_tokens", json_object_get(thinking, "budget_tokens"), why);
}

static bool put_limit(json_t *to, const json_t *limit, bool is_needed, refusal *why) {
    if (!limit && !is_needed) return true;
    if (!limit) return refuse(why, FAULT_BAD_REQUEST, "max_tokens", "max_tokens: missing");
    if (json_is_integer(limit) && json_integer_value(limit) < 1)
        return refuse(why, FAULT_BAD_REQUEST, "max_tokens", "max_tokens: found %lld, allowed is at least 1",
                      (long long)json_integer_value(limit));
    return put(to, "max_tokens", (json_t *)limit, why);
}

static bool translate(json_t **out, const json_t *body, bool needs_limit, refusal *why) {
    static const char *const same[][2] = {{"model", "model"}, {"stream", "stream"}, {"temperature", "temperature"},
                                          {"top_p", "top_p"}, {"top_k", "top_k"},   {"stop_sequences", "stop"}};
    json_t *chat = json_object(), *messages = json_array();
    bool is_good = chat && messages && !json_object_set(chat, "messages", messages) ? true : refuse_memory(why, "it");
    for (size_t i = 0; is_good && i < sizeof same / sizeof *same; i++)
        is_good = put(chat, same[i][1], json_object_get(body, same[i][0]), why);
    is_good = is_good && put_limit(chat, json_object_get(body, "max_tokens"), needs_limit, why) &&
              put_tools(chat, json_object_get(body, "tools"), why) &&
              put_choice(chat, json_object_get(body, "tool_choice"), why) &&
              put_thinking(chat, json_object_get(body, "thinking"), why) && read_messages(messages, body, why);
    json_decref(messages);
    *out = is_good ? chat : NULL;
    if (!is_good) json_decref(chat);
    return is_good;
}

bool anthropic_translate(json_t **out, const json_t *body, refusal *why) { return translate(out, body, true, why); }

static bool translate_count(json_t **out, const json_t *body, refusal *why) { return translate(out, body, false, why); }

/* ---- routes ---- */

void anthropic_messages(http_request *r) {
    generation *g = generate_open(r, anthropic_translate);
    if (g && generate_read_chat(g)) generate_start(g, &dialect_messages, "msg_");
}

void anthropic_count(http_request *r) {
    generation *g = generate_open(r, translate_count);
    if (!g || !generate_read_chat(g)) return;
    reply_json(r, 200, json_pack("{s:I}", "input_tokens", (json_int_t)generate_prompt_tokens(g)));
    generate_free(g);
}
