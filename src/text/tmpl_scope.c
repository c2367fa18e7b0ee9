/* tmpl_scope.c — the names of one scope, collected before anything runs.
 *
 * Jinja compiles a template to functions whose variables are decided by reading the code, not by running it: a name
 * that a scope sets anywhere is that scope's own from its beginning (a copy of the outer one, or missing), a name
 * that it only reads is looked up in the context when the scope is entered. tmpl_place.c calls this for each scope
 * and gives the names their slots. The tricky thing is `if`: its branches belong to the same scope, and a name set in
 * only some of them may come from outside in the others. */
#include "tmpl_scope.h"

enum { MAX_WORK = 1 << 20, WORK_PER_BYTE = 16, COPY_WORK = 4 };

bool tmpl_scope_fail(scoper *s, const node *at, qp_status code, const char *text, const vstr *name) {
    if (s->status != QP_OK) return false;
    if (code == QP_NO_MEMORY)
        s->status = err_no_memory(s->err, 0, "template names");
    else if (name)
        s->status = tmpl_source_fail(&s->t->source, at->at, s->err, code, text, TEXT_ARG(name));
    else
        s->status = tmpl_source_fail(&s->t->source, at->at, s->err, code, "%s", text);
    return false;
}

void tmpl_scope_pay(scoper *s, size_t work) {
    s->work += work;
    if (s->work > MAX_WORK + WORK_PER_BYTE * s->t->source.bytes)
        tmpl_scope_fail(s, s->t->body.at[0], QP_TOO_LARGE, "too many names in too many scopes", NULL);
}

void *tmpl_scope_get(scoper *s, arena *memory, size_t count, size_t size) {
    void *at = arena_zget(memory, count, size);
    if (!at) tmpl_scope_fail(s, NULL, QP_NO_MEMORY, "", NULL);
    return at;
}

/* ---- the names of one scope ---- */

symbol *tmpl_scope_own(scoper *s, const scope *names, const vstr *name) {
    tmpl_scope_pay(s, (size_t)names->count);
    for (int i = 0; i < names->count; i++)
        if (names->at[i].name->hash == name->hash && tmpl_text_equal(names->at[i].name, name)) return &names->at[i];
    return NULL;
}

/* The place of a name in this scope or those around it, seen from `from`. */
bool tmpl_scope_find(scoper *s, const scope *names, const scope_func *from, const vstr *name, var_ref *ref) {
    for (; names; names = names->parent) {
        const symbol *found = tmpl_scope_own(s, names, name);
        if (!found) continue;
        ref->slot = found->slot;
        ref->hops = 0;
        for (const scope_func *f = from; f != names->func; f = f->outer) ref->hops++;
        return true;
    }
    return false;
}

static symbol *define(scoper *s, scope *names, const vstr *name, load_kind load) {
    symbol *found = tmpl_scope_own(s, names, name);
    if (s->status != QP_OK) return NULL;
    if (!found) {
        if (names->count == names->capacity) {
            const int capacity = names->capacity ? 2 * names->capacity : 8;
            symbol *at = tmpl_scope_get(s, &s->scratch, (size_t)capacity, sizeof *at);
            if (!at) return NULL;
            if (names->count) memcpy(at, names->at, (size_t)names->count * sizeof *at);
            names->at = at;
            names->capacity = capacity;
        }
        found = &names->at[names->count++];
        if (names->func->info->n_slots >= NO_SLOT)
            return tmpl_scope_fail(s, s->t->body.at[0], QP_TOO_LARGE, "more than 65534 variables", NULL), NULL;
        *found = (symbol){.name = name, .slot = (uint16_t)names->func->info->n_slots++};
    }
    found->load = load;
    return found;
}

static void store_name(scoper *s, scope *names, const vstr *name) {
    symbol *found = tmpl_scope_own(s, names, name);
    var_ref outer;
    if (!found) {
        const bool is_alias = names->parent && tmpl_scope_find(s, names->parent, names->func, name, &outer);
        found = define(s, names, name, is_alias ? LOAD_ALIAS : LOAD_MISSING);
        if (found && is_alias) found->from = outer;
    }
    if (found) found->is_stored = true;
}

symbol *tmpl_scope_declare(scoper *s, scope *names, const vstr *name) {
    symbol *found = define(s, names, name, LOAD_PARAM);
    if (found) found->is_stored = true;
    return found;
}

static void load_name(scoper *s, scope *names, const vstr *name) {
    var_ref ref;
    if (!tmpl_scope_find(s, names, names->func, name, &ref)) define(s, names, name, LOAD_RESOLVE);
}

/* ---- looking: names of a scope from its statements, not entering inner scopes ---- */

void tmpl_scope_look_list(scoper *s, const node_list *list) {
    for (int i = 0; i < list->count && s->status == QP_OK; i++) tmpl_scope_look(s, list->at[i]);
}

static scope copy_scope(scoper *s, const scope *from) {
    scope copy = *from;
    tmpl_scope_pay(s, COPY_WORK * (size_t)from->count);
    if (s->status != QP_OK) return (scope){.parent = from->parent, .func = from->func};
    copy.capacity = from->count;
    copy.at = from->count ? tmpl_scope_get(s, &s->scratch, (size_t)from->count, sizeof *copy.at) : NULL;
    if (copy.at)
        memcpy(copy.at, from->at, (size_t)from->count * sizeof *copy.at);
    else
        copy.count = copy.capacity = 0;
    return copy;
}

/* Joins what the branches of an `if` did: a name set in any of them, but not before, starts as the outer one or comes
 * from the context. */
static void merge_branches(scoper *s, scope *names, const scope *branches, int count) {
    for (int b = 0; b < count; b++)
        for (int i = 0; i < branches[b].count && s->status == QP_OK; i++) {
            const symbol *from = &branches[b].at[i];
            symbol *to = tmpl_scope_own(s, names, from->name);
            if (!to && !(to = define(s, names, from->name, from->load))) return;
            to->is_new |= from->is_stored && !to->is_stored;
        }
    for (int i = 0; i < names->count; i++) {
        symbol *to = &names->at[i];
        if (!to->is_new) continue;
        const bool is_alias = names->parent && tmpl_scope_find(s, names->parent, names->func, to->name, &to->from);
        to->load = is_alias ? LOAD_ALIAS : LOAD_RESOLVE;
        to->is_stored = true;
        to->is_new = false;
    }
}

static void look_if(scoper *s, const node *n) {
    const node_list *const bodies[] = {&n->list, &n->list3, &n->list2};
    tmpl_scope_look(s, n->a);
    scope *names = s->now;
    scope branches[3];
    for (int i = 0; i < 3; i++) {
        branches[i] = copy_scope(s, names);
        s->now = &branches[i];
        tmpl_scope_look_list(s, bodies[i]);
    }
    s->now = names;
    merge_branches(s, names, branches, 3);
}

static void look_children(scoper *s, const node *n) {
    if (n->a) tmpl_scope_look(s, n->a);
    tmpl_scope_look_list(s, &n->list);
    tmpl_scope_look_list(s, &n->list2);
    if (n->b) tmpl_scope_look(s, n->b);
    if (n->c) tmpl_scope_look(s, n->c);
}

void tmpl_scope_look(scoper *s, const node *n) {
    if (s->status != QP_OK) return;
    switch (n->kind) {
    case N_NAME:
        if (n->use == USE_LOAD)
            load_name(s, s->now, n->text);
        else if (n->use == USE_STORE)
            store_name(s, s->now, n->text);
        else
            tmpl_scope_declare(s, s->now, n->text);
        break;
    case N_NSREF:
        load_name(s, s->now, n->text);
        break;
    case N_IF:
        look_if(s, n);
        break;
    case N_MACRO:
        store_name(s, s->now, n->text);
        break;
    case N_SET:
        tmpl_scope_look(s, n->b), tmpl_scope_look(s, n->a);
        break;
    case N_FOR:
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
    case N_SETBLOCK:
        tmpl_scope_look(s, n->a);
        break;
    case N_WITH:
        tmpl_scope_look_list(s, &n->list3);
        break;
    case N_GENERATION:
    case N_SCOPE:
    case N_BLOCK:
    case N_REFUSED:
        break;
    default:
        look_children(s, n);
    }
}

void tmpl_scope_look_targets(scoper *s, const node *target) {
    if (target->kind == N_NAME) tmpl_scope_declare(s, s->now, target->text);
    for (int i = 0; i < target->list.count && s->status == QP_OK; i++) tmpl_scope_look_targets(s, target->list.at[i]);
}

/* Whether `name` is read below without being set there first; blocks are not entered. */
static bool mentions(scoper *s, const node *n, const char *name, bool *is_set);

static bool list_mentions(scoper *s, const node_list *list, const char *name, bool *is_set) {
    for (int i = 0; i < list->count && s->status == QP_OK; i++)
        if (mentions(s, list->at[i], name, is_set)) return true;
    return false;
}

static bool mentions(scoper *s, const node *n, const char *name, bool *is_set) {
    tmpl_scope_pay(s, SCOPE_NODE_WORK);
    if (n->kind == N_BLOCK || *is_set) return false;
    if (n->kind == N_NAME && span_is((span){n->text->at, n->text->bytes}, name)) {
        if (n->use == USE_LOAD) return true;
        *is_set = true;
        return false;
    }
    return (n->a && mentions(s, n->a, name, is_set)) || (n->b && mentions(s, n->b, name, is_set)) ||
           (n->c && mentions(s, n->c, name, is_set)) || list_mentions(s, &n->list, name, is_set) ||
           list_mentions(s, &n->list2, name, is_set) || list_mentions(s, &n->list3, name, is_set);
}

bool tmpl_scope_mentions(scoper *s, const node_list *body, const char *name) {
    bool is_set = false;
    return list_mentions(s, body, name, &is_set);
}
