/* tmpl_place.c — gives every name of a template its slot, every scope its frame and every function its parameters.
 *
 * Walks the tree once; at each scope tmpl_scope.c collects the names first. What Jinja makes a function of its own
 * (macros, call blocks, recursive loops, blocks) has its own slots here, and reaches those around it by hops. */
#include "tmpl_scope.h"

/* What the statements around a node allow. */
typedef struct place_in {
    scope *names;
    bool is_soft; /* unknown filters are an error only when reached */
    bool in_loop;
    bool is_toplevel; /* sets here are seen by blocks */
} place_in;

static void place(scoper *s, node *n, const place_in *in);

static void place_list(scoper *s, const node_list *list, const place_in *in) {
    for (int i = 0; i < list->count && s->status == QP_OK; i++) place(s, list->at[i], in);
}

/* Numbers the names that are looked up in the context. */
static uint16_t note_read(scoper *s, const vstr *name) {
    tmpl *t = s->t;
    tmpl_scope_pay(s, (size_t)t->n_reads);
    for (int i = 0; i < t->n_reads; i++)
        if (t->reads[i]->hash == name->hash && tmpl_text_equal(t->reads[i], name)) return (uint16_t)i;
    if (t->n_reads == NO_SLOT) tmpl_scope_fail(s, s->t->body.at[0], QP_TOO_LARGE, "more than 65535 variables", NULL);
    if (s->status == QP_OK && (t->n_reads & (t->n_reads - 1)) == 0) {
        const vstr **reads = tmpl_scope_get(s, &t->memory, t->n_reads ? 2 * (size_t)t->n_reads : 1, sizeof *reads);
        if (reads && t->n_reads) memcpy(reads, t->reads, (size_t)t->n_reads * sizeof *reads);
        if (reads) t->reads = reads;
    }
    if (s->status != QP_OK) return 0;
    t->reads[t->n_reads] = name;
    return (uint16_t)t->n_reads++;
}

/* What entering this scope does; its names are complete. */
static frame_info *make_frame(scoper *s, const scope *names) {
    frame_info *frame = tmpl_scope_get(s, &s->t->memory, 1, sizeof *frame);
    frame_load *loads =
        frame && names->count ? tmpl_scope_get(s, &s->t->memory, (size_t)names->count, sizeof *loads) : NULL;
    if (!frame || (names->count && !loads)) return NULL;
    frame->loads = loads;
    frame->loop_slot = NO_SLOT;
    for (int i = 0; i < names->count; i++) {
        const symbol *y = &names->at[i];
        if (y->load == LOAD_PARAM) continue;
        frame_load *load = &loads[frame->n_loads++];
        *load = (frame_load){.kind = (uint8_t)y->load, .to = {.slot = y->slot}, .from = y->from, .name = y->name};
        if (y->load == LOAD_RESOLVE) load->read = note_read(s, y->name);
    }
    return frame;
}

static scope inner_scope(const place_in *in) { return (scope){.parent = in->names, .func = in->names->func}; }

/* Gives the scope a function of its own. */
static bool own_func(scoper *s, scope *names, scope_func *func) {
    func->outer = names->func;
    func->info = tmpl_scope_get(s, &s->t->memory, 1, sizeof *func->info);
    if (!func->info) return false;
    func->info->self_slot = func->info->super_slot = NO_SLOT;
    names->func = func;
    return true;
}

static const vstr *known_text(scoper *s, const char *text) {
    const vstr *name = tmpl_text_shared(&s->t->memory, span_of(text));
    if (!name) tmpl_scope_fail(s, NULL, QP_NO_MEMORY, "", NULL);
    return name;
}

/* Declares a special parameter if the body mentions it; says whether it did. */
static bool declare_special(scoper *s, scope *names, const node_list *body, const char *name, var_ref *ref) {
    if (!tmpl_scope_mentions(s, body, name)) return false;
    const vstr *text = known_text(s, name);
    const symbol *y = text ? tmpl_scope_declare(s, names, text) : NULL;
    if (y) *ref = (var_ref){.slot = y->slot};
    return y != NULL;
}

static void copy_parameters(scoper *s, func_info *f, const scope *names, const node *n) {
    f->n_params = n->list2.count;
    f->n_defaults = n->list3.count;
    f->defaults = n->list3.at;
    f->params = tmpl_scope_get(s, &s->t->memory, (size_t)f->n_params, sizeof *f->params);
    f->param_refs = tmpl_scope_get(s, &s->t->memory, (size_t)f->n_params, sizeof *f->param_refs);
    for (int i = 0; i < f->n_params && s->status == QP_OK; i++) {
        f->params[i] = n->list2.at[i]->text;
        f->param_refs[i] = (var_ref){.slot = tmpl_scope_own(s, names, f->params[i])->slot};
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
    tmpl_scope_look_list(s, &n->list2);
    tmpl_scope_look_list(s, &n->list3);
    tmpl_scope_look_list(s, &n->list);
    func_info *f = n->func = func.info;
    f->name = n->kind == N_MACRO ? n->text : NULL;
    f->has_caller_param = has_parameter(n, "caller");
    if (s->status != QP_OK) return;
    if (f->has_caller_param) {
        int first_default = n->list2.count - n->list3.count;
        for (int i = 0; i < first_default; i++)
            if (span_is((span){n->list2.at[i]->text->at, n->list2.at[i]->text->bytes}, "caller") &&
                tmpl_scope_mentions(s, &n->list, "caller"))
                tmpl_scope_fail(s, n, QP_BAD_FORMAT,
                                "the special \"caller\" argument must be omitted or be given a default", NULL);
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
static bool any_node(scoper *s, const node *n, bool (*is_it)(const node *n)) {
    const node_list *const lists[] = {&n->list, &n->list2, &n->list3};
    tmpl_scope_pay(s, SCOPE_NODE_WORK);
    if (is_it(n)) return true;
    if ((n->a && any_node(s, n->a, is_it)) || (n->b && any_node(s, n->b, is_it)) || (n->c && any_node(s, n->c, is_it)))
        return true;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < lists[i]->count && s->status == QP_OK; k++)
            if (any_node(s, lists[i]->at[k], is_it)) return true;
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
    tmpl_scope_look_targets(s, n->c);
    tmpl_scope_look(s, n->b);
    if (s->status != QP_OK) return;
    n->frame3 = make_frame(s, &names);
    place(s, n->b, &inside);
    if (!n->frame3) return;
    n->frame3->stores = tmpl_scope_get(s, &s->t->memory, (size_t)names.count, sizeof(frame_load));
    for (int i = 0; i < names.count && s->status == QP_OK; i++) {
        var_ref body;
        if (names.at[i].load == LOAD_PARAM && tmpl_scope_find(s, in->names, in->names->func, names.at[i].name, &body))
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
    if (n->is_flag || tmpl_scope_mentions(s, &n->list, "loop") || any_node(s, n, is_scoped_block)) {
        const vstr *name = known_text(s, "loop");
        const symbol *y = name ? tmpl_scope_declare(s, &body, name) : NULL;
        if (y) loop.slot = y->slot;
    }
    tmpl_scope_look_targets(s, n->c);
    tmpl_scope_look_list(s, &n->list);
    if (s->status != QP_OK) return;
    if (any_node(s, n, sets_loop))
        tmpl_scope_fail(s, n, QP_BAD_FORMAT, "Can't assign to special loop variable in for-loop target", NULL);
    n->frame = make_frame(s, &body);
    if (n->frame) n->frame->loop_slot = loop.slot;
    const place_in inside = {.names = &body, .in_loop = true};
    place(s, n->c, &inside);
    if (n->b) place_for_test(s, n, &inside);
    place_list(s, &n->list, &inside);
    s->now = &otherwise;
    tmpl_scope_look_list(s, &n->list2);
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
        for (int i = 0; i < n->list2.count; i++) tmpl_scope_look_targets(s, n->list2.at[i]);
    tmpl_scope_look_list(s, &n->list);
    if (n->kind == N_SETBLOCK && n->b) tmpl_scope_look(s, n->b);
    if (n->kind == N_FILTERBLOCK || n->kind == N_SCOPE) tmpl_scope_look(s, n->a);
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
    n->frame2 = tmpl_scope_get(s, &s->t->memory, 1, sizeof *n->frame2);
    if (!n->frame2 || !n->is_flag) return;
    int count = 0;
    for (const scope *names = in->names; names; names = names->parent) count += names->count;
    n->frame2->stores = tmpl_scope_get(s, &s->t->memory, (size_t)count, sizeof *n->frame2->stores);
    for (const scope *names = in->names; names && n->frame2->stores; names = names->parent)
        for (int i = 0; i < names->count; i++) {
            frame_load *to = &n->frame2->stores[n->frame2->n_stores];
            if (!names->at[i].is_stored) continue;
            to->name = names->at[i].name;
            if (tmpl_scope_find(s, names, in->names->func, to->name, &to->from)) n->frame2->n_stores++;
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
    tmpl_scope_look_list(s, &n->list);
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
    if (!tmpl_scope_find(s, in->names, in->names->func, n->text, &n->ref))
        tmpl_scope_fail(s, n, QP_INTERNAL, "name '%.*s' has no place", n->text);
    n->is_flag = in->is_toplevel && s->t->blocks.count;
}

static void place(scoper *s, node *n, const place_in *in) {
    place_in inside = *in;
    if (s->status != QP_OK) return;
    switch (n->kind) {
    case N_NAME:
    case N_NSREF:
        place_name(s, n, in);
        break;
    case N_FILTER:
    case N_TEST:
        if (!n->row && !in->is_soft)
            tmpl_scope_fail(s, n, QP_BAD_FORMAT,
                            n->kind == N_FILTER ? "No filter named '%.*s'." : "No test named '%.*s'.", n->text);
        place_children(s, n, in);
        break;
    case N_IF:
    case N_COND:
        inside.is_soft = true, place_children(s, n, &inside);
        break;
    case N_FOR:
        place_for(s, n, in);
        break;
    case N_MACRO:
        if (!tmpl_scope_find(s, in->names, in->names->func, n->text, &n->ref))
            tmpl_scope_fail(s, n, QP_INTERNAL, "macro '%.*s' has no place", n->text);
        n->is_flag = in->is_toplevel && s->t->blocks.count;
        place_macro(s, n, in);
        break;
    case N_CALLBLOCK:
        place(s, n->a, in), place_macro(s, n, in);
        break;
    case N_GENERATION:
        place_macro(s, n, in);
        break;
    case N_SETBLOCK:
    case N_FILTERBLOCK:
    case N_WITH:
    case N_SCOPE:
        place_inner(s, n, in);
        break;
    case N_BLOCK:
        place_block_call(s, n, in);
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!in->in_loop)
            tmpl_scope_fail(s, n, QP_BAD_FORMAT,
                            n->kind == N_BREAK ? "'break' outside loop" : "'continue' outside loop", NULL);
        break;
    default:
        place_children(s, n, in);
    }
}

static void place_blocks(scoper *s) {
    const node_list *blocks = &s->t->blocks;
    for (int i = 0; i < blocks->count && s->status == QP_OK; i++) {
        tmpl_scope_pay(s, (size_t)i);
        for (int k = 0; k < i; k++)
            if (tmpl_text_equal(blocks->at[k]->text, blocks->at[i]->text))
                tmpl_scope_fail(s, blocks->at[i], QP_BAD_FORMAT, "block '%.*s' defined twice", blocks->at[i]->text);
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
        tmpl_scope_look_list(&s, &t->body);
        if (s.status == QP_OK) t->frame = make_frame(&s, &names);
        const place_in inside = {.names = &names, .is_toplevel = true};
        place_list(&s, &t->body, &inside);
        place_blocks(&s);
    }
    arena_free(&s.scratch);
    return s.status;
}
