/* anthropic_write.c — answers of /v1/messages, whole and as events.
 *
 * A dialect of turn.h with one choice. Blocks follow each other, never interleaved: a part of another kind closes the
 * open block and begins the next. The number of cached tokens may be unknown when a stream begins; the last usage then
 * has all input figures again. */
#include "oai_write.h"

enum { NO_BLOCK = -1 };

static void start(turn *t, const char *type) {
    turn_start_event(t, type);
    strbuf_format(&t->event, "{\"type\":\"%s\"", type);
}

static void send(turn *t) {
    strbuf_char(&t->event, '}');
    turn_send(t);
}

static void write_input(strbuf *out, size_t cached) {
    strbuf_format(out, ",\"cache_read_input_tokens\":%zu,\"cache_creation_input_tokens\":0", cached);
}

static void begin(turn *t) {
    t->open_kind = NO_BLOCK;
    t->start_cached = t->setup.cached_tokens;
    t->start_input = t->setup.prompt_tokens - t->start_cached;
    start(t, "message_start");
    strbuf_format(&t->event,
                  ",\"message\":{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", t->id);
    json_out_text(&t->event, t->model);
    strbuf_text(&t->event, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{");
    strbuf_format(&t->event, "\"input_tokens\":%zu,\"output_tokens\":1", t->start_input);
    write_input(&t->event, t->start_cached);
    strbuf_text(&t->event, "}}");
    send(t);
    start(t, "ping");
    send(t);
}

static void start_delta(turn *t, const char *type, const char *member) {
    start(t, "content_block_delta");
    strbuf_format(&t->event, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", t->n_items, type, member);
}

static void send_delta(turn *t, const char *type, const char *member, span text) {
    start_delta(t, type, member);
    strbuf_json(&t->event, text.at, text.bytes);
    strbuf_char(&t->event, '}');
    send(t);
}

/* Thoughts are not signed; clients hand this back with them. */
static const span signature = {"x", 1};

static void close_block(turn *t) {
    if (t->open_kind == NO_BLOCK) return;
    if (t->open_kind == SAY_THOUGHT) send_delta(t, "signature_delta", "signature", signature);
    start(t, "content_block_stop");
    strbuf_format(&t->event, ",\"index\":%d", t->n_items++);
    send(t);
    t->open_kind = NO_BLOCK;
}

static void open_block(turn *t, const turn_part *p) {
    close_block(t);
    start(t, "content_block_start");
    strbuf_format(&t->event, ",\"index\":%d,\"content_block\":", t->n_items);
    if (p->kind == SAY_THOUGHT) strbuf_text(&t->event, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    if (p->kind == SAY_TEXT) strbuf_text(&t->event, "{\"type\":\"text\",\"text\":\"\"}");
    if (p->kind == SAY_CALL) {
        strbuf_format(&t->event, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", p->call->id);
        json_out_text(&t->event, p->call->name);
        strbuf_text(&t->event, ",\"input\":{}}");
    }
    send(t);
    t->open_kind = (int)p->kind;
}

/* "call_x" is "toolu_x" here. */
static void rename_call(turn *t, turn_call *call) {
    t->setup.make_id(t->setup.user, call->id, sizeof call->id, "toolu_", 24);
}

/* The blocks of a whole answer are gathered in t->items, the text of the last one in t->item_text. */
static void gather_close(turn *t) {
    strbuf *out = &t->items;
    if (t->open_kind == NO_BLOCK || (t->open_kind != SAY_CALL && !t->item_text.bytes)) return;
    if (out->bytes) strbuf_char(out, ',');
    const char *text = t->item_text.at ? t->item_text.at : "";
    if (t->open_kind == SAY_CALL) {
        const turn_choice *c = &t->choices[0];
        const turn_call *call = &c->calls[t->n_parts];
        strbuf_format(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", call->id);
        json_out_text(out, call->name);
        strbuf_text(out, ",\"input\":");
        strbuf_text(out, call->is_complete ? call->arguments.at : "{}");
        strbuf_char(out, '}');
    } else {
        const bool is_text = t->open_kind == SAY_TEXT;
        strbuf_text(out, is_text ? "{\"type\":\"text\",\"text\":" : "{\"type\":\"thinking\",\"thinking\":");
        strbuf_json(out, text, t->item_text.bytes);
        strbuf_text(out, is_text ? "}" : ",\"signature\":\"x\"}");
    }
    strbuf_clear(&t->item_text);
    t->open_kind = NO_BLOCK;
}

static void gather(turn *t, const turn_part *p) {
    if (p->kind <= SAY_CALL && (t->open_kind != (int)p->kind || p->kind == SAY_CALL)) {
        gather_close(t);
        t->open_kind = (int)p->kind;
        t->n_parts = p->call_index;
    }
    if (p->kind <= SAY_THOUGHT) strbuf_add(&t->item_text, p->text.at, p->text.bytes);
}

static void part(turn *t, turn_choice *c, const turn_part *p) {
    if (p->kind == SAY_CALL) rename_call(t, p->call);
    if (!t->setup.is_stream) return gather(t, p);
    const bool begins = p->kind == SAY_CALL || (p->kind <= SAY_THOUGHT && t->open_kind != (int)p->kind);
    if (begins) open_block(t, p);
    if (p->kind == SAY_TEXT) send_delta(t, "text_delta", "text", p->text);
    if (p->kind == SAY_THOUGHT) send_delta(t, "thinking_delta", "thinking", p->text);
    if (p->kind == SAY_ARGUMENTS) send_delta(t, "input_json_delta", "partial_json", p->text);
    if (p->kind == SAY_CALL_END) close_block(t);
}

static void write_reason(const turn *t, strbuf *out) {
    const turn_end *e = &t->choices[0].end;
    const char *reason = "end_turn";
    if (e->stop_text) reason = "stop_sequence";
    if (!strcmp(e->finish, "length")) reason = e->is_context_full ? "model_context_window_exceeded" : "max_tokens";
    if (!strcmp(e->finish, "tool_calls")) reason = "tool_use";
    strbuf_format(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    json_out_text(out, e->stop_text);
}

static void end(turn *t) {
    const turn_usage u = turn_count(t);
    close_block(t);
    start(t, "message_delta");
    strbuf_text(&t->event, ",\"delta\":{");
    write_reason(t, &t->event);
    strbuf_format(&t->event, "},\"usage\":{\"output_tokens\":%zu", u.completion_tokens);
    if (u.cached_tokens != t->start_cached || u.prompt_tokens - u.cached_tokens != t->start_input) {
        strbuf_format(&t->event, ",\"input_tokens\":%zu", u.prompt_tokens - u.cached_tokens);
        write_input(&t->event, u.cached_tokens);
    }
    strbuf_char(&t->event, '}');
    send(t);
    start(t, "message_stop");
    send(t);
}

static void document(turn *t, strbuf *out) {
    const turn_usage u = turn_count(t);
    gather_close(t);
    strbuf_format(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", t->id);
    json_out_text(out, t->model);
    strbuf_format(out, ",\"content\":[%s],", t->items.at ? t->items.at : "");
    write_reason(t, out);
    strbuf_format(out, ",\"usage\":{\"input_tokens\":%zu,\"output_tokens\":%zu", u.prompt_tokens - u.cached_tokens,
                  u.completion_tokens);
    write_input(out, u.cached_tokens);
    strbuf_text(out, "}}");
}

const dialect dialect_messages = {.begin = begin,
                                  .part = part,
                                  .end = end,
                                  .document = document,
                                  .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"};
