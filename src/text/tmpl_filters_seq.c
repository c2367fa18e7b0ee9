/* tmpl_filters_seq.c — filters over sequences that give their result at once: sorting, grouping, adding up, picking.
 *
 * Sorting is a merge sort: stable, and a comparison that fails stops it. Keys are found once per item. */
#include "tmpl_tables.h"
#include "tmpl_sort.h"

static bool filter_length(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    size_t length;
    bool has_length;
    if (!value_length(r, on, &length, &has_length)) return false;
    if (!has_length) return tmpl_fail(r, "object of type '%s' has no len()", value_type(on));
    *out = value_int((int64_t)length);
    return true;
}

static bool filter_first(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    iter it;
    bool is_done;
    if (!iter_begin(r, on, &it) || !iter_next(r, &it, out, &is_done)) return false;
    if (is_done) *out = value_undefined(r, "No first item, sequence was empty.");
    return true;
}

/* What reversed() takes. */
static bool can_reverse(value v) {
    return v.kind == V_STR || value_is_seq(v) || v.kind == V_DICT || v.kind == V_VIEW || v.kind == V_RANGE ||
           v.kind == V_UNDEFINED;
}

static bool filter_last(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    iter it;
    bool is_done;
    if (!can_reverse(on)) return tmpl_fail(r, "'%s' object is not reversible", value_type(on));
    if (on.kind == V_STR && on.str->bytes) return value_getitem(r, on, value_int(-1), out);
    if (!iter_begin(r, on, &it)) return false;
    it.is_reversed = true;
    if (!iter_next(r, &it, out, &is_done)) return false;
    if (is_done) *out = value_undefined(r, "No last item, sequence was empty.");
    return true;
}

static bool filter_list(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return value_to_list(r, on, out);
}

static bool next_reversed(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    return iter_next(r, &gen->source, out, is_done);
}

static bool filter_reverse(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    if (on.kind == V_STR) return value_slice(r, on, value_none(), value_none(), value_int(-1), out);
    if (can_reverse(on)) {
        if (!value_generator(r, next_reversed, on, &gen, out)) return false;
        gen->source = (iter){.on = on, .is_reversed = true};
        gen->type = on.kind == V_LIST    ? "list_reverseiterator"
                    : on.kind == V_TUPLE ? "reversed"
                    : on.kind == V_DICT  ? "dict_reversekeyiterator"
                                         : "range_iterator";
        return true;
    }
    value list;
    if (!value_is_iterable(on)) return tmpl_fail(r, "argument must be iterable");
    if (!value_to_list(r, on, &list)) return false;
    return value_slice(r, list, value_none(), value_none(), value_int(-1), out);
}

static bool truth_of(tmpl_run *r, value v, bool *out) {
    *out = false;
    return v.kind == V_MISSING || value_truth(r, v, out);
}

/* sorted(reverse=...) wants an integer. */
static bool reverse_of(tmpl_run *r, value v, bool *out) {
    int64_t number = 0;
    if (v.kind != V_MISSING && !tmpl_want_int(r, v, &number)) return false;
    *out = number != 0;
    return true;
}

static bool filter_sort(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    sort_rules rules = {.attribute = args[2], .many = true, .fallback = {.kind = V_MISSING}};
    bool is_reversed, is_sensitive;
    if (!reverse_of(r, args[0], &is_reversed) || !truth_of(r, args[1], &is_sensitive)) return false;
    rules.is_reversed = is_reversed;
    rules.ignore_case = !is_sensitive;
    return tmpl_sort(r, on, &rules, out, NULL);
}

static bool filter_dictsort(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    bool is_sensitive, is_reversed;
    sort_rules rules = {.fallback = {.kind = V_MISSING}};
    if (!truth_of(r, args[0], &is_sensitive) || !reverse_of(r, args[2], &is_reversed)) return false;
    const bool by_value = args[1].kind == V_STR && span_is(value_span(args[1]), "value");
    if (args[1].kind != V_MISSING && !by_value && !(args[1].kind == V_STR && span_is(value_span(args[1]), "key")))
        return tmpl_fail(r, "You can only sort by either \"key\" or \"value\"");
    if (on.kind == V_UNDEFINED) return tmpl_fail_undefined(r, on);
    if (on.kind != V_DICT) return tmpl_fail(r, "'%s' object has no attribute 'items'", value_type(on));
    vview view = {.dict = on.dict, .kind = VIEW_ITEMS};
    rules.attribute = value_int(by_value);
    rules.ignore_case = !is_sensitive;
    rules.is_reversed = is_reversed;
    return tmpl_sort(r, (value){.kind = V_VIEW, .view = &view}, &rules, out, NULL);
}

static bool filter_groupby(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    sort_rules rules = {.attribute = args[0], .fallback = args[1]};
    bool is_sensitive;
    value sorted, keys, parts, group;
    if (!truth_of(r, args[2], &is_sensitive)) return false;
    rules.ignore_case = !is_sensitive;
    if (!tmpl_sort(r, on, &rules, &sorted, &keys) || !tmpl_attr_path(r, args[0], &parts) ||
        !value_seq(r, V_LIST, 0, out))
        return false;
    for (size_t i = 0, begin = 0; i < sorted.seq->count; i++) {
        bool is_equal = false;
        if (i + 1 < sorted.seq->count && !value_equal(r, keys.seq->at[begin], keys.seq->at[i + 1], &is_equal))
            return false;
        if (is_equal) continue;
        value items, key = keys.seq->at[begin];
        if (!value_slice(r, sorted, value_int((int64_t)begin), value_int((int64_t)i + 1), value_none(), &items))
            return false;
        if (!is_sensitive && !tmpl_attr_walk(r, items.seq->at[0], parts, args[1], &key)) return false;
        if (!value_pair(r, key, items, &group)) return false;
        group.seq->is_group = true;
        if (!value_append(r, out, group)) return false;
        begin = i + 1;
    }
    return true;
}

/* The smallest (or greatest) item; of equal ones the first. */
static bool extreme(tmpl_run *r, value on, const value *args, oper op, value *out) {
    sort_rules rules = {.attribute = args[1], .fallback = {.kind = V_MISSING}};
    bool is_sensitive, is_done, is_better;
    value parts, item, key, best = {.kind = V_MISSING};
    iter it;
    if (!truth_of(r, args[0], &is_sensitive) || !tmpl_attr_path(r, args[1], &parts) || !iter_begin(r, on, &it))
        return false;
    rules.ignore_case = !is_sensitive;
    for (;;) {
        if (!iter_next(r, &it, &item, &is_done)) return false;
        if (is_done) break;
        if (!tmpl_sort_key(r, item, &rules, &parts, &key)) return false;
        is_better = best.kind == V_MISSING;
        if (!is_better && !value_order(r, op, key, best, &is_better)) return false;
        if (is_better) best = key, *out = item;
    }
    if (best.kind == V_MISSING) *out = value_undefined(r, "No aggregated item, sequence was empty.");
    return true;
}

static bool filter_min(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return extreme(r, on, args, OP_LT, out);
}
static bool filter_max(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return extreme(r, on, args, OP_GT, out);
}

static bool filter_sum(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value parts, item;
    iter it;
    bool is_done;
    const value none = {.kind = V_MISSING};
    if (!tmpl_attr_path(r, args[0], &parts)) return false;
    *out = args[1].kind == V_MISSING ? value_int(0) : args[1];
    if (out->kind == V_STR) return tmpl_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!iter_begin(r, on, &it)) return false;
    for (;;) {
        if (!iter_next(r, &it, &item, &is_done)) return false;
        if (is_done) return true;
        if (!tmpl_attr_walk(r, item, parts, none, &item) || !value_binary(r, OP_ADD, *out, item, out)) return false;
    }
}

static bool filter_join(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    value parts, item, separator;
    iter it;
    bool is_done = false, is_right = true;
    strbuf text = {0};
    const value none = {.kind = V_MISSING};
    if (!tmpl_attr_path(r, args[1], &parts)) return false;
    if (args[0].kind == V_MISSING ? !value_borrow(r, (span){"", 0}, &separator)
                                  : !value_to_text(r, args[0], &separator))
        return false;
    if (!iter_begin(r, on, &it)) return false;
    for (size_t i = 0; is_right; i++) {
        is_right = iter_next(r, &it, &item, &is_done);
        if (!is_right || is_done) break;
        if (i) strbuf_add(&text, separator.str->at, separator.str->bytes);
        is_right = tmpl_attr_walk(r, item, parts, none, &item) && value_str(r, &text, item);
    }
    if (is_right) return tmpl_take_text(r, &text, out);
    strbuf_free(&text);
    return false;
}

const filter_row tmpl_filters_seq[] = {
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"reverse", "", filter_reverse},
    {"sort", "reverse= case_sensitive= attribute=", filter_sort},
    {"dictsort", "case_sensitive= by= reverse=", filter_dictsort},
    {"groupby", "attribute default= case_sensitive=", filter_groupby},
    {"min", "case_sensitive= attribute=", filter_min},
    {"max", "case_sensitive= attribute=", filter_max},
    {"sum", "attribute= start=", filter_sum},
    {"join", "d= attribute=", filter_join},
    {0},
};
