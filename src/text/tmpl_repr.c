/* tmpl_repr.c — str() and repr() of every value, as Python prints them.
 *
 * The tricky thing is a float's shortest text that reads back as the same number. Rounding to 15, 16, 17 digits and
 * reading back finds it, but for powers of two: there the gap below is half as wide as the gap above, so the next
 * decimal upwards may do where the nearest one does not. */
#include "tmpl_run.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- floats ---- */

/* |x| = digits * 10^(exponent - count + 1) with `count` digits. */
typedef struct decimal {
    uint64_t digits;
    int count, exponent;
} decimal;

static decimal rounded(double x, int count) {
    char text[40];
    decimal d = {.count = count};
    snprintf(text, sizeof text, "%.*e", count - 1, x);
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at != '.') d.digits = d.digits * 10 + (uint64_t)(*at - '0');
    d.exponent = atoi(at + 1);
    return d;
}

static bool reads_as(decimal d, double x) {
    char text[48];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)d.digits, d.exponent - d.count + 1);
    return strtod(text, NULL) == x;
}

static decimal shortest(double x) {
    int exponent;
    const bool is_power = frexp(x, &exponent) == 0.5;
    for (int count = fpclassify(x) == FP_SUBNORMAL ? 1 : 15; count < 17; count++) {
        decimal d = rounded(x, count);
        if (reads_as(d, x)) return d;
        d.digits++;
        if (is_power && reads_as(d, x)) return d;
    }
    return rounded(x, 17);
}

void tmpl_real_repr(strbuf *out, double x) {
    if (isnan(x)) {
        strbuf_text(out, "nan");
        return;
    }
    if (signbit(x)) strbuf_char(out, '-');
    x = fabs(x);
    if (isinf(x) || x == 0) {
        strbuf_text(out, x == 0 ? "0.0" : "inf");
        return;
    }
    decimal d = shortest(x);
    while (d.digits % 10 == 0 && d.count > 1) d.digits /= 10, d.count--;
    char text[24];
    const int n = snprintf(text, sizeof text, "%llu", (unsigned long long)d.digits);
    if (d.exponent < -4 || d.exponent >= 16) { /* 1.5e-05, 1e+16 */
        strbuf_char(out, text[0]);
        if (n > 1) strbuf_char(out, '.'), strbuf_text(out, text + 1);
        strbuf_format(out, "e%c%02d", d.exponent < 0 ? '-' : '+', abs(d.exponent));
    } else if (d.exponent < 0) { /* 0.00015 */
        strbuf_text(out, "0.");
        for (int i = -1; i > d.exponent; i--) strbuf_char(out, '0');
        strbuf_text(out, text);
    } else { /* 15.5, 150.0 */
        for (int i = 0; i <= d.exponent || i < n; i++) {
            if (i == d.exponent + 1) strbuf_char(out, '.');
            strbuf_char(out, i < n ? text[i] : '0');
        }
        if (n <= d.exponent + 1) strbuf_text(out, ".0");
    }
}

/* ---- strings ---- */

static void repr_char(strbuf *out, const char *at, int length, uint32_t c, char quote) {
    static const char from[] = "\t\n\r\\", to[] = "tnr\\";
    const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (simple)
        strbuf_char(out, '\\'), strbuf_char(out, to[simple - from]);
    else if (c == (unsigned char)quote)
        strbuf_char(out, '\\'), strbuf_char(out, quote);
    else if (c >= 0x20 && c < 0x7f)
        strbuf_char(out, (char)c);
    else if (tmpl_char_kinds(c) & CHAR_PRINTABLE)
        strbuf_add(out, at, (size_t)length);
    else if (c < 0x100)
        strbuf_format(out, "\\x%02x", (unsigned)c);
    else if (c < 0x10000)
        strbuf_format(out, "\\u%04x", (unsigned)c);
    else
        strbuf_format(out, "\\U%08x", (unsigned)c);
}

static void repr_text(strbuf *out, span text) {
    const bool has_single = text.bytes && memchr(text.at, '\'', text.bytes);
    const char quote = has_single && !memchr(text.at, '"', text.bytes) ? '"' : '\'';
    strbuf_char(out, quote);
    for (size_t i = 0; i < text.bytes;) {
        uint32_t c = 0;
        int length = utf8_decode(text.at + i, text.bytes - i, &c);
        if (!length) length = 1;
        repr_char(out, text.at + i, length, c, quote);
        i += (size_t)length;
    }
    strbuf_char(out, quote);
}

/* ---- containers ---- */

static bool repr_items(tmpl_run *r, strbuf *out, const vseq *seq) {
    for (size_t i = 0; i < seq->count; i++) {
        if (i) strbuf_text(out, ", ");
        if (!value_repr(r, out, seq->at[i])) return false;
    }
    return true;
}

static bool repr_dict(tmpl_run *r, strbuf *out, const vdict *d) {
    strbuf_char(out, '{');
    for (size_t i = 0; i < d->count; i++) {
        if (i) strbuf_text(out, ", ");
        if (!value_repr(r, out, d->at[i].key)) return false;
        strbuf_text(out, ": ");
        if (!value_repr(r, out, d->at[i].val)) return false;
    }
    strbuf_char(out, '}');
    return true;
}

static bool repr_view(tmpl_run *r, strbuf *out, value v) {
    strbuf_format(out, "%s([", value_type(v));
    for (size_t i = 0; i < v.view->dict->count; i++) {
        const vpair *pair = &v.view->dict->at[i];
        if (i) strbuf_text(out, ", ");
        if (v.view->kind == VIEW_ITEMS) strbuf_char(out, '(');
        if (v.view->kind != VIEW_VALUES && !value_repr(r, out, pair->key)) return false;
        if (v.view->kind == VIEW_ITEMS) strbuf_text(out, ", ");
        if (v.view->kind != VIEW_KEYS && !value_repr(r, out, pair->val)) return false;
        if (v.view->kind == VIEW_ITEMS) strbuf_char(out, ')');
    }
    strbuf_text(out, "])");
    return true;
}

static bool repr_container(tmpl_run *r, strbuf *out, value v) {
    switch (v.kind) {
    case V_LIST:
        strbuf_char(out, '[');
        if (!repr_items(r, out, v.seq)) return false;
        strbuf_char(out, ']');
        return true;
    case V_TUPLE:
        strbuf_char(out, '(');
        if (!repr_items(r, out, v.seq)) return false;
        strbuf_text(out, v.seq->count == 1 ? ",)" : ")");
        return true;
    case V_DICT:
        return repr_dict(r, out, v.dict);
    case V_NAMESPACE:
        strbuf_text(out, "<Namespace ");
        if (!repr_dict(r, out, v.dict)) return false;
        strbuf_char(out, '>');
        return true;
    default:
        return repr_view(r, out, v);
    }
}

static bool repr_object(tmpl_run *r, strbuf *out, value v) {
    value length;
    bool is_known;
    switch (v.kind) {
    case V_RANGE:
        strbuf_format(out, "range(%lld, %lld", (long long)v.range->start, (long long)v.range->stop);
        if (v.range->step != 1) strbuf_format(out, ", %lld", (long long)v.range->step);
        strbuf_char(out, ')');
        return true;
    case V_LOOP:
        if (!tmpl_loop_attr(r, v.loop, SPAN("length"), &length, &is_known)) return false;
        strbuf_format(out, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1, (long long)length.integer);
        return true;
    case V_MACRO:
        strbuf_text(out, "<Macro ");
        if (v.macro->n->func->name)
            repr_text(out, (span){v.macro->n->func->name->at, v.macro->n->func->name->bytes});
        else
            strbuf_text(out, "anonymous");
        strbuf_char(out, '>');
        return true;
    case V_SELF:
        strbuf_text(out, "<TemplateReference None>");
        return true;
    case V_FUNCTION:
        strbuf_format(out, "<function %s>", tmpl_global_name(v.function));
        return true;
    case V_METHOD:
        strbuf_format(out, "<built-in method %s of %s object>", tmpl_method_name(v.method->row),
                      value_type(v.method->on));
        return true;
    default:
        strbuf_format(out, "<%s object>", value_type(v));
        return true;
    }
}

bool value_repr(tmpl_run *r, strbuf *out, value v) {
    if (!tmpl_spend(r, 1 + (v.kind == V_STR ? v.str->bytes / STEP_READS : 0)) || !tmpl_buffer_ok(r, out)) return false;
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEFINED:
        strbuf_text(out, "Undefined");
        return true;
    case V_NONE:
        strbuf_text(out, "None");
        return true;
    case V_BOOL:
        strbuf_text(out, v.truth ? "True" : "False");
        return true;
    case V_INT:
        strbuf_format(out, "%lld", (long long)v.integer);
        return true;
    case V_FLOAT:
        tmpl_real_repr(out, v.real);
        return true;
    case V_STR:
        if (v.is_markup) strbuf_text(out, "Markup(");
        repr_text(out, value_span(v));
        if (v.is_markup) strbuf_char(out, ')');
        return true;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_NAMESPACE:
    case V_VIEW: {
        const bool is_right = tmpl_enter(r) && repr_container(r, out, v);
        tmpl_leave(r);
        return is_right;
    }
    default:
        return repr_object(r, out, v);
    }
}

bool value_str(tmpl_run *r, strbuf *out, value v) {
    if (v.kind == V_UNDEFINED || v.kind == V_MISSING) return true;
    if (v.kind != V_STR) return value_repr(r, out, v);
    strbuf_add(out, v.str->at, v.str->bytes);
    return tmpl_spend(r, 1 + v.str->bytes / STEP_MOVES) && tmpl_buffer_ok(r, out);
}

bool value_to_text(tmpl_run *r, value v, value *out) {
    strbuf text = {0};
    if (v.kind == V_STR) {
        *out = v;
        out->is_markup = false;
        return true;
    }
    if (value_str(r, &text, v)) return tmpl_take_text(r, &text, out);
    strbuf_free(&text);
    return false;
}

bool tmpl_ascii(tmpl_run *r, strbuf *out, strbuf *text) {
    *out = (strbuf){.limit = r->memory.limit_bytes};
    const bool is_paid = tmpl_spend(r, text->bytes / STEP_READS);
    for (size_t i = 0; is_paid && i < text->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(text->at + i, text->bytes - i, &c);
        if (c < 0x80)
            strbuf_char(out, text->at[i]);
        else
            strbuf_format(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
        i += length ? (size_t)length : 1;
    }
    strbuf_free(text);
    return is_paid;
}
