/* tmpl_parse.h — the state of parsing a template, shared by tmpl_parse.c (statements) and tmpl_expr.c.
 *
 * Failure is sticky: after the first one the current token is the end of the template and every call returns quickly
 * with a node that nobody looks at, so callers need not check between steps. */
#ifndef TEXT_TMPL_PARSE_H
#define TEXT_TMPL_PARSE_H

#include "tmpl_lex.h"

enum { MAX_NODE_DEPTH = 400, MAX_NAMED = 1000 };

typedef struct parser {
    tmpl *t;
    const token *now;
    qp_error *err;
    qp_status status;
    int depth; /* of calls that recurse */
    node broken;
} parser;

node *tmpl_parse_fail(parser *p, size_t at, qp_status code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
node *tmpl_node_new(parser *p, node_kind kind, size_t at);
/* Whether list2, which has parameters or keyword arguments, has this name; fails when there are too many of them. */
bool tmpl_is_named_before(parser *p, const node *n, const vstr *name);
void tmpl_node_add(parser *p, node_list *list, node *item);
/* A text that belongs to the template; NULL after a failure. */
vstr *tmpl_parse_text(parser *p, span text);

static inline bool at_kind(const parser *p, token_kind kind) { return p->now->kind == kind; }
static inline bool at_name(const parser *p, const char *name) {
    return at_kind(p, T_NAME) && span_is(p->now->text, name);
}
/* Steps over the current token and returns it. */
const token *tmpl_parse_next(parser *p);
bool tmpl_parse_skip(parser *p, token_kind kind);
bool tmpl_parse_skip_name(parser *p, const char *name);
/* Fails unless the current token is of this kind; returns it. */
const token *tmpl_parse_expect(parser *p, token_kind kind);
void tmpl_parse_expect_name(parser *p, const char *name);

typedef struct tuple_rules {
    bool is_target, with_condition, in_parentheses;
    const char *end_name; /* "in", "recursive": a name that ends the tuple; NULL: none */
} tuple_rules;

node *tmpl_parse_expression(parser *p, bool with_condition);
node *tmpl_parse_tuple(parser *p, const tuple_rules *rules);
/* Remembers how deep the tree below a finished node is, and refuses what the evaluator's stack could not hold. */
node *tmpl_parse_checked(parser *p, node *n);
node *tmpl_parse_binary(parser *p, node_kind kind, oper op, size_t at, node *a, node *b);
node *tmpl_parse_constant(parser *p, size_t at, value v);
node *tmpl_parse_primary(parser *p, bool with_namespace);
/* .x [x] (x), as often as they come. */
node *tmpl_parse_postfix(parser *p, node *n);
/* |x, is x and (x), as often as they come. */
node *tmpl_parse_filters_and_tests(parser *p, node *n);
/* A target of an assignment: a name, ns.attribute or a tuple of them. */
node *tmpl_parse_target(parser *p, const char *end_name, bool with_namespace);
node *tmpl_parse_target_name(parser *p);
/* `| name(...)` as often as it comes, on `on` (NULL: what a block has rendered). With `is_inline` the first bar is
 * already read. */
node *tmpl_parse_filters(parser *p, node *on, bool is_inline);

#endif
