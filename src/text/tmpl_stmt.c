/* tmpl_stmt.c — statements. A body answers how it ended: went on, break, continue or failed.
 *
 * Output goes to r->out, which is the caller's buffer at first and another one while a body's text is caught. */
#include "tmpl_tables.h"

/* A variable of the context, which hides a global function. Without blocks the answer stays the same throughout a
 * rendering, so it is remembered. */
static value find_variable(tmpl_run *r, const frame_load *load) {
    const vdict *const where[] = {r->block_vars, r->exported, r->context};
    value *known = r->known ? &r->known[load->read] : NULL;
    if (known && known->kind != V_MISSING) return *known;
    for (int i = 0; i < 3; i++) {
        const vpair *found = where[i] ? tmpl_dict_find_text(r, where[i], load->name) : NULL;
        if (!found) continue;
        if (known) *known = found->val;
        return found->val;
    }
    const struct global_row *row = tmpl_global_find(load->name);
    const value function = {.kind = row ? V_FUNCTION : V_MISSING, .function = row};
    if (known) *known = row ? function : value_undefined_name(r, load->name);
    return function;
}

bool tmpl_enter_frame(tmpl_run *r, const frame_info *frame) {
    for (int i = 0; i < frame->n_loads; i++) {
        const frame_load *l = &frame->loads[i];
        value *to = tmpl_slot(r, l->to);
        if (l->kind == LOAD_RESOLVE)
            *to = find_variable(r, l);
        else if (l->kind == LOAD_ALIAS)
            *to = *tmpl_slot(r, l->from);
        else
            *to = (value){.kind = V_MISSING};
    }
    return tmpl_spend(r, (uint64_t)frame->n_loads);
}

/* ---- assignment ---- */

static bool assign_name(tmpl_run *r, const node *target, value v) {
    const value key = {.kind = V_STR, .str = (vstr *)(uintptr_t)target->text};
    *tmpl_slot(r, target->ref) = v;
    return !target->is_flag || tmpl_dict_set(r, r->exported, key, v);
}

static bool assign_attribute(tmpl_run *r, const node *target, value v) {
    const value on = *tmpl_slot(r, target->ref);
    const value key = {.kind = V_STR, .str = (vstr *)(uintptr_t)target->attr};
    if (on.kind != V_NAMESPACE) return tmpl_fail(r, "cannot assign attribute on non-namespace object");
    if (target->attr->bytes && target->attr->at[0] == '_')
        return tmpl_fail(r,
                         "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '%.*s'.",
                         TEXT_ARG(target->attr));
    return tmpl_dict_set(r, on.dict, key, v);
}

static bool unpack(tmpl_run *r, const node *target, value v) {
    const int wanted = target->list.count;
    iter it;
    if (!value_is_iterable(v)) return tmpl_fail(r, "cannot unpack non-iterable %s object", value_type(v));
    if (!iter_begin(r, v, &it)) return false;
    value *items = tmpl_get(r, (size_t)wanted, sizeof *items), extra;
    bool is_done = false;
    if (!items) return false;
    for (int i = 0; i < wanted; i++) {
        if (!iter_next(r, &it, &items[i], &is_done)) return false;
        if (is_done) return tmpl_fail(r, "not enough values to unpack (expected %d, got %d)", wanted, i);
    }
    if (!iter_next(r, &it, &extra, &is_done)) return false;
    if (!is_done) return tmpl_fail(r, "too many values to unpack (expected %d)", wanted);
    for (int i = 0; i < wanted; i++)
        if (!tmpl_assign(r, target->list.at[i], items[i])) return false;
    return true;
}

bool tmpl_assign(tmpl_run *r, const node *target, value v) {
    switch (target->kind) {
    case N_NAME:
        return assign_name(r, target, v);
    case N_NSREF:
        return assign_attribute(r, target, v);
    default:
        return unpack(r, target, v);
    }
}

/* Jinja checks all namespaces of a target before it evaluates what is assigned. */
static bool check_namespaces(tmpl_run *r, const node *target) {
    if (target->kind == N_NSREF && tmpl_slot(r, target->ref)->kind != V_NAMESPACE)
        return tmpl_fail(r, "cannot assign attribute on non-namespace object");
    for (int i = 0; i < target->list.count; i++)
        if (!check_namespaces(r, target->list.at[i])) return false;
    return true;
}

static flow done(bool is_right) { return is_right ? FLOW_GO : FLOW_FAIL; }

static flow exec_set(tmpl_run *r, const node *n) {
    value v;
    r->at = n->at;
    if ((n->a->kind != N_NAME && !check_namespaces(r, n->a)) || !tmpl_value(r, n->b, &v)) return FLOW_FAIL;
    r->at = n->at;
    return done(tmpl_put(r, n->a, v));
}

/* ---- output ---- */

static bool write_value(tmpl_run *r, value v) {
    strbuf text = {0};
    if (v.kind == V_STR) return tmpl_write(r, value_span(v));
    if (v.kind == V_UNDEFINED) return true;
    const bool is_right =
        value_str(r, &text, v) && tmpl_buffer_ok(r, &text) && tmpl_write(r, (span){text.at, text.bytes});
    strbuf_free(&text);
    return is_right;
}

/* What filter and call blocks give must be a text already. */
static bool write_text(tmpl_run *r, value v) {
    if (v.kind != V_STR) return tmpl_fail(r, "sequence item: expected str instance, %s found", value_type(v));
    return tmpl_write(r, value_span(v));
}

static flow exec_output(tmpl_run *r, const node *n) {
    value v;
    for (int i = 0; i < n->list.count; i++)
        if (!tmpl_value(r, n->list.at[i], &v) || !write_value(r, v)) return FLOW_FAIL;
    return FLOW_GO;
}

flow tmpl_capture(tmpl_run *r, const node_list *body, value *out) {
    strbuf *before = r->out, text = {0};
    r->out = &text;
    const flow how = tmpl_exec(r, body);
    r->out = before;
    if (how == FLOW_GO) return done(tmpl_take_text(r, &text, out));
    strbuf_free(&text);
    return how;
}

/* The filters of a set or filter block, innermost first, on the text of its body. */
static bool apply_filters(tmpl_run *r, const node *n, value *text) {
    call_args args;
    value on = *text;
    if (!tmpl_enter(r)) return tmpl_leave(r), false;
    bool is_right = (!n->a || apply_filters(r, n->a, &on)) && tmpl_eval_args(r, n, &args);
    r->at = n->at;
    if (is_right && !n->row) is_right = tmpl_fail(r, "No filter named '%.*s' found.", TEXT_ARG(n->text));
    is_right = is_right && tmpl_filter_call(r, n->row, on, &args, text);
    tmpl_leave(r);
    return is_right;
}

static flow exec_set_block(tmpl_run *r, const node *n) {
    value text;
    if (!tmpl_enter_frame(r, n->frame)) return FLOW_FAIL;
    const flow how = tmpl_capture(r, &n->list, &text);
    if (how != FLOW_GO) return how;
    if (n->b && !apply_filters(r, n->b, &text)) return FLOW_FAIL;
    return done(tmpl_assign(r, n->a, text));
}

static flow exec_filter_block(tmpl_run *r, const node *n) {
    value text;
    if (!tmpl_enter_frame(r, n->frame)) return FLOW_FAIL;
    const flow how = tmpl_capture(r, &n->list, &text);
    if (how != FLOW_GO) return how;
    return done(apply_filters(r, n->a, &text) && write_text(r, text));
}

/* ---- the rest ---- */

static flow exec_if(tmpl_run *r, const node *n) {
    bool holds;
    if (!tmpl_holds(r, n->a, &holds)) return FLOW_FAIL;
    if (holds) return tmpl_exec(r, &n->list);
    for (int i = 0; i < n->list3.count; i++) {
        if (!tmpl_holds(r, n->list3.at[i]->a, &holds)) return FLOW_FAIL;
        if (holds) return tmpl_exec(r, &n->list3.at[i]->list);
    }
    return tmpl_exec(r, &n->list2);
}

static flow exec_macro(tmpl_run *r, const node *n) {
    value macro;
    return done(tmpl_macro_new(r, n, &macro) && assign_name(r, n, macro));
}

/* {% call f(x) %}body{% endcall %}: f gets the body as `caller`. */
static flow exec_call_block(tmpl_run *r, const node *n) {
    static const vstr name = {.at = "caller", .bytes = 6, .points = 6, .is_shared = true};
    value callee, macro, text, key = {.kind = V_STR, .str = NULL}, named;
    call_args args;
    if (!tmpl_macro_new(r, n, &macro) || !tmpl_eval(r, n->a->a, &callee) || !tmpl_eval_args(r, n->a, &args))
        return FLOW_FAIL;
    if (!value_borrow(r, (span){name.at, name.bytes}, &key)) return FLOW_FAIL;
    if (!args.named) {
        if (!value_dict(r, &named)) return FLOW_FAIL;
        args.named = named.dict;
    }
    r->at = n->a->at;
    return done(tmpl_dict_set(r, args.named, key, macro) && tmpl_call(r, callee, &args, &text) && write_text(r, text));
}

static flow exec_generation(tmpl_run *r, const node *n) {
    const call_args none = {0};
    const vmacro body = {.n = n, .outer = r->vars};
    value text;
    return done(tmpl_macro_call(r, &body, &none, &text) && write_value(r, text));
}

static flow exec_with(tmpl_run *r, const node *n) {
    value v;
    if (!tmpl_enter_frame(r, n->frame)) return FLOW_FAIL;
    for (int i = 0; i < n->list2.count; i++)
        if (!tmpl_eval(r, n->list3.at[i], &v) || !tmpl_assign(r, n->list2.at[i], v)) return FLOW_FAIL;
    return tmpl_exec(r, &n->list);
}

static flow exec_scope(tmpl_run *r, const node *n) {
    value v;
    bool truth;
    if (!tmpl_enter_frame(r, n->frame) || !tmpl_eval(r, n->a, &v) || !value_truth(r, v, &truth)) return FLOW_FAIL;
    if (truth)
        return done(tmpl_fail_as(r, QP_UNSUPPORTED, "autoescape is not supported: chat templates render plain text"));
    return tmpl_exec(r, &n->list);
}

static flow exec_block(tmpl_run *r, const node *n) {
    value text, scoped = {.dict = NULL};
    if (n->is_flag) {
        if (!value_dict(r, &scoped)) return FLOW_FAIL;
        for (int i = 0; i < n->frame2->n_stores; i++) {
            const frame_load *s = &n->frame2->stores[i];
            const value key = {.kind = V_STR, .str = (vstr *)(uintptr_t)s->name}, v = *tmpl_slot(r, s->from);
            if (v.kind != V_MISSING && !tmpl_dict_find_text(r, scoped.dict, s->name) &&
                !tmpl_dict_set(r, scoped.dict, key, v))
                return FLOW_FAIL;
        }
    }
    return done(tmpl_block_call(r, n, scoped.dict, &text) && write_value(r, text));
}

static flow exec_one(tmpl_run *r, const node *n) {
    switch (n->kind) {
    case N_OUTPUT:
        return exec_output(r, n);
    case N_FOR:
        return tmpl_exec_for(r, n);
    case N_IF:
        return exec_if(r, n);
    case N_SET:
        return exec_set(r, n);
    case N_SETBLOCK:
        return exec_set_block(r, n);
    case N_MACRO:
        return exec_macro(r, n);
    case N_CALLBLOCK:
        return exec_call_block(r, n);
    case N_GENERATION:
        return exec_generation(r, n);
    case N_FILTERBLOCK:
        return exec_filter_block(r, n);
    case N_WITH:
        return exec_with(r, n);
    case N_SCOPE:
        return exec_scope(r, n);
    case N_BLOCK:
        return exec_block(r, n);
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        r->at = n->at;
        return done(tmpl_fail_as(r, QP_UNSUPPORTED, "'%.*s' is not supported: a chat template stands alone",
                                 TEXT_ARG(n->text)));
    }
}

flow tmpl_exec(tmpl_run *r, const node_list *body) {
    flow how = FLOW_GO;
    if (!body->count) return FLOW_GO;
    if (!tmpl_enter(r)) return tmpl_leave(r), FLOW_FAIL;
    for (int i = 0; how == FLOW_GO && i < body->count; i++) {
        r->at = body->at[i]->at;
        how = tmpl_spend(r, 1) ? exec_one(r, body->at[i]) : FLOW_FAIL;
    }
    tmpl_leave(r);
    return how;
}
