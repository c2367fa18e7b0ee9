/* tmpl_eval.c — expressions: the tree is walked once per evaluation, a function per kind of node.
 *
 * Names were given their slots by tmpl_scope.c, filters and tests their rows by the parser, so nothing is looked up by
 * name here but attributes and items. */
#include "tmpl_tables.h"

value *tmpl_slot(tmpl_run *r, var_ref ref) {
    activation *vars = r->vars;
    for (unsigned i = 0; i < ref.hops; i++) vars = vars->outer;
    return &vars->slots[ref.slot];
}

static bool eval_name(tmpl_run *r, const node *n, value *out) {
    *out = *tmpl_slot(r, n->ref);
    if (out->kind == V_MISSING) *out = value_undefined_name(r, n->text);
    return true;
}

static bool eval_items(tmpl_run *r, const node *n, value *out) {
    if (!value_seq(r, n->kind == N_LIST ? V_LIST : V_TUPLE, (size_t)n->list.count, out)) return false;
    for (int i = 0; i < n->list.count; i++)
        if (!tmpl_eval(r, n->list.at[i], &out->seq->at[i])) return false;
    return true;
}

static bool eval_dict(tmpl_run *r, const node *n, value *out) {
    if (!value_dict(r, out)) return false;
    for (int i = 0; i < n->list.count; i += 2) {
        value key, val;
        if (!tmpl_eval(r, n->list.at[i], &key) || !tmpl_eval(r, n->list.at[i + 1], &val)) return false;
        r->at = n->at;
        if (!tmpl_dict_set(r, out->dict, key, val)) return false;
    }
    return true;
}

static bool eval_unary(tmpl_run *r, const node *n, value *out) {
    value a;
    bool truth;
    if (!tmpl_eval(r, n->a, &a)) return false;
    r->at = n->at;
    if (n->op != OP_NOT) return value_unary(r, (oper)n->op, a, out);
    if (!value_truth(r, a, &truth)) return false;
    *out = value_bool(!truth);
    return true;
}

static bool eval_binary(tmpl_run *r, const node *n, value *out) {
    value a, b;
    if (!tmpl_eval(r, n->a, &a) || !tmpl_eval(r, n->b, &b)) return false;
    r->at = n->at;
    return value_binary(r, (oper)n->op, a, b, out);
}

static bool eval_logic(tmpl_run *r, const node *n, value *out) {
    bool truth;
    if (!tmpl_eval(r, n->a, out) || !value_truth(r, *out, &truth)) return false;
    if (truth == (n->kind == N_OR)) return true;
    return tmpl_eval(r, n->b, out);
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
    if (!tmpl_eval(r, n->a, &left)) return false;
    for (int i = 0; holds && i < n->list.count; i++) {
        if (!tmpl_eval(r, n->list.at[i]->a, &right)) return false;
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
        if (!tmpl_eval(r, n->list.at[i], &part) || !value_to_text(r, part, &part)) return false;
        if (i == 0)
            *out = part;
        else if (!value_binary(r, OP_ADD, *out, part, out))
            return false;
    }
    return true;
}

static bool eval_condition(tmpl_run *r, const node *n, value *out) {
    bool truth;
    if (!tmpl_eval(r, n->b, out) || !value_truth(r, *out, &truth)) return false;
    if (truth) return tmpl_eval(r, n->a, out);
    if (n->c) return tmpl_eval(r, n->c, out);
    r->at = n->at;
    *out = value_undefined(r, "the inline if-expression evaluated to false and no else section was defined.");
    return true;
}

static bool eval_getattr(tmpl_run *r, const node *n, value *out) {
    value on;
    if (!tmpl_eval(r, n->a, &on)) return false;
    r->at = n->at;
    if (on.kind == V_DICT && n->is_flag) { /* no attribute of dictionaries has this name */
        const vpair *found = tmpl_dict_find_text(on.dict, n->text);
        if (found) return *out = found->val, true;
    }
    return value_getattr(r, on, n->text, out);
}

static bool eval_optional(tmpl_run *r, const node *n, value *out) {
    *out = value_none();
    return !n || tmpl_eval(r, n, out);
}

static bool eval_getitem(tmpl_run *r, const node *n, value *out) {
    value on, key, stop, step;
    if (!tmpl_eval(r, n->a, &on)) return false;
    if (n->b->kind == N_SLICE) {
        if (!eval_optional(r, n->b->a, &key) || !eval_optional(r, n->b->b, &stop) || !eval_optional(r, n->b->c, &step))
            return false;
        r->at = n->at;
        return value_slice(r, on, key, stop, step, out);
    }
    if (!tmpl_eval(r, n->b, &key)) return false;
    r->at = n->at;
    return value_getitem(r, on, key, out);
}

static bool eval_call(tmpl_run *r, const node *n, value *out) {
    value callee;
    call_args args;
    if (!tmpl_eval(r, n->a, &callee) || !tmpl_eval_args(r, n, &args)) return false;
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
    if (!tmpl_eval(r, n->a, &on) || !tmpl_eval_args(r, n, &args)) return false;
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
    if (!tmpl_eval(r, n->a, &on) || !tmpl_eval_args(r, n, &args)) return false;
    r->at = n->at;
    if (!tmpl_test_call(r, n->row, on, &args, &holds)) return false;
    *out = value_bool(holds);
    return true;
}

static bool eval_kind(tmpl_run *r, const node *n, value *out) {
    switch (n->kind) {
    case N_TUPLE:
    case N_LIST:
        return eval_items(r, n, out);
    case N_DICT:
        return eval_dict(r, n, out);
    case N_UNARY:
        return eval_unary(r, n, out);
    case N_BINARY:
        return eval_binary(r, n, out);
    case N_AND:
    case N_OR:
        return eval_logic(r, n, out);
    case N_COMPARE:
        return eval_compare(r, n, out);
    case N_CONCAT:
        return eval_concat(r, n, out);
    case N_COND:
        return eval_condition(r, n, out);
    case N_GETATTR:
        return eval_getattr(r, n, out);
    case N_GETITEM:
        return eval_getitem(r, n, out);
    case N_CALL:
        return eval_call(r, n, out);
    case N_FILTER:
        return eval_filter(r, n, out);
    case N_TEST:
        return eval_test(r, n, out);
    default:
        return tmpl_fail(r, "slices are only known as the whole of an index");
    }
}

bool tmpl_eval(tmpl_run *r, const node *n, value *out) {
    r->at = n->at;
    if (!tmpl_spend(r, 1)) return false;
    if (n->kind == N_CONST || n->kind == N_DATA) return *out = n->val, true;
    if (n->kind == N_NAME) return eval_name(r, n, out);
    const bool is_right = tmpl_enter(r) && eval_kind(r, n, out);
    tmpl_leave(r);
    return is_right;
}
