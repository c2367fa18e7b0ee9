/* jsonscan.c — a forward reader of JSON text for arrays too large to become a tree.
 *
 * Strings are gone through by eight bytes at a time, in a 64-bit word; byte_marks and the like set the highest bit of
 * each byte that is what they look for, and the lowest of these bits is exact. */
#include "jsonscan.h"
#include "base/utf8.h"
#include <endian.h>
#include <stdlib.h>

enum { MAX_DEPTH = 200, MAX_NUMBER = 64 };

jsonscan jsonscan_start(const char *text, size_t bytes, const char *where, qp_error *err) {
    return (jsonscan){.text = text, .bytes = bytes, .where = where, .err = err};
}

void jsonscan_end(jsonscan *s) { strbuf_free(&s->unescaped); }

bool jsonscan_fail(jsonscan *s, const char *what) {
    if (s->status == QP_OK)
        s->status = err_set(s->err, QP_BAD_FORMAT, s->at, "%s: at byte %zu: %s", s->where, s->at, what);
    s->at = s->bytes;
    return false;
}

static inline bool is_blank(char c) { return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r'); }

static inline char peek(jsonscan *s) {
    while (s->at < s->bytes && is_blank(s->text[s->at])) s->at++;
    return s->at < s->bytes ? s->text[s->at] : 0;
}

char jsonscan_peek(jsonscan *s) { return peek(s); }

static inline bool take(jsonscan *s, char c, const char *expected) {
    if (peek(s) != c) return jsonscan_fail(s, expected);
    s->at++;
    return true;
}

bool jsonscan_enter(jsonscan *s, char bracket) {
    return take(s, bracket, bracket == '{' ? "expected an object" : "expected an array");
}

/* Before an element: the closing bracket ends, otherwise a comma stands before all but the first. */
static inline bool next_item(jsonscan *s, size_t n, char close) {
    if (s->status != QP_OK) return false;
    if (peek(s) == close) {
        s->at++;
        return false;
    }
    return n == 0 || (take(s, ',', "expected a comma or the closing bracket") && peek(s) != close) ||
           jsonscan_fail(s, "expected a value after the comma");
}

bool jsonscan_element(jsonscan *s, size_t *n) {
    if (!next_item(s, *n, ']')) return false;
    ++*n;
    return true;
}

bool jsonscan_member(jsonscan *s, size_t *n, span *key) {
    if (!next_item(s, *n, '}')) return false;
    ++*n;
    return jsonscan_string(s, key) && take(s, ':', "expected a colon");
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hex digits at `at`, -1 if they are not. */
static int32_t hex4(const jsonscan *s, size_t at) {
    if (s->bytes - at < 4) return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(s->text[at + (size_t)i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* After "\u": one or, for surrogates, two escapes. */
static bool unescape_unicode(jsonscan *s) {
    int32_t c = hex4(s, s->at);
    if (c < 0) return jsonscan_fail(s, "a \\u escape needs four hexadecimal digits");
    s->at += 4;
    if (c >= 0xD800 && c < 0xDC00 && s->bytes - s->at >= 6 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u') {
        const int32_t low = hex4(s, s->at + 2);
        if (low < 0xDC00 || low > 0xDFFF) return jsonscan_fail(s, "a lone surrogate is not a character");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        s->at += 6;
    }
    if (c >= 0xD800 && c < 0xE000) return jsonscan_fail(s, "a lone surrogate is not a character");
    strbuf_utf8(&s->unescaped, (uint32_t)c);
    return true;
}

static bool unescape_one(jsonscan *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = s->at < s->bytes ? s->text[s->at] : 0;
    s->at++;
    if (c == 'u') return unescape_unicode(s);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) return jsonscan_fail(s, "unknown escape in a string");
    strbuf_char(&s->unescaped, to[found - from]);
    return true;
}

/* From the first backslash on; `start` is where the string began. */
static bool string_with_escapes(jsonscan *s, size_t start, span *out) {
    strbuf_clear(&s->unescaped);
    strbuf_add(&s->unescaped, s->text + start, s->at - start);
    while (s->at < s->bytes && s->text[s->at] != '"') {
        const unsigned char c = (unsigned char)s->text[s->at];
        if (c < 0x20) return jsonscan_fail(s, "control character in a string");
        if (c == '\\') {
            s->at++;
            if (!unescape_one(s)) return false;
            continue;
        }
        uint32_t unused;
        const int length = utf8_decode(s->text + s->at, s->bytes - s->at, &unused);
        if (!length) return jsonscan_fail(s, "the text is not UTF-8");
        strbuf_add(&s->unescaped, s->text + s->at, (size_t)length);
        s->at += (size_t)length;
    }
    if (s->at >= s->bytes) return jsonscan_fail(s, "a string does not end");
    s->at++;
    if (s->unescaped.failed) {
        s->status = err_no_memory(s->err, s->unescaped.bytes, s->where);
        return false;
    }
    *out = (span){s->unescaped.at ? s->unescaped.at : "", s->unescaped.bytes};
    return true;
}

/* ---- strings by words of eight bytes ---- */

#define EACH_BYTE(b) (0x0101010101010101ull * (b))
#define HIGH_BITS EACH_BYTE(0x80u)

static inline uint64_t load_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return le64toh(word);
}
static inline uint64_t below_marks(uint64_t word, unsigned bound) {
    return (word - EACH_BYTE(bound)) & ~word & HIGH_BITS;
}
static inline uint64_t byte_marks(uint64_t word, unsigned byte) { return below_marks(word ^ EACH_BYTE(byte), 1); }
static inline size_t first_mark(uint64_t marks) { return (size_t)__builtin_ctzll(marks) / 8; }

/* The length of what needs no look: up to a quote, a backslash or a control character. */
static inline size_t plain_length(const char *text, size_t bytes, bool *is_ascii) {
    uint64_t high = 0;
    size_t at = 0;
    for (; bytes - at >= 8; at += 8) {
        const uint64_t word = load_word(text + at);
        const uint64_t marks = byte_marks(word, '"') | byte_marks(word, '\\') | below_marks(word, 0x20);
        if (marks) {
            high |= word & (marks ^ (marks - 1)); /* of the bytes up to the first mark */
            *is_ascii = !(high & HIGH_BITS);
            return at + first_mark(marks);
        }
        high |= word;
    }
    for (; at < bytes && text[at] != '"' && text[at] != '\\' && (unsigned char)text[at] >= 0x20; at++)
        high |= (unsigned char)text[at];
    *is_ascii = !(high & HIGH_BITS);
    return at;
}

bool jsonscan_string(jsonscan *s, span *out) {
    if (!take(s, '"', "expected a string")) return false;
    const char *const start = s->text + s->at;
    bool is_ascii;
    const size_t bytes = plain_length(start, s->bytes - s->at, &is_ascii);
    if (!is_ascii && utf8_valid_prefix(start, bytes) != bytes) return jsonscan_fail(s, "the text is not UTF-8");
    s->at += bytes;
    if (s->at == s->bytes) return jsonscan_fail(s, "a string does not end");
    if (start[bytes] == '\\') return string_with_escapes(s, s->at - bytes, out);
    if (start[bytes] != '"') return jsonscan_fail(s, "control character in a string");
    s->at++;
    *out = (span){start, bytes};
    return true;
}

/* ---- numbers ---- */

static bool is_number_part(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Copies the number's text so that strtod sees an end. */
static bool number_text(jsonscan *s, char text[MAX_NUMBER], bool *is_whole) {
    size_t n = 0;
    *is_whole = true;
    for (jsonscan_peek(s); s->at < s->bytes && is_number_part(s->text[s->at]) && n + 1 < MAX_NUMBER; s->at++) {
        const char c = s->text[s->at];
        if (c == '.' || c == 'e' || c == 'E') *is_whole = false;
        text[n++] = c;
    }
    text[n] = 0;
    const char first = text[0] == '-' ? text[1] : text[0];
    return (first >= '0' && first <= '9') || jsonscan_fail(s, "expected a number");
}

/* Up to 18 digits with nothing else to them; false: the number wants a closer look. */
static bool plain_integer(jsonscan *s, int64_t *out) {
    size_t at = s->at;
    int64_t value = 0;
    for (; at < s->bytes && s->text[at] >= '0' && s->text[at] <= '9' && at - s->at < 18; at++)
        value = value * 10 + (s->text[at] - '0');
    if (at == s->at || at == s->bytes || is_number_part(s->text[at])) return false;
    *out = value;
    s->at = at;
    return true;
}

bool jsonscan_integer(jsonscan *s, int64_t *out) {
    char text[MAX_NUMBER], *end;
    bool is_whole;
    peek(s);
    if (plain_integer(s, out)) return true;
    if (!number_text(s, text, &is_whole)) return false;
    *out = is_whole ? (int64_t)strtoll(text, &end, 10) : 0;
    return (is_whole && !*end) || jsonscan_fail(s, "expected an integer");
}

bool jsonscan_real(jsonscan *s, double *out) {
    char text[MAX_NUMBER], *end;
    bool is_whole;
    if (!number_text(s, text, &is_whole)) return false;
    *out = strtod(text, &end);
    return !*end || jsonscan_fail(s, "expected a number");
}

/* ---- passing over ---- */

/* Passes over a string without looking at its characters. */
static bool skip_string(jsonscan *s) {
    size_t at = s->at + 1;
    s->n_skipped++;
    while (at < s->bytes) {
        if (s->bytes - at >= 8) {
            const uint64_t word = load_word(s->text + at);
            const uint64_t marks = byte_marks(word, '"') | byte_marks(word, '\\');
            at += marks ? first_mark(marks) : 8;
            if (!marks) continue;
        }
        if (s->text[at] == '"') {
            s->at = at + 1;
            return true;
        }
        at += s->text[at] == '\\' ? 2 : 1;
    }
    return jsonscan_fail(s, "a string does not end");
}

/* Passes over brackets by counting them; the contents are judged by who reads them. */
static bool skip_nested(jsonscan *s) {
    int depth = 0;
    while (s->at < s->bytes) {
        const char c = s->text[s->at];
        if (c == '"') {
            if (!skip_string(s)) return false;
            continue;
        }
        if ((c == '{' || c == '[') && ++depth > MAX_DEPTH) return jsonscan_fail(s, "nested too deep");
        s->at++;
        if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return jsonscan_fail(s, "a bracket is not closed");
}

bool jsonscan_skip(jsonscan *s, span *out) {
    const char c = jsonscan_peek(s);
    const size_t start = s->at;
    bool ok = true;
    if (c == '{' || c == '[')
        ok = skip_nested(s);
    else if (c == '"')
        ok = skip_string(s);
    else if (!c || c == ',' || c == ':' || c == '}' || c == ']')
        ok = jsonscan_fail(s, "expected a value");
    else
        while (s->at < s->bytes && !is_blank(s->text[s->at]) && !strchr(",:]}", s->text[s->at])) s->at++;
    *out = (span){s->text + start, ok ? s->at - start : 0};
    return ok;
}
