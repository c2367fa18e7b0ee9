/* tmpl_spec.c — Python's format specifications: [[fill]align][sign][z][#][0][width][,_][.precision][type].
 *
 * The tricky thing is a number filled with zeros between its groups: "010," of 1234 is 00,001,234, and a separator
 * never comes first, so zeros are put before the digits until the grouped text is wide enough. */
#include "tmpl_spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void tmpl_spec_pad(strbuf *out, span prefix, span body, const spec *s, char align) {
    const int64_t points = (int64_t)(tmpl_points_in(prefix) + tmpl_points_in(body));
    const int64_t missing = s->width > points ? s->width - points : 0;
    const span fill = s->fill.bytes ? s->fill : SPAN(" ");
    if (s->align) align = s->align;
    const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    const int64_t middle = align == '=' ? missing : 0;
    for (int64_t i = 0; i < left; i++) strbuf_add(out, fill.at, fill.bytes);
    strbuf_add(out, prefix.at, prefix.bytes);
    for (int64_t i = 0; i < middle; i++) strbuf_add(out, fill.at, fill.bytes);
    strbuf_add(out, body.at, body.bytes);
    for (int64_t i = left + middle; i < missing; i++) strbuf_add(out, fill.at, fill.bytes);
}

/* Appends digits with a separator every `every` from the right. */
static void add_grouped(strbuf *out, span digits, char group, size_t every, size_t zeros) {
    const size_t total = digits.bytes + zeros;
    for (size_t i = 0; i < total; i++) {
        if (i && group && (total - i) % every == 0) strbuf_char(out, group);
        strbuf_char(out, i < zeros ? '0' : digits.at[i - zeros]);
    }
}

static size_t grouped_length(size_t digits, char group, size_t every) {
    return digits + (group && digits ? (digits - 1) / every : 0);
}

/* sign and prefix, then digits grouped and zero-filled, then the rest (fraction, exponent, %). */
static void add_number(strbuf *out, const char *prefix, span digits, span rest, const spec *s, size_t every) {
    size_t zeros = 0;
    const size_t outside = strlen(prefix) + rest.bytes;
    const bool fills_zeros = s->align == '=' && span_is(s->fill, "0");
    while (fills_zeros && (int64_t)(outside + grouped_length(digits.bytes + zeros, s->group, every)) < s->width)
        zeros++;
    strbuf body = {0};
    add_grouped(&body, digits, s->group, every, zeros);
    strbuf_add(&body, rest.at, rest.bytes);
    tmpl_spec_pad(out, span_of(prefix), (span){body.at, body.bytes}, s, '>');
    if (body.failed) out->failed = true;
    strbuf_free(&body);
}

static const char *sign_text(bool is_negative, char sign) {
    return is_negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

bool tmpl_spec_int(tmpl_run *r, strbuf *out, int64_t x, const spec *s) {
    char digits[72], prefix[8];
    int n = 0;
    uint64_t left = x < 0 ? -(uint64_t)x : (uint64_t)x;
    const unsigned base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : s->type == 'x' || s->type == 'X' ? 16 : 10;
    const char *const letters = s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do digits[n++] = letters[left % base];
    while (left /= base);
    for (int i = 0; i < n / 2; i++) {
        const char other = digits[i];
        digits[i] = digits[n - 1 - i];
        digits[n - 1 - i] = other;
    }
    const char *mark = !s->is_alternate || base == 10 ? ""
                       : base == 2                    ? "0b"
                       : base == 8                    ? "0o"
                       : s->type == 'X'               ? "0X"
                                                      : "0x";
    snprintf(prefix, sizeof prefix, "%s%s", sign_text(x < 0, s->sign), mark);
    add_number(out, prefix, (span){digits, (size_t)n}, (span){"", 0}, s, base == 10 ? 3 : 4);
    return tmpl_buffer_ok(r, out);
}

/* Without a type but with a precision: like g, but a whole number keeps ".0", for which one digit more is needed
 * before it goes to an exponent. */
static void short_digits(strbuf *out, double x, const spec *s) {
    const int precision = s->precision ? (int)s->precision : 1;
    strbuf text = {0};
    strbuf_format(&text, "%.*e", precision - 1, x);
    const char *mark = text.failed || !isfinite(x) ? NULL : strchr(text.at, 'e');
    const int exponent = mark ? atoi(mark + 1) : 0;
    if (!mark) {
        strbuf_format(out, "%g", x);
    } else if (exponent >= -4 && exponent < precision - 1) {
        const size_t before = out->bytes;
        strbuf_format(out, s->is_alternate ? "%#.*g" : "%.*g", precision, x);
        if (!out->failed && !strchr(out->at + before, '.')) strbuf_text(out, ".0");
    } else {
        size_t digits = (size_t)(mark - text.at);
        const bool has_point = memchr(text.at, '.', digits);
        while (has_point && !s->is_alternate && text.at[digits - 1] == '0') digits--;
        if (text.at[digits - 1] == '.') digits--;
        strbuf_add(out, text.at, digits);
        strbuf_text(out, mark);
    }
    out->failed |= text.failed;
    strbuf_free(&text);
}

/* The digits of |x| by type and precision, as printf has them. */
static void real_digits(strbuf *out, double x, const spec *s) {
    char format[8];
    const int precision = s->precision < 0 ? 6 : (int)s->precision;
    if (!s->type) {
        short_digits(out, x, s);
        return;
    }
    const char type = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;
    snprintf(format, sizeof format, "%%%s.*%c", s->is_alternate ? "#" : "", type);
    /* the format is made of constants: "%", perhaps "#", ".*" and one of eEfFgG */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    strbuf_format(out, format, precision, s->type == '%' ? x * 100 : x);
#pragma GCC diagnostic pop
}

bool tmpl_spec_real(tmpl_run *r, strbuf *out, double x, const spec *s) {
    strbuf body = {0};
    spec plain = *s;
    const bool is_negative = signbit(x) && !isnan(x);
    if (!s->type && s->precision < 0) {
        tmpl_real_repr(&body, fabs(x));
    } else {
        real_digits(&body, fabs(x), s);
    }
    bool is_zero = !body.failed;
    size_t whole = 0;
    for (size_t i = 0; i < body.bytes && body.at[i] != 'e' && body.at[i] != 'E'; i++)
        is_zero &= body.at[i] == '0' || body.at[i] == '.';
    while (whole < body.bytes && body.at[whole] >= '0' && body.at[whole] <= '9') whole++;
    if (s->type == '%') strbuf_char(&body, '%');
    if (!isfinite(x)) whole = body.bytes, plain.group = 0;
    const char *sign = sign_text(is_negative && !(s->no_negative_zero && is_zero), s->sign);
    if (!body.failed)
        add_number(out, sign, (span){body.at, whole}, (span){body.at + whole, body.bytes - whole}, &plain, 3);
    else
        out->failed = true;
    strbuf_free(&body);
    return tmpl_buffer_ok(r, out);
}

/* ---- reading a specification ---- */

static bool read_number(span *s, int64_t *out) {
    bool any = false;
    for (*out = 0; s->bytes && s->at[0] >= '0' && s->at[0] <= '9'; s->at++, s->bytes--, any = true)
        if (*out <= MAX_WIDTH) *out = *out * 10 + (s->at[0] - '0');
    return any;
}

static bool take(span *s, char c) {
    if (!s->bytes || s->at[0] != c) return false;
    s->at++;
    s->bytes--;
    return true;
}

static size_t first_length(span s) {
    size_t n = s.bytes > 0;
    while (n && n < s.bytes && ((unsigned char)s.at[n] & 0xc0) == 0x80) n++;
    return n;
}

static bool is_align(const span s, size_t at) { return at < s.bytes && strchr("<>=^", s.at[at]) && s.at[at]; }

static bool read_spec(tmpl_run *r, span text, spec *out) {
    const span whole = text;
    const size_t first = first_length(text);
    *out = (spec){.precision = -1};
    if (is_align(text, first) && first) {
        out->fill = (span){text.at, first};
        out->align = text.at[first];
        text = (span){text.at + first + 1, text.bytes - first - 1};
    } else if (is_align(text, 0)) {
        out->align = text.at[0];
        text = (span){text.at + 1, text.bytes - 1};
    }
    if (text.bytes && text.at[0] && strchr("+- ", text.at[0])) out->sign = text.at[0], text.at++, text.bytes--;
    out->no_negative_zero = take(&text, 'z');
    out->is_alternate = take(&text, '#');
    if (!out->fill.bytes && text.bytes && text.at[0] == '0') {
        text.at++, text.bytes--;
        out->fill = SPAN("0");
        if (!out->align) out->align = '0'; /* '=' for numbers, '<' for texts */
    }
    read_number(&text, &out->width);
    if (text.bytes && (text.at[0] == ',' || text.at[0] == '_')) out->group = text.at[0], text.at++, text.bytes--;
    if (take(&text, '.') && !read_number(&text, &out->precision))
        return tmpl_fail(r, "Format specifier missing precision");
    if (out->width > MAX_WIDTH || out->precision > MAX_WIDTH)
        return tmpl_fail_as(r, QP_TOO_LARGE, "width or precision of a format is over %d", MAX_WIDTH);
    if (text.bytes) out->type = text.at[0], text.at++, text.bytes--;
    return !text.bytes ||
           tmpl_fail(r, "Invalid format specifier '%.*s'", (int)(whole.bytes < 80 ? whole.bytes : 80), whole.at);
}

static bool unknown_type(tmpl_run *r, value v, const spec *s) {
    return tmpl_fail(r, "Unknown format code '%c' for object of type '%s'", s->type, value_type(v));
}

static bool format_text(tmpl_run *r, strbuf *out, value v, spec *s) {
    span text = value_span(v);
    if (s->type && s->type != 's') return unknown_type(r, v, s);
    if (s->align == '0') s->align = 0;
    if (s->sign) return tmpl_fail(r, "Sign not allowed in string format specifier");
    if (s->is_alternate) return tmpl_fail(r, "Alternate form (#) not allowed in string format specifier");
    if (s->align == '=') return tmpl_fail(r, "'=' alignment not allowed in string format specifier");
    if (s->group) return tmpl_fail(r, "Cannot specify '%c' with 's'.", s->group);
    if (s->no_negative_zero) return tmpl_fail(r, "Negative zero coercion (z) not allowed in string format specifier");
    if (s->precision >= 0 && (size_t)s->precision < tmpl_text_points(v.str))
        text.bytes = tmpl_offset(r, v.str, (size_t)s->precision);
    tmpl_spec_pad(out, (span){"", 0}, text, s, '<');
    return tmpl_spend(r, text.bytes / STEP_WALKS) && tmpl_buffer_ok(r, out);
}

static bool format_char(tmpl_run *r, strbuf *out, int64_t x, spec *s) {
    strbuf one = {0};
    if (s->sign) return tmpl_fail(r, "Sign not allowed with integer format specifier 'c'");
    if (x < 0 || x > 0x10ffff || (x >= 0xd800 && x < 0xe000)) return tmpl_fail(r, "%%c arg not in range(0x110000)");
    strbuf_utf8(&one, (uint32_t)x);
    tmpl_spec_pad(out, (span){"", 0}, (span){one.at, one.bytes}, s, '<');
    strbuf_free(&one);
    return tmpl_buffer_ok(r, out);
}

static bool format_number(tmpl_run *r, strbuf *out, value v, spec *s) {
    if (s->align == '0') s->align = '=';
    const bool is_int = value_is_integer(v);
    if (s->group && (s->type == 'n' || s->type == 'c' || (s->group == ',' && s->type && strchr("boxX", s->type))))
        return tmpl_fail(r, "Cannot specify '%c' with '%c'.", s->group, s->type);
    if (is_int && (!s->type || strchr("bcdoxXn", s->type))) {
        if (s->precision >= 0) return tmpl_fail(r, "Precision not allowed in integer format specifier");
        if (s->no_negative_zero)
            return tmpl_fail(
                r, "Negative zero coercion (z) not allowed in format specifier with integer presentation type");
        return s->type == 'c' ? format_char(r, out, value_integer(v), s) : tmpl_spec_int(r, out, value_integer(v), s);
    }
    if (!s->type || strchr("eEfFgGn%", s->type)) return tmpl_spec_real(r, out, value_number(v), s);
    return unknown_type(r, v, s);
}

bool tmpl_format_spec(tmpl_run *r, strbuf *out, value v, span text) {
    spec s;
    if (!text.bytes) return value_str(r, out, v);
    if (v.kind != V_STR && !value_is_number(v))
        return tmpl_fail(r, "unsupported format string passed to %s.__format__", value_type(v));
    if (!read_spec(r, text, &s) || !tmpl_spend(r, (uint64_t)s.width / STEP_WALKS)) return false;
    /* a number's digits are made one by one, even if most are dropped again */
    if (v.kind != V_STR && s.precision > 0 && !tmpl_spend(r, (uint64_t)s.precision / STEP_READS)) return false;
    return v.kind == V_STR ? format_text(r, out, v, &s) : format_number(r, out, v, &s);
}
