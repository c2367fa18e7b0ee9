/* tmpl_pprint.c — the pprint filter for what fits on one line: repr() with the keys of dictionaries sorted. */
#include "tmpl_pprint.h"
#include "tmpl_sort.h"

static bool sorted_copy(tmpl_run *r, value v, value *out);

static bool copy_seq(tmpl_run *r, value v, value *out) {
    if (!value_seq(r, (value_kind)v.kind, v.seq->count, out)) return false;
    for (size_t i = 0; i < v.seq->count; i++)
        if (!tmpl_spend(r, 1) || !sorted_copy(r, v.seq->at[i], &out->seq->at[i])) return false;
    return true;
}

static bool copy_dict(tmpl_run *r, value v, value *out) {
    vview view = {.dict = v.dict, .kind = VIEW_ITEMS};
    const sort_rules rules = {.attribute = value_int(0), .fallback = {.kind = V_MISSING}};
    value pairs;
    if (!tmpl_sort(r, (value){.kind = V_VIEW, .view = &view}, &rules, &pairs, NULL) || !value_dict(r, out))
        return false;
    for (size_t i = 0; i < pairs.seq->count; i++) {
        const value *pair = pairs.seq->at[i].seq->at;
        value val;
        if (!sorted_copy(r, pair[1], &val) || !tmpl_dict_set(r, out->dict, pair[0], val)) return false;
    }
    return true;
}

static bool sorted_copy(tmpl_run *r, value v, value *out) {
    *out = v;
    if (v.kind != V_DICT && !value_is_seq(v)) return true;
    const bool is_right = tmpl_enter(r) && (v.kind == V_DICT ? copy_dict(r, v, out) : copy_seq(r, v, out));
    tmpl_leave(r);
    return is_right;
}

bool tmpl_pprint(tmpl_run *r, value v, value *out) {
    strbuf text = {0};
    value sorted;
    if (!sorted_copy(r, v, &sorted)) return false;
    if (!value_repr(r, &text, sorted)) return strbuf_free(&text), false;
    if (!tmpl_take_text(r, &text, out)) return false;
    if (tmpl_text_points(out->str) <= 80) return true;
    return tmpl_fail_as(r, QP_UNSUPPORTED,
                        "filter 'pprint' is only supported for what fits into 80 characters; tojson has no such limit");
}
