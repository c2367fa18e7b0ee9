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
    scope *now;  /* being looked at */
    size_t work; /* names looked at and nodes walked over again */
    qp_error *err;
    qp_status status;
} scoper;

/* Records the first failure; `text` is a format for `name` if there is one. Always false. */
bool tmpl_scope_fail(scoper *s, const node *at, qp_status code, const char *text, const vstr *name);
/* Scopes are searched in a row, which is fast for the few names that real templates have; what that costs for many
 * names in many scopes has a limit. */
enum { SCOPE_NODE_WORK = 8 }; /* of a node, where a name in a row is 1 */
void tmpl_scope_pay(scoper *s, size_t work);
void *tmpl_scope_get(scoper *s, arena *memory, size_t count, size_t size);
symbol *tmpl_scope_own(scoper *s, const scope *names, const vstr *name);
/* The place of a name in this scope or those around it, seen from `from`. */
bool tmpl_scope_find(scoper *s, const scope *names, const scope_func *from, const vstr *name, var_ref *ref);
/* A parameter: its value comes with the call. */
symbol *tmpl_scope_declare(scoper *s, scope *names, const vstr *name);
/* Collects into s->now the names that a node, a list, or an assignment's target uses, without entering inner scopes. */
void tmpl_scope_look(scoper *s, const node *n);
void tmpl_scope_look_list(scoper *s, const node_list *list);
void tmpl_scope_look_targets(scoper *s, const node *target);
/* Whether a body reads `name` before it sets it; blocks are not entered. */
bool tmpl_scope_mentions(scoper *s, const node_list *body, const char *name);

#endif
