/* tmpl_filters_misc.c — filters over numbers and over anything: default, conversions, tojson, attr, Markup. */
#include "tmpl_tables.h"
#include "tmpl_pprint.h"
#include <math.h>

static bool filter_default(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    bool by_truth = false, truth = true;
    if (args[1].kind != V_MISSING && !value_truth(r, args[1], &by_truth)) return false;
    if (by_truth && !value_truth(r, on, &truth)) return false;
    *out = on;
    if (on.kind != V_UNDEFINED && truth) return true;
    *out = args[0];
    return args[0].kind != V_MISSING || value_borrow(r, (span){"", 0}, out);
}

static bool filter_abs(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (!value_is_number(on)) return tmpl_fail(r, "bad operand type for abs(): '%s'", value_type(on));
    if (on.kind == V_FLOAT) return *out = value_real(fabs(on.real)), true;
    return value_integer(on) < 0 ? value_unary(r, OP_NEG, on, out) : (*out = value_int(value_integer(on)), true);
}

/* math.ceil or math.floor of value * 10**precision, divided again. */
static bool round_towards(tmpl_run *r, value on, value precision, bool is_up, value *out) {
    value unit, scaled;
    if (!value_binary(r, OP_POW, value_int(10), precision, &unit) || !value_binary(r, OP_MUL, on, unit, &scaled))
        return false;
    if (scaled.kind == V_FLOAT && !value_from_real(r, is_up ? ceil(scaled.real) : floor(scaled.real), &scaled))
        return false;
    if (scaled.kind != V_INT && scaled.kind != V_BOOL)
        return tmpl_fail(r, "must be real number, not %s", value_type(scaled));
    return value_binary(r, OP_DIV, scaled, unit, out);
}

static bool filter_round(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t digits = 0;
    const value precision = args[0].kind == V_MISSING ? value_int(0) : args[0];
    const bool is_text = args[1].kind == V_STR;
    const bool is_up = is_text && span_is(value_span(args[1]), "ceil"),
               is_down = is_text && span_is(value_span(args[1]), "floor");
    if (args[1].kind != V_MISSING && !is_up && !is_down && !(is_text && span_is(value_span(args[1]), "common")))
        return tmpl_fail(r, "method must be common, ceil or floor");
    if (is_up || is_down) return round_towards(r, on, precision, is_up, out);
    if (precision.kind != V_NONE) return tmpl_want_int(r, precision, &digits) && value_round(r, on, digits, out);
    /* round(x, None) is an integer */
    if (!value_round(r, on, 0, out)) return false;
    return out->kind != V_FLOAT || value_from_real(r, out->real, out);
}

/* A number is read digit by digit, perhaps twice. */
static bool pay_reading(tmpl_run *r, value on) { return on.kind != V_STR || tmpl_spend(r, on.str->bytes / STEP_READS); }

/* int(float(value)), the second try of |int; *is_number tells whether it worked. */
static bool int_by_float(tmpl_run *r, value on, value *out, bool *is_number) {
    double x = 0;
    *is_number = on.kind == V_FLOAT || (on.kind == V_STR && value_parse_real(r, value_span(on), &x));
    if (on.kind == V_FLOAT) x = on.real;
    if (!isfinite(x)) *is_number = false;
    if (r->status != QP_OK || !*is_number) return r->status == QP_OK;
    return value_from_real(r, x, out);
}

static bool filter_int(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t base = 10, number;
    bool is_number = false, is_too_large = false;
    if (args[1].kind != V_MISSING && !tmpl_want_int(r, args[1], &base)) return false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (value_is_integer(on)) return *out = value_int(value_integer(on)), true;
    if (on.kind == V_FLOAT && isinf(on.real)) return tmpl_fail(r, "cannot convert float infinity to integer");
    if (!pay_reading(r, on)) return false;
    if (on.kind == V_STR && (base == 0 || (base >= 2 && base <= 36)) &&
        value_parse_int(value_span(on), (int)base, &number, &is_too_large)) {
        if (is_too_large)
            return tmpl_fail_as(r, QP_UNSUPPORTED, "integer '%.*s' needs more than 64 bits", TEXT_ARG(on.str));
        return *out = value_int(number), true;
    }
    if (!int_by_float(r, on, out, &is_number)) return false;
    if (!is_number) *out = args[0].kind == V_MISSING ? value_int(0) : args[0];
    return true;
}

static bool filter_float(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    double x;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (value_is_number(on)) return *out = value_real(value_number(on)), true;
    if (!pay_reading(r, on)) return false;
    if (on.kind == V_STR && value_parse_real(r, value_span(on), &x)) return *out = value_real(x), true;
    *out = args[0].kind == V_MISSING ? value_real(0) : args[0];
    return r->status == QP_OK;
}

/* soft_str: a text stays what it is. */
static bool filter_string(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return on.kind == V_STR ? (*out = on, true) : value_to_text(r, on, out);
}

static bool filter_safe(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (!value_to_text(r, on, out)) return false;
    out->is_markup = true;
    return true;
}

static bool filter_escape(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return value_escape(r, on, out);
}

static bool filter_forceescape(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return value_to_text(r, on, &on) && value_escape(r, on, out);
}

/* Like a.b, but items do not count. */
static bool filter_attr(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    span name;
    if (!tmpl_want_text(r, "attr", args[0], &name)) return false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind != V_DICT) {
        const bool is_right = value_getattr(r, on, args[0].str, out);
        return is_right;
    }
    if (tmpl_method_find(on, name) || tmpl_method_is_unsafe(on, name)) return value_getattr(r, on, args[0].str, out);
    const bool is_internal = span_starts(name, SPAN("__"));
    *out = value_undefined_item(r, on, args[0], is_internal);
    return true;
}

static bool separators(tmpl_run *r, value pair, json_style *style) {
    value list;
    if (!value_given(pair)) return true;
    if (!value_to_list(r, pair, &list)) return false;
    if (list.seq->count != 2 || list.seq->at[0].kind != V_STR || list.seq->at[1].kind != V_STR)
        return tmpl_fail(r, "tojson: separators must be two texts");
    style->item_separator = value_span(list.seq->at[0]);
    style->key_separator = value_span(list.seq->at[1]);
    return true;
}

static bool indentation(tmpl_run *r, value indent, json_style *style) {
    value spaces;
    if (!value_given(indent)) return true;
    style->item_separator = SPAN(",");
    if (indent.kind == V_STR) return style->indent = value_span(indent), true;
    if (!value_is_integer(indent))
        return tmpl_fail(r, "tojson: indent must be an integer, a text or none, not %s", value_type(indent));
    if (!value_borrow(r, SPAN(" "), &spaces) || !value_binary(r, OP_MUL, spaces, indent, &spaces)) return false;
    style->indent = value_span(spaces);
    return true;
}

static bool filter_tojson(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    json_style style = {.item_separator = SPAN(", "), .key_separator = SPAN(": ")};
    strbuf text = {0};
    if (args[0].kind != V_MISSING && !value_truth(r, args[0], &style.ascii)) return false;
    if (args[3].kind != V_MISSING && !value_truth(r, args[3], &style.sort)) return false;
    if (!indentation(r, args[1], &style) || !separators(r, args[2], &style)) return false;
    if (tmpl_json_write(r, &text, on, &style)) return tmpl_take_text(r, &text, out);
    strbuf_free(&text);
    return false;
}

static bool filter_pprint(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_pprint(r, on, out);
}

static bool filter_random(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_fail_as(r, QP_UNSUPPORTED,
                        "filter 'random' is not supported: the same conversation must give the same text");
}

static bool filter_urlize(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_fail_as(r, QP_UNSUPPORTED, "filter 'urlize' is not supported: chat templates render plain text");
}

/* 13000 -> 13.0 kB */
static bool filter_filesize(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool is_binary = false;
    double x = 0;
    char text[400];
    if (args[0].kind != V_MISSING && !value_truth(r, args[0], &is_binary)) return false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (value_is_number(on))
        x = value_number(on);
    else if (on.kind != V_STR)
        return tmpl_fail(r, "float() argument must be a string or a real number, not '%s'", value_type(on));
    else if (!pay_reading(r, on) || !value_parse_real(r, value_span(on), &x))
        return tmpl_fail(r, "could not convert string to float: '%.*s'", TEXT_ARG(on.str));
    const double base = is_binary ? 1024 : 1000;
    if (isnan(x))
        return snprintf(text, sizeof text, "nan %s", (is_binary ? binary : decimal)[7]),
               value_text(r, span_of(text), out);
    if (x == 1) return value_borrow(r, SPAN("1 Byte"), out);
    if (x < base) {
        value whole;
        if (!value_from_real(r, x, &whole)) return false;
        snprintf(text, sizeof text, "%lld Bytes", (long long)whole.integer);
        return value_text(r, span_of(text), out);
    }
    int i = 0;
    double unit = base * base;
    for (; i < 7 && !(x < unit); i++) unit *= base;
    snprintf(text, sizeof text, "%.1f %s", base * x / unit, (is_binary ? binary : decimal)[i]);
    return value_text(r, span_of(text), out);
}

const filter_row tmpl_filters_misc[] = {
    {"default", "default_value= boolean=", filter_default},
    {"d", "default_value= boolean=", filter_default},
    {"abs", "", filter_abs},
    {"round", "precision= method=", filter_round},
    {"int", "default= base=", filter_int},
    {"float", "default=", filter_float},
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_forceescape},
    {"attr", "name", filter_attr},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", filter_tojson},
    {"pprint", "", filter_pprint},
    {"random", NULL, filter_random},
    {"urlize", NULL, filter_urlize},
    {"filesizeformat", "binary=", filter_filesize},
    {0},
};
