/* tmpl_compare.c — equality, order and membership, as Python has them.
 *
 * Numbers compare by value whatever their type, also where a float cannot hold the integer exactly; sequences compare
 * item by item; everything else that is not the same object differs. */
#include "tmpl_run.h"
#include <math.h>

/* < 0, 0, > 0; 2 where a NaN is involved. */
static int compare_mixed(int64_t a, double b) {
    if (isnan(b)) return 2;
    if (b >= 9223372036854775808.0) return -1;
    if (b < -9223372036854775808.0) return 1;
    const int64_t whole = (int64_t)b; /* towards zero */
    if (a != whole) return a < whole ? -1 : 1;
    const double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

static int compare_numbers(value a, value b) {
    if (value_is_integer(a) && value_is_integer(b)) {
        const int64_t x = value_integer(a), y = value_integer(b);
        return (x > y) - (x < y);
    }
    if (value_is_integer(a)) return compare_mixed(value_integer(a), b.real);
    if (value_is_integer(b)) {
        const int order = compare_mixed(value_integer(b), a.real);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a.real) || isnan(b.real)) return 2;
    return (a.real > b.real) - (a.real < b.real);
}

bool value_is_same(value a, value b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_NONE:
        return true;
    case V_BOOL:
        return a.truth == b.truth;
    case V_INT:
        return a.integer == b.integer && a.integer >= -5 && a.integer <= 256; /* the integers CPython keeps */
    case V_FLOAT:
        return false;
    case V_STR:
        return a.str == b.str || (a.str->bytes == 0 && b.str->bytes == 0);
    default:
        return a.dict == b.dict;
    }
}

static bool equal_seq(tmpl_run *r, const vseq *a, const vseq *b, bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++)
        if (!tmpl_spend(r, 1) || (!value_is_same(a->at[i], b->at[i]) && !value_equal(r, a->at[i], b->at[i], out)))
            return false;
    return true;
}

static bool equal_dict(tmpl_run *r, const vdict *a, const vdict *b, bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        const vpair *other = tmpl_dict_find(r, b, a->at[i].key);
        if (!tmpl_spend(r, 1)) return false;
        if (!other)
            *out = false;
        else if (!value_is_same(a->at[i].val, other->val) && !value_equal(r, a->at[i].val, other->val, out))
            return false;
    }
    return r->status == QP_OK;
}

static bool equal_range(const vrange *a, const vrange *b) {
    return a->count == b->count && (!a->count || (a->start == b->start && (a->count == 1 || a->step == b->step)));
}

/* dict.keys() and dict.items() are sets. */
static bool equal_view(tmpl_run *r, value a, value b, bool *out) {
    *out = a.view->kind == b.view->kind && a.view->kind != VIEW_VALUES && a.view->dict->count == b.view->dict->count;
    if (!*out || a.view->dict == b.view->dict) return true;
    if (a.view->kind == VIEW_ITEMS) return equal_dict(r, a.view->dict, b.view->dict, out);
    for (size_t i = 0; *out && i < a.view->dict->count; i++)
        *out = tmpl_spend(r, 1) && tmpl_dict_find(r, b.view->dict, a.view->dict->at[i].key);
    return r->status == QP_OK;
}

static bool equal_nested(tmpl_run *r, value a, value b, bool *out) {
    if (!tmpl_enter(r)) return tmpl_leave(r), false;
    bool is_right;
    if (a.kind == V_DICT)
        is_right = equal_dict(r, a.dict, b.dict, out);
    else if (a.kind == V_VIEW)
        is_right = equal_view(r, a, b, out);
    else
        is_right = equal_seq(r, a.seq, b.seq, out);
    tmpl_leave(r);
    return is_right;
}

bool value_equal(tmpl_run *r, value a, value b, bool *out) {
    *out = false;
    if (value_is_number(a) && value_is_number(b)) return *out = compare_numbers(a, b) == 0, true;
    if (a.kind != b.kind) return true;
    switch (a.kind) {
    case V_NONE:
    case V_UNDEFINED:
        *out = true;
        return true;
    case V_STR:
        *out =
            a.str->bytes == b.str->bytes && tmpl_spend(r, a.str->bytes / STEP_MOVES) && tmpl_text_equal(a.str, b.str);
        return r->status == QP_OK;
    case V_RANGE:
        *out = equal_range(a.range, b.range);
        return true;
    case V_METHOD:
        *out = a.method->row == b.method->row && value_is_same(a.method->on, b.method->on);
        return true;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_VIEW:
        return equal_nested(r, a, b, out);
    default:
        *out = a.dict == b.dict;
        return true;
    }
}

static const char *oper_text(oper op) { return op == OP_LT ? "<" : op == OP_LE ? "<=" : op == OP_GT ? ">" : ">="; }

static bool holds(oper op, int order) {
    if (order == 2) return false;
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}

/* The first items that differ decide; if there are none, the lengths do. */
static bool order_seq(tmpl_run *r, oper op, const vseq *a, const vseq *b, bool *out) {
    const size_t count = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < count; i++) {
        bool is_equal = value_is_same(a->at[i], b->at[i]);
        if (!tmpl_spend(r, 1) || (!is_equal && !value_equal(r, a->at[i], b->at[i], &is_equal))) return false;
        if (!is_equal) return value_order(r, op, a->at[i], b->at[i], out);
    }
    *out = holds(op, (a->count > b->count) - (a->count < b->count));
    return true;
}

bool value_order(tmpl_run *r, oper op, value a, value b, bool *out) {
    if (a.kind == V_UNDEFINED) return tmpl_fail_undefined(r, a);
    if (b.kind == V_UNDEFINED) return tmpl_fail_undefined(r, b);
    if (value_is_number(a) && value_is_number(b)) return *out = holds(op, compare_numbers(a, b)), true;
    if (a.kind == V_STR && b.kind == V_STR) {
        const size_t bytes = a.str->bytes < b.str->bytes ? a.str->bytes : b.str->bytes;
        if (!tmpl_spend(r, 1 + bytes / STEP_MOVES)) return false;
        const int order = tmpl_text_compare(a.str, b.str);
        return *out = holds(op, (order > 0) - (order < 0)), true;
    }
    if (a.kind == b.kind && value_is_seq(a)) {
        const bool is_right = tmpl_enter(r) && order_seq(r, op, a.seq, b.seq, out);
        tmpl_leave(r);
        return is_right;
    }
    return tmpl_fail(r, "'%s' not supported between instances of '%s' and '%s'", oper_text(op), value_type(a),
                     value_type(b));
}

static bool contains_iterated(tmpl_run *r, value item, value in, bool *out) {
    iter it;
    bool is_done = false;
    value one;
    *out = false;
    if (!iter_begin(r, in, &it)) return false;
    while (!*out) {
        if (!iter_next(r, &it, &one, &is_done)) return false;
        if (is_done) return true;
        if (value_is_same(item, one))
            *out = true;
        else if (!value_equal(r, item, one, out))
            return false;
    }
    return true;
}

bool value_contains(tmpl_run *r, value item, value in, bool *out) {
    if (in.kind == V_STR) {
        if (item.kind != V_STR)
            return tmpl_fail(r, "'in <string>' requires string as left operand, not %s", value_type(item));
        if (!tmpl_spend(r, in.str->bytes / STEP_MOVES)) return false;
        return *out = tmpl_find(value_span(in), value_span(item), 0) != UNKNOWN, true;
    }
    if (in.kind == V_DICT || (in.kind == V_VIEW && in.view->kind == VIEW_KEYS)) {
        *out = tmpl_dict_find(r, in.kind == V_DICT ? in.dict : in.view->dict, item) != NULL;
        return r->status == QP_OK;
    }
    if (in.kind == V_RANGE && value_is_integer(item)) {
        const vrange *g = in.range;
        const int64_t x = value_integer(item);
        const bool is_inside = g->step > 0 ? x >= g->start && x < g->stop : x <= g->start && x > g->stop;
        /* the range is short, so its ends are near each other and the difference cannot overflow */
        *out = g->count && is_inside && (x - g->start) % g->step == 0;
        return true;
    }
    if (!value_is_iterable(in)) return tmpl_fail(r, "argument of type '%s' is not iterable", value_type(in));
    return contains_iterated(r, item, in, out);
}
