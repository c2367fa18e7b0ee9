/* tmpl_literal.c — names, numbers and strings inside of template tags, by the regular expressions of Jinja's lexer.
 *
 * Numbers may have single underscores between digits; strings have Python's escapes. Unlike Python, an integer beyond
 * 64 bits is refused rather than kept: see tmpl_arith.c. */
#include "tmpl_literal.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"
#include <stdlib.h>

static bool is_digit_of(char c, int base) {
    const int lower = c | 32;
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
    return digit < base;
}

/* Length of digits of `base` with single underscores between them (`leading`: one may come first, too). */
static size_t digits(span s, size_t at, int base, bool leading) {
    const size_t begin = at;
    bool may_underscore = leading;
    while (at < s.bytes) {
        if (is_digit_of(s.at[at], base))
            may_underscore = true, at++;
        else if (s.at[at] == '_' && may_underscore && at + 1 < s.bytes && is_digit_of(s.at[at + 1], base))
            at++;
        else
            break;
    }
    return at - begin;
}

static size_t float_length(span s) {
    size_t at = digits(s, 0, 10, false);
    if (!at) return 0;
    size_t fraction = 0, exponent = 0;
    if (at < s.bytes && s.at[at] == '.') fraction = digits(s, at + 1, 10, false);
    if (fraction) at += 1 + fraction;
    if (at < s.bytes && (s.at[at] | 32) == 'e') {
        const size_t sign = at + 1 < s.bytes && (s.at[at + 1] == '+' || s.at[at + 1] == '-');
        const size_t power = digits(s, at + 1 + sign, 10, false);
        if (power) exponent = 1 + sign + power;
    }
    return fraction || exponent ? at + exponent : 0;
}

static size_t integer_length(span s, int *base) {
    static const struct {
        char letter;
        int base;
    } prefixes[] = {{'b', 2}, {'o', 8}, {'x', 16}};
    *base = 10;
    if (!s.bytes || s.at[0] < '0' || s.at[0] > '9') return 0;
    if (s.at[0] != '0') return digits(s, 0, 10, false);
    for (size_t i = 0; s.bytes > 1 && i < 3; i++)
        if ((s.at[1] | 32) == prefixes[i].letter) {
            const size_t more = digits(s, 2, prefixes[i].base, true);
            if (more) return *base = prefixes[i].base, 2 + more;
        }
    size_t at = 1; /* 0, 00, 0_0: only zeros */
    while (at < s.bytes && (s.at[at] == '0' || (s.at[at] == '_' && at + 1 < s.bytes && s.at[at + 1] == '0'))) at++;
    return at;
}

static qp_status read_integer(span text, int base, token *out, const tmpl_source *source, qp_error *err) {
    uint64_t total = 0;
    for (size_t i = base == 10 ? 0 : 2; i < text.bytes; i++) {
        if (text.at[i] == '_') continue;
        const int digit = text.at[i] <= '9' ? text.at[i] - '0' : (text.at[i] | 32) - 'a' + 10;
        if (total > ((uint64_t)INT64_MAX - (uint64_t)digit) / (uint64_t)base)
            return tmpl_source_fail(source, out->at, err, QP_UNSUPPORTED, "integer %.*s needs more than 64 bits",
                                    (int)(text.bytes < 80 ? text.bytes : 80), text.at);
        total = total * (uint64_t)base + (uint64_t)digit;
    }
    out->kind = T_INTEGER;
    out->integer = (int64_t)total;
    return QP_OK;
}

static qp_status read_float(span text, token *out, arena *memory, qp_error *err) {
    char *plain = arena_get(memory, text.bytes + 1, 1);
    if (!plain) return err_no_memory(err, text.bytes, "template literal");
    size_t n = 0;
    for (size_t i = 0; i < text.bytes; i++)
        if (text.at[i] != '_') plain[n++] = text.at[i];
    plain[n] = 0;
    out->kind = T_FLOAT;
    out->real = strtod(plain, NULL);
    return QP_OK;
}

/* ---- strings ---- */

/* Bytes up to and with the closing quote; 0 if it never closes. */
static size_t string_length(span s) {
    for (size_t at = 1; at < s.bytes; at++) {
        if (s.at[at] == '\\')
            at++;
        else if (s.at[at] == s.at[0])
            return at + 1;
    }
    return 0;
}

typedef struct unescape {
    span in;
    size_t at;
    char *out;
    size_t n;
    const char *wrong; /* what is not allowed */
} unescape;

static void put(unescape *u, uint32_t c) {
    const int length = utf8_write(c, u->out + u->n);
    if (!length) u->wrong = "an escape that is no character (a surrogate, or over U+10FFFF)";
    u->n += (size_t)length;
}

static void put_hex(unescape *u, int n_digits) {
    uint32_t c = 0;
    for (int i = 0; i < n_digits; i++, u->at++) {
        if (u->at >= u->in.bytes || !is_digit_of(u->in.at[u->at], 16)) {
            u->wrong = "a \\x, \\u or \\U escape with too few hexadecimal digits";
            return;
        }
        const char d = u->in.at[u->at];
        if (c > 0xfffffff) continue;
        c = c * 16 + (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
    }
    put(u, c);
}

static void put_octal(unescape *u) {
    uint32_t c = 0;
    for (int i = 0; i < 3 && u->at < u->in.bytes && is_digit_of(u->in.at[u->at], 8); i++)
        c = c * 8 + (uint32_t)(u->in.at[u->at++] - '0');
    put(u, c);
}

/* A backslash before a character beyond ASCII: Jinja goes through "backslashreplace", which leaves that character's
 * number in hexadecimal behind the backslash. */
static void put_replaced(unescape *u) {
    uint32_t c = 0;
    u->at += (size_t)utf8_decode(u->in.at + u->at, u->in.bytes - u->at, &c);
    static const char hex[] = "0123456789abcdef";
    const int n_digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    u->out[u->n++] = '\\';
    u->out[u->n++] = c < 0x100 ? 'x' : c < 0x10000 ? 'u' : 'U';
    for (int i = n_digits - 1; i >= 0; i--) u->out[u->n++] = hex[c >> (4 * i) & 15];
}

static void put_escape(unescape *u) {
    static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
    const char c = u->in.at[u->at];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple)
        u->out[u->n++] = to[simple - from], u->at++;
    else if (c == '\n')
        u->at++;
    else if (c == 'x')
        u->at++, put_hex(u, 2);
    else if (c == 'u')
        u->at++, put_hex(u, 4);
    else if (c == 'U')
        u->at++, put_hex(u, 8);
    else if (c == 'N')
        u->wrong = "a \\N{...} escape, which is not supported";
    else if (is_digit_of(c, 8))
        put_octal(u);
    else if ((unsigned char)c >= 0x80)
        put_replaced(u);
    else
        u->out[u->n++] = '\\', u->out[u->n++] = c, u->at++;
}

static qp_status read_string(span body, token *out, arena *memory, const tmpl_source *source, qp_error *err) {
    out->kind = T_STRING;
    out->text = body;
    if (!body.bytes || !memchr(body.at, '\\', body.bytes)) return QP_OK;
    /* the longest growth: a backslash and a two-byte character become "\xe9" */
    unescape u = {.in = body, .out = arena_get(memory, body.bytes, 4)};
    if (!u.out) return err_no_memory(err, body.bytes, "template literal");
    while (u.at < body.bytes && !u.wrong) {
        if (body.at[u.at] != '\\')
            u.out[u.n++] = body.at[u.at++];
        else if (u.at++, u.at < body.bytes)
            put_escape(&u);
    }
    if (u.wrong) return tmpl_source_fail(source, out->at, err, QP_BAD_FORMAT, "string literal has %s", u.wrong);
    out->text = (span){u.out, u.n};
    return QP_OK;
}

/* ---- names ---- */

static size_t name_length(span s, bool *is_identifier) {
    size_t at = 0;
    *is_identifier = true;
    while (at < s.bytes) {
        uint32_t c;
        const int length = utf8_decode(s.at + at, s.bytes - at, &c);
        if (!length || !tmpl_is_word(c)) break;
        if (!tmpl_is_identifier(c, at == 0)) *is_identifier = false;
        at += (size_t)length;
    }
    return at;
}

qp_status tmpl_read_literal(span rest, bool after_dot, arena *memory, token *out, size_t *bytes,
                            const tmpl_source *source, qp_error *err) {
    int base;
    bool is_identifier;
    *bytes = after_dot ? 0 : float_length(rest);
    if (*bytes) return read_float((span){rest.at, *bytes}, out, memory, err);
    *bytes = integer_length(rest, &base);
    if (*bytes) return read_integer((span){rest.at, *bytes}, base, out, source, err);
    *bytes = name_length(rest, &is_identifier);
    if (*bytes) {
        out->kind = T_NAME;
        out->text = (span){rest.at, *bytes};
        if (is_identifier) return QP_OK;
        return tmpl_source_fail(source, out->at, err, QP_BAD_FORMAT, "Invalid character in identifier");
    }
    if (!rest.bytes || (rest.at[0] != '"' && rest.at[0] != '\'')) return QP_OK;
    *bytes = string_length(rest);
    return *bytes ? read_string((span){rest.at + 1, *bytes - 2}, out, memory, source, err) : QP_OK;
}
