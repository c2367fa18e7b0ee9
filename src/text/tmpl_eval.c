/* tmpl_eval.c — expressions: the tree is walked once per evaluation, a function per kind of node.
 *
 * Names were given their slots by tmpl_scope.c, filters and tests their rows by the parser, so nothing is looked up by
 * name here but attributes and items. */
#include "tmpl_tables.h"

static bool eval_items(tmpl_run *r, const node *n, value *out) {
    if (!value_seq(r, n->kind == N_LIST ? V_LIST : V_TUPLE, (size_t)n->list.count, out)) return false;
    for (int i = 0; i < n->list.count; i++)
        if (!tmpl_value(r, n->list.at[i], &out->seq->at[i])) return false;
    return true;
}

static bool eval_dict(tmpl_run *r, const node *n, value *out) {
    if (!value_dict(r, out)) return false;
    for (int i = 0; i < n->list.count; i += 2) {
        value key, val;
        if (!tmpl_value(r, n->list.at[i], &key) || !tmpl_value(r, n->list.at[i + 1], &val)) return false;
        r->at = n->at;
        if (!tmpl_dict_set(r, out->dict, key, val)) return false;
    }
    return true;
}

static bool eval_unary(tmpl_run *r, const node *n, value *out) {
    value a;
    bool truth;
    if (n->op == OP_NOT) {
        if (!tmpl_holds(r, n->a, &truth)) return false;
        *out = value_bool(!truth);
        return true;
    }
    if (!tmpl_value(r, n->a, &a)) return false;
    r->at = n->at;
    return value_unary(r, (oper)n->op, a, out);
}

static bool eval_binary(tmpl_run *r, const node *n, value *out) {
    value a, b;
    if (!tmpl_value(r, n->a, &a) || !tmpl_value(r, n->b, &b)) return false;
    r->at = n->at;
    return value_binary(r, (oper)n->op, a, b, out);
}

static bool eval_logic(tmpl_run *r, const node *n, value *out) {
    bool truth;
    if (!tmpl_value(r, n->a, out) || !value_truth(r, *out, &truth)) return false;
    if (truth == (n->kind == N_OR)) return true;
    return tmpl_value(r, n->b, out);
}

static bool compare(tmpl_run *r, oper op, value a, value b, bool *out) {
    switch (op) {
    case OP_EQ:
        return value_equal(r, a, b, out);
    case OP_NE:
        if (!value_equal(r, a, b, out)) return false;
        *out = !*out;
        return true;
    case OP_IN:
        return value_contains(r, a, b, out);
    case OP_NOT_IN:
        if (!value_contains(r, a, b, out)) return false;
        *out = !*out;
        return true;
    default:
        return value_order(r, op, a, b, out);
    }
}

/* a < b < c: each side is evaluated once, and no further than the first comparison that fails. */
static bool eval_compare(tmpl_run *r, const node *n, value *out) {
    value left, right;
    bool holds = true;
    if (!tmpl_value(r, n->a, &left)) return false;
    for (int i = 0; holds && i < n->list.count; i++) {
        if (!tmpl_value(r, n->list.at[i]->a, &right)) return false;
        r->at = n->list.at[i]->at;
        if (!compare(r, (oper)n->list.at[i]->op, left, right, &holds)) return false;
        left = right;
    }
    *out = value_bool(holds);
    return true;
}

/* a ~ b ~ c: as texts; a part that is Markup makes no difference here. */
static bool eval_concat(tmpl_run *r, const node *n, value *out) {
    value part;
    for (int i = 0; i < n->list.count; i++) {
        if (!tmpl_value(r, n->list.at[i], &part) || !value_to_text(r, part, &part)) return false;
        if (i == 0)
            *out = part;
        else if (!value_binary(r, OP_ADD, *out, part, out))
            return false;
    }
    return true;
}

static bool eval_condition(tmpl_run *r, const node *n, value *out) {
    bool truth;
    if (!tmpl_value(r, n->b, out) || !value_truth(r, *out, &truth)) return false;
    if (truth) return tmpl_value(r, n->a, out);
    if (n->c) return tmpl_value(r, n->c, out);
    r->at = n->at;
    *out = value_undefined(r, "the inline if-expression evaluated to false and no else section was defined.");
    return true;
}

static bool get_attribute(tmpl_run *r, const node *n, value on, value *out) {
    if ((on.kind == V_DICT || on.kind == V_NAMESPACE) && n->is_flag) { /* no attribute of theirs has this name */
        const vpair *found = tmpl_dict_find_text(r, on.dict, n->text);
        if (found) return *out = found->val, true;
    }
    return value_getattr(r, on, n->text, out);
}

static bool eval_getattr(tmpl_run *r, const node *n, value *out) {
    value on;
    if (!tmpl_value(r, n->a, &on)) return false;
    r->at = n->at;
    return get_attribute(r, n, on, out);
}

static bool eval_optional(tmpl_run *r, const node *n, value *out) {
    *out = value_none();
    return !n || tmpl_value(r, n, out);
}

static bool eval_getitem(tmpl_run *r, const node *n, value *out) {
    value on, key, stop, step;
    if (!tmpl_value(r, n->a, &on)) return false;
    if (n->b->kind == N_SLICE) {
        if (!eval_optional(r, n->b->a, &key) || !eval_optional(r, n->b->b, &stop) || !eval_optional(r, n->b->c, &step))
            return false;
        r->at = n->at;
        return value_slice(r, on, key, stop, step, out);
    }
    if (!tmpl_value(r, n->b, &key)) return false;
    r->at = n->at;
    if (on.kind == V_DICT && key.kind == V_STR) {
        const vpair *found = tmpl_dict_find_text(r, on.dict, key.str);
        if (found) return *out = found->val, true;
    }
    return value_getitem(r, on, key, out);
}

/* The method that `on.name` is, NULL if it is something else. No data of these kinds hides a method. */
static const void *method_of(const node *attr, value on) {
    const method_rows *rows = attr->row;
    return !rows               ? NULL
           : on.kind == V_DICT ? rows->of_dict
           : on.kind == V_STR  ? rows->of_text
           : on.kind == V_LIST ? rows->of_list
                               : NULL;
}

/* a.b(...): a method is called without making a value of it. */
static bool eval_method_call(tmpl_run *r, const node *n, value *out) {
    value on, callee;
    call_args args;
    if (!tmpl_spend(r, 1) || !tmpl_value(r, n->a->a, &on)) return false;
    r->at = n->a->at;
    const vmethod method = {.row = method_of(n->a, on), .on = on};
    if (!method.row && !get_attribute(r, n->a, on, &callee)) return false;
    if (!tmpl_eval_args(r, n, &args)) return false;
    r->at = n->at;
    return method.row ? tmpl_method_call(r, &method, &args, out) : tmpl_call(r, callee, &args, out);
}

static bool eval_call(tmpl_run *r, const node *n, value *out) {
    value callee;
    call_args args;
    if (n->a->kind == N_GETATTR) return eval_method_call(r, n, out);
    if (!tmpl_value(r, n->a, &callee) || !tmpl_eval_args(r, n, &args)) return false;
    r->at = n->at;
    return tmpl_call(r, callee, &args, out);
}

static bool eval_filter(tmpl_run *r, const node *n, value *out) {
    value on;
    call_args args;
    if (!n->row) {
        r->at = n->at;
        return tmpl_fail(r, "No filter named '%.*s' found.", TEXT_ARG(n->text));
    }
    if (!tmpl_value(r, n->a, &on) || !tmpl_eval_args(r, n, &args)) return false;
    r->at = n->at;
    return tmpl_filter_call(r, n->row, on, &args, out);
}

static bool eval_test(tmpl_run *r, const node *n, value *out) {
    value on;
    call_args args;
    bool holds;
    if (!n->row) {
        r->at = n->at;
        return tmpl_fail(r, "No test named '%.*s' found.", TEXT_ARG(n->text));
    }
    if (!tmpl_value(r, n->a, &on) || !tmpl_eval_args(r, n, &args)) return false;
    r->at = n->at;
    if (!tmpl_test_call(r, n->row, on, &args, &holds)) return false;
    *out = value_bool(holds);
    return true;
}

static bool eval_lone_slice(tmpl_run *r, const node *n, value *out) {
    return tmpl_fail(r, "slices are only known as the whole of an index");
}

typedef bool eval_fn(tmpl_run *r, const node *n, value *out);
static eval_fn *const kinds[] = {
    [N_TUPLE] = eval_items,      [N_LIST] = eval_items,     [N_DICT] = eval_dict,       [N_UNARY] = eval_unary,
    [N_BINARY] = eval_binary,    [N_AND] = eval_logic,      [N_OR] = eval_logic,        [N_COMPARE] = eval_compare,
    [N_CONCAT] = eval_concat,    [N_COND] = eval_condition, [N_GETATTR] = eval_getattr, [N_GETITEM] = eval_getitem,
    [N_SLICE] = eval_lone_slice, [N_CALL] = eval_call,      [N_FILTER] = eval_filter,   [N_TEST] = eval_test,
};

bool tmpl_eval(tmpl_run *r, const node *n, value *out) {
    if (n->kind == N_CONST || n->kind == N_NAME) return tmpl_value(r, n, out);
    r->at = n->at;
    if (!tmpl_spend(r, 1)) return false;
    if (n->kind == N_DATA) return *out = n->val, true;
    const bool is_right = tmpl_enter(r) && kinds[n->kind](r, n, out);
    tmpl_leave(r);
    return is_right;
}

bool tmpl_holds(tmpl_run *r, const node *n, bool *out) {
    value v;
    if (!tmpl_value(r, n, &v)) return false;
    if (v.kind == V_BOOL) return *out = v.truth, true;
    return value_truth(r, v, out);
}
