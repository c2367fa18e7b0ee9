/* tmpl_methods_cut.c — string methods that cut and replace: strip, split, partition, replace, join and their kin.
 *
 * Parts share the bytes of the text they come from. Markup stays Markup, and what is put into it is escaped. */
#include "tmpl_cut.h"
#include "tmpl_tables.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"

bool tmpl_part(tmpl_run *r, value text, span part, value *out) {
    if (!value_borrow(r, part, out)) return false;
    out->is_markup = text.is_markup;
    return true;
}

/* ---- strip ---- */

static size_t last_start(span s) {
    size_t at = s.bytes - 1;
    while (at && ((unsigned char)s.at[at] & 0xc0) == 0x80) at--;
    return at;
}

/* Each character that is cut off pays for the search among `chars`; without steps nothing more is cut. */
static span strip_chars(tmpl_run *r, span s, span chars, unsigned sides) {
    const uint64_t cost = 1 + chars.bytes / STEP_MOVES;
    while ((sides & CUT_LEFT) && s.bytes && tmpl_spend(r, cost)) {
        size_t length = 1;
        while (length < s.bytes && ((unsigned char)s.at[length] & 0xc0) == 0x80) length++;
        if (tmpl_find(chars, (span){s.at, length}, 0) == UNKNOWN) break;
        s = (span){s.at + length, s.bytes - length};
    }
    while ((sides & CUT_RIGHT) && s.bytes && tmpl_spend(r, cost)) {
        const size_t at = last_start(s);
        if (tmpl_find(chars, (span){s.at + at, s.bytes - at}, 0) == UNKNOWN) break;
        s.bytes = at;
    }
    return s;
}

bool tmpl_strip(tmpl_run *r, value text, value chars, unsigned sides, value *out) {
    span s = value_span(text);
    if (!value_given(chars)) {
        if (sides & CUT_LEFT) s = tmpl_lstrip(s);
        if (sides & CUT_RIGHT) s = tmpl_rstrip(s);
        if (!tmpl_spend(r, (text.str->bytes - s.bytes) / STEP_WALKS)) return false;
    } else {
        if (chars.kind != V_STR) return tmpl_fail(r, "strip arg must be None or str");
        s = strip_chars(r, s, value_span(chars), sides);
    }
    return tmpl_part(r, text, s, out);
}

static bool method_strip(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_strip(r, on, args[0], CUT_LEFT | CUT_RIGHT, out);
}
static bool method_lstrip(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_strip(r, on, args[0], CUT_LEFT, out);
}
static bool method_rstrip(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_strip(r, on, args[0], CUT_RIGHT, out);
}

static bool method_removeprefix(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    span s = value_span(on), part;
    if (!tmpl_want_text(r, "removeprefix", args[0], &part)) return false;
    if (span_starts(s, part)) s = (span){s.at + part.bytes, s.bytes - part.bytes};
    return tmpl_part(r, on, s, out);
}

static bool method_removesuffix(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    span s = value_span(on), part;
    if (!tmpl_want_text(r, "removesuffix", args[0], &part)) return false;
    if (s.bytes >= part.bytes && span_equal((span){s.at + s.bytes - part.bytes, part.bytes}, part))
        s.bytes -= part.bytes;
    return tmpl_part(r, on, s, out);
}

/* ---- split ---- */

static bool add_part(tmpl_run *r, value text, span part, value *list) {
    value one;
    return tmpl_part(r, text, part, &one) && value_append(r, list, one);
}

static bool split_spaces(tmpl_run *r, value text, int64_t limit, value *out) {
    span rest = tmpl_lstrip(value_span(text));
    while (rest.bytes) {
        if (limit-- == 0) return add_part(r, text, rest, out);
        size_t end = 0;
        while (end < rest.bytes && !tmpl_space_length(rest.at + end, rest.bytes - end)) end++;
        if (!add_part(r, text, (span){rest.at, end}, out)) return false;
        rest = tmpl_lstrip((span){rest.at + end, rest.bytes - end});
    }
    return true;
}

static bool split_at(tmpl_run *r, value text, span separator, int64_t limit, value *out) {
    const span s = value_span(text);
    size_t from = 0;
    for (size_t at; limit != 0 && (at = tmpl_find(s, separator, from)) != UNKNOWN; limit--) {
        if (!add_part(r, text, (span){s.at + from, at - from}, out)) return false;
        from = at + separator.bytes;
    }
    return add_part(r, text, (span){s.at + from, s.bytes - from}, out);
}

static bool rsplit_spaces(tmpl_run *r, value text, int64_t limit, value *out) {
    span rest = tmpl_rstrip(value_span(text));
    while (rest.bytes) {
        if (limit-- == 0) return add_part(r, text, rest, out);
        size_t begin = rest.bytes;
        while (begin) {
            const size_t at = last_start((span){rest.at, begin});
            if (tmpl_space_length(rest.at + at, begin - at)) break;
            begin = at;
        }
        if (!add_part(r, text, (span){rest.at + begin, rest.bytes - begin}, out)) return false;
        rest = tmpl_rstrip((span){rest.at, begin});
    }
    return true;
}

static bool rsplit_at(tmpl_run *r, value text, span separator, int64_t limit, value *out) {
    span s = value_span(text);
    while (limit-- != 0) {
        const size_t at = tmpl_rfind(s, separator);
        if (at == UNKNOWN) break;
        const size_t behind = at + separator.bytes;
        if (!add_part(r, text, (span){s.at + behind, s.bytes - behind}, out)) return false;
        s.bytes = at;
    }
    return add_part(r, text, s, out);
}

/* str.split and str.rsplit; what rsplit finds comes in reverse. */
static bool split(tmpl_run *r, value on, const value *args, bool from_right, value *out) {
    int64_t limit = -1;
    if (args[1].kind != V_MISSING && !tmpl_want_int(r, args[1], &limit)) return false;
    if (limit < 0) limit = -1;
    if (!value_seq(r, V_LIST, 0, out) || !tmpl_spend(r, on.str->bytes / STEP_WALKS)) return false;
    if (!value_given(args[0])) return from_right ? rsplit_spaces(r, on, limit, out) : split_spaces(r, on, limit, out);
    if (args[0].kind != V_STR) return tmpl_fail(r, "must be str or None, not %s", value_type(args[0]));
    if (!args[0].str->bytes) return tmpl_fail(r, "empty separator");
    if (from_right) return rsplit_at(r, on, value_span(args[0]), limit, out);
    return split_at(r, on, value_span(args[0]), limit, out);
}

static bool method_split(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return split(r, on, args, false, out);
}

static bool method_rsplit(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (!split(r, on, args, true, out)) return false;
    vseq *seq = out->seq;
    for (size_t i = 0; i < seq->count / 2; i++) {
        const value other = seq->at[i];
        seq->at[i] = seq->at[seq->count - 1 - i];
        seq->at[seq->count - 1 - i] = other;
    }
    return true;
}

/* Length of the line end at s: also \v, \f, FS, GS, RS, NEL, LS and PS, as Python has it. */
static size_t line_end(span s) {
    if (s.bytes >= 2 && s.at[0] == '\r' && s.at[1] == '\n') return 2;
    const unsigned char c = (unsigned char)s.at[0];
    if ((c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e)) return 1;
    if (span_starts(s, SPAN("\xc2\x85"))) return 2;
    return span_starts(s, SPAN("\xe2\x80\xa8")) || span_starts(s, SPAN("\xe2\x80\xa9")) ? 3 : 0;
}

bool tmpl_split_lines(tmpl_run *r, value text, bool keep_ends, value *out) {
    const span s = value_span(text);
    if (!value_seq(r, V_LIST, 0, out) || !tmpl_spend(r, s.bytes / STEP_READS)) return false;
    for (size_t from = 0, at = 0; from < s.bytes;) {
        size_t end = 0;
        while (at < s.bytes && !(end = line_end((span){s.at + at, s.bytes - at}))) at++;
        if (!add_part(r, text, (span){s.at + from, at - from + (keep_ends ? end : 0)}, out)) return false;
        from = at += end;
    }
    return true;
}

static bool method_splitlines(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    bool keep = false;
    if (args[0].kind != V_MISSING && !value_truth(r, args[0], &keep)) return false;
    return tmpl_split_lines(r, on, keep, out);
}

static bool partition(tmpl_run *r, value on, value separator, bool from_right, value *out) {
    const span s = value_span(on);
    span part;
    if (!tmpl_want_text(r, "partition", separator, &part)) return false;
    if (!part.bytes) return tmpl_fail(r, "empty separator");
    if (!tmpl_spend(r, s.bytes / STEP_WALKS) || !value_seq(r, V_TUPLE, 3, out)) return false;
    const size_t at = from_right ? tmpl_rfind(s, part) : tmpl_find(s, part, 0);
    span pieces[3] = {s, {s.at + s.bytes, 0}, {s.at + s.bytes, 0}};
    if (at != UNKNOWN) {
        const size_t behind = at + part.bytes;
        pieces[0] = (span){s.at, at};
        pieces[1] = (span){s.at + at, part.bytes};
        pieces[2] = (span){s.at + behind, s.bytes - behind};
    } else if (from_right) {
        pieces[0] = (span){s.at, 0};
        pieces[2] = s;
    }
    for (int i = 0; i < 3; i++)
        if (!tmpl_part(r, on, pieces[i], &out->seq->at[i])) return false;
    return true;
}

static bool method_partition(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return partition(r, on, args[0], false, out);
}
static bool method_rpartition(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return partition(r, on, args[0], true, out);
}

/* ---- replace, join ---- */

/* Between all characters, and at both ends. */
static bool replace_empty(strbuf *b, span s, span to, int64_t limit) {
    for (size_t i = 0; i <= s.bytes;) {
        size_t length = i < s.bytes;
        while (i + length < s.bytes && ((unsigned char)s.at[i + length] & 0xc0) == 0x80) length++;
        if (limit != 0) strbuf_add(b, to.at, to.bytes), limit--;
        strbuf_add(b, s.at + i, length);
        i += length ? length : 1;
    }
    return true;
}

bool tmpl_replace(tmpl_run *r, value text, span from, span to, int64_t limit, value *out) {
    const span s = value_span(text);
    strbuf b = {.limit = r->memory.limit_bytes};
    size_t at = 0, found = 0;
    if (!tmpl_spend(r, 1 + s.bytes / STEP_WALKS)) return false;
    if (!limit || (from.bytes && tmpl_find(s, from, 0) == UNKNOWN)) return tmpl_part(r, text, s, out);
    if (!from.bytes) {
        replace_empty(&b, s, to, limit);
    } else {
        for (; limit != 0 && (found = tmpl_find(s, from, at)) != UNKNOWN; limit--) {
            strbuf_add(&b, s.at + at, found - at);
            strbuf_add(&b, to.at, to.bytes);
            at = found + from.bytes;
        }
        strbuf_add(&b, s.at + at, s.bytes - at);
    }
    if (!tmpl_take_text(r, &b, out)) return false;
    out->is_markup = text.is_markup;
    return true;
}

static bool method_replace(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    span from;
    value to = args[1];
    int64_t limit = -1;
    if (!tmpl_want_text(r, "replace() argument 1", args[0], &from)) return false;
    if (to.kind != V_STR) return tmpl_fail(r, "replace() argument 2 must be str, not %s", value_type(to));
    if (on.is_markup && !value_escape(r, to, &to)) return false;
    if (args[2].kind != V_MISSING && !tmpl_want_int(r, args[2], &limit)) return false;
    return tmpl_replace(r, on, from, value_span(to), limit < 0 ? -1 : limit, out);
}

static bool method_join(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value list;
    strbuf b = {.limit = r->memory.limit_bytes};
    if (!value_is_iterable(args[0])) return tmpl_fail(r, "can only join an iterable");
    if (!value_to_list(r, args[0], &list)) return false;
    for (size_t i = 0; i < list.seq->count; i++) {
        value item = list.seq->at[i];
        const bool is_right = on.is_markup ? value_escape(r, item, &item) : item.kind == V_STR;
        if (!is_right) tmpl_fail(r, "sequence item %zu: expected str instance, %s found", i, value_type(item));
        if (!is_right || !tmpl_spend(r, 1) || !tmpl_buffer_ok(r, &b)) return strbuf_free(&b), false;
        if (i) strbuf_add(&b, on.str->at, on.str->bytes);
        strbuf_add(&b, item.str->at, item.str->bytes);
    }
    if (!tmpl_take_text(r, &b, out)) return false;
    out->is_markup = on.is_markup;
    return true;
}

#define TEXT (1u << V_STR)
const method_row tmpl_methods_cut[] = {
    {"strip", TEXT, "chars=", false, method_strip},
    {"lstrip", TEXT, "chars=", false, method_lstrip},
    {"rstrip", TEXT, "chars=", false, method_rstrip},
    {"removeprefix", TEXT, "prefix", false, method_removeprefix},
    {"removesuffix", TEXT, "suffix", false, method_removesuffix},
    {"split", TEXT, "sep= maxsplit=", true, method_split},
    {"rsplit", TEXT, "sep= maxsplit=", true, method_rsplit},
    {"splitlines", TEXT, "keepends=", true, method_splitlines},
    {"partition", TEXT, "sep", false, method_partition},
    {"rpartition", TEXT, "sep", false, method_rpartition},
    {"replace", TEXT, "old new count=", false, method_replace},
    {"join", TEXT, "iterable", false, method_join},
    {0},
};
