/* oai_text_write.c — answers of /v1/completions, whole and as chunks.
 *
 * A dialect of turn.h. Probabilities have OpenAI's old shape: four arrays of the same length, text_offset counting
 * characters of the choice's text, an echoed prompt included. */
#include "oai_write.h"

enum { TOKENS, LOGPROBS, TOPS, OFFSETS };

static size_t characters(const char *text, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

static void write_top(turn *t, strbuf *out, const turn_token *token) {
    if (!token->has_logprob || !t->setup.n_top) return strbuf_text(out, "null");
    strbuf_char(out, '{');
    for (int i = 0; i < token->n_top; i++) {
        if (i) strbuf_char(out, ',');
        turn_write_token(t, out, token->top[i].id, 0, false);
        strbuf_char(out, ':');
        json_out_logprob(out, token->top[i].logprob);
    }
    strbuf_char(out, '}');
}

/* Appends the tokens to the four arrays; their places count from `offset` characters on. */
static void write_arrays(turn *t, strbuf arrays[4], const turn_part *p, uint64_t offset) {
    char bytes[1024];
    size_t at = 0;
    for (size_t i = 0; i < p->n_tokens; i++) {
        const turn_token *token = &p->tokens[i];
        for (int k = 0; k < 4; k++)
            if (arrays[k].bytes) strbuf_char(&arrays[k], ',');
        turn_write_token(t, &arrays[TOKENS], token->id, token->cut, false);
        if (token->has_logprob)
            json_out_logprob(&arrays[LOGPROBS], token->logprob);
        else
            strbuf_text(&arrays[LOGPROBS], "null");
        write_top(t, &arrays[TOPS], token);
        strbuf_format(&arrays[OFFSETS], "%llu", (unsigned long long)(offset + characters(p->text.at, at)));
        const int all = t->setup.token_bytes(t->setup.user, token->id, bytes, sizeof bytes);
        const size_t n = all > (int)token->cut && all <= (int)sizeof bytes ? (size_t)all - token->cut : 0;
        /* An echoed prompt does not show the tokens that were put around it. */
        if (n <= p->text.bytes - at && !memcmp(p->text.at + at, bytes + token->cut, n)) at += n;
    }
}

static void write_logprobs(const turn *t, const strbuf arrays[4], strbuf *out) {
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    if (!t->setup.wants_logprobs) return strbuf_text(out, "null");
    for (int i = 0; i < 4; i++) {
        if (i == TOPS && !t->setup.n_top) {
            strbuf_text(out, ",\"top_logprobs\":null");
            continue;
        }
        strbuf_format(out, "%c\"%s\":[", i ? ',' : '{', names[i]);
        if (arrays[i].bytes) strbuf_add(out, arrays[i].at, arrays[i].bytes);
        strbuf_char(out, ']');
    }
    strbuf_char(out, '}');
}

static const char answer_object[] = "text_completion";

static void start_chunk(turn *t) { oai_start_chunk(t, answer_object); }

static void send_chunk(turn *t) {
    strbuf_char(&t->event, ']');
    if (t->setup.continuous_usage) {
        strbuf_text(&t->event, ",\"usage\":");
        oai_write_usage(t, &t->event);
    } else if (t->setup.include_usage) {
        strbuf_text(&t->event, ",\"usage\":null");
    }
    strbuf_char(&t->event, '}');
    turn_send(t);
}

static void part(turn *t, turn_choice *c, const turn_part *p) {
    strbuf arrays[4] = {{0}};
    if (p->kind != SAY_TEXT) return;
    const uint64_t offset = c->shown;
    c->shown += characters(p->text.at, p->text.bytes);
    if (!t->setup.is_stream) return write_arrays(t, c->arrays, p, offset);
    write_arrays(t, arrays, p, offset);
    start_chunk(t);
    strbuf_text(&t->event, "{\"index\":");
    json_out_count(&t->event, (uint64_t)c->index);
    strbuf_text(&t->event, ",\"text\":");
    strbuf_json(&t->event, p->text.at, p->text.bytes);
    strbuf_text(&t->event, ",\"logprobs\":");
    write_logprobs(t, arrays, &t->event);
    strbuf_text(&t->event, ",\"finish_reason\":null}");
    send_chunk(t);
    for (int i = 0; i < 4; i++) strbuf_free(&arrays[i]);
}

static void close_choice(turn *t, turn_choice *c) {
    if (!t->setup.is_stream) return;
    start_chunk(t);
    strbuf_format(&t->event, "{\"index\":%d,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"%s\"", c->index,
                  c->end.finish);
    oai_write_reasons(t, c, &t->event);
    oai_write_ids(c, &t->event);
    if (t->setup.timings) oai_write_timings(c, &t->event);
    strbuf_char(&t->event, '}');
    send_chunk(t);
}

static void end(turn *t) { oai_end_stream(t, answer_object); }

static void document(turn *t, strbuf *out) {
    strbuf_char(out, '{');
    oai_write_head(t, out, answer_object);
    strbuf_text(out, ",\"choices\":[");
    for (int i = 0; i < t->n_choices; i++) {
        const turn_choice *c = &t->choices[i];
        strbuf_format(out, "%s{\"index\":%d,\"text\":", i ? "," : "", c->index);
        strbuf_json(out, c->text.at, c->text.bytes);
        strbuf_text(out, ",\"logprobs\":");
        write_logprobs(t, c->arrays, out);
        strbuf_format(out, ",\"finish_reason\":\"%s\"", c->end.finish);
        oai_write_reasons(t, c, out);
        oai_write_ids(c, out);
        strbuf_char(out, '}');
    }
    strbuf_text(out, "],\"usage\":");
    oai_write_usage(t, out);
    if (t->setup.timings) oai_write_timings(&t->choices[0], out);
    strbuf_char(out, '}');
}

const dialect dialect_text = {.part = part, .close = close_choice, .end = end, .document = document};
