/* responses.c — POST /v1/responses: its body as one of chat, which does the rest.
 *
 * Called by route_table.c. Items become messages: calls go to the assistant's message before them, reasoning to the one
 * after it, because that is where templates look for them. State that we do not keep is refused, never dropped. */
#include "responses.h"
#include "base/json.h"
#include "field.h"
#include "generate.h"
#include "handlers.h"
#include <stdio.h>

/* ---- members ---- */

static bool refuse_state(const json_t *body, refusal *why) {
    static const char *const names[] = {"previous_response_id", "conversation", "prompt"};
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_object_get(body, names[i]);
        if (value && !json_is_null(value))
            return refuse(why, FAULT_PARAMETER, names[i], "%s: nothing is stored here; send the whole input", names[i]);
    }
    if (!json_is_true(json_object_get(body, "background"))) return true;
    return refuse(why, FAULT_PARAMETER, "background", "background: answers are given on the connection that asks");
}

static bool put(json_t *to, const char *name, json_t *value, refusal *why) {
    return !value || !json_object_set(to, name, value) || refuse_memory(why, name);
}

static bool put_new(json_t *to, const char *name, json_t *value, refusal *why) {
    return !json_object_set_new(to, name, value) || refuse_memory(why, name);
}

/* {"type":"function","name",..} -> {"type":"function","function":{..}} */
static bool put_tools(json_t *to, const json_t *tools, refusal *why) {
    json_t *list = json_array(), *tool;
    size_t i;
    if (!tools || json_is_null(tools)) return json_decref(list), true;
    if (!json_is_array(tools)) return json_decref(list), field_wrong_kind(why, "tools", tools, "an array");
    if (!put_new(to, "tools", list, why)) return false;
    json_array_foreach(tools, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") || json_is_object(json_object_get(tool, "function"))) {
            if (json_array_append(list, tool)) return refuse_memory(why, "tools");
            continue;
        }
        json_t *function = json_copy(tool);
        json_object_del(function, "type");
        if (json_array_append_new(list, json_pack("{s:s,s:o}", "type", "function", "function", function)))
            return refuse_memory(why, "tools");
    }
    return true;
}

/* text.format -> response_format */
static bool put_format(json_t *to, const json_t *text, refusal *why) {
    const json_t *format = json_object_get(text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!put(to, "verbosity", json_object_get(text, "verbosity"), why)) return false;
    if (!json_is_object(format) || !type || strcmp(type, "json_schema"))
        return put(to, "response_format", (json_t *)format, why);
    json_t *inner = json_copy((json_t *)format);
    json_object_del(inner, "type");
    return put_new(to, "response_format", json_pack("{s:s,s:o}", "type", "json_schema", "json_schema", inner), why);
}

static bool put_members(json_t *to, const json_t *body, refusal *why) {
    static const char *const same[] = {
        "model", "stream", "temperature", "top_p",   "tool_choice", "parallel_tool_calls", "reasoning", "top_logprobs",
        "seed",  "top_k",  "min_p",       "timeout", "priority"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!put(to, same[i], json_object_get(body, same[i]), why)) return false;
    const json_t *top = json_object_get(body, "top_logprobs");
    if (json_is_integer(top) && json_integer_value(top) > 0 && !put_new(to, "logprobs", json_true(), why)) return false;
    return put(to, "max_completion_tokens", json_object_get(body, "max_output_tokens"), why) &&
           put_tools(to, json_object_get(body, "tools"), why) && put_format(to, json_object_get(body, "text"), why);
}

/* ---- items ---- */

typedef struct reader {
    json_t *messages;
    strbuf thought; /* for the next message of the assistant */
} reader;

static json_t *last_assistant(const reader *r) {
    json_t *last = json_array_get(r->messages, json_array_size(r->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return role && !strcmp(role, "assistant") ? last : NULL;
}

static bool give_thought(reader *r, json_t *message, refusal *why) {
    if (!r->thought.bytes) return true;
    const bool is_good = put_new(message, "reasoning_content", json_stringn(r->thought.at, r->thought.bytes), why);
    strbuf_clear(&r->thought);
    return is_good;
}

static bool read_message(reader *r, const json_t *item, refusal *why) {
    json_t *message =
        json_pack("{s:O?,s:O?}", "role", json_object_get(item, "role"), "content", json_object_get(item, "content"));
    if (!message || json_array_append_new(r->messages, message)) return refuse_memory(why, "input");
    return !last_assistant(r) || give_thought(r, message, why);
}

static bool read_call(reader *r, const json_t *item, refusal *why) {
    json_t *call =
        json_pack("{s:O?,s:s,s:{s:O?,s:O?}}", "id", json_object_get(item, "call_id"), "type", "function", "function",
                  "name", json_object_get(item, "name"), "arguments", json_object_get(item, "arguments"));
    json_t *message = r->thought.bytes ? NULL : last_assistant(r);
    if (!message) {
        message = json_pack("{s:s,s:n}", "role", "assistant", "content");
        if (!message || json_array_append_new(r->messages, message))
            return json_decref(call), refuse_memory(why, "input");
        if (!give_thought(r, message, why)) return json_decref(call), false;
    }
    json_t *calls = json_object_get(message, "tool_calls");
    if (!calls && put_new(message, "tool_calls", json_array(), why)) calls = json_object_get(message, "tool_calls");
    return call && !json_array_append_new(calls, call) ? true : refuse_memory(why, "input");
}

static bool read_output(reader *r, const json_t *item, refusal *why) {
    const json_t *output = json_object_get(item, "output");
    json_t *message = json_pack("{s:s,s:O?,s:O?}", "role", "tool", "tool_call_id", json_object_get(item, "call_id"),
                                "content", output);
    return message && !json_array_append_new(r->messages, message) ? true : refuse_memory(why, "input");
}

static bool read_reasoning(reader *r, const json_t *item, refusal *why) {
    static const char *const keys[] = {"content", "summary"};
    size_t i;
    json_t *part;
    for (int k = 0; k < 2 && !r->thought.bytes; k++) json_array_foreach(json_object_get(item, keys[k]), i, part) {
            const json_t *text = json_object_get(part, "text");
            if (json_is_string(text)) strbuf_add(&r->thought, json_string_value(text), json_string_length(text));
        }
    return !r->thought.failed || refuse_memory(why, "input");
}

static const struct {
    const char *type;
    bool (*read)(reader *r, const json_t *item, refusal *why);
} items[] = {{"message", read_message},
             {"function_call", read_call},
             {"function_call_output", read_output},
             {"reasoning", read_reasoning}};

static bool read_item(reader *r, const json_t *item, const char *place, refusal *why) {
    const json_t *given = json_object_get(item, "type");
    const char *type = json_string_value(given);
    if (!json_is_object(item)) return field_wrong_kind(why, place, item, "an object");
    if (!given && json_object_get(item, "role")) type = "message";
    for (size_t i = 0; type && i < sizeof items / sizeof *items; i++)
        if (!strcmp(items[i].type, type)) return items[i].read(r, item, why);
    return refuse(why, FAULT_PARAMETER, place,
                  "%s: found an item of type \"%.40s\", allowed are message, function_call, function_call_output and "
                  "reasoning",
                  place, type ? type : "nothing");
}

static bool read_input(reader *r, const json_t *input, refusal *why) {
    size_t i;
    json_t *item;
    if (!input || json_is_null(input)) return refuse(why, FAULT_BAD_REQUEST, "input", "input: missing");
    if (json_is_string(input)) {
        json_t *message = json_pack("{s:s,s:O}", "role", "user", "content", input);
        return message && !json_array_append_new(r->messages, message) ? true : refuse_memory(why, "input");
    }
    if (!json_is_array(input)) return field_wrong_kind(why, "input", input, "a string or an array of items");
    json_array_foreach(input, i, item) {
        char place[40];
        snprintf(place, sizeof place, "input[%zu]", i);
        if (!read_item(r, item, place, why)) return false;
    }
    return true;
}

static bool read_messages(json_t *messages, const json_t *body, refusal *why) {
    const json_t *instructions = json_object_get(body, "instructions");
    reader r = {.messages = messages};
    if (json_is_string(instructions) &&
        json_array_append_new(messages, json_pack("{s:s,s:O}", "role", "system", "content", instructions)))
        return refuse_memory(why, "instructions");
    const bool is_good = read_input(&r, json_object_get(body, "input"), why);
    strbuf_free(&r.thought);
    return is_good;
}

bool responses_translate(json_t **out, const json_t *body, refusal *why) {
    json_t *chat = json_object(), *messages = json_array();
    bool is_good = chat && messages && !json_object_set(chat, "messages", messages);
    if (!is_good) refuse_memory(why, "the request");
    is_good = is_good && refuse_state(body, why) && put_members(chat, body, why) && read_messages(messages, body, why);
    json_decref(messages);
    *out = is_good ? chat : NULL;
    if (!is_good) json_decref(chat);
    return is_good;
}

/* ---- routes ---- */

void responses_create(http_request *r) {
    generation *g = generate_open(r, responses_translate);
    if (g && generate_read_chat(g)) generate_start(g, &dialect_responses, "resp_");
}

void responses_count(http_request *r) {
    generation *g = generate_open(r, responses_translate);
    if (!g || !generate_read_chat(g)) return;
    const size_t n = generate_prompt_tokens(g);
    reply_json(r, 200, json_pack("{s:s,s:I}", "object", "response.input_tokens", "input_tokens", (json_int_t)n));
    generate_free(g);
}
