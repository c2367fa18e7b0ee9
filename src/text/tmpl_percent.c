/* tmpl_percent.c — "%s and %d" % values: the printf-like formatting of Python, also the `format` filter. */
#include "tmpl_spec.h"
#include "base/utf8.h"
#include <stdlib.h>

typedef struct percent {
    tmpl_run *r;
    strbuf out;
    span format;
    size_t at;
    value args;
    size_t next; /* of a tuple, or 0/1 of a single value */
    bool is_markup;
    bool used_mapping;
} percent;

static bool is_mapping(value v) {
    return v.kind == V_DICT || v.kind == V_LIST || v.kind == V_RANGE || v.kind == V_UNDEFINED;
}

static bool next_arg(percent *p, value *out) {
    if (p->args.kind == V_TUPLE) {
        if (p->next >= p->args.seq->count) return tmpl_fail(p->r, "not enough arguments for format string");
        *out = p->args.seq->at[p->next++];
        return true;
    }
    if (p->next++ || p->used_mapping) return tmpl_fail(p->r, "not enough arguments for format string");
    *out = p->args;
    return true;
}

/* %(name) */
static bool named_arg(percent *p, value *out) {
    const size_t begin = ++p->at;
    int depth = 1;
    while (p->at < p->format.bytes && depth) {
        if (p->format.at[p->at] == '(') depth++;
        if (p->format.at[p->at] == ')') depth--;
        p->at++;
    }
    if (depth) return tmpl_fail(p->r, "incomplete format key");
    if (p->args.kind != V_DICT) return tmpl_fail(p->r, "format requires a mapping");
    value key;
    if (!value_borrow(p->r, (span){p->format.at + begin, p->at - 1 - begin}, &key)) return false;
    const vpair *found = tmpl_dict_find(p->r, p->args.dict, key);
    if (!found) return tmpl_fail(p->r, "'%.*s'", TEXT_ARG(key.str)); /* KeyError */
    p->used_mapping = true;
    *out = found->val;
    return true;
}

/* A number, or "*" and the next argument. */
static bool read_size(percent *p, int64_t *out) {
    if (p->at < p->format.bytes && p->format.at[p->at] == '*') {
        value v;
        p->at++;
        if (!next_arg(p, &v)) return false;
        if (!value_is_integer(v)) return tmpl_fail(p->r, "* wants int");
        *out = value_integer(v);
    } else {
        for (*out = 0; p->at < p->format.bytes && p->format.at[p->at] >= '0' && p->format.at[p->at] <= '9'; p->at++)
            if (*out <= MAX_WIDTH) *out = *out * 10 + (p->format.at[p->at] - '0');
    }
    return (*out <= MAX_WIDTH && *out >= -MAX_WIDTH) ||
           tmpl_fail_as(p->r, QP_TOO_LARGE, "width of a format is over %d", MAX_WIDTH);
}

static bool put_text(percent *p, value v, char how, const spec *s) {
    strbuf text = {0};
    value made;
    bool is_right = how == 's' ? value_str(p->r, &text, v) : value_repr(p->r, &text, v);
    if (!is_right) return strbuf_free(&text), false;
    if (how == 'a') {
        strbuf plain;
        if (!tmpl_ascii(p->r, &plain, &text)) return false;
        text = plain;
    }
    if (!tmpl_take_text(p->r, &text, &made)) return false;
    made.is_markup = v.kind == V_STR && v.is_markup && how == 's';
    if (p->is_markup && !value_escape(p->r, made, &made)) return false;
    span body = value_span(made);
    if (s->precision >= 0 && (size_t)s->precision < tmpl_text_points(made.str))
        body.bytes = tmpl_offset(p->r, made.str, (size_t)s->precision);
    spec padded = *s;
    padded.fill = (span){"", 0};
    if (padded.align == '=') padded.align = 0;
    tmpl_spec_pad(&p->out, (span){"", 0}, body, &padded, '>');
    return tmpl_buffer_ok(p->r, &p->out);
}

static bool put_int(percent *p, value v, spec *s) {
    const char type = s->type;
    strbuf digits = {0};
    if (v.kind == V_FLOAT && type == 'd' && !value_from_real(p->r, v.real, &v)) return false;
    if (v.kind == V_UNDEFINED) return tmpl_fail_undefined(p->r, v);
    if (!value_is_integer(v))
        return tmpl_fail(p->r, "%%%c format: %s is required, not %s", type,
                         type == 'd' ? "a real number" : "an integer", value_type(v));
    if (s->precision < 0) return tmpl_spec_int(p->r, &p->out, value_integer(v), s);
    /* at least `precision` digits, then padded to the width */
    spec inner = {.type = type,
                  .sign = s->sign,
                  .is_alternate = s->is_alternate,
                  .precision = -1,
                  .fill = SPAN("0"),
                  .align = '='};
    const bool is_negative = value_integer(v) < 0;
    inner.width = s->precision + (is_negative || s->sign) + (s->is_alternate && type != 'd' ? 2 : 0);
    bool is_right = tmpl_spec_int(p->r, &digits, value_integer(v), &inner);
    if (is_right) tmpl_spec_pad(&p->out, (span){"", 0}, (span){digits.at, digits.bytes}, s, '>');
    strbuf_free(&digits);
    return is_right;
}

static bool put_char(percent *p, value v, const spec *s) {
    strbuf one = {0};
    if (v.kind == V_STR && tmpl_text_points(v.str) == 1)
        strbuf_add(&one, v.str->at, v.str->bytes);
    else if (!value_is_integer(v))
        return tmpl_fail(p->r, "%%c requires int or char");
    else if (value_integer(v) < 0 || value_integer(v) > 0x10ffff)
        return tmpl_fail(p->r, "%%c arg not in range(0x110000)");
    else
        strbuf_utf8(&one, (uint32_t)value_integer(v));
    tmpl_spec_pad(&p->out, (span){"", 0}, (span){one.at, one.bytes}, s, '>');
    strbuf_free(&one);
    return tmpl_buffer_ok(p->r, &p->out);
}

static bool put(percent *p, value v, spec *s) {
    switch (s->type) {
    case 's':
    case 'r':
    case 'a':
        return put_text(p, v, s->type, s);
    case 'c':
        return put_char(p, v, s);
    case 'i':
    case 'u':
        s->type = 'd';
        return put_int(p, v, s);
    case 'd':
    case 'o':
    case 'x':
    case 'X':
        return put_int(p, v, s);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (v.kind == V_UNDEFINED) return tmpl_fail_undefined(p->r, v);
        if (!value_is_number(v)) return tmpl_fail(p->r, "must be real number, not %s", value_type(v));
        return tmpl_spec_real(p->r, &p->out, value_number(v), s);
    default:
        return tmpl_fail(p->r, "unsupported format character '%c' (0x%x)", s->type, (unsigned)(unsigned char)s->type);
    }
}

static void read_flags(percent *p, spec *s) {
    bool is_zero = false, is_left = false;
    for (; p->at < p->format.bytes; p->at++) {
        const char c = p->format.at[p->at];
        if (c == '-')
            is_left = true;
        else if (c == '+')
            s->sign = '+';
        else if (c == ' ')
            s->sign = s->sign ? s->sign : ' ';
        else if (c == '#')
            s->is_alternate = true;
        else if (c == '0')
            is_zero = true;
        else
            break;
    }
    if (is_left)
        s->align = '<';
    else if (is_zero)
        s->align = '=', s->fill = SPAN("0");
}

/* One conversion behind its '%'. */
static bool convert(percent *p) {
    spec s = {.precision = -1};
    value v = {.kind = V_MISSING};
    if (p->at < p->format.bytes && p->format.at[p->at] == '(' && !named_arg(p, &v)) return false;
    read_flags(p, &s);
    if (!read_size(p, &s.width) || !tmpl_spend(p->r, (uint64_t)llabs(s.width) / STEP_WALKS)) return false;
    if (s.width < 0) s.width = -s.width, s.align = '<', s.fill = (span){"", 0};
    if (p->at < p->format.bytes && p->format.at[p->at] == '.') {
        p->at++;
        if (!read_size(p, &s.precision)) return false;
        if (s.precision < 0) s.precision = 0;
        if (!tmpl_spend(p->r, (uint64_t)s.precision / STEP_READS)) return false;
    }
    while (p->at < p->format.bytes && strchr("hlL", p->format.at[p->at]) && p->format.at[p->at]) p->at++;
    if (p->at >= p->format.bytes) return tmpl_fail(p->r, "incomplete format");
    s.type = p->format.at[p->at++];
    if (s.type == '%') return strbuf_char(&p->out, '%'), true;
    return (v.kind != V_MISSING || next_arg(p, &v)) && put(p, v, &s);
}

static bool run(percent *p) {
    while (p->at < p->format.bytes) {
        const size_t from = p->at;
        const char *mark = memchr(p->format.at + from, '%', p->format.bytes - from);
        const size_t end = mark ? (size_t)(mark - p->format.at) : p->format.bytes;
        strbuf_add(&p->out, p->format.at + from, end - from);
        p->at = end + 1;
        if (!tmpl_spend(p->r, 1 + (end - from) / STEP_MOVES) || (mark && !convert(p))) return false;
    }
    const bool is_left = p->args.kind == V_TUPLE ? p->next < p->args.seq->count : !p->next && !is_mapping(p->args);
    return !is_left || tmpl_fail(p->r, "not all arguments converted during string formatting");
}

bool tmpl_percent(tmpl_run *r, value format, value args, value *out) {
    percent p = {.r = r,
                 .format = value_span(format),
                 .args = args,
                 .is_markup = format.is_markup,
                 .out = {.limit = r->memory.limit_bytes}};
    if (!run(&p)) return strbuf_free(&p.out), false;
    if (!tmpl_take_text(r, &p.out, out)) return false;
    out->is_markup = format.is_markup;
    return true;
}
