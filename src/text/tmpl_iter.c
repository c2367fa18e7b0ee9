/* tmpl_iter.c — walking over whatever can be iterated, and generators: sequences that are made while somebody walks.
 *
 * A generator is used up by walking and starts its work (and fails) only then, as Python's do. */
#include "tmpl_run.h"
#include "base/utf8.h"

bool value_is_iterable(value v) {
    switch (v.kind) {
    case V_UNDEFINED:
    case V_STR:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_VIEW:
    case V_RANGE:
    case V_GENERATOR:
    case V_LOOP:
        return true;
    default:
        return false;
    }
}

size_t tmpl_offset(tmpl_run *r, vstr *s, size_t point) {
    size_t walked = 0;
    const size_t offset = tmpl_text_offset(s, point, &walked);
    tmpl_spend(r, walked / STEP_WALKS); /* once that fails, so does whatever the caller does next */
    return offset;
}

bool iter_begin(tmpl_run *r, value on, iter *out) {
    *out = (iter){.on = on};
    return value_is_iterable(on) || tmpl_fail(r, "'%s' object is not iterable", value_type(on));
}

static bool next_char(tmpl_run *r, iter *it, value *out, bool *is_done) {
    const vstr *s = it->on.str;
    if (it->at >= s->bytes) return *is_done = true, true;
    size_t end = it->at + 1;
    while (end < s->bytes && ((unsigned char)s->at[end] & 0xc0) == 0x80) end++;
    const span one = {s->at + it->at, end - it->at};
    it->at = end;
    return value_borrow(r, one, out); /* also Markup gives plain characters */
}

static bool next_pair(tmpl_run *r, const vdict *d, view_kind kind, size_t at, value *out) {
    if (kind == VIEW_ITEMS) return value_pair(r, d->at[at].key, d->at[at].val, out);
    *out = kind == VIEW_KEYS ? d->at[at].key : d->at[at].val;
    return true;
}

static bool next_of_loop(tmpl_run *r, vloop *loop, value *out, bool *is_done) {
    value item;
    if (!tmpl_loop_next(r, loop, &item, is_done)) return false;
    return *is_done || value_pair(r, item, (value){.kind = V_LOOP, .loop = loop}, out);
}

/* The place of the next item among `count`; false at the end. */
static inline bool step(iter *it, size_t count, size_t *at) {
    if (it->at >= count) return false;
    *at = it->is_reversed ? count - 1 - it->at : it->at;
    it->at++;
    return true;
}

bool iter_next(tmpl_run *r, iter *it, value *out, bool *is_done) {
    size_t at;
    *is_done = false;
    if (!tmpl_spend(r, 1)) return false;
    switch (it->on.kind) {
    case V_LIST:
    case V_TUPLE:
        *is_done = !step(it, it->on.seq->count, &at);
        if (!*is_done) *out = it->on.seq->at[at];
        return true;
    case V_RANGE:
        *is_done = !step(it, it->on.range->count, &at);
        if (!*is_done) *out = value_int(it->on.range->start + (int64_t)at * it->on.range->step);
        return true;
    case V_DICT:
        *is_done = !step(it, it->on.dict->count, &at);
        return *is_done || next_pair(r, it->on.dict, VIEW_KEYS, at, out);
    case V_VIEW:
        *is_done = !step(it, it->on.view->dict->count, &at);
        return *is_done || next_pair(r, it->on.view->dict, it->on.view->kind, at, out);
    case V_STR:
        return next_char(r, it, out, is_done);
    case V_GENERATOR: {
        vgen *gen = it->on.gen;
        if (gen->is_done) return *is_done = true, true;
        const bool is_right = tmpl_enter(r) && gen->next(r, gen, out, is_done);
        tmpl_leave(r);
        gen->is_done = !is_right || *is_done;
        return is_right;
    }
    case V_LOOP:
        return next_of_loop(r, it->on.loop, out, is_done);
    default: /* undefined: nothing to walk over */
        *is_done = true;
        return true;
    }
}

bool value_to_list(tmpl_run *r, value v, value *out) {
    iter it;
    if (v.kind == V_LIST || v.kind == V_TUPLE) { /* nobody changes a list, so the copy may share its items */
        vseq *seq = tmpl_get(r, 1, sizeof *seq);
        if (!seq) return false;
        *seq = (vseq){.at = v.seq->at, .count = v.seq->count, .room = v.kind == V_LIST ? v.seq->room : NULL};
        *out = (value){.kind = V_LIST, .seq = seq};
        return true;
    }
    if (!iter_begin(r, v, &it) || !value_seq(r, V_LIST, 0, out)) return false;
    for (;;) {
        value item;
        bool is_done;
        if (!iter_next(r, &it, &item, &is_done)) return false;
        if (is_done) return true;
        if (!value_append(r, out, item)) return false;
    }
}

bool value_generator(tmpl_run *r, gen_next *next, value source, vgen **gen, value *out) {
    vgen *g = tmpl_get(r, 1, sizeof *g);
    if (!g) return false;
    *g = (vgen){.next = next, .type = "generator", .source = {.on = source}};
    *gen = g;
    *out = (value){.kind = V_GENERATOR, .gen = g};
    return true;
}
