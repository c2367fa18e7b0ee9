/* tmpl_scope.h — the names of one scope while a template is being built: shared by tmpl_scope.c and tmpl_place.c. */
#ifndef TEXT_TMPL_SCOPE_H
#define TEXT_TMPL_SCOPE_H

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
    scope *now; /* being looked at */
    qp_error *err;
    qp_status status;
} scoper;

/* Records the first failure; `text` is a format for `name` if there is one. Always false. */
bool tmpl_scope_fail(scoper *s, const node *at, qp_status code, const char *text, const vstr *name);
void *tmpl_scope_get(scoper *s, arena *memory, size_t count, size_t size);
symbol *tmpl_scope_own(const scope *names, const vstr *name);
/* The place of a name in this scope or those around it, seen from `from`. */
bool tmpl_scope_find(const scope *names, const scope_func *from, const vstr *name, var_ref *ref);
/* A parameter: its value comes with the call. */
symbol *tmpl_scope_declare(scoper *s, scope *names, const vstr *name);
/* Collects into s->now the names that a node, a list, or an assignment's target uses, without entering inner scopes. */
void tmpl_scope_look(scoper *s, const node *n);
void tmpl_scope_look_list(scoper *s, const node_list *list);
void tmpl_scope_look_targets(scoper *s, const node *target);
/* Whether a body reads `name` before it sets it; blocks are not entered. */
bool tmpl_scope_mentions(const node_list *body, const char *name);

#endif
