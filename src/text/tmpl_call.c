/* tmpl_call.c — calling: macros with Jinja's rules for caller, kwargs and varargs, blocks, and the rest by kind. */
#include "tmpl_tables.h"

activation *tmpl_activation(tmpl_run *r, const func_info *f, activation *outer) {
    activation *vars = tmpl_get(r, 1, sizeof *vars);
    value *slots = vars ? tmpl_get(r, (size_t)f->n_slots, sizeof *slots) : NULL;
    if (!slots) return NULL;
    memset(slots, 0, (size_t)f->n_slots * sizeof *slots); /* V_MISSING */
    *vars = (activation){.outer = outer, .slots = slots};
    return vars;
}

bool tmpl_macro_new(tmpl_run *r, const node *n, value *out) {
    vmacro *m = tmpl_get(r, 1, sizeof *m);
    if (!m) return false;
    *m = (vmacro){.n = n, .outer = r->vars};
    *out = (value){.kind = V_MACRO, .macro = m};
    return true;
}

static const char *macro_name(const func_info *f, int *bytes) {
    *bytes = f->name ? (int)f->name->bytes : 6;
    return f->name ? f->name->at : "caller";
}

/* Takes a named argument out of `left`; V_MISSING if it was not given. */
static value take_named(tmpl_run *r, vdict *left, const vstr *name, size_t *n_left) {
    vpair *found = left ? tmpl_dict_find_text(r, left, name) : NULL;
    const value v = found ? found->val : (value){.kind = V_MISSING};
    if (v.kind == V_MISSING) return v;
    found->val = (value){.kind = V_MISSING};
    --*n_left;
    return v;
}

/* What is left of the named arguments, as a dict. */
static bool rest_named(tmpl_run *r, const vdict *left, value *out) {
    if (!value_dict(r, out)) return false;
    for (size_t i = 0; left && i < left->count; i++)
        if (left->at[i].val.kind != V_MISSING && !tmpl_dict_set(r, out->dict, left->at[i].key, left->at[i].val))
            return false;
    return true;
}

static bool copy_named(tmpl_run *r, const vdict *named, vdict **out) {
    value copy;
    *out = NULL;
    if (!named) return true;
    if (!rest_named(r, named, &copy)) return false;
    *out = copy.dict;
    return true;
}

static bool fail_left_over(tmpl_run *r, const func_info *f, const vdict *left) {
    int bytes;
    const char *name = macro_name(f, &bytes);
    for (size_t i = 0; i < left->count; i++)
        if (left->at[i].val.kind != V_MISSING)
            return tmpl_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", bytes, name,
                             TEXT_ARG(left->at[i].key.str));
    return false;
}

static bool bind_macro(tmpl_run *r, const func_info *f, const call_args *args, value *slots) {
    vstr caller = {.at = "caller", .bytes = 6, .points = 6}; /* gets its hash when it is looked up */
    vdict *left;
    size_t n_left = args->named ? args->named->count : 0;
    int bytes;
    const char *name = macro_name(f, &bytes);
    if (!copy_named(r, args->named, &left)) return false;
    for (int i = 0; i < f->n_params; i++)
        slots[f->param_refs[i].slot] =
            (size_t)i < args->count ? args->at[i] : take_named(r, left, f->params[i], &n_left);
    if (f->takes_caller) {
        const value given = take_named(r, left, &caller, &n_left);
        slots[f->caller.slot] = value_given(given) ? given : value_undefined(r, "No caller defined");
    }
    if (f->takes_kwargs) {
        if (!rest_named(r, left, &slots[f->kwargs.slot])) return false;
    } else if (n_left) {
        return fail_left_over(r, f, left);
    }
    const size_t n_params = (size_t)f->n_params;
    if (!f->takes_varargs)
        return args->count <= n_params ||
               tmpl_fail(r, "macro '%.*s' takes not more than %d argument(s)", bytes, name, f->n_params);
    const size_t more = args->count > n_params ? args->count - n_params : 0;
    if (!value_seq(r, V_TUPLE, more, &slots[f->varargs.slot])) return false;
    if (more) memcpy(slots[f->varargs.slot].seq->at, args->at + n_params, more * sizeof(value));
    return true;
}

/* Defaults are evaluated at the call, among the macro's own variables. */
static bool fill_defaults(tmpl_run *r, const func_info *f) {
    for (int i = 0; i < f->n_params; i++) {
        value *slot = &r->vars->slots[f->param_refs[i].slot];
        const int at = i - (f->n_params - f->n_defaults);
        if (slot->kind != V_MISSING) continue;
        value v = value_undefined_name(r, f->params[i]);
        if (at >= 0 && !tmpl_eval(r, f->defaults[at], &v)) return false;
        if (at < 0) v = value_undefined(r, "a parameter was not provided");
        *slot = v;
    }
    return true;
}

bool tmpl_macro_call(tmpl_run *r, const vmacro *m, const call_args *args, value *out) {
    activation *before = r->vars;
    const uint32_t at = r->at;
    activation *vars = tmpl_activation(r, m->n->func, m->outer);
    bool is_right = vars && tmpl_enter(r) && bind_macro(r, m->n->func, args, vars->slots);
    if (is_right) {
        r->vars = vars;
        is_right = tmpl_enter_frame(r, m->n->frame) && fill_defaults(r, m->n->func) &&
                   tmpl_capture(r, &m->n->list, out) != FLOW_FAIL;
        r->vars = before;
        r->at = at;
    }
    if (vars) tmpl_leave(r);
    return is_right;
}

bool tmpl_block_call(tmpl_run *r, const node *block, vdict *scoped, value *out) {
    activation *before = r->vars;
    vdict *block_vars = r->block_vars;
    activation *vars = tmpl_activation(r, block->func, NULL);
    if (!vars) return false;
    if (block->func->self_slot != NO_SLOT) vars->slots[block->func->self_slot] = (value){.kind = V_SELF};
    if (block->func->super_slot != NO_SLOT)
        vars->slots[block->func->super_slot] = value_undefined(r, "there is no parent block called like this");
    r->vars = vars;
    r->block_vars = scoped;
    const bool is_right =
        tmpl_enter(r) && tmpl_enter_frame(r, block->frame) && tmpl_capture(r, &block->list, out) != FLOW_FAIL;
    tmpl_leave(r);
    r->vars = before;
    r->block_vars = block_vars;
    return is_right;
}

static bool call_joiner(tmpl_run *r, vjoiner *joiner, const call_args *args, value *out) {
    if (args->count || args->named) return tmpl_fail(r, "Joiner.__call__() takes no arguments");
    const bool is_first = !joiner->was_used;
    joiner->was_used = true;
    *out = joiner->separator;
    return !is_first || value_borrow(r, (span){"", 0}, out);
}

bool tmpl_call(tmpl_run *r, value callee, const call_args *args, value *out) {
    switch (callee.kind) {
    case V_UNDEFINED:
        return tmpl_fail_undefined(r, callee);
    case V_MACRO:
        return tmpl_macro_call(r, callee.macro, args, out);
    case V_FUNCTION:
        return tmpl_global_call(r, callee.function, args, out);
    case V_METHOD:
        return tmpl_method_call(r, callee.method, args, out);
    case V_LOOP:
        return tmpl_loop_call(r, callee.loop, args, out);
    case V_JOINER:
        return call_joiner(r, callee.joiner, args, out);
    case V_BLOCK:
        return tmpl_block_call(r, callee.block->n, NULL, out);
    default:
        return tmpl_fail(r, "'%s' object is not callable", value_type(callee));
    }
}
