/* lark_reader.c — characters of a Lark grammar: space, names, literals, and where they stand. */
#include "lark_reader.h"

enum { MOST_COUNT = 1000000 };

void lark_refuse(lark *p, qp_status status, size_t at, const char *what) {
    char place[48];
    if (p->failed == QP_OK)
        p->failed = err_set(p->err, status, at, "lark, %s: %s", names_place(place, p->text, at), what);
}

bool lark_more(const lark *p) { return p->at < p->text.bytes && p->failed == QP_OK; }
char lark_peek(const lark *p) { return lark_more(p) ? p->text.at[p->at] : 0; }

bool lark_looks_at(const lark *p, const char *what) {
    return p->failed == QP_OK && span_starts((span){p->text.at + p->at, p->text.bytes - p->at}, span_of(what));
}

bool lark_take(lark *p, const char *what) {
    if (!lark_looks_at(p, what)) return false;
    p->at += strlen(what);
    return true;
}

void lark_skip(lark *p, bool lines) {
    while (lark_more(p)) {
        const char c = lark_peek(p);
        if (lark_looks_at(p, "//") || c == '#')
            while (lark_more(p) && lark_peek(p) != '\n') p->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            p->at++;
        else
            return;
    }
}

static bool is_name_char(char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

span lark_name(lark *p) {
    const size_t start = p->at;
    while (lark_more(p) && is_name_char(lark_peek(p))) p->at++;
    return (span){p->text.at + start, p->at - start};
}

bool lark_number(lark *p, uint32_t *out) {
    const size_t start = p->at;
    uint64_t value = 0;
    for (; lark_peek(p) >= '0' && lark_peek(p) <= '9'; p->at++)
        if (value <= MOST_COUNT) value = value * 10 + (uint64_t)(lark_peek(p) - '0');
    if (value > MOST_COUNT) lark_refuse(p, QP_TOO_LARGE, start, "counts are allowed up to 1000000");
    *out = (uint32_t)value;
    return p->at > start;
}

static uint32_t take_hex(lark *p, int n) {
    const size_t start = p->at;
    uint32_t value = 0;
    for (int i = 0; i < n; i++, p->at++) {
        const char c = lark_peek(p), low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (uint32_t)(low - 'a' + 10);
        else
            lark_refuse(p, QP_BAD_FORMAT, start, "hexadecimal digits are missing");
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        lark_refuse(p, QP_BAD_FORMAT, start, "no such code point");
    return value;
}

static void take_escape(lark *p, strbuf *out) {
    const size_t start = p->at - 1;
    if (lark_take(p, "x"))
        strbuf_utf8(out, take_hex(p, 2));
    else if (lark_take(p, "u"))
        strbuf_utf8(out, take_hex(p, 4));
    else if (lark_take(p, "U"))
        strbuf_utf8(out, take_hex(p, 8));
    else {
        static const char letters[] = "nrtfv0\\\"'/", values[] = "\n\r\t\f\v\0\\\"'/";
        const char *known = lark_peek(p) ? strchr(letters, lark_peek(p)) : NULL;
        if (known)
            strbuf_char(out, values[known - letters]);
        else
            lark_refuse(p, QP_BAD_FORMAT, start, "unknown escape");
        p->at++;
    }
}

void lark_string(lark *p, strbuf *out) {
    const size_t start = p->at - 1;
    while (lark_more(p) && lark_peek(p) != '"' && lark_peek(p) != '\n') {
        if (lark_take(p, "\\"))
            take_escape(p, out);
        else
            strbuf_char(out, p->text.at[p->at++]);
    }
    if (!lark_take(p, "\"")) lark_refuse(p, QP_BAD_FORMAT, start, "the string has no end");
    if (out->failed) lark_refuse(p, QP_NO_MEMORY, start, "out of memory");
}

span lark_regex(lark *p, char flags[8]) {
    const size_t start = p->at;
    bool in_class = false;
    while (lark_more(p) && lark_peek(p) != '\n' && (in_class || lark_peek(p) != '/')) {
        const char c = lark_peek(p);
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        p->at += c == '\\' && p->at + 1 < p->text.bytes ? 2 : 1;
    }
    const span pattern = {p->text.at + start, p->at - start};
    if (!lark_take(p, "/")) lark_refuse(p, QP_BAD_FORMAT, start - 1, "the regular expression has no end");
    int n = 0;
    while (lark_peek(p) && strchr("imslux", lark_peek(p)) && n < 7) flags[n++] = p->text.at[p->at++];
    flags[n] = 0;
    return pattern;
}

span lark_braces(lark *p) {
    const size_t start = p->at - 1;
    size_t depth = 1;
    bool in_string = false;
    for (; lark_more(p) && depth; p->at++) {
        const char c = lark_peek(p);
        if (in_string) {
            if (c == '\\') p->at++;
            in_string = c != '"';
        } else {
            in_string = c == '"';
            depth += c == '{';
            depth -= c == '}';
        }
    }
    if (depth) lark_refuse(p, QP_BAD_FORMAT, start, "the { has no }");
    if (p->at > p->text.bytes) p->at = p->text.bytes;
    return (span){p->text.at + start, p->at - start};
}

bool lark_bar(lark *p) {
    const size_t start = p->at;
    lark_skip(p, true);
    if (lark_take(p, "|")) return lark_skip(p, true), true;
    p->at = start;
    return false;
}
