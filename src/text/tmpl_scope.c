/* tmpl_scope.c — decides where each name of a template lives, before anything runs.
 *
 * Jinja compiles a template to functions whose variables are decided by reading the code, not by running it: a name
 * that a scope sets anywhere is that scope's own from its beginning (a copy of the outer one, or missing), a name
 * that it only reads is looked up in the context when the scope is entered. Two passes repeat that: `look` collects
 * the names of one scope, `place` walks the tree and gives each name its slot. The tricky thing is `if`: its branches
 * belong to the same scope, and a name set in only some of them may come from outside in the others. */
#include "tmpl_ast.h"
#include "tmpl_text.h"

typedef struct symbol {
    const vstr *name;
    load_kind load;
    var_ref from;
    uint16_t slot;
    bool is_stored;
    bool is_new; /* set in a branch, not before it */
} symbol;

typedef struct scope_func {
    struct scope_func *outer;
    func_info *info;
} scope_func;

typedef struct scope {
    struct scope *parent;
    scope_func *func;
    symbol *at;
    int count, capacity;
} scope;

typedef struct scoper {
    tmpl *t;
    arena scratch;
    scope *now;      /* being looked at */
    qp_error *err;
    qp_status status;
} scoper;

/* What the statements around a node allow. */
typedef struct place_in {
    scope *names;
    bool is_soft;     /* unknown filters are an error only when reached */
    bool in_loop;
    bool is_toplevel; /* sets here are seen by blocks */
} place_in;

static bool fail(scoper *s, const node *at, qp_status code, const char *text, const vstr *name) {
    if (s->status != QP_OK) return false;
    if (code == QP_NO_MEMORY) s->status = err_no_memory(s->err, 0, "template names");
    else if (name) s->status = tmpl_source_fail(&s->t->source, at->at, s->err, code, text, TEXT_ARG(name));
    else s->status = tmpl_source_fail(&s->t->source, at->at, s->err, code, "%s", text);
    return false;
}

static void *get(scoper *s, arena *memory, size_t count, size_t size) {
    void *at = arena_zget(memory, count, size);
    if (!at) fail(s, NULL, QP_NO_MEMORY, "", NULL);
    return at;
}

/* ---- the names of one scope ---- */

static symbol *own_symbol(const scope *names, const vstr *name) {
    for (int i = 0; i < names->count; i++)
        if (tmpl_text_equal(names->at[i].name, name)) return &names->at[i];
    return NULL;
}

/* The place of a name in this scope or those around it, seen from `from`. */
static bool find_ref(const scope *names, const scope_func *from, const vstr *name, var_ref *ref) {
    for (; names; names = names->parent) {
        const symbol *found = own_symbol(names, name);
        if (!found) continue;
        ref->slot = found->slot;
        ref->hops = 0;
        for (const scope_func *f = from; f != names->func; f = f->outer) ref->hops++;
        return true;
    }
    return false;
}

static symbol *define(scoper *s, scope *names, const vstr *name, load_kind load) {
    symbol *found = own_symbol(names, name);
    if (!found) {
        if (names->count == names->capacity) {
            const int capacity = names->capacity ? 2 * names->capacity : 8;
            symbol *at = get(s, &s->scratch, (size_t)capacity, sizeof *at);
            if (!at) return NULL;
            if (names->count) memcpy(at, names->at, (size_t)names->count * sizeof *at);
            names->at = at;
            names->capacity = capacity;
        }
        found = &names->at[names->count++];
        if (names->func->info->n_slots >= NO_SLOT) return fail(s, s->t->body.at[0], QP_TOO_LARGE, "more than 65534 variables", NULL), NULL;
        *found = (symbol){.name = name, .slot = (uint16_t)names->func->info->n_slots++};
    }
    found->load = load;
    return found;
}

static void store_name(scoper *s, scope *names, const vstr *name) {
    symbol *found = own_symbol(names, name);
    var_ref outer;
    if (!found) {
        const bool is_alias = names->parent && find_ref(names->parent, names->func, name, &outer);
        found = define(s, names, name, is_alias ? LOAD_ALIAS : LOAD_MISSING);
        if (found && is_alias) found->from = outer;
    }
    if (found) found->is_stored = true;
}

static symbol *declare(scoper *s, scope *names, const vstr *name) {
    symbol *found = define(s, names, name, LOAD_PARAM);
    if (found) found->is_stored = true;
    return found;
}

static void load_name(scoper *s, scope *names, const vstr *name) {
    var_ref ref;
    if (!find_ref(names, names->func, name, &ref)) define(s, names, name, LOAD_RESOLVE);
}

/* ---- looking: names of a scope from its statements, not entering inner scopes ---- */

static void look(scoper *s, const node *n);

static void look_list(scoper *s, const node_list *list) {
    for (int i = 0; i < list->count && s->status == QP_OK; i++) look(s, list->at[i]);
}

static scope copy_scope(scoper *s, const scope *from) {
    scope copy = *from;
    copy.capacity = from->count;
    copy.at = from->count ? get(s, &s->scratch, (size_t)from->count, sizeof *copy.at) : NULL;
    if (copy.at) memcpy(copy.at, from->at, (size_t)from->count * sizeof *copy.at);
    else copy.count = copy.capacity = 0;
    return copy;
}

/* Joins what the branches of an `if` did: a name set in any of them, but not before, starts as the outer one or comes
 * from the context. */
static void merge_branches(scoper *s, scope *names, const scope *branches, int count) {
    for (int b = 0; b < count; b++)
        for (int i = 0; i < branches[b].count && s->status == QP_OK; i++) {
            const symbol *from = &branches[b].at[i];
            symbol *to = own_symbol(names, from->name);
            if (!to && !(to = define(s, names, from->name, from->load))) return;
            to->is_new |= from->is_stored && !to->is_stored;
        }
    for (int i = 0; i < names->count; i++) {
        symbol *to = &names->at[i];
        if (!to->is_new) continue;
        const bool is_alias = names->parent && find_ref(names->parent, names->func, to->name, &to->from);
        to->load = is_alias ? LOAD_ALIAS : LOAD_RESOLVE;
        to->is_stored = true;
        to->is_new = false;
    }
}

static void look_if(scoper *s, const node *n) {
    const node_list *const bodies[] = {&n->list, &n->list3, &n->list2};
    look(s, n->a);
    scope *names = s->now;
    scope branches[3];
    for (int i = 0; i < 3; i++) {
        branches[i] = copy_scope(s, names);
        s->now = &branches[i];
        look_list(s, bodies[i]);
    }
    s->now = names;
    merge_branches(s, names, branches, 3);
}

static void look_children(scoper *s, const node *n) {
    if (n->a) look(s, n->a);
    look_list(s, &n->list);
    look_list(s, &n->list2);
    if (n->b) look(s, n->b);
    if (n->c) look(s, n->c);
}

static void look(scoper *s, const node *n) {
    if (s->status != QP_OK) return;
    switch (n->kind) {
    case N_NAME:
        if (n->use == USE_LOAD) load_name(s, s->now, n->text);
        else if (n->use == USE_STORE) store_name(s, s->now, n->text);
        else declare(s, s->now, n->text);
        break;
    case N_NSREF: load_name(s, s->now, n->text); break;
    case N_IF: look_if(s, n); break;
    case N_MACRO: store_name(s, s->now, n->text); break;
    case N_SET: look(s, n->b), look(s, n->a); break;
    case N_FOR:
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
    case N_SETBLOCK: look(s, n->a); break;
    case N_WITH: look_list(s, &n->list3); break;
    case N_GENERATION:
    case N_SCOPE:
    case N_BLOCK:
    case N_REFUSED: break;
    default: look_children(s, n);
    }
}

static void look_targets(scoper *s, const node *target) {
    if (target->kind == N_NAME) declare(s, s->now, target->text);
    for (int i = 0; i < target->list.count; i++) look_targets(s, target->list.at[i]);
}

/* Whether `name` is read below without being set there first; blocks are not entered. */
static bool mentions(const node *n, const char *name, bool *is_set);

static bool list_mentions(const node_list *list, const char *name, bool *is_set) {
    for (int i = 0; i < list->count; i++)
        if (mentions(list->at[i], name, is_set)) return true;
    return false;
}

static bool mentions(const node *n, const char *name, bool *is_set) {
    if (n->kind == N_BLOCK || *is_set) return false;
    if (n->kind == N_NAME && span_is((span){n->text->at, n->text->bytes}, name)) {
        if (n->use == USE_LOAD) return true;
        *is_set = true;
        return false;
    }
    return (n->a && mentions(n->a, name, is_set)) || (n->b && mentions(n->b, name, is_set)) ||
           (n->c && mentions(n->c, name, is_set)) || list_mentions(&n->list, name, is_set) ||
           list_mentions(&n->list2, name, is_set) || list_mentions(&n->list3, name, is_set);
}

static bool body_mentions(const node_list *body, const char *name) {
    bool is_set = false;
    return list_mentions(body, name, &is_set);
}

/* ---- placing: slots for names, frames for scopes ---- */

static void place(scoper *s, node *n, const place_in *in);

static void place_list(scoper *s, const node_list *list, const place_in *in) {
    for (int i = 0; i < list->count && s->status == QP_OK; i++) place(s, list->at[i], in);
}

static void note_read(scoper *s, const vstr *name) {
    tmpl *t = s->t;
    for (int i = 0; i < t->n_reads; i++)
        if (tmpl_text_equal(t->reads[i], name)) return;
    if ((t->n_reads & (t->n_reads - 1)) == 0) {
        const vstr **reads = get(s, &t->memory, t->n_reads ? 2 * (size_t)t->n_reads : 1, sizeof *reads);
        if (!reads) return;
        if (t->n_reads) memcpy(reads, t->reads, (size_t)t->n_reads * sizeof *reads);
        t->reads = reads;
    }
    t->reads[t->n_reads++] = name;
}

/* What entering this scope does; its names are complete. */
static frame_info *make_frame(scoper *s, const scope *names) {
    frame_info *frame = get(s, &s->t->memory, 1, sizeof *frame);
    frame_load *loads = frame && names->count ? get(s, &s->t->memory, (size_t)names->count, sizeof *loads) : NULL;
    if (!frame || (names->count && !loads)) return NULL;
    frame->loads = loads;
    frame->loop_slot = NO_SLOT;
    for (int i = 0; i < names->count; i++) {
        const symbol *y = &names->at[i];
        if (y->load == LOAD_PARAM) continue;
        loads[frame->n_loads++] =
            (frame_load){.kind = (uint8_t)y->load, .to = {.slot = y->slot}, .from = y->from, .name = y->name};
        if (y->load == LOAD_RESOLVE) note_read(s, y->name);
    }
    return frame;
}

static scope inner_scope(const place_in *in) { return (scope){.parent = in->names, .func = in->names->func}; }

/* Gives the scope a function of its own. */
static bool own_func(scoper *s, scope *names, scope_func *func) {
    func->outer = names->func;
    func->info = get(s, &s->t->memory, 1, sizeof *func->info);
    if (!func->info) return false;
    func->info->self_slot = func->info->super_slot = NO_SLOT;
    names->func = func;
    return true;
}

static const vstr *known_text(scoper *s, const char *text) {
    const vstr *name = tmpl_text_shared(&s->t->memory, span_of(text));
    if (!name) fail(s, NULL, QP_NO_MEMORY, "", NULL);
    return name;
}

/* Declares a special parameter if the body mentions it; says whether it did. */
static bool declare_special(scoper *s, scope *names, const node_list *body, const char *name, var_ref *ref) {
    if (!body_mentions(body, name)) return false;
    const vstr *text = known_text(s, name);
    const symbol *y = text ? declare(s, names, text) : NULL;
    if (y) *ref = (var_ref){.slot = y->slot};
    return y != NULL;
}

static void copy_parameters(scoper *s, func_info *f, const scope *names, const node *n) {
    f->n_params = n->list2.count;
    f->n_defaults = n->list3.count;
    f->defaults = n->list3.at;
    f->params = get(s, &s->t->memory, (size_t)f->n_params, sizeof *f->params);
    f->param_refs = get(s, &s->t->memory, (size_t)f->n_params, sizeof *f->param_refs);
    for (int i = 0; i < f->n_params && s->status == QP_OK; i++) {
        f->params[i] = n->list2.at[i]->text;
        f->param_refs[i] = (var_ref){.slot = own_symbol(names, f->params[i])->slot};
    }
}

static bool has_parameter(const node *n, const char *name) {
    for (int i = 0; i < n->list2.count; i++)
        if (span_is((span){n->list2.at[i]->text->at, n->list2.at[i]->text->bytes}, name)) return true;
    return false;
}

/* Macros, call blocks and generation blocks: a function with the special parameters caller, kwargs and varargs. */
static void place_macro(scoper *s, node *n, const place_in *in) {
    scope names = inner_scope(in);
    scope_func func;
    if (!own_func(s, &names, &func)) return;
    s->now = &names;
    look_list(s, &n->list2);
    look_list(s, &n->list3);
    look_list(s, &n->list);
    func_info *f = n->func = func.info;
    f->name = n->kind == N_MACRO ? n->text : NULL;
    f->has_caller_param = has_parameter(n, "caller");
    if (s->status != QP_OK) return;
    if (f->has_caller_param) {
        int first_default = n->list2.count - n->list3.count;
        for (int i = 0; i < first_default; i++)
            if (span_is((span){n->list2.at[i]->text->at, n->list2.at[i]->text->bytes}, "caller") && body_mentions(&n->list, "caller"))
                fail(s, n, QP_BAD_FORMAT, "the special \"caller\" argument must be omitted or be given a default", NULL);
    } else {
        f->takes_caller = declare_special(s, &names, &n->list, "caller", &f->caller);
    }
    f->takes_kwargs = !has_parameter(n, "kwargs") && declare_special(s, &names, &n->list, "kwargs", &f->kwargs);
    f->takes_varargs = !has_parameter(n, "varargs") && declare_special(s, &names, &n->list, "varargs", &f->varargs);
    copy_parameters(s, f, &names, n);
    if (s->status != QP_OK) return;
    const place_in inside = {.names = &names};
    n->frame = make_frame(s, &names);
    place_list(s, &n->list3, &inside);
    place_list(s, &n->list, &inside);
}

/* Whether a node of the tree, itself included, is what `is_it` looks for. */
static bool any_node(const node *n, bool (*is_it)(const node *n)) {
    const node_list *const lists[] = {&n->list, &n->list2, &n->list3};
    if (is_it(n)) return true;
    if ((n->a && any_node(n->a, is_it)) || (n->b && any_node(n->b, is_it)) || (n->c && any_node(n->c, is_it))) return true;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < lists[i]->count; k++)
            if (any_node(lists[i]->at[k], is_it)) return true;
    return false;
}

static bool sets_loop(const node *n) {
    return n->kind == N_NAME && n->use == USE_STORE && span_is((span){n->text->at, n->text->bytes}, "loop");
}

static bool is_scoped_block(const node *n) { return n->kind == N_BLOCK && n->is_flag; }

/* The `if` of a loop has variables of its own: a second set of the target's names. */
static void place_for_test(scoper *s, node *n, const place_in *in) {
    scope names = {.parent = in->names->parent, .func = in->names->func};
    const place_in inside = {.names = &names};
    s->now = &names;
    look_targets(s, n->c);
    look(s, n->b);
    if (s->status != QP_OK) return;
    n->frame3 = make_frame(s, &names);
    place(s, n->b, &inside);
    if (!n->frame3) return;
    n->frame3->stores = get(s, &s->t->memory, (size_t)names.count, sizeof(frame_load));
    for (int i = 0; i < names.count && s->status == QP_OK; i++) {
        var_ref body;
        if (names.at[i].load == LOAD_PARAM && find_ref(in->names, in->names->func, names.at[i].name, &body))
            n->frame3->stores[n->frame3->n_stores++] =
                (frame_load){.kind = LOAD_ALIAS, .to = {.slot = names.at[i].slot}, .from = body};
    }
}

static void place_for(scoper *s, node *n, const place_in *in) {
    scope body = inner_scope(in), otherwise;
    scope_func func;
    place(s, n->a, in);
    if (n->is_flag && !own_func(s, &body, &func)) return;
    if (n->is_flag) n->func = func.info;
    otherwise = body;
    s->now = &body;
    var_ref loop = {.slot = NO_SLOT};
    if (n->is_flag || body_mentions(&n->list, "loop") || any_node(n, is_scoped_block)) {
        const vstr *name = known_text(s, "loop");
        const symbol *y = name ? declare(s, &body, name) : NULL;
        if (y) loop.slot = y->slot;
    }
    look_targets(s, n->c);
    look_list(s, &n->list);
    if (s->status != QP_OK) return;
    if (any_node(n, sets_loop)) fail(s, n, QP_BAD_FORMAT, "Can't assign to special loop variable in for-loop target", NULL);
    n->frame = make_frame(s, &body);
    if (n->frame) n->frame->loop_slot = loop.slot;
    const place_in inside = {.names = &body, .in_loop = true};
    place(s, n->c, &inside);
    if (n->b) place_for_test(s, n, &inside);
    place_list(s, &n->list, &inside);
    s->now = &otherwise;
    look_list(s, &n->list2);
    if (s->status != QP_OK) return;
    const place_in outside = {.names = &otherwise, .in_loop = in->in_loop && !n->is_flag};
    n->frame2 = make_frame(s, &otherwise);
    place_list(s, &n->list2, &outside);
}

/* A scope within the same function: set blocks, filter blocks, with, autoescape. */
static void place_inner(scoper *s, node *n, const place_in *in) {
    scope names = inner_scope(in);
    s->now = &names;
    if (n->kind == N_WITH)
        for (int i = 0; i < n->list2.count; i++) look_targets(s, n->list2.at[i]);
    look_list(s, &n->list);
    if (n->kind == N_SETBLOCK && n->b) look(s, n->b);
    if (n->kind == N_FILTERBLOCK || n->kind == N_SCOPE) look(s, n->a);
    if (s->status != QP_OK) return;
    const place_in inside = {.names = &names, .in_loop = in->in_loop};
    n->frame = make_frame(s, &names);
    if (n->kind == N_WITH) {
        place_list(s, &n->list2, &inside);
        place_list(s, &n->list3, in);
    } else if (n->kind == N_SETBLOCK) {
        place(s, n->a, in);
        if (n->b) place(s, n->b, &inside);
    } else {
        place(s, n->a, &inside);
    }
    place_list(s, &n->list, &inside);
}

/* Where a block stands: only a scoped one sees the variables around it. */
static void place_block_call(scoper *s, node *n, const place_in *in) {
    n->frame2 = get(s, &s->t->memory, 1, sizeof *n->frame2);
    if (!n->frame2 || !n->is_flag) return;
    int count = 0;
    for (const scope *names = in->names; names; names = names->parent) count += names->count;
    n->frame2->stores = get(s, &s->t->memory, (size_t)count, sizeof *n->frame2->stores);
    for (const scope *names = in->names; names && n->frame2->stores; names = names->parent)
        for (int i = 0; i < names->count; i++) {
            frame_load *to = &n->frame2->stores[n->frame2->n_stores];
            if (!names->at[i].is_stored) continue;
            to->name = names->at[i].name;
            if (find_ref(names, in->names->func, to->name, &to->from)) n->frame2->n_stores++;
        }
}

/* A block's body: a function that sees nothing but the context. */
static void place_block(scoper *s, node *n) {
    scope names = {0};
    scope_func func = {0};
    if (!own_func(s, &names, &func)) return;
    var_ref ref;
    n->func = func.info;
    s->now = &names;
    if (declare_special(s, &names, &n->list, "self", &ref)) func.info->self_slot = ref.slot;
    if (declare_special(s, &names, &n->list, "super", &ref)) func.info->super_slot = ref.slot;
    look_list(s, &n->list);
    if (s->status != QP_OK) return;
    const place_in inside = {.names = &names};
    n->frame = make_frame(s, &names);
    place_list(s, &n->list, &inside);
}

static void place_children(scoper *s, node *n, const place_in *in) {
    if (n->a) place(s, n->a, in);
    place_list(s, &n->list, in);
    place_list(s, &n->list2, in);
    place_list(s, &n->list3, in);
    if (n->b) place(s, n->b, in);
    if (n->c) place(s, n->c, in);
}

static void place_name(scoper *s, node *n, const place_in *in) {
    if (!find_ref(in->names, in->names->func, n->text, &n->ref))
        fail(s, n, QP_INTERNAL, "name '%.*s' has no place", n->text);
    n->is_flag = in->is_toplevel && s->t->blocks.count;
}

static void place(scoper *s, node *n, const place_in *in) {
    place_in inside = *in;
    if (s->status != QP_OK) return;
    switch (n->kind) {
    case N_NAME:
    case N_NSREF: place_name(s, n, in); break;
    case N_FILTER:
    case N_TEST:
        if (!n->row && !in->is_soft)
            fail(s, n, QP_BAD_FORMAT, n->kind == N_FILTER ? "No filter named '%.*s'." : "No test named '%.*s'.", n->text);
        place_children(s, n, in);
        break;
    case N_IF:
    case N_COND: inside.is_soft = true, place_children(s, n, &inside); break;
    case N_FOR: place_for(s, n, in); break;
    case N_MACRO:
        if (!find_ref(in->names, in->names->func, n->text, &n->ref)) fail(s, n, QP_INTERNAL, "macro '%.*s' has no place", n->text);
        n->is_flag = in->is_toplevel && s->t->blocks.count;
        place_macro(s, n, in);
        break;
    case N_CALLBLOCK: place(s, n->a, in), place_macro(s, n, in); break;
    case N_GENERATION: place_macro(s, n, in); break;
    case N_SETBLOCK:
    case N_FILTERBLOCK:
    case N_WITH:
    case N_SCOPE: place_inner(s, n, in); break;
    case N_BLOCK: place_block_call(s, n, in); break;
    case N_BREAK:
    case N_CONTINUE:
        if (!in->in_loop) fail(s, n, QP_BAD_FORMAT, n->kind == N_BREAK ? "'break' outside loop" : "'continue' outside loop", NULL);
        break;
    default: place_children(s, n, in);
    }
}

static void place_blocks(scoper *s) {
    const node_list *blocks = &s->t->blocks;
    for (int i = 0; i < blocks->count && s->status == QP_OK; i++) {
        for (int k = 0; k < i; k++)
            if (tmpl_text_equal(blocks->at[k]->text, blocks->at[i]->text))
                fail(s, blocks->at[i], QP_BAD_FORMAT, "block '%.*s' defined twice", blocks->at[i]->text);
        place_block(s, blocks->at[i]);
    }
}

qp_status tmpl_scope(tmpl *t, qp_error *err) {
    scoper s = {.t = t, .err = err};
    scope names = {0};
    scope_func func = {0};
    var_ref ref;
    if (own_func(&s, &names, &func)) {
        t->func = func.info;
        s.now = &names;
        if (declare_special(&s, &names, &t->body, "self", &ref)) func.info->self_slot = ref.slot;
        look_list(&s, &t->body);
        if (s.status == QP_OK) t->frame = make_frame(&s, &names);
        const place_in inside = {.names = &names, .is_toplevel = true};
        place_list(&s, &t->body, &inside);
        place_blocks(&s);
    }
    arena_free(&s.scratch);
    return s.status;
}
