/* speech_python.c — calls written as Python: [f(a=1, b="x"), g()].
 *
 * Called by speech.c inside a call's tag, or where a whole answer may be such a list. The list is read when it is
 * complete; what is no literal of Python makes all of it text. */
#include "speech_state.h"
#include <stdlib.h>

enum { MOST_DEPTH = 64, LONGEST_LIST = 1 << 20 };

typedef struct reader {
    const char *at, *end;
    int depth;
} reader;

static char peek(const reader *r) { return r->at < r->end ? *r->at : 0; }

static char next(reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
    return peek(r);
}

static bool take(reader *r, char c) {
    if (next(r) != c) return false;
    r->at++;
    return true;
}

static span word(reader *r) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+";
    next(r);
    const char *from = r->at;
    while (r->at < r->end && *r->at && strchr(letters, *r->at)) r->at++;
    return (span){from, (size_t)(r->at - from)};
}

static bool value(strbuf *out, reader *r);

static uint32_t hex4(const char *at) {
    char digits[5] = {0};
    memcpy(digits, at, 4);
    return (uint32_t)strtoul(digits, NULL, 16);
}

/* \uXXXX, or two of them that are one character; false: it is none. */
static bool unicode_escape(strbuf *plain, reader *r) {
    static const char hex[] = "0123456789abcdefABCDEF";
    const char *at = r->at + 1;
    if (*r->at != 'u' || r->end - at < 4 || strspn(at, hex) < 4) return false;
    uint32_t c = hex4(at);
    r->at += 4;
    const bool is_pair =
        c >= 0xD800 && c < 0xDC00 && r->end - at >= 10 && at[4] == '\\' && at[5] == 'u' && strspn(at + 6, hex) >= 4;
    if (is_pair) {
        c = 0x10000 + ((c - 0xD800) << 10) + (hex4(at + 6) & 0x3FF);
        r->at += 6;
    }
    strbuf_utf8(plain, c);
    return true;
}

static void escape(strbuf *plain, reader *r) {
    static const char from[] = "ntrbf0", to[] = "\n\t\r\b\f\0";
    const char *known = *r->at ? strchr(from, *r->at) : NULL;
    if (unicode_escape(plain, r)) return;
    if (!known && !strchr("\\'\"", *r->at)) strbuf_char(plain, '\\');
    strbuf_char(plain, known ? to[known - from] : *r->at);
}

static bool text(strbuf *out, reader *r) {
    const char quote = *r->at++;
    strbuf plain = {0};
    for (; r->at < r->end && *r->at != quote; r->at++) {
        if (*r->at == '\\' && r->at + 1 < r->end)
            r->at++, escape(&plain, r);
        else
            strbuf_char(&plain, *r->at);
    }
    strbuf_json(out, plain.at ? plain.at : "", plain.bytes);
    strbuf_free(&plain);
    return r->at < r->end && *r->at++ == quote;
}

/* Values, separated by commas, up to `close`; with keys: "k": v. */
static bool members(strbuf *out, reader *r, char open, char close, bool has_keys) {
    strbuf_char(out, open);
    for (bool is_first = true; next(r) != close; is_first = false) {
        if (!is_first) strbuf_char(out, ',');
        if (has_keys) {
            if (next(r) != '"' && next(r) != '\'') return false;
            if (!text(out, r) || !take(r, ':')) return false;
            strbuf_char(out, ':');
        }
        if (!value(out, r)) return false;
        if (!take(r, ',') && next(r) != close) return false;
    }
    r->at++;
    strbuf_char(out, close == ')' ? ']' : close);
    return true;
}

static bool literal(strbuf *out, reader *r) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const span w = word(r);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(w, words[i][0])) return strbuf_text(out, words[i][1]), true;
    json_type kind;
    if (!speech_is_json(w.at, w.bytes, &kind) || (kind != JSON_INTEGER && kind != JSON_REAL)) return false;
    return strbuf_add(out, w.at, w.bytes), true;
}

static bool value(strbuf *out, reader *r) {
    bool is_good;
    if (++r->depth > MOST_DEPTH) return false;
    switch (next(r)) {
    case '"':
    case '\'':
        is_good = text(out, r);
        break;
    case '[':
        r->at++, is_good = members(out, r, '[', ']', false);
        break;
    case '(':
        r->at++, is_good = members(out, r, '[', ')', false);
        break;
    case '{':
        r->at++, is_good = members(out, r, '{', '}', true);
        break;
    default:
        is_good = literal(out, r);
    }
    r->depth--;
    return is_good;
}

/* f(a=1, b="x") */
static bool call(strbuf *arguments, span *name, reader *r) {
    *name = word(r);
    strbuf_char(arguments, '{');
    if (!name->bytes || !take(r, '(')) return false;
    for (bool is_first = true; next(r) != ')'; is_first = false) {
        const span key = word(r);
        if (!key.bytes || !take(r, '=')) return false;
        if (!is_first) strbuf_char(arguments, ',');
        strbuf_json(arguments, key.at, key.bytes);
        strbuf_char(arguments, ':');
        if (!value(arguments, r)) return false;
        if (!take(r, ',') && next(r) != ')') return false;
    }
    r->at++;
    strbuf_char(arguments, '}');
    return true;
}

/* Tells the calls, or with `s` NULL only looks whether all of the list is well formed. */
static bool read_list(speech *s, span list) {
    reader r = {list.at, list.at + list.bytes, 0};
    bool is_good = take(&r, '[');
    while (is_good && next(&r) != ']') {
        strbuf arguments = {0};
        span name;
        is_good = call(&arguments, &name, &r) && !arguments.failed;
        if (is_good && s && s->mode != MODE_OVER) {
            speech_open_call(s);
            speech_name_call(s, name.at, name.bytes);
            speech_add_arguments(s, arguments.at, arguments.bytes);
            speech_end_call(s);
        }
        strbuf_free(&arguments);
        is_good = is_good && (take(&r, ',') || next(&r) == ']');
    }
    return is_good && take(&r, ']');
}

/* Where the list's closing tag stands; a list that is known to be well formed may have it in its texts. */
static size_t find_close(const speech *s, const char *close) {
    size_t safe, at = speech_find(s, close, &safe);
    while (s->setup.is_exact && at != SIZE_MAX && !read_list(NULL, (span){s->held.at, at})) {
        const size_t from = at + 1;
        const char *found = memmem(s->held.at + from, s->held.bytes - from, close, strlen(close));
        at = found ? (size_t)(found - s->held.at) : SIZE_MAX;
    }
    return at;
}

bool speech_read_python(speech *s) {
    const char *close = s->setup.tools->call[1];
    size_t at = find_close(s, close);
    const bool is_cut = at == SIZE_MAX;
    if (is_cut && !s->is_last && s->held.bytes < LONGEST_LIST) return false;
    if (is_cut) at = s->held.bytes;
    const span list = {s->held.at, at};
    if (!read_list(NULL, list)) return speech_fail_call(s), true;
    read_list(s, list);
    if (s->mode == MODE_OVER) return true;
    speech_take(s, at + (is_cut ? 0 : strlen(close)));
    speech_after_call(s);
    return true;
}
