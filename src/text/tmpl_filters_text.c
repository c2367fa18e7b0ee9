/* tmpl_filters_text.c — filters over texts. What is not a text is turned into one first, where Jinja does so. */
#include "tmpl_case.h"
#include "tmpl_cut.h"
#include "tmpl_tables.h"
#include "tmpl_wrap.h"
#include "base/utf8.h"

static bool soft(tmpl_run *r, value *on) { return on->kind == V_STR || value_to_text(r, *on, on); }

static bool filter_upper(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return soft(r, &on) && tmpl_change_case(r, on, CASE_UPPER, out);
}
static bool filter_lower(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return soft(r, &on) && tmpl_change_case(r, on, CASE_LOWER, out);
}
static bool filter_capitalize(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return soft(r, &on) && tmpl_capitalize(r, on, out);
}

static bool filter_title(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (!soft(r, &on) || !tmpl_title_words(r, on, out)) return false;
    out->is_markup = false;
    return true;
}

static bool filter_trim(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return soft(r, &on) && tmpl_strip(r, on, args[0], CUT_LEFT | CUT_RIGHT, out);
}

static bool filter_replace(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value from, to;
    int64_t limit = -1;
    if (value_given(args[2]) && !tmpl_want_int(r, args[2], &limit)) return false;
    if (!value_to_text(r, on, &on) || !value_to_text(r, args[0], &from) || !value_to_text(r, args[1], &to))
        return false;
    return tmpl_replace(r, on, value_span(from), value_span(to), limit < 0 ? -1 : limit, out);
}

static bool filter_center(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value width = args[0].kind == V_MISSING ? value_int(80) : args[0];
    const call_args one = {.at = &width, .count = 1};
    if (!soft(r, &on)) return false;
    const vmethod center = {.row = tmpl_method_find(on, SPAN("center")), .on = on};
    return tmpl_method_call(r, &center, &one, out);
}

/* ---- indent ---- */

static bool truth_of(tmpl_run *r, value v, bool *out) {
    *out = false;
    return v.kind == V_MISSING || value_truth(r, v, out);
}

static bool indention(tmpl_run *r, value width, bool is_markup, value *out) {
    value space;
    if (width.kind == V_MISSING) width = value_int(4);
    if (width.kind == V_UNDEFINED) return tmpl_fail_undefined(r, width);
    if (width.kind == V_STR)
        *out = width;
    else if (!value_borrow(r, SPAN(" "), &space) || !value_binary(r, OP_MUL, space, width, out))
        return false;
    if (is_markup) out->is_markup = true;
    return out->kind == V_STR || tmpl_fail(r, "indent: width must be an integer or a text");
}

static bool filter_indent(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value by, lines, newline, whole;
    bool first, blank;
    strbuf b = {.limit = r->memory.limit_bytes};
    if (!truth_of(r, args[1], &first) || !truth_of(r, args[2], &blank)) return false;
    const bool is_markup = on.kind == V_STR && on.is_markup;
    if (!indention(r, args[0], is_markup, &by)) return false;
    if (!value_borrow(r, SPAN("\n"), &newline)) return false;
    newline.is_markup = is_markup;
    if (!value_binary(r, OP_ADD, on, newline, &whole) || !tmpl_split_lines(r, whole, false, &lines)) return false;
    for (size_t i = 0; i < lines.seq->count; i++) {
        const span line = value_span(lines.seq->at[i]);
        if (i) strbuf_char(&b, '\n');
        if (i ? line.bytes || blank : first) strbuf_add(&b, by.str->at, by.str->bytes);
        strbuf_add(&b, line.at, line.bytes);
    }
    if (!tmpl_spend(r, b.bytes / STEP_WALKS)) return strbuf_free(&b), false;
    if (!tmpl_take_text(r, &b, out)) return false;
    out->is_markup = is_markup;
    return true;
}

/* ---- truncate, wordwrap, wordcount ---- */

static bool filter_truncate(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t length = 255, leeway = 5;
    size_t points;
    bool kills, has_length;
    value end, cut, space, parts;
    if (args[0].kind != V_MISSING && !tmpl_want_int(r, args[0], &length)) return false;
    if (!truth_of(r, args[1], &kills)) return false;
    if (value_given(args[3]) && !tmpl_want_int(r, args[3], &leeway)) return false;
    if (args[2].kind == V_MISSING ? !value_borrow(r, SPAN("..."), &end) : (end = args[2], false)) return false;
    if (end.kind != V_STR) return tmpl_fail(r, "truncate: end must be str, not %s", value_type(end));
    const int64_t end_points = (int64_t)tmpl_text_points(end.str);
    if (length < end_points)
        return tmpl_fail(r, "expected length >= %lld, got %lld", (long long)end_points, (long long)length);
    if (leeway < 0) return tmpl_fail(r, "expected leeway >= 0, got %lld", (long long)leeway);
    if (!value_length(r, on, &points, &has_length)) return false;
    if (!has_length) return tmpl_fail(r, "object of type '%s' has no len()", value_type(on));
    if ((int64_t)points <= length + leeway) return *out = on, true;
    if (on.kind != V_STR) return tmpl_fail(r, "truncate works on texts, not on %s", value_type(on));
    if (!value_slice(r, on, value_none(), value_int(length - end_points), value_none(), &cut)) return false;
    if (!kills) {
        value sep_args[2] = {{.kind = V_MISSING}, value_int(1)};
        const call_args two = {.at = sep_args, .count = 2};
        if (!value_borrow(r, SPAN(" "), &space)) return false;
        sep_args[0] = space;
        const vmethod rsplit = {.row = tmpl_method_find(cut, SPAN("rsplit")), .on = cut};
        if (!tmpl_method_call(r, &rsplit, &two, &parts)) return false;
        cut = parts.seq->at[0];
    }
    return value_binary(r, OP_ADD, cut, end, out);
}

static bool filter_wordwrap(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    wrap_rules rules = {.width = 79, .break_long = true, .break_hyphens = true};
    value newline;
    if (args[0].kind != V_MISSING && !tmpl_want_int(r, args[0], &rules.width)) return false;
    if (args[1].kind != V_MISSING && !value_truth(r, args[1], &rules.break_long)) return false;
    if (args[3].kind != V_MISSING && !value_truth(r, args[3], &rules.break_hyphens)) return false;
    if (value_given(args[2]) ? (newline = args[2], false) : !value_borrow(r, SPAN("\n"), &newline)) return false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind != V_STR || newline.kind != V_STR)
        return tmpl_fail(r, "'%s' object has no attribute 'splitlines'", value_type(on));
    return tmpl_wrap(r, on, &rules, value_span(newline), out);
}

/* Runs of letters, digits and underscores. */
static bool filter_wordcount(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t count = 0;
    bool in_word = false;
    if (!soft(r, &on) || !tmpl_spend(r, on.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; i < on.str->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(on.str->at + i, on.str->bytes - i, &c);
        const bool is_word = c == '_' || (tmpl_char_kinds(c) & (CHAR_ALPHA | CHAR_NUMERIC | CHAR_DIGIT));
        count += is_word && !in_word;
        in_word = is_word;
        i += length ? (size_t)length : 1;
    }
    *out = value_int(count);
    return true;
}

/* ---- for the web ---- */

static void quote_url(strbuf *b, span text, const char *safe, bool plus) {
    for (size_t i = 0; i < text.bytes; i++) {
        const char c = text.at[i];
        const bool is_plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                              (c && strchr("_.-~", c)) || (c && strchr(safe, c));
        if (is_plain)
            strbuf_char(b, c);
        else if (plus && c == ' ')
            strbuf_char(b, '+');
        else
            strbuf_format(b, "%%%02X", (unsigned)(unsigned char)c);
    }
}

static bool quote_part(tmpl_run *r, strbuf *b, value v, bool in_query) {
    value text;
    if (!value_to_text(r, v, &text) || !tmpl_spend(r, 1 + text.str->bytes / STEP_READS)) return false;
    quote_url(b, value_span(text), in_query ? "" : "/", in_query);
    return true;
}

static bool quote_pairs(tmpl_run *r, strbuf *b, value pairs) {
    iter it;
    value pair, two;
    bool is_done;
    if (!iter_begin(r, pairs, &it)) return false;
    for (size_t i = 0;; i++) {
        if (!iter_next(r, &it, &pair, &is_done)) return false;
        if (is_done) return true;
        if (!value_to_list(r, pair, &two)) return false;
        if (two.seq->count != 2) return tmpl_fail(r, "urlencode wants pairs, found %zu values", two.seq->count);
        if (i) strbuf_char(b, '&');
        if (!quote_part(r, b, two.seq->at[0], true)) return false;
        strbuf_char(b, '=');
        if (!quote_part(r, b, two.seq->at[1], true)) return false;
    }
}

static bool filter_urlencode(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    strbuf b = {0};
    vview items = {.kind = VIEW_ITEMS};
    bool is_right;
    if (on.kind == V_STR || !value_is_iterable(on)) {
        is_right = quote_part(r, &b, on, false);
    } else {
        if (on.kind == V_DICT) items.dict = on.dict, on = (value){.kind = V_VIEW, .view = &items};
        is_right = quote_pairs(r, &b, on);
    }
    if (is_right) return tmpl_take_text(r, &b, out);
    strbuf_free(&b);
    return false;
}

static bool put_attribute(tmpl_run *r, strbuf *b, value key, value val) {
    value name, text;
    if (key.kind != V_STR) return tmpl_fail(r, "expected string or bytes-like object, got '%s'", value_type(key));
    if (!tmpl_spend(r, 1 + key.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; i < key.str->bytes; i++)
        if (key.str->at[i] && strchr(" \t\n\r\f\v/>=", key.str->at[i]))
            return tmpl_fail(r, "Invalid character in attribute name: '%.*s'", TEXT_ARG(key.str));
    if (!value_escape(r, key, &name) || !value_escape(r, val, &text)) return false;
    strbuf_format(b, "%s", b->bytes ? " " : "");
    strbuf_add(b, name.str->at, name.str->bytes);
    strbuf_text(b, "=\"");
    strbuf_add(b, text.str->at, text.str->bytes);
    strbuf_char(b, '"');
    return true;
}

static bool filter_xmlattr(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    strbuf b = {0};
    bool autospace = true, is_right = true;
    value space, text;
    if (args[0].kind != V_MISSING && !value_truth(r, args[0], &autospace)) return false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind != V_DICT) return tmpl_fail(r, "'%s' object has no attribute 'items'", value_type(on));
    for (size_t i = 0; is_right && i < on.dict->count; i++) {
        const vpair *pair = &on.dict->at[i];
        if (pair->val.kind != V_NONE && pair->val.kind != V_UNDEFINED)
            is_right = put_attribute(r, &b, pair->key, pair->val);
    }
    if (!is_right) return strbuf_free(&b), false;
    if (!tmpl_take_text(r, &b, &text)) return false;
    if (!autospace || !text.str->bytes) return *out = text, true;
    return value_borrow(r, SPAN(" "), &space) && value_binary(r, OP_ADD, space, text, out);
}

static bool filter_striptags(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return value_to_text(r, on, &on) && tmpl_strip_tags(r, on, out);
}

static bool filter_format(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value with;
    const bool has_named = call->named && call->named->count;
    if (call->count && has_named) return tmpl_fail(r, "can't handle positional and keyword arguments at the same time");
    if (!soft(r, &on)) return false;
    if (has_named) return tmpl_percent(r, on, (value){.kind = V_DICT, .dict = call->named}, out);
    if (!value_seq(r, V_TUPLE, call->count, &with)) return false;
    if (call->count) memcpy(with.seq->at, call->at, call->count * sizeof(value));
    return tmpl_percent(r, on, with, out);
}

const filter_row tmpl_filters_text[] = {
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"trim", "chars=", filter_trim},
    {"replace", "old new count=", filter_replace},
    {"center", "width=", filter_center},
    {"indent", "width= first= blank=", filter_indent},
    {"truncate", "length= killwords= end= leeway=", filter_truncate},
    {"wordwrap", "width= break_long_words= wrapstring= break_on_hyphens=", filter_wordwrap},
    {"wordcount", "", filter_wordcount},
    {"urlencode", "", filter_urlencode},
    {"xmlattr", "autospace=", filter_xmlattr},
    {"striptags", "", filter_striptags},
    {"format", NULL, filter_format},
    {0},
};
