/* speech_gemma.c — calls written as Gemma 4 does: call:f{city:<|"|>Rome<|"|>,days:[1,2],with:{wind:true}}<tool_call|>.
 *
 * Called by speech.c inside a call's tag. Keys stand bare, texts between quotes that are tokens of their own, so that
 * nothing in a text needs an escape. A call is read when it is complete; what is none makes all of it text. */
#include "speech_state.h"

enum { MOST_DEPTH = 64, LONGEST_CALL = 1 << 20 };
static const char quote[] = "<|\"|>";

typedef struct reader {
    const char *at, *end;
    int depth;
} reader;

static char next(reader *r) {
    while (r->at < r->end && *r->at && strchr(" \t\r\n", *r->at)) r->at++;
    return r->at < r->end ? *r->at : 0;
}

static bool take(reader *r, char c) {
    if (next(r) != c) return false;
    r->at++;
    return true;
}

static bool is_quote(reader *r) {
    next(r);
    return (size_t)(r->end - r->at) >= sizeof quote - 1 && !memcmp(r->at, quote, sizeof quote - 1);
}

static bool text(strbuf *out, reader *r) {
    r->at += sizeof quote - 1;
    const char *close = memmem(r->at, (size_t)(r->end - r->at), quote, sizeof quote - 1);
    if (!close) return false;
    strbuf_json(out, r->at, (size_t)(close - r->at));
    r->at = close + sizeof quote - 1;
    return true;
}

static span word(reader *r, const char *ends) {
    next(r);
    const char *from = r->at;
    while (r->at < r->end && *r->at && !strchr(ends, *r->at)) r->at++;
    size_t n = (size_t)(r->at - from);
    while (n && strchr(" \t\r\n", from[n - 1])) n--;
    return (span){from, n};
}

static bool value(strbuf *out, reader *r);

static bool key(strbuf *out, reader *r) {
    if (is_quote(r)) return text(out, r) && take(r, ':');
    const span name = word(r, ":,{}[]");
    strbuf_json(out, name.at, name.bytes);
    return name.bytes && take(r, ':');
}

/* Behind the opening bracket. */
static bool members(strbuf *out, reader *r, char open, char close) {
    strbuf_char(out, open);
    for (bool is_first = true; next(r) != close; is_first = false) {
        if (!is_first) strbuf_char(out, ',');
        if (open == '{') {
            if (!key(out, r)) return false;
            strbuf_char(out, ':');
        }
        if (!value(out, r)) return false;
        if (!take(r, ',') && next(r) != close) return false;
    }
    r->at++;
    strbuf_char(out, close);
    return true;
}

/* A number or a word; what is neither is a text without its quotes. */
static bool bare(strbuf *out, reader *r) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    const span w = word(r, ",{}[]");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(w, words[i][0])) return strbuf_text(out, words[i][1]), true;
    json_type kind;
    if (speech_is_json(w.at, w.bytes, &kind))
        strbuf_add(out, w.at, w.bytes);
    else
        strbuf_json(out, w.at, w.bytes);
    return w.bytes > 0;
}

static bool value(strbuf *out, reader *r) {
    bool is_good;
    if (++r->depth > MOST_DEPTH) return false;
    if (is_quote(r))
        is_good = text(out, r);
    else if (take(r, '{'))
        is_good = members(out, r, '{', '}');
    else if (take(r, '['))
        is_good = members(out, r, '[', ']');
    else
        is_good = bare(out, r);
    r->depth--;
    return is_good;
}

/* f{...}: true where all of it is well formed. */
static bool read_call(strbuf *arguments, span *name, span call) {
    reader r = {call.at, call.at + call.bytes, 0};
    *name = word(&r, "{");
    strbuf_clear(arguments);
    return name->bytes && name->bytes < SPEECH_NAME_MAX && take(&r, '{') && members(arguments, &r, '{', '}') &&
           !next(&r) && r.at == r.end && !arguments->failed;
}

/* The first closing tag that ends a whole call: in the texts of one it is no tag. SIZE_MAX: none yet. */
static size_t find_close(const speech *s, strbuf *arguments, span *name) {
    const char *close = s->setup.tools->call[1], *at = s->held.at, *end = at + s->held.bytes;
    while ((at = at < end ? memmem(at, (size_t)(end - at), close, strlen(close)) : NULL)) {
        if (read_call(arguments, name, (span){s->held.at, (size_t)(at - s->held.at)})) return (size_t)(at - s->held.at);
        at++;
    }
    return SIZE_MAX;
}

bool speech_read_gemma(speech *s) {
    strbuf arguments = {0};
    span name;
    const char *close = s->setup.tools->call[1];
    const size_t at = find_close(s, &arguments, &name);
    const bool is_found = at != SIZE_MAX, is_whole = s->is_last || s->held.bytes > LONGEST_CALL;
    if (is_found) {
        speech_name_call(s, name.at, name.bytes);
        speech_add_arguments(s, arguments.at, arguments.bytes);
        speech_end_call(s);
        if (s->mode != MODE_OVER) speech_take(s, at + strlen(close));
        speech_after_call(s);
    } else if (is_whole) {
        speech_fail_call(s);
    }
    strbuf_free(&arguments);
    return is_found || is_whole;
}
