/* tmpl_methods.c — finding and calling methods, and those of everything that is not a string. */
#include "tmpl_tables.h"
#include <math.h>
#include <stdio.h>

/* Methods that would change a list or a dict; the immutable sandbox hides them. */
static const struct {
    unsigned kinds;
    const char *name;
} unsafe[] = {
    {1u << V_LIST, "append"}, {1u << V_LIST, "clear"}, {1u << V_LIST, "pop"},     {1u << V_LIST, "reverse"},
    {1u << V_LIST, "insert"}, {1u << V_LIST, "sort"},  {1u << V_LIST, "extend"},  {1u << V_LIST, "remove"},
    {1u << V_DICT, "clear"},  {1u << V_DICT, "pop"},   {1u << V_DICT, "popitem"}, {1u << V_DICT, "setdefault"},
    {1u << V_DICT, "update"},
};

/* Compares with a row's name; the first letter settles most. */
static bool is_named(span name, const char *row) { return name.bytes && name.at[0] == row[0] && span_is(name, row); }

bool tmpl_method_is_unsafe(value on, span name) {
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if ((unsafe[i].kinds >> on.kind & 1) && is_named(name, unsafe[i].name)) return true;
    return false;
}

const void *tmpl_method_find(value on, span name) {
    static const method_row *const tables[] = {tmpl_methods_data, tmpl_methods_cut, tmpl_methods_text};
    const size_t n_tables = on.kind == V_STR ? 3 : 1;
    for (size_t i = on.kind == V_STR; i < n_tables; i++)
        for (const method_row *row = tables[i]; row->name; row++)
            if ((row->kinds >> on.kind & 1) && is_named(name, row->name)) return row;
    return NULL;
}

const char *tmpl_method_name(const void *row) { return ((const method_row *)row)->name; }

bool tmpl_method_call(tmpl_run *r, const vmethod *m, const call_args *args, value *out) {
    const method_row *row = m->row;
    value slots[MAX_ARGS];
    if (!row->takes_names && args->named && args->named->count)
        return tmpl_fail(r, "%s() takes no keyword arguments", row->name);
    if (row->names && !tmpl_bind(r, row->name, row->names, args, slots)) return false;
    return row->run(r, m->on, slots, args, out);
}

/* ---- dict ---- */

static bool method_get(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    const vpair *found = tmpl_dict_find(r, on.dict, args[0]);
    if (found)
        *out = found->val;
    else
        *out = args[1].kind == V_MISSING ? value_none() : args[1];
    return r->status == QP_OK;
}

static bool make_view(tmpl_run *r, value on, view_kind kind, value *out) {
    vview *view = tmpl_get(r, 1, sizeof *view);
    if (!view) return false;
    *view = (vview){.dict = on.dict, .kind = kind};
    *out = (value){.kind = V_VIEW, .view = view};
    return true;
}

static bool method_keys(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_view(r, on, VIEW_KEYS, out);
}
static bool method_values(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_view(r, on, VIEW_VALUES, out);
}
static bool method_items(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_view(r, on, VIEW_ITEMS, out);
}

/* A copy that never changes may be the thing itself, but `sameas` tells them apart. */
static bool method_copy(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (on.kind == V_LIST) return value_to_list(r, on, out);
    vdict *copy = tmpl_get(r, 1, sizeof *copy);
    if (!copy) return false;
    *copy = *on.dict;
    *out = (value){.kind = V_DICT, .dict = copy};
    return true;
}

/* Of a dict, and of the global dict itself. */
static bool method_fromkeys(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    iter it;
    value key;
    bool is_done;
    if (on.kind == V_FUNCTION && strcmp(tmpl_global_name(on.function), "dict") != 0)
        return tmpl_fail(r, "'function' object has no attribute 'fromkeys'");
    if (!iter_begin(r, args[0], &it) || !value_dict(r, out)) return false;
    for (;;) {
        if (!iter_next(r, &it, &key, &is_done)) return false;
        if (is_done) return true;
        if (!tmpl_dict_set(r, out->dict, key, args[1].kind == V_MISSING ? value_none() : args[1])) return false;
    }
}

/* ---- list, tuple, range ---- */

static bool method_count(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    iter it;
    value item;
    bool is_done, is_equal;
    int64_t count = 0;
    if (!iter_begin(r, on, &it)) return false;
    for (;;) {
        if (!iter_next(r, &it, &item, &is_done)) return false;
        if (is_done) break;
        is_equal = value_is_same(item, args[0]);
        if (!is_equal && !value_equal(r, item, args[0], &is_equal)) return false;
        count += is_equal;
    }
    *out = value_int(count);
    return true;
}

static bool method_index(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    size_t length;
    bool has_length;
    int64_t from = 0, to = INT64_MAX;
    if (!value_length(r, on, &length, &has_length)) return false;
    const int64_t n = (int64_t)length;
    if (args[1].kind != V_MISSING && !tmpl_want_int(r, args[1], &from)) return false;
    if (args[2].kind != V_MISSING && !tmpl_want_int(r, args[2], &to)) return false;
    if (from < 0) from = from + n < 0 ? 0 : from + n;
    if (to < 0) to += n;
    for (int64_t i = from; i < to && i < n; i++) {
        value item;
        bool is_equal;
        if (!value_getitem(r, on, value_int(i), &item) || !tmpl_spend(r, 1)) return false;
        is_equal = value_is_same(item, args[0]);
        if (!is_equal && !value_equal(r, item, args[0], &is_equal)) return false;
        if (is_equal) return *out = value_int(i), true;
    }
    return tmpl_fail(r, "value is not in the %s", value_type(on));
}

/* ---- loop, cycler ---- */

static bool method_cycle(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    if (!call->count) return tmpl_fail(r, "no items for cycling given");
    *out = call->at[(uint64_t)(on.loop->index0 < 0 ? 0 : on.loop->index0) % call->count];
    return true;
}

static bool method_changed(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value now;
    bool is_equal = false;
    if (!value_seq(r, V_TUPLE, call->count, &now)) return false;
    if (call->count) memcpy(now.seq->at, call->at, call->count * sizeof(value));
    if (on.loop->changed.kind != V_MISSING && !value_equal(r, on.loop->changed, now, &is_equal)) return false;
    if (!is_equal) on.loop->changed = now;
    *out = value_bool(!is_equal);
    return true;
}

static bool method_next(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vcycler *c = on.cycler;
    *out = c->items->at[c->next];
    c->next = (c->next + 1) % c->items->count;
    return true;
}

static bool method_reset(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    on.cycler->next = 0;
    *out = value_none();
    return true;
}

/* ---- numbers ---- */

static bool method_conjugate(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    *out = on.kind == V_BOOL ? value_int(on.truth) : on;
    return true;
}

static bool method_bit_length(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    const int64_t x = value_integer(on);
    const uint64_t size = x < 0 ? -(uint64_t)x : (uint64_t)x;
    *out = value_int(size ? 64 - __builtin_clzll(size) : 0);
    return true;
}

static bool method_bit_count(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    const int64_t x = value_integer(on);
    *out = value_int(__builtin_popcountll(x < 0 ? -(uint64_t)x : (uint64_t)x));
    return true;
}

static bool method_is_integer(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    *out = value_bool(isfinite(on.real) && on.real == floor(on.real));
    return true;
}

static bool method_refused(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return tmpl_fail_as(r, QP_UNSUPPORTED, "this method of %s is not supported", value_type(on));
}

#define DICT (1u << V_DICT)
#define SEQS (1u << V_LIST | 1u << V_TUPLE | 1u << V_RANGE)
#define INTS (1u << V_INT | 1u << V_BOOL)
#define REAL (1u << V_FLOAT)
const method_row tmpl_methods_data[] = {
    {"get", DICT, "key default=", false, method_get},
    {"keys", DICT, "", false, method_keys},
    {"values", DICT, "", false, method_values},
    {"items", DICT, "", false, method_items},
    {"copy", DICT | 1u << V_LIST, "", false, method_copy},
    {"fromkeys", DICT | 1u << V_FUNCTION, "iterable value=", false, method_fromkeys},
    {"count", SEQS, "value", false, method_count},
    {"index", SEQS, "value start= stop=", false, method_index},
    {"cycle", 1u << V_LOOP, NULL, false, method_cycle},
    {"changed", 1u << V_LOOP, NULL, false, method_changed},
    {"next", 1u << V_CYCLER, "", false, method_next},
    {"reset", 1u << V_CYCLER, "", false, method_reset},
    {"conjugate", INTS | REAL, "", false, method_conjugate},
    {"bit_length", INTS, "", false, method_bit_length},
    {"bit_count", INTS, "", false, method_bit_count},
    {"is_integer", REAL, "", false, method_is_integer},
    {"as_integer_ratio", INTS | REAL, "", false, method_refused},
    {"to_bytes", INTS, NULL, true, method_refused},
    {"from_bytes", INTS, NULL, true, method_refused},
    {"hex", REAL, "", false, method_refused},
    {"fromhex", REAL, NULL, true, method_refused},
    {0},
};
