/* tmpl_filters_lazy.c — filters that give generators: map, select and its kin, unique, batch, slice, items.
 *
 * Nothing of them runs before somebody walks the result: a wrong filter name in map() is an error only then, and a
 * generator that nobody walks is no error at all. A generator is always true, even if nothing will come out. */
#include "tmpl_sort.h"
#include "tmpl_tables.h"

/* A copy of a call's arguments without the first `skip`. */
static bool keep_call(tmpl_run *r, const call_args *call, size_t skip, const call_args **out) {
    call_args *kept = tmpl_get(r, 1, sizeof *kept);
    if (!kept) return false;
    skip = skip < call->count ? skip : call->count;
    *kept = (call_args){
        .at = call->count > skip ? call->at + skip : NULL, .count = call->count - skip, .named = call->named};
    *out = kept;
    return true;
}

/* Begins walking the source; if that is false (empty, none), the generator is over at once, as Jinja's `if value`. */
static bool start(tmpl_run *r, vgen *gen, bool *is_done) {
    bool truth;
    *is_done = false;
    if (gen->is_started) return true;
    gen->is_started = true;
    if (!value_truth(r, gen->source.on, &truth)) return false;
    *is_done = !truth;
    return !truth || iter_begin(r, gen->source.on, &gen->source);
}

/* ---- map ---- */

static bool prepare_map(tmpl_run *r, vgen *gen) {
    const call_args *call = gen->call;
    static const char *const known[] = {"attribute", "default"};
    if (call->count || !call->named) {
        if (!call->count) return tmpl_fail(r, "map requires a filter argument");
        uint64_t hash;
        if (!value_hash(r, call->at[0], &hash)) return false;
        gen->row = call->at[0].kind == V_STR ? tmpl_filter_find(value_span(call->at[0])) : NULL;
        if (gen->row) return keep_call(r, call, 1, &gen->call);
        return call->at[0].kind == V_STR
                   ? tmpl_fail(r, "No filter named '%.*s'.", TEXT_ARG(call->at[0].str))
                   : tmpl_fail(r, "map: the filter's name must be a text, not %s", value_type(call->at[0]));
    }
    value found[2] = {{.kind = V_MISSING}, {.kind = V_MISSING}};
    for (size_t i = 0; i < call->named->count; i++) {
        bool is_known = false;
        for (int k = 0; k < 2; k++)
            if (span_is(value_span(call->named->at[i].key), known[k]))
                found[k] = call->named->at[i].val, is_known = true;
        if (!is_known) return tmpl_fail(r, "Unexpected keyword argument '%.*s'", TEXT_ARG(call->named->at[i].key.str));
    }
    if (found[0].kind == V_MISSING) return tmpl_fail(r, "map requires a filter argument");
    gen->args[1] = found[1];
    return tmpl_attr_path(r, found[0], &gen->args[0]);
}

static bool next_map(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    value item;
    const bool is_first = !gen->is_started;
    if (!start(r, gen, is_done) || *is_done) return r->status == QP_OK;
    if (is_first && !prepare_map(r, gen)) return false;
    if (!iter_next(r, &gen->source, &item, is_done)) return false;
    if (*is_done) return true;
    if (gen->row) return tmpl_filter_call(r, gen->row, item, gen->call, out);
    return tmpl_attr_walk(r, item, gen->args[0], gen->args[1], out);
}

static bool filter_map(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    return value_generator(r, next_map, on, &gen, out) && keep_call(r, call, 0, &gen->call);
}

/* ---- select, reject, selectattr, rejectattr ---- */

static bool prepare_select(tmpl_run *r, vgen *gen) {
    const call_args *call = gen->call;
    const size_t first = gen->is_flag2; /* the attribute comes before the test */
    if (gen->is_flag2 && !call->count) return tmpl_fail(r, "Missing parameter for attribute name");
    if (gen->is_flag2 && !tmpl_attr_path(r, call->at[0], &gen->args[0])) return false;
    if (call->count <= first) return true;
    uint64_t hash;
    const value name = call->at[first];
    if (!value_hash(r, name, &hash)) return false;
    gen->row = name.kind == V_STR ? tmpl_test_find(value_span(name)) : NULL;
    if (gen->row) return keep_call(r, call, first + 1, &gen->call);
    return name.kind == V_STR ? tmpl_fail(r, "No test named '%.*s'.", TEXT_ARG(name.str))
                              : tmpl_fail(r, "the test's name must be a text, not %s", value_type(name));
}

static bool next_select(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    const bool is_first = !gen->is_started;
    if (!start(r, gen, is_done) || *is_done) return r->status == QP_OK;
    if (is_first && !prepare_select(r, gen)) return false;
    for (;;) {
        const value none = {.kind = V_MISSING};
        value probe;
        bool holds;
        if (!iter_next(r, &gen->source, out, is_done)) return false;
        if (*is_done) return true;
        probe = *out;
        if (gen->is_flag2 && !tmpl_attr_walk(r, *out, gen->args[0], none, &probe)) return false;
        if (gen->row ? !tmpl_test_call(r, gen->row, probe, gen->call, &holds) : !value_truth(r, probe, &holds))
            return false;
        if (holds == gen->is_flag) return true;
    }
}

static bool make_select(tmpl_run *r, value on, const call_args *call, bool wanted, bool by_attribute, value *out) {
    vgen *gen;
    if (!value_generator(r, next_select, on, &gen, out)) return false;
    gen->is_flag = wanted;
    gen->is_flag2 = by_attribute;
    return keep_call(r, call, 0, &gen->call);
}

static bool filter_select(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_select(r, on, call, true, false, out);
}
static bool filter_reject(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_select(r, on, call, false, false, out);
}
static bool filter_selectattr(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_select(r, on, call, true, true, out);
}
static bool filter_rejectattr(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    return make_select(r, on, call, false, true, out);
}

/* ---- unique ---- */

static bool next_unique(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    sort_rules rules = {.fallback = {.kind = V_MISSING}, .ignore_case = !gen->is_flag};
    value key;
    if (!gen->is_started) {
        gen->is_started = true;
        if (!tmpl_attr_path(r, gen->args[0], &gen->args[1]) || !value_dict(r, &gen->args[2])) return false;
        if (!iter_begin(r, gen->source.on, &gen->source)) return false;
    }
    for (;;) {
        if (!iter_next(r, &gen->source, out, is_done)) return false;
        if (*is_done) return true;
        if (!tmpl_sort_key(r, *out, &rules, &gen->args[1], &key)) return false;
        const size_t before = gen->args[2].dict->count;
        if (!tmpl_dict_set(r, gen->args[2].dict, key, value_none())) return false;
        if (gen->args[2].dict->count > before) return true;
    }
}

static bool filter_unique(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    bool is_sensitive = false;
    if (args[0].kind != V_MISSING && !value_truth(r, args[0], &is_sensitive)) return false;
    if (!value_generator(r, next_unique, on, &gen, out)) return false;
    gen->is_flag = is_sensitive;
    gen->args[0] = args[1];
    return true;
}

/* ---- batch, slice ---- */

static bool next_batch(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    value item;
    bool is_end = false;
    if (!gen->is_started) {
        gen->is_started = true;
        if (!iter_begin(r, gen->source.on, &gen->source)) return false;
        gen->args[1] = (value){.kind = V_MISSING};
    }
    if (!value_seq(r, V_LIST, 0, out)) return false;
    if (gen->args[1].kind != V_MISSING) { /* read when the last batch was full */
        if (!value_append(r, out, gen->args[1])) return false;
        gen->args[1] = (value){.kind = V_MISSING};
    }
    while (!is_end) {
        if (!iter_next(r, &gen->source, &item, &is_end)) return false;
        if (is_end) break;
        bool is_full;
        if (!value_equal(r, value_int((int64_t)out->seq->count), gen->args[2], &is_full)) return false;
        if (is_full) return gen->args[1] = item, true;
        if (!value_append(r, out, item)) return false;
    }
    *is_done = !out->seq->count;
    if (*is_done || !value_given(gen->args[0])) return true;
    int64_t size;
    if (!tmpl_want_int(r, gen->args[2], &size)) return false;
    while ((int64_t)out->seq->count < size)
        if (!value_append(r, out, gen->args[0])) return false;
    return true;
}

static bool filter_batch(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    if (!value_generator(r, next_batch, on, &gen, out)) return false;
    gen->args[0] = args[1];
    gen->args[2] = args[0];
    return true;
}

static bool prepare_slice(tmpl_run *r, vgen *gen) {
    gen->is_started = true;
    if (!value_to_list(r, gen->source.on, &gen->args[1]) || !tmpl_want_int(r, gen->args[2], &gen->limit)) return false;
    return gen->limit || tmpl_fail(r, "integer division or modulo by zero");
}

static bool next_slice(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    if (!gen->is_started && !prepare_slice(r, gen)) return false;
    const int64_t number = gen->count++, slices = gen->limit;
    if ((*is_done = number >= slices)) return true;
    const int64_t length = (int64_t)gen->args[1].seq->count, size = length / slices, longer = length % slices;
    const int64_t begin = number * size + (number < longer ? number : longer);
    const int64_t end = begin + size + (number < longer);
    if (!value_slice(r, gen->args[1], value_int(begin), value_int(end), value_none(), out)) return false;
    return !value_given(gen->args[0]) || number < longer || value_append(r, out, gen->args[0]);
}

static bool filter_slice(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    if (!value_generator(r, next_slice, on, &gen, out)) return false;
    gen->args[0] = args[1];
    gen->args[2] = args[0];
    return true;
}

/* ---- items ---- */

static bool next_item(tmpl_run *r, vgen *gen, value *out, bool *is_done) {
    const value on = gen->source.on;
    if ((*is_done = on.kind == V_UNDEFINED)) return true;
    if (on.kind != V_DICT) return tmpl_fail(r, "Can only get item pairs from a mapping.");
    const size_t at = (size_t)gen->count++;
    if ((*is_done = at >= on.dict->count)) return true;
    return value_pair(r, on.dict->at[at].key, on.dict->at[at].val, out);
}

static bool filter_items(tmpl_run *r, value on, const value *args, const call_args *call, value *out) {
    vgen *gen;
    return value_generator(r, next_item, on, &gen, out);
}

const filter_row tmpl_filters_lazy[] = {
    {"map", NULL, filter_map},
    {"select", NULL, filter_select},
    {"reject", NULL, filter_reject},
    {"selectattr", NULL, filter_selectattr},
    {"rejectattr", NULL, filter_rejectattr},
    {"unique", "case_sensitive= attribute=", filter_unique},
    {"batch", "linecount fill_with=", filter_batch},
    {"slice", "slices fill_with=", filter_slice},
    {"items", "", filter_items},
    {0},
};
