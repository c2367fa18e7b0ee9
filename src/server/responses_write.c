/* responses_write.c — answers of /v1/responses, whole and as events.
 *
 * A dialect of turn.h with one choice. The output is a row of items: reasoning, message, function call. Each is opened
 * by its first part and closed by the first part of the next; what a whole answer lists is what a stream has closed.
 * Events are numbered; those of an answer that is not streamed are written for nobody, which costs little and keeps
 * one path. */
#include "oai_write.h"

enum { NO_ITEM = -1 };

typedef struct item_kind {
    const char *prefix, *delta, *done, *part_type, *text_key;
} item_kind;

static const item_kind kinds[] = {
    [SAY_TEXT] = {"msg_", "response.output_text.delta", "response.output_text.done", "output_text", "text"},
    [SAY_THOUGHT] = {"rs_", "response.reasoning_text.delta", "response.reasoning_text.done", "reasoning_text", "text"},
    [SAY_CALL] = {"fc_", "response.function_call_arguments.delta", "response.function_call_arguments.done", "",
                  "arguments"},
};

static void start(turn *t, const char *type) {
    turn_start_event(t, type);
    strbuf_format(&t->event, "{\"type\":\"%s\"", type);
}

static void send(turn *t) {
    strbuf_format(&t->event, ",\"sequence_number\":%d}", t->sequence++);
    turn_send(t);
}

/* ---- the object ---- */

static const json_t *asked(const turn *t, const char *key) {
    const json_t *value = json_object_get(t->setup.request, key);
    return json_is_null(value) ? NULL : value;
}

static void write_asked(const turn *t, strbuf *out, const char *key, const char *standard) {
    const json_t *value = asked(t, key);
    strbuf_format(out, ",\"%s\":", key);
    if (!value)
        strbuf_text(out, standard);
    else if (json_is_number(value) && strcmp(key, "max_output_tokens"))
        json_out_real(out, json_number_value(value));
    else
        json_out_value(out, value);
}

static void write_reasoning(const turn *t, strbuf *out) {
    const json_t *reasoning = asked(t, "reasoning");
    strbuf_text(out, ",\"reasoning\":{\"effort\":");
    json_out_value(out, json_object_get(reasoning, "effort"));
    strbuf_text(out, ",\"summary\":");
    json_out_value(out, json_object_get(reasoning, "summary"));
    strbuf_char(out, '}');
}

static void write_text(const turn *t, strbuf *out) {
    const json_t *text = asked(t, "text"), *format = json_object_get(text, "format");
    const json_t *verbosity = json_object_get(text, "verbosity");
    strbuf_text(out, ",\"text\":{\"format\":");
    if (json_is_object(format))
        json_out_value(out, format);
    else
        strbuf_text(out, "{\"type\":\"text\"}");
    if (json_is_string(verbosity)) {
        strbuf_text(out, ",\"verbosity\":");
        json_out_value(out, verbosity);
    }
    strbuf_char(out, '}');
}

static void write_usage(const turn *t, strbuf *out) {
    const turn_usage u = turn_count(t);
    strbuf_format(out,
                  "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,\"cache_write_tokens\":%zu},",
                  u.prompt_tokens, u.cached_tokens, u.prompt_tokens - u.cached_tokens);
    strbuf_format(out,
                  "\"output_tokens\":%zu,\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
                  u.completion_tokens, u.thought_tokens, u.prompt_tokens + u.completion_tokens);
}

static bool is_cut(const turn *t) {
    const char *finish = t->choices[0].end.finish;
    return finish && !strcmp(finish, "length");
}

static void write_object(const turn *t, strbuf *out, const char *status) {
    const bool is_over = strcmp(status, "in_progress") != 0;
    strbuf_format(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":null,",
                  t->id, (long long)t->setup.created, status);
    strbuf_format(out, "\"incomplete_details\":%s",
                  is_over && is_cut(t) ? "{\"reason\":\"max_output_tokens\"}" : "null");
    write_asked(t, out, "instructions", "null");
    write_asked(t, out, "max_output_tokens", "null");
    strbuf_text(out, ",\"model\":");
    json_out_text(out, t->model);
    strbuf_format(out, ",\"output\":[%s]", is_over && t->items.at ? t->items.at : "");
    write_asked(t, out, "parallel_tool_calls", "true");
    strbuf_text(out, ",\"previous_response_id\":null");
    write_reasoning(t, out);
    strbuf_text(out, ",\"store\":false");
    write_asked(t, out, "temperature", "1.0");
    write_text(t, out);
    write_asked(t, out, "tool_choice", "\"auto\"");
    write_asked(t, out, "tools", "[]");
    write_asked(t, out, "top_p", "1.0");
    write_asked(t, out, "truncation", "\"disabled\"");
    strbuf_text(out, ",\"usage\":");
    if (is_over)
        write_usage(t, out);
    else
        strbuf_text(out, "null");
    write_asked(t, out, "metadata", "{}");
    strbuf_char(out, '}');
}

static void send_object(turn *t, const char *event, const char *status) {
    start(t, event);
    strbuf_text(&t->event, ",\"response\":");
    write_object(t, &t->event, status);
    send(t);
}

static void begin(turn *t) {
    send_object(t, "response.created", "in_progress");
    send_object(t, "response.in_progress", "in_progress");
}

/* ---- items ---- */

static span said(const turn *t) { return (span){t->item_text.at ? t->item_text.at : "", t->item_text.bytes}; }

static const turn_call *open_call(const turn *t) { return &t->choices[0].calls[t->n_parts]; }

/* {"type":"output_text",...}; whole: with its text. */
static void write_part(turn *t, strbuf *out, bool is_whole) {
    const span text = is_whole ? said(t) : (span){"", 0};
    strbuf_format(out, "{\"type\":\"%s\",\"text\":", kinds[t->open_kind].part_type);
    strbuf_json(out, text.at, text.bytes);
    if (t->open_kind == SAY_TEXT) {
        const strbuf *entries = &t->choices[0].logprobs;
        strbuf_format(out, ",\"annotations\":[],\"logprobs\":[%s]", is_whole && entries->bytes ? entries->at : "");
    }
    strbuf_char(out, '}');
}

static void write_item(turn *t, strbuf *out, bool is_whole) {
    const char *status = !is_whole ? "in_progress" : t->n_ended && is_cut(t) ? "incomplete" : "completed";
    if (t->open_kind == SAY_CALL) {
        const turn_call *call = open_call(t);
        strbuf_format(out, "{\"type\":\"function_call\",\"id\":\"%s\",\"call_id\":\"%s\",\"name\":", t->item_id,
                      call->id);
        json_out_text(out, call->name);
        strbuf_text(out, ",\"arguments\":");
        strbuf_json(out, is_whole ? call->arguments.at : "", is_whole ? call->arguments.bytes : 0);
        strbuf_format(out, ",\"status\":\"%s\"}", is_whole && !call->is_complete ? "incomplete" : status);
        return;
    }
    if (t->open_kind == SAY_THOUGHT)
        strbuf_format(out, "{\"type\":\"reasoning\",\"id\":\"%s\",\"summary\":[],\"content\":[", t->item_id);
    else
        strbuf_format(out, "{\"type\":\"message\",\"id\":\"%s\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                      t->item_id, status);
    if (is_whole) write_part(t, out, true);
    strbuf_text(out, "]}");
}

static void send_item(turn *t, const char *event, bool is_whole) {
    start(t, event);
    strbuf_format(&t->event, ",\"output_index\":%d,\"item\":", t->n_items);
    write_item(t, &t->event, is_whole);
    send(t);
}

/* ,"item_id":..,"output_index":..  and for texts ,"content_index":0 */
static void write_place(turn *t) {
    strbuf_format(&t->event, ",\"item_id\":\"%s\",\"output_index\":%d", t->item_id, t->n_items);
    if (t->open_kind != SAY_CALL) strbuf_text(&t->event, ",\"content_index\":0");
}

static void send_part(turn *t, const char *event, bool is_whole) {
    start(t, event);
    write_place(t);
    strbuf_text(&t->event, ",\"part\":");
    write_part(t, &t->event, is_whole);
    send(t);
}

static void send_done(turn *t) {
    const item_kind *kind = &kinds[t->open_kind];
    const bool is_call = t->open_kind == SAY_CALL;
    start(t, kind->done);
    write_place(t);
    if (is_call) {
        strbuf_text(&t->event, ",\"name\":");
        json_out_text(&t->event, open_call(t)->name);
    }
    const strbuf *text = is_call ? &open_call(t)->arguments : &t->item_text;
    strbuf_format(&t->event, ",\"%s\":", kind->text_key);
    strbuf_json(&t->event, text->at ? text->at : "", text->bytes);
    if (t->open_kind == SAY_TEXT)
        strbuf_format(&t->event, ",\"logprobs\":[%s]", t->choices[0].logprobs.bytes ? t->choices[0].logprobs.at : "");
    send(t);
}

static void close_item(turn *t) {
    if (t->open_kind == NO_ITEM) return;
    send_done(t);
    if (t->open_kind != SAY_CALL) send_part(t, "response.content_part.done", true);
    send_item(t, "response.output_item.done", true);
    if (t->items.bytes) strbuf_char(&t->items, ',');
    write_item(t, &t->items, true);
    if (t->open_kind == SAY_TEXT) strbuf_clear(&t->choices[0].logprobs);
    strbuf_clear(&t->item_text);
    t->open_kind = NO_ITEM;
    t->n_items++;
}

static void open_item(turn *t, const turn_part *p) {
    close_item(t);
    t->open_kind = (int)p->kind;
    t->n_parts = p->call_index;
    t->setup.make_id(t->setup.user, t->item_id, sizeof t->item_id, kinds[p->kind].prefix, 32);
    send_item(t, "response.output_item.added", false);
    if (p->kind != SAY_CALL) send_part(t, "response.content_part.added", false);
}

static void send_delta(turn *t, turn_choice *c, const turn_part *p) {
    start(t, kinds[t->open_kind].delta);
    write_place(t);
    strbuf_text(&t->event, ",\"delta\":");
    strbuf_json(&t->event, p->text.at, p->text.bytes);
    if (p->kind == SAY_TEXT) {
        strbuf entries = {0};
        oai_write_logprobs(t, &entries, p->tokens, p->n_tokens);
        strbuf_format(&t->event, ",\"logprobs\":[%s]", entries.bytes ? entries.at : "");
        if (entries.bytes && c->logprobs.bytes) strbuf_char(&c->logprobs, ',');
        if (entries.bytes) strbuf_add(&c->logprobs, entries.at, entries.bytes);
        strbuf_free(&entries);
    }
    send(t);
}

static void part(turn *t, turn_choice *c, const turn_part *p) {
    const bool begins = p->kind == SAY_CALL || (p->kind <= SAY_THOUGHT && t->open_kind != (int)p->kind);
    if (begins) open_item(t, p);
    if (p->kind <= SAY_THOUGHT) strbuf_add(&t->item_text, p->text.at, p->text.bytes);
    if (p->kind != SAY_CALL && p->kind != SAY_CALL_END) send_delta(t, c, p);
    if (p->kind == SAY_CALL_END) close_item(t);
}

static void close_choice(turn *t, turn_choice *c) { close_item(t); }

static void end(turn *t) {
    const bool cut = is_cut(t);
    send_object(t, cut ? "response.incomplete" : "response.completed", cut ? "incomplete" : "completed");
}

static void document(turn *t, strbuf *out) { write_object(t, out, is_cut(t) ? "incomplete" : "completed"); }

const dialect dialect_responses = {
    .begin = begin, .part = part, .close = close_choice, .end = end, .document = document};
