/* tmpl_attr.c — a.b, a[b] and a[b:c:d], and the attribute paths that filters take.
 *
 * a.b asks for an attribute first and then for an item, a[b] the other way round; what neither has is undefined, not
 * an error. Methods that change their object, and names with an underscore in front, are undefined with a reason. */
#include "tmpl_run.h"
#include "tmpl_unicode.h"

static value key_of(const vstr *name) { return (value){.kind = V_STR, .str = (vstr *)(uintptr_t)name}; }

/* Attributes that are plain values. */
static bool data_attribute(tmpl_run *r, value on, const vstr *text, value *out, bool *is_known) {
    const span name = {text->at, text->bytes};
    *is_known = true;
    switch (on.kind) {
    case V_NAMESPACE: {
        const vpair *found = tmpl_dict_find_text(r, on.dict, text);
        if (found) return *out = found->val, true;
        break;
    }
    case V_LOOP:
        return tmpl_loop_attr(r, on.loop, name, out, is_known);
    case V_RANGE:
        if (span_is(name, "start")) return *out = value_int(on.range->start), true;
        if (span_is(name, "stop")) return *out = value_int(on.range->stop), true;
        if (span_is(name, "step")) return *out = value_int(on.range->step), true;
        break;
    case V_BOOL:
    case V_INT:
        if (span_is(name, "real") || span_is(name, "numerator")) return *out = value_int(value_integer(on)), true;
        if (span_is(name, "imag")) return *out = value_int(0), true;
        if (span_is(name, "denominator")) return *out = value_int(1), true;
        break;
    case V_FLOAT:
        if (span_is(name, "real")) return *out = on, true;
        if (span_is(name, "imag")) return *out = value_real(0), true;
        break;
    case V_CYCLER:
        if (span_is(name, "current")) return *out = on.cycler->items->at[on.cycler->next], true;
        if (span_is(name, "pos")) return *out = value_int((int64_t)on.cycler->next), true;
        break;
    case V_JOINER:
        if (span_is(name, "sep")) return *out = on.joiner->separator, true;
        if (span_is(name, "used")) return *out = value_bool(on.joiner->was_used), true;
        break;
    case V_TUPLE:
        if (on.seq->is_group && span_is(name, "grouper")) return *out = on.seq->at[0], true;
        if (on.seq->is_group && span_is(name, "list")) return *out = on.seq->at[1], true;
        break;
    case V_MACRO:
        if (span_is(name, "name")) {
            const vstr *macro = on.macro->n->func->name;
            return *out = macro ? key_of(macro) : value_none(), true;
        }
        break;
    default:
        break;
    }
    *is_known = false;
    return true;
}

/* An attribute, if there is one; unsafe ones are undefined. */
static bool attribute(tmpl_run *r, value on, const vstr *text, value *out, bool *is_known) {
    const span name = {text->at, text->bytes};
    if (!data_attribute(r, on, text, out, is_known)) return false;
    if (*is_known) return true;
    *is_known = true;
    /* every object has some of these; none is to be seen */
    if (span_starts(name, SPAN("__")) && name.bytes > 4 && span_is((span){name.at + name.bytes - 2, 2}, "__") &&
        on.kind != V_NAMESPACE)
        return *out = value_undefined_item(r, on, key_of(text), true), true;
    if (tmpl_method_is_unsafe(on, name)) return *out = value_undefined_item(r, on, key_of(text), true), true;
    const void *row = tmpl_method_find(on, name);
    if (!row) return *is_known = false, true;
    vmethod *method = tmpl_get(r, 1, sizeof *method);
    if (!method) return false;
    *method = (vmethod){.row = row, .on = on};
    *out = (value){.kind = V_METHOD, .method = method};
    return true;
}

/* Python's index of a sequence: negative ones count from the end. */
static bool in_bounds(int64_t index, size_t count, size_t *at) {
    if (index < 0) index += (int64_t)count;
    *at = (size_t)index;
    return index >= 0 && (size_t)index < count;
}

static bool char_at(tmpl_run *r, value on, int64_t index, value *out, bool *is_known) {
    size_t at;
    *is_known = in_bounds(index, tmpl_text_points(on.str), &at);
    if (!*is_known) return true;
    const size_t from = tmpl_offset(r, on.str, at), to = tmpl_offset(r, on.str, at + 1);
    if (!value_borrow(r, (span){on.str->at + from, to - from}, out)) return false;
    out->is_markup = on.is_markup;
    return true;
}

static bool block_item(tmpl_run *r, value key, value *out, bool *is_known) {
    if (!tmpl_spend(r, (uint64_t)r->t->blocks.count / STEP_WALKS)) return false;
    for (int i = 0; key.kind == V_STR && i < r->t->blocks.count; i++) {
        if (!tmpl_text_equal(r->t->blocks.at[i]->text, key.str)) continue;
        vblock *block = tmpl_get(r, 1, sizeof *block);
        if (!block) return false;
        block->n = r->t->blocks.at[i];
        *out = (value){.kind = V_BLOCK, .block = block};
        *is_known = true;
    }
    return true;
}

/* An item by key or index, if there is one. */
static bool item(tmpl_run *r, value on, value key, value *out, bool *is_known) {
    size_t at;
    *is_known = false;
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind == V_SELF) return block_item(r, key, out, is_known);
    if (on.kind == V_DICT) {
        /* a key that cannot be hashed is a TypeError in Python, which counts as "not there" */
        if (key.kind == V_LIST || key.kind == V_DICT || key.kind == V_VIEW) return true;
        const vpair *found = tmpl_dict_find(r, on.dict, key);
        if (found) *out = found->val, *is_known = true;
        return r->status == QP_OK;
    }
    if (!value_is_integer(key)) return true;
    if (on.kind == V_STR) return char_at(r, on, value_integer(key), out, is_known);
    if (value_is_seq(on) && in_bounds(value_integer(key), on.seq->count, &at)) *out = on.seq->at[at], *is_known = true;
    if (on.kind == V_RANGE && in_bounds(value_integer(key), on.range->count, &at))
        *out = value_int(on.range->start + (int64_t)at * on.range->step), *is_known = true;
    return true;
}

/* Attributes that even an undefined value has. */
static bool of_every_object(span name) {
    static const char *const names[] = {"__class__", "__doc__",    "__module__", "__init__", "__new__",
                                        "__dir__",   "__eq__",     "__ne__",     "__hash__", "__str__",
                                        "__repr__",  "__format__", "__sizeof__"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(name, names[i])) return true;
    return false;
}

bool value_getattr(tmpl_run *r, value on, const vstr *name, value *out) {
    bool is_known;
    if (on.kind == V_UNDEFINED && !of_every_object((span){name->at, name->bytes})) return tmpl_fail_undefined(r, on);
    if (!attribute(r, on, name, out, &is_known)) return false;
    if (is_known) {
        if (name->bytes && name->at[0] == '_') *out = value_undefined_item(r, on, key_of(name), true);
        return true;
    }
    if (!item(r, on, key_of(name), out, &is_known)) return false;
    if (!is_known) *out = value_undefined_item(r, on, key_of(name), false);
    return true;
}

bool value_getitem(tmpl_run *r, value on, value key, value *out) {
    bool is_known;
    if (!item(r, on, key, out, &is_known)) return false;
    if (is_known) return true;
    if (key.kind == V_STR) {
        if (!attribute(r, on, key.str, out, &is_known)) return false;
        if (is_known) {
            if (key.str->bytes && key.str->at[0] == '_') *out = value_undefined_item(r, on, key, true);
            return true;
        }
    }
    *out = value_undefined_item(r, on, key, false);
    return true;
}

/* ---- slices ---- */

typedef struct cut {
    int64_t start, step;
    size_t count;
} cut;

static bool bound(tmpl_run *r, value v, int64_t *out) {
    if (v.kind == V_UNDEFINED || !value_is_integer(v))
        return tmpl_fail(r, "slice indices must be integers or None or have an __index__ method");
    *out = value_integer(v);
    return true;
}

/* Python's slice.indices(): bounds clamped to the sequence, in the direction of the step. */
static bool indices(tmpl_run *r, value start, value stop, value step, size_t length, cut *out) {
    const int64_t n = (int64_t)length;
    int64_t from, to;
    out->step = 1;
    if (value_given(step) && !bound(r, step, &out->step)) return false;
    if (!out->step) return tmpl_fail(r, "slice step cannot be zero");
    const bool back = out->step < 0;
    const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    from = back ? high : low;
    to = back ? low : high;
    if (value_given(start)) {
        if (!bound(r, start, &from)) return false;
        from = from < 0 ? (from + n < low ? low : from + n) : from > high ? high : from;
    }
    if (value_given(stop)) {
        if (!bound(r, stop, &to)) return false;
        to = to < 0 ? (to + n < low ? low : to + n) : to > high ? high : to;
    }
    const uint64_t size = back ? -(uint64_t)out->step : (uint64_t)out->step;
    const int64_t distance = back ? from - to : to - from;
    out->start = from;
    out->count = distance <= 0 ? 0 : ((size_t)distance - 1) / size + 1;
    return true;
}

static bool slice_text(tmpl_run *r, value on, const cut *c, value *out) {
    const size_t begin = tmpl_offset(r, on.str, c->count ? (size_t)c->start : 0);
    if (c->step == 1 || !c->count) {
        const size_t end = c->count ? tmpl_offset(r, on.str, (size_t)c->start + c->count) : begin;
        return value_borrow(r, (span){on.str->at + begin, end - begin}, out);
    }
    strbuf text = {0};
    if (!tmpl_spend(r, c->count / STEP_WALKS)) return false;
    for (size_t i = 0; i < c->count; i++) {
        const size_t point = (size_t)(c->start + (int64_t)i * c->step);
        const size_t from = tmpl_offset(r, on.str, point);
        size_t to = from + 1;
        while (to < on.str->bytes && ((unsigned char)on.str->at[to] & 0xc0) == 0x80) to++;
        strbuf_add(&text, on.str->at + from, to - from);
    }
    return tmpl_take_text(r, &text, out);
}

static bool slice_seq(tmpl_run *r, value on, const cut *c, value *out) {
    if (c->step == 1) { /* shares the items: nobody changes them */
        vseq *seq = tmpl_get(r, 1, sizeof *seq);
        if (!seq) return false;
        *seq = (vseq){.at = on.seq->at + (c->count ? c->start : 0), .count = c->count};
        *out = (value){.kind = on.kind, .seq = seq};
        return true;
    }
    if (!value_seq(r, (value_kind)on.kind, c->count, out) || !tmpl_spend(r, c->count / 8)) return false;
    for (size_t i = 0; i < c->count; i++) out->seq->at[i] = on.seq->at[c->start + (int64_t)i * c->step];
    return true;
}

static bool slice_range(tmpl_run *r, value on, const cut *c, value stop, value *out) {
    vrange *range = tmpl_get(r, 1, sizeof *range);
    if (!range) return false;
    /* Python shows the clamped bounds, not the first value past the end */
    const int64_t n = (int64_t)on.range->count, low = c->step < 0 ? -1 : 0, high = c->step < 0 ? n - 1 : n;
    int64_t to = c->step < 0 ? low : high;
    if (value_given(stop)) {
        to = value_integer(stop);
        to = to < 0 ? (to + n < low ? low : to + n) : to > high ? high : to;
    }
    *range = (vrange){.start = on.range->start + c->start * on.range->step,
                      .stop = on.range->start + to * on.range->step,
                      .step = on.range->step * c->step,
                      .count = c->count};
    *out = (value){.kind = V_RANGE, .range = range};
    return true;
}

bool value_slice(tmpl_run *r, value on, value start, value stop, value step, value *out) {
    size_t length = 0;
    bool has_length;
    cut c = {0};
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind == V_DICT) return tmpl_fail(r, "unhashable type: 'slice'");
    if (on.kind != V_STR && !value_is_seq(on) && on.kind != V_RANGE)
        return tmpl_fail(r, "'%s' object is not subscriptable", value_type(on));
    if (!value_length(r, on, &length, &has_length) || !indices(r, start, stop, step, length, &c)) return false;
    if (on.kind == V_RANGE) return slice_range(r, on, &c, stop, out);
    if (on.kind != V_STR) return slice_seq(r, on, &c, out);
    if (!slice_text(r, on, &c, out)) return false;
    out->is_markup = on.is_markup;
    return true;
}

/* ---- attribute paths ---- */

static bool all_digits(span s) {
    for (size_t i = 0; i < s.bytes; i++)
        if (s.at[i] < '0' || s.at[i] > '9') return false;
    return s.bytes > 0;
}

bool tmpl_attr_path(tmpl_run *r, value path, value *parts) {
    if (!value_seq(r, V_LIST, 0, parts) || path.kind == V_NONE || path.kind == V_MISSING) return r->status == QP_OK;
    if (path.kind != V_STR) return value_append(r, parts, path);
    const span s = value_span(path);
    if (!tmpl_spend(r, s.bytes / STEP_READS)) return false;
    for (size_t from = 0; from <= s.bytes;) {
        const char *dot = from < s.bytes ? memchr(s.at + from, '.', s.bytes - from) : NULL;
        const span one = {s.at + from, dot ? (size_t)(dot - s.at) - from : s.bytes - from};
        value part;
        int64_t index;
        bool is_too_large;
        if (all_digits(one) && value_parse_int(one, 10, &index, &is_too_large))
            part = value_int(index);
        else if (!value_borrow(r, one, &part))
            return false;
        if (!value_append(r, parts, part)) return false;
        from += one.bytes + 1;
    }
    return true;
}

bool tmpl_attr_walk(tmpl_run *r, value on, value parts, value fallback, value *out) {
    *out = on;
    for (size_t i = 0; i < parts.seq->count; i++) {
        if (!tmpl_spend(r, 1) || !value_getitem(r, *out, parts.seq->at[i], out)) return false;
        if (out->kind == V_UNDEFINED && value_given(fallback)) *out = fallback;
    }
    return true;
}
