/* oai_chat_write.c — answers of /v1/chat/completions, whole and as chunks.
 *
 * A dialect of turn.h. The order of a choice's chunks: the role once, deltas that are never empty, the reason of the
 * end with an empty delta. Only the chunk with the usage has no choices, and only those who asked for it get it. */
#include "oai_write.h"

static const char chunk_object[] = "chat.completion.chunk";

static void start_chunk(turn *t) { oai_start_chunk(t, chunk_object); }

static void start_choice(turn *t, const turn_choice *c) {
    start_chunk(t);
    strbuf_text(&t->event, "{\"index\":");
    json_out_count(&t->event, (uint64_t)c->index);
    strbuf_text(&t->event, ",\"delta\":{");
}

/* `]`, the usage, and out. */
static void send_chunk(turn *t) {
    strbuf_char(&t->event, ']');
    if (t->setup.continuous_usage) {
        strbuf_text(&t->event, ",\"usage\":");
        oai_write_usage(t, &t->event);
    } else {
        strbuf_text(&t->event, ",\"usage\":null");
    }
    strbuf_char(&t->event, '}');
    turn_send(t);
}

static void send_delta(turn *t) {
    strbuf_text(&t->event, "},\"logprobs\":null,\"finish_reason\":null}");
    send_chunk(t);
}

static void begin(turn *t) {
    for (int i = 0; i < t->n_choices; i++) {
        start_choice(t, &t->choices[i]);
        strbuf_format(&t->event, "\"role\":\"assistant\",\"content\":%s", t->setup.null_role ? "null" : "\"\"");
        send_delta(t);
    }
}

static void write_thought(const turn *t, strbuf *out, const char *text, size_t bytes) {
    const char *field = t->setup.reasoning_field;
    const bool both = !strcmp(field, "both");
    strbuf_format(out, "\"%s\":", both ? "reasoning_content" : field);
    strbuf_json(out, text, bytes);
    if (!both) return;
    strbuf_text(out, ",\"reasoning\":");
    strbuf_json(out, text, bytes);
}

static void send_text(turn *t, turn_choice *c, const turn_part *p) {
    strbuf entries = {0};
    oai_write_logprobs(t, &entries, p->tokens, p->n_tokens);
    if (entries.bytes && c->logprobs.bytes) strbuf_char(&c->logprobs, ',');
    if (entries.bytes) strbuf_add(&c->logprobs, entries.at, entries.bytes);
    if (t->setup.is_stream) {
        start_choice(t, c);
        strbuf_text(&t->event, "\"content\":");
        strbuf_json(&t->event, p->text.at, p->text.bytes);
        strbuf_text(&t->event, "},\"logprobs\":");
        if (entries.bytes)
            strbuf_format(&t->event, "{\"content\":[%s],\"refusal\":null}", entries.at);
        else
            strbuf_text(&t->event, "null");
        strbuf_text(&t->event, ",\"finish_reason\":null}");
        send_chunk(t);
    }
    if (entries.failed || c->logprobs.failed) t->failed = true;
    strbuf_free(&entries);
}

static void send_call(turn *t, const turn_choice *c, const turn_part *p) {
    start_choice(t, c);
    strbuf_format(&t->event, "\"tool_calls\":[{\"index\":%d,", p->call_index);
    if (p->kind == SAY_CALL) {
        strbuf_format(&t->event, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", p->call->id);
        json_out_text(&t->event, p->call->name);
        strbuf_text(&t->event, ",\"arguments\":\"\"}}]");
    } else {
        strbuf_text(&t->event, "\"function\":{\"arguments\":");
        strbuf_json(&t->event, p->text.at, p->text.bytes);
        strbuf_text(&t->event, "}}]");
    }
    send_delta(t);
}

static void part(turn *t, turn_choice *c, const turn_part *p) {
    if (p->kind == SAY_TEXT) return send_text(t, c, p);
    if (!t->setup.is_stream || p->kind == SAY_CALL_END) return;
    if (p->kind != SAY_THOUGHT) return send_call(t, c, p);
    start_choice(t, c);
    write_thought(t, &t->event, p->text.at, p->text.bytes);
    send_delta(t);
}

static void progress(turn *t, turn_choice *c, size_t done, size_t all, double seconds) {
    start_choice(t, c);
    strbuf_text(&t->event, "},\"logprobs\":null,\"finish_reason\":null}],\"prompt_progress\":{");
    strbuf_format(&t->event, "\"total\":%zu,\"cache\":%zu,\"processed\":%zu,\"time_ms\":%.0f},\"usage\":null}", all,
                  t->setup.cached_tokens, done, seconds * 1e3);
    turn_send(t);
}

static void close_choice(turn *t, turn_choice *c) {
    if (!t->setup.is_stream) return;
    start_choice(t, c);
    strbuf_format(&t->event, "},\"logprobs\":null,\"finish_reason\":\"%s\"", c->end.finish);
    oai_write_reasons(t, c, &t->event);
    oai_write_ids(c, &t->event);
    strbuf_char(&t->event, '}');
    if (t->setup.timings) {
        strbuf_char(&t->event, ']');
        oai_write_timings(c, &t->event);
        strbuf_text(&t->event, ",\"usage\":null}");
        return turn_send(t);
    }
    send_chunk(t);
}

static void end(turn *t) { oai_end_stream(t, chunk_object); }

/* ---- the whole answer ---- */

static void write_calls(const turn_choice *c, strbuf *out) {
    strbuf_text(out, ",\"tool_calls\":[");
    for (int i = 0; i < c->n_calls; i++) {
        const turn_call *call = &c->calls[i];
        strbuf_format(out, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", i ? "," : "", call->id);
        json_out_text(out, call->name);
        strbuf_text(out, ",\"arguments\":");
        strbuf_json(out, call->arguments.at ? call->arguments.at : "", call->arguments.bytes);
        strbuf_text(out, "}}");
    }
    strbuf_char(out, ']');
}

static void write_choice(turn *t, const turn_choice *c, strbuf *out) {
    strbuf_format(out, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", c->index);
    if (c->n_calls && !c->text.bytes)
        strbuf_text(out, "null");
    else
        strbuf_json(out, c->text.at, c->text.bytes);
    strbuf_text(out, ",\"refusal\":null");
    if (c->thought.bytes) {
        strbuf_char(out, ',');
        write_thought(t, out, c->thought.at, c->thought.bytes);
    }
    if (c->n_calls) write_calls(c, out);
    strbuf_text(out, "},\"logprobs\":");
    if (t->setup.wants_logprobs)
        strbuf_format(out, "{\"content\":[%s],\"refusal\":null}", c->logprobs.at ? c->logprobs.at : "");
    else
        strbuf_text(out, "null");
    strbuf_format(out, ",\"finish_reason\":\"%s\"", c->end.finish);
    oai_write_reasons(t, c, out);
    oai_write_ids(c, out);
    strbuf_char(out, '}');
}

static void document(turn *t, strbuf *out) {
    strbuf_char(out, '{');
    oai_write_head(t, out, "chat.completion");
    strbuf_text(out, ",\"choices\":[");
    for (int i = 0; i < t->n_choices; i++) {
        if (i) strbuf_char(out, ',');
        write_choice(t, &t->choices[i], out);
    }
    strbuf_text(out, "],\"usage\":");
    oai_write_usage(t, out);
    if (t->setup.timings) oai_write_timings(&t->choices[0], out);
    strbuf_char(out, '}');
}

const dialect dialect_chat = {
    .begin = begin, .part = part, .progress = progress, .close = close_choice, .end = end, .document = document};
