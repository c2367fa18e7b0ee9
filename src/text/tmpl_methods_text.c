/* tmpl_methods_text.c — string methods that search, ask, change case and pad. */
#include "tmpl_case.h"
#include "tmpl_cut.h"
#include "tmpl_tables.h"
#include "base/utf8.h"

/* ---- case ---- */

static bool method_upper(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_change_case(r, on, CASE_UPPER, out);
}
static bool method_lower(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_change_case(r, on, CASE_LOWER, out);
}
static bool method_casefold(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_change_case(r, on, CASE_FOLD, out);
}
static bool method_capitalize(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_capitalize(r, on, out);
}
static bool method_title(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_title(r, on, out);
}
static bool method_swapcase(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_swap_case(r, on, out);
}

/* ---- searching in [start, end) ---- */

/* The part of the text between two optional indexes; *first is its byte offset, false in *is_valid: start past end. */
static bool window(tmpl_run *r, value on, value start, value end, span *out, size_t *first, bool *is_valid) {
    const int64_t n = (int64_t)tmpl_text_points(on.str);
    int64_t from = 0, to = n;
    if (value_given(start) && !tmpl_want_int(r, start, &from)) return false;
    if (value_given(end) && !tmpl_want_int(r, end, &to)) return false;
    if (from < 0) from = from + n < 0 ? 0 : from + n;
    if (to < 0) to = to + n < 0 ? 0 : to + n;
    if (to > n) to = n;
    *is_valid = from <= to;
    if (!*is_valid) return *out = (span){"", 0}, true;
    *first = tmpl_offset(r, on.str, (size_t)from);
    *out = (span){on.str->at + *first, tmpl_offset(r, on.str, (size_t)to) - *first};
    return tmpl_spend(r, on.str->bytes / STEP_WALKS);
}

static bool search(tmpl_run *r, value on, const value *args, bool from_right, bool must, value *out) {
    span in, part;
    size_t first = 0, at = UNKNOWN;
    bool is_valid;
    if (!tmpl_want_text(r, "find", args[0], &part) || !window(r, on, args[1], args[2], &in, &first, &is_valid))
        return false;
    if (is_valid) at = from_right ? tmpl_rfind(in, part) : tmpl_find(in, part, 0);
    if (at == UNKNOWN && must) return tmpl_fail(r, "substring not found");
    *out = value_int(at == UNKNOWN ? -1 : (int64_t)tmpl_text_point_at(on.str, first + at));
    return true;
}

static bool method_find(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return search(r, on, args, false, false, out);
}
static bool method_rfind(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return search(r, on, args, true, false, out);
}
static bool method_index(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return search(r, on, args, false, true, out);
}
static bool method_rindex(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return search(r, on, args, true, true, out);
}

static bool method_count(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    span in, part;
    size_t first, count = 0;
    bool is_valid;
    if (!tmpl_want_text(r, "count", args[0], &part) || !window(r, on, args[1], args[2], &in, &first, &is_valid))
        return false;
    if (is_valid && !part.bytes) count = tmpl_points_in(in) + 1;
    for (size_t at = 0; is_valid && part.bytes && (at = tmpl_find(in, part, at)) != UNKNOWN; at += part.bytes) count++;
    *out = value_int((int64_t)count);
    return true;
}

static bool has_end(span s, span part, bool at_start) {
    if (at_start) return span_starts(s, part);
    return s.bytes >= part.bytes && span_equal((span){s.at + s.bytes - part.bytes, part.bytes}, part);
}

/* A text, or a tuple of texts of which one must fit. */
static bool ends(tmpl_run *r, value on, const value *args, bool at_start, value *out) {
    const char *name = at_start ? "startswith" : "endswith";
    span in;
    size_t first;
    bool is_valid, holds = false;
    if (!window(r, on, args[1], args[2], &in, &first, &is_valid)) return false;
    if (args[0].kind != V_STR && args[0].kind != V_TUPLE)
        return tmpl_fail(r, "%s first arg must be str or a tuple of str, not %s", name, value_type(args[0]));
    const value *parts = args[0].kind == V_STR ? &args[0] : args[0].seq->at;
    const size_t count = args[0].kind == V_STR ? 1 : args[0].seq->count;
    for (size_t i = 0; i < count && !holds; i++) {
        if (parts[i].kind != V_STR)
            return tmpl_fail(r, "tuple for %s must only contain str, not %s", name, value_type(parts[i]));
        if (!tmpl_spend(r, 1 + parts[i].str->bytes / STEP_MOVES)) return false;
        holds = is_valid && has_end(in, value_span(parts[i]), at_start);
    }
    *out = value_bool(holds);
    return true;
}

static bool method_startswith(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return ends(r, on, args, true, out);
}
static bool method_endswith(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return ends(r, on, args, false, out);
}

/* ---- questions about all characters ---- */

/* Whether the text is not empty and each character has one of these kinds. */
static bool all_of(tmpl_run *r, value on, unsigned kinds, bool if_empty, value *out) {
    bool holds = if_empty || on.str->bytes;
    if (!tmpl_spend(r, on.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; holds && i < on.str->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(on.str->at + i, on.str->bytes - i, &c);
        holds = tmpl_char_kinds(c) & kinds;
        i += length ? (size_t)length : 1;
    }
    *out = value_bool(holds);
    return true;
}

static bool method_isalpha(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_ALPHA, false, out);
}
static bool method_isalnum(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_ALPHA | CHAR_NUMERIC | CHAR_DIGIT | CHAR_DECIMAL, false, out);
}
static bool method_isdecimal(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_DECIMAL, false, out);
}
static bool method_isdigit(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_DIGIT, false, out);
}
static bool method_isnumeric(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_NUMERIC, false, out);
}
static bool method_isspace(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_SPACE, false, out);
}
static bool method_isprintable(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return all_of(r, on, CHAR_PRINTABLE, true, out);
}

static bool method_isascii(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    *out = value_bool(tmpl_text_points(on.str) == on.str->bytes);
    return true;
}

/* islower, isupper: the test of the same name. */
static bool by_test(tmpl_run *r, const char *name, value on, value *out) {
    const call_args none = {0};
    bool holds;
    if (!tmpl_test_call(r, tmpl_test_find(span_of(name)), on, &none, &holds)) return false;
    *out = value_bool(holds);
    return true;
}

static bool method_islower(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return by_test(r, "lower", on, out);
}
static bool method_isupper(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return by_test(r, "upper", on, out);
}

/* Upper or title case letters only behind uncased ones, lower case ones only behind cased ones. */
static bool method_istitle(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    bool any = false, behind_cased = false;
    if (!tmpl_spend(r, on.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; i < on.str->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(on.str->at + i, on.str->bytes - i, &c);
        const unsigned kinds = tmpl_char_kinds(c);
        if ((kinds & (CHAR_UPPER | CHAR_TITLE)) ? behind_cased : (kinds & CHAR_LOWER) && !behind_cased) {
            *out = value_bool(false);
            return true;
        }
        behind_cased = kinds & CHAR_CASED;
        any |= behind_cased;
        i += length ? (size_t)length : 1;
    }
    *out = value_bool(any);
    return true;
}

static bool method_isidentifier(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    bool holds = on.str->bytes;
    if (!tmpl_spend(r, on.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; holds && i < on.str->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(on.str->at + i, on.str->bytes - i, &c);
        holds = tmpl_is_identifier(c, i == 0);
        i += length ? (size_t)length : 1;
    }
    *out = value_bool(holds);
    return true;
}

/* ---- padding ---- */

static bool pad(tmpl_run *r, value on, int64_t left, int64_t right, span fill, value *out) {
    strbuf b = {.limit = r->memory.limit_bytes};
    if (!tmpl_spend(r, (uint64_t)(left + right) / STEP_WALKS)) return false;
    for (int64_t i = 0; i < left && !b.failed; i++) strbuf_add(&b, fill.at, fill.bytes);
    strbuf_add(&b, on.str->at, on.str->bytes);
    for (int64_t i = 0; i < right && !b.failed; i++) strbuf_add(&b, fill.at, fill.bytes);
    if (!tmpl_take_text(r, &b, out)) return false;
    out->is_markup = on.is_markup;
    return true;
}

/* How much is missing to the width, and what fills it. */
static bool padding(tmpl_run *r, value on, const value *args, int64_t *missing, span *fill) {
    int64_t width;
    *fill = SPAN(" ");
    if (!tmpl_want_int(r, args[0], &width)) return false;
    if (args[1].kind != V_MISSING) {
        if (args[1].kind != V_STR)
            return tmpl_fail(r, "The fill character must be a unicode character, not %s", value_type(args[1]));
        if (tmpl_text_points(args[1].str) != 1)
            return tmpl_fail(r, "The fill character must be exactly one character long");
        *fill = value_span(args[1]);
    }
    *missing = width - (int64_t)tmpl_text_points(on.str);
    if (width < 0 || *missing < 0) *missing = 0;
    return true;
}

static bool method_center(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t missing = 0;
    span fill = {0};
    if (!padding(r, on, args, &missing, &fill)) return false;
    /* an odd rest goes left if the whole width is odd, as CPython does */
    const int64_t left = missing / 2 + (missing & ((int64_t)tmpl_text_points(on.str) + missing) & 1);
    return pad(r, on, left, missing - left, fill, out);
}

static bool method_ljust(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t missing = 0;
    span fill = {0};
    return padding(r, on, args, &missing, &fill) && pad(r, on, 0, missing, fill, out);
}

static bool method_rjust(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t missing = 0;
    span fill = {0};
    return padding(r, on, args, &missing, &fill) && pad(r, on, missing, 0, fill, out);
}

static bool method_zfill(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    const value width[2] = {args[0], {.kind = V_MISSING}};
    int64_t missing = 0;
    span fill = {0};
    if (!padding(r, on, width, &missing, &fill)) return false;
    const bool has_sign = on.str->bytes && (on.str->at[0] == '-' || on.str->at[0] == '+');
    if (!missing || !has_sign) return pad(r, on, missing, 0, SPAN("0"), out);
    value rest, sign, zeros;
    return tmpl_part(r, on, (span){on.str->at + 1, on.str->bytes - 1}, &rest) &&
           tmpl_part(r, on, (span){on.str->at, 1}, &sign) && pad(r, rest, missing, 0, SPAN("0"), &zeros) &&
           value_binary(r, OP_ADD, sign, zeros, out);
}

static bool method_expandtabs(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    int64_t size = 8, column = 0;
    strbuf b = {.limit = r->memory.limit_bytes};
    if (args[0].kind != V_MISSING && !tmpl_want_int(r, args[0], &size)) return false;
    if (size > 10000) return tmpl_fail_as(r, QP_TOO_LARGE, "expandtabs: tab size over 10000");
    for (size_t i = 0; i < on.str->bytes && !b.failed; i++) {
        const char c = on.str->at[i];
        if (c == '\t') {
            const int64_t wide = size > 0 ? size - column % size : 0;
            if (!tmpl_spend(r, (uint64_t)wide / STEP_WALKS)) return strbuf_free(&b), false;
            for (int64_t k = 0; k < wide; k++) strbuf_char(&b, ' ');
            column += wide;
            continue;
        }
        strbuf_char(&b, c);
        if (c == '\n' || c == '\r')
            column = 0;
        else
            column += ((unsigned char)c & 0xc0) != 0x80;
    }
    if (!tmpl_spend(r, on.str->bytes / STEP_WALKS)) return strbuf_free(&b), false;
    return tmpl_take_text(r, &b, out);
}

/* ---- format ---- */

static bool method_format(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_format(r, on, call, out);
}

static bool method_format_map(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (call->named || call->count != 1) return tmpl_fail(r, "format_map() takes exactly one argument");
    const call_args named = {.named = call->at[0].kind == V_DICT ? call->at[0].dict : NULL};
    return tmpl_format(r, on, &named, out);
}

static bool method_refused(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_fail_as(r, QP_UNSUPPORTED, "this method is not supported: encode, maketrans and translate are not");
}

#define TEXT (1u << V_STR)
const method_row tmpl_methods_text[] = {
    {"upper", TEXT, "", false, method_upper},
    {"lower", TEXT, "", false, method_lower},
    {"casefold", TEXT, "", false, method_casefold},
    {"capitalize", TEXT, "", false, method_capitalize},
    {"title", TEXT, "", false, method_title},
    {"swapcase", TEXT, "", false, method_swapcase},
    {"find", TEXT, "sub start= end=", false, method_find},
    {"rfind", TEXT, "sub start= end=", false, method_rfind},
    {"index", TEXT, "sub start= end=", false, method_index},
    {"rindex", TEXT, "sub start= end=", false, method_rindex},
    {"count", TEXT, "sub start= end=", false, method_count},
    {"startswith", TEXT, "prefix start= end=", false, method_startswith},
    {"endswith", TEXT, "suffix start= end=", false, method_endswith},
    {"isalpha", TEXT, "", false, method_isalpha},
    {"isalnum", TEXT, "", false, method_isalnum},
    {"isdecimal", TEXT, "", false, method_isdecimal},
    {"isdigit", TEXT, "", false, method_isdigit},
    {"isnumeric", TEXT, "", false, method_isnumeric},
    {"isspace", TEXT, "", false, method_isspace},
    {"isprintable", TEXT, "", false, method_isprintable},
    {"isascii", TEXT, "", false, method_isascii},
    {"islower", TEXT, "", false, method_islower},
    {"isupper", TEXT, "", false, method_isupper},
    {"istitle", TEXT, "", false, method_istitle},
    {"isidentifier", TEXT, "", false, method_isidentifier},
    {"center", TEXT, "width fillchar=", false, method_center},
    {"ljust", TEXT, "width fillchar=", false, method_ljust},
    {"rjust", TEXT, "width fillchar=", false, method_rjust},
    {"zfill", TEXT, "width", false, method_zfill},
    {"expandtabs", TEXT, "tabsize=", true, method_expandtabs},
    {"format", TEXT, NULL, true, method_format},
    {"format_map", TEXT, NULL, true, method_format_map},
    {"encode", TEXT, NULL, true, method_refused},
    {"maketrans", TEXT, NULL, true, method_refused},
    {"translate", TEXT, NULL, true, method_refused},
    {0},
};
