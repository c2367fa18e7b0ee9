/* tmpl_expr.c — tokens -> expressions, with Jinja's precedence, lowest first:
 *
 *     x if c else y | or | and | not | == != < <= > >= in (chained) | + - | ~ | * / // % | ** | -x +x | x.y x[y] x()
 *
 * and filters and tests binding tighter than any of the operators but the unary ones: -x|abs is (-x)|abs, while
 * a + b|upper is a + (b|upper). As in Jinja, ** takes its left side first. */
#include "tmpl_parse.h"
#include "tmpl_text.h"

static node *parse_unary(parser *p, bool with_filters);

/* Remembers how deep the tree below `n` is, and refuses what the evaluator's stack could not hold. */
node *tmpl_parse_checked(parser *p, node *n) {
    const node *const children[] = {n->a, n->b, n->c};
    const node_list *const lists[] = {&n->list, &n->list2};
    int depth = 0;
    for (int i = 0; i < 3; i++)
        if (children[i] && children[i]->depth > depth) depth = children[i]->depth;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < lists[i]->count; k++)
            if (lists[i]->at[k]->depth > depth) depth = lists[i]->at[k]->depth;
    n->depth = depth + 1;
    if (n->depth > MAX_NODE_DEPTH)
        return tmpl_parse_fail(p, n->at, QP_TOO_LARGE, "expression nested deeper than %d", MAX_NODE_DEPTH);
    return n;
}

node *tmpl_parse_binary(parser *p, node_kind kind, oper op, size_t at, node *a, node *b) {
    node *n = tmpl_node_new(p, kind, at);
    n->op = (uint8_t)op;
    n->a = a;
    n->b = b;
    return tmpl_parse_checked(p, n);
}

node *tmpl_parse_constant(parser *p, size_t at, value v) {
    node *n = tmpl_node_new(p, N_CONST, at);
    n->val = v;
    return n;
}

/* ---- primary expressions ---- */

static node *parse_string(parser *p) {
    const token *first = tmpl_parse_next(p);
    span text = first->text;
    strbuf joined = {0};
    if (at_kind(p, T_STRING)) { /* adjacent literals are one */
        strbuf_add(&joined, text.at, text.bytes);
        while (at_kind(p, T_STRING)) {
            const span more = tmpl_parse_next(p)->text;
            strbuf_add(&joined, more.at, more.bytes);
        }
        if (joined.failed) tmpl_parse_fail(p, first->at, QP_NO_MEMORY, "out of memory");
        char *kept = joined.failed ? NULL : arena_text(&p->t->memory, joined.at ? joined.at : "", joined.bytes);
        if (!kept) tmpl_parse_fail(p, first->at, QP_NO_MEMORY, "out of memory");
        text = (span){kept, kept ? joined.bytes : 0};
        strbuf_free(&joined);
    }
    return tmpl_parse_constant(p, first->at, (value){.kind = V_STR, .str = tmpl_parse_text(p, text)});
}

static node *parse_name(parser *p, bool with_namespace) {
    static const struct {
        const char *name;
        value val;
    } constants[] = {
        {"true", {.kind = V_BOOL, .truth = true}},
        {"True", {.kind = V_BOOL, .truth = true}},
        {"false", {.kind = V_BOOL, .truth = false}},
        {"False", {.kind = V_BOOL, .truth = false}},
        {"none", {.kind = V_NONE}},
        {"None", {.kind = V_NONE}},
    };
    const token *t = tmpl_parse_next(p);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (span_is(t->text, constants[i].name)) return tmpl_parse_constant(p, t->at, constants[i].val);
    const bool is_nsref = with_namespace && tmpl_parse_skip(p, T_DOT);
    node *n = tmpl_node_new(p, is_nsref ? N_NSREF : N_NAME, t->at);
    n->text = tmpl_parse_text(p, t->text);
    if (is_nsref) n->attr = tmpl_parse_text(p, tmpl_parse_expect(p, T_NAME)->text);
    return n;
}

static node *parse_list(parser *p) {
    node *n = tmpl_node_new(p, N_LIST, tmpl_parse_next(p)->at);
    while (!at_kind(p, T_RBRACKET) && p->status == QP_OK) {
        if (n->list.count) tmpl_parse_expect(p, T_COMMA);
        if (at_kind(p, T_RBRACKET)) break;
        tmpl_node_add(p, &n->list, tmpl_parse_expression(p, true));
    }
    tmpl_parse_expect(p, T_RBRACKET);
    return tmpl_parse_checked(p, n);
}

static node *parse_dict(parser *p) {
    node *n = tmpl_node_new(p, N_DICT, tmpl_parse_next(p)->at);
    while (!at_kind(p, T_RBRACE) && p->status == QP_OK) {
        if (n->list.count) tmpl_parse_expect(p, T_COMMA);
        if (at_kind(p, T_RBRACE)) break;
        tmpl_node_add(p, &n->list, tmpl_parse_expression(p, true));
        tmpl_parse_expect(p, T_COLON);
        tmpl_node_add(p, &n->list, tmpl_parse_expression(p, true));
    }
    tmpl_parse_expect(p, T_RBRACE);
    return tmpl_parse_checked(p, n);
}

node *tmpl_parse_primary(parser *p, bool with_namespace) {
    static const tuple_rules inside = {.with_condition = true, .in_parentheses = true};
    const token *t = p->now;
    node *n;
    switch (t->kind) {
    case T_NAME:
        return parse_name(p, with_namespace);
    case T_STRING:
        return parse_string(p);
    case T_INTEGER:
        tmpl_parse_next(p);
        return tmpl_parse_constant(p, t->at, value_int(t->integer));
    case T_FLOAT:
        tmpl_parse_next(p);
        return tmpl_parse_constant(p, t->at, value_real(t->real));
    case T_LBRACKET:
        return parse_list(p);
    case T_LBRACE:
        return parse_dict(p);
    case T_LPAREN:
        tmpl_parse_next(p);
        n = tmpl_parse_tuple(p, &inside);
        tmpl_parse_expect(p, T_RPAREN);
        return n;
    default:
        return tmpl_parse_fail(p, t->at, QP_BAD_FORMAT, "unexpected '%s'", tmpl_token_name((token_kind)t->kind));
    }
}

/* ---- operators ---- */

static node *parse_unary(parser *p, bool with_filters) {
    const size_t at = p->now->at;
    node *n;
    if (++p->depth > MAX_NODE_DEPTH)
        tmpl_parse_fail(p, at, QP_TOO_LARGE, "expression nested deeper than %d", MAX_NODE_DEPTH);
    if (tmpl_parse_skip(p, T_SUB))
        n = tmpl_parse_binary(p, N_UNARY, OP_NEG, at, parse_unary(p, false), NULL);
    else if (tmpl_parse_skip(p, T_ADD))
        n = tmpl_parse_binary(p, N_UNARY, OP_POS, at, parse_unary(p, false), NULL);
    else
        n = tmpl_parse_primary(p, false);
    n = tmpl_parse_postfix(p, n);
    p->depth--;
    return with_filters ? tmpl_parse_filters_and_tests(p, n) : n;
}

/* One level of left-associative operators: the tokens, what they mean, and the next level down. */
typedef struct level {
    struct {
        token_kind token;
        oper op;
    } rows[4];
    int n_rows;
} level;

static const level power = {{{T_POW, OP_POW}}, 1};
static const level product = {{{T_MUL, OP_MUL}, {T_DIV, OP_DIV}, {T_FLOORDIV, OP_FLOORDIV}, {T_MOD, OP_MOD}}, 4};
static const level sum = {{{T_ADD, OP_ADD}, {T_SUB, OP_SUB}}, 2};

static bool take_operator(parser *p, const level *l, oper *op) {
    for (int i = 0; i < l->n_rows; i++)
        if (tmpl_parse_skip(p, l->rows[i].token)) return *op = l->rows[i].op, true;
    return false;
}

static node *parse_power(parser *p) {
    oper op;
    size_t at = p->now->at;
    node *left = parse_unary(p, true);
    while (take_operator(p, &power, &op)) left = tmpl_parse_binary(p, N_BINARY, op, at, left, parse_unary(p, true));
    return left;
}

static node *parse_product(parser *p) {
    oper op;
    const size_t at = p->now->at;
    node *left = parse_power(p);
    while (take_operator(p, &product, &op)) left = tmpl_parse_binary(p, N_BINARY, op, at, left, parse_power(p));
    return left;
}

static node *parse_concat(parser *p) {
    node *n = tmpl_node_new(p, N_CONCAT, p->now->at);
    do tmpl_node_add(p, &n->list, parse_product(p));
    while (tmpl_parse_skip(p, T_TILDE));
    return n->list.count == 1 ? n->list.at[0] : tmpl_parse_checked(p, n);
}

static node *parse_sum(parser *p) {
    oper op;
    const size_t at = p->now->at;
    node *left = parse_concat(p);
    while (take_operator(p, &sum, &op)) left = tmpl_parse_binary(p, N_BINARY, op, at, left, parse_concat(p));
    return left;
}

static bool take_comparison(parser *p, oper *op) {
    static const struct {
        token_kind token;
        oper op;
    } rows[] = {{T_EQ, OP_EQ}, {T_NE, OP_NE}, {T_LT, OP_LT}, {T_LE, OP_LE}, {T_GT, OP_GT}, {T_GE, OP_GE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tmpl_parse_skip(p, rows[i].token)) return *op = rows[i].op, true;
    if (tmpl_parse_skip_name(p, "in")) return *op = OP_IN, true;
    if (!at_name(p, "not") || p->now[1].kind != T_NAME || !span_is(p->now[1].text, "in")) return false;
    p->now += 2;
    return *op = OP_NOT_IN, true;
}

static node *parse_comparison(parser *p) {
    oper op;
    node *n = tmpl_node_new(p, N_COMPARE, p->now->at);
    n->a = parse_sum(p);
    while (take_comparison(p, &op)) {
        const size_t at = p->now->at;
        tmpl_node_add(p, &n->list, tmpl_parse_binary(p, N_OPERAND, op, at, parse_sum(p), NULL));
    }
    return n->list.count ? tmpl_parse_checked(p, n) : n->a;
}

static node *parse_not(parser *p) {
    const size_t at = p->now->at;
    if (!tmpl_parse_skip_name(p, "not")) return parse_comparison(p);
    if (++p->depth > MAX_NODE_DEPTH)
        return tmpl_parse_fail(p, at, QP_TOO_LARGE, "expression nested deeper than %d", MAX_NODE_DEPTH);
    node *n = tmpl_parse_binary(p, N_UNARY, OP_NOT, at, parse_not(p), NULL);
    p->depth--;
    return n;
}

static node *parse_and(parser *p) {
    const size_t at = p->now->at;
    node *left = parse_not(p);
    while (tmpl_parse_skip_name(p, "and")) left = tmpl_parse_binary(p, N_AND, OP_ADD, at, left, parse_not(p));
    return left;
}

static node *parse_or(parser *p) {
    const size_t at = p->now->at;
    node *left = parse_and(p);
    while (tmpl_parse_skip_name(p, "or")) left = tmpl_parse_binary(p, N_OR, OP_ADD, at, left, parse_and(p));
    return left;
}

node *tmpl_parse_expression(parser *p, bool with_condition) {
    if (++p->depth > MAX_NODE_DEPTH)
        return tmpl_parse_fail(p, p->now->at, QP_TOO_LARGE, "expression nested deeper than %d", MAX_NODE_DEPTH);
    node *n = parse_or(p);
    while (with_condition && at_name(p, "if")) {
        node *condition = tmpl_node_new(p, N_COND, tmpl_parse_next(p)->at);
        condition->a = n;
        condition->b = parse_or(p);
        if (tmpl_parse_skip_name(p, "else")) condition->c = tmpl_parse_expression(p, true);
        n = tmpl_parse_checked(p, condition);
    }
    p->depth--;
    return n;
}

/* ---- tuples and targets ---- */

static bool at_tuple_end(const parser *p, const char *end_name) {
    return at_kind(p, T_VAR_END) || at_kind(p, T_BLOCK_END) || at_kind(p, T_RPAREN) ||
           (end_name && at_name(p, end_name));
}

static node *parse_tuple(parser *p, const tuple_rules *rules, bool with_namespace) {
    node *n = tmpl_node_new(p, N_TUPLE, p->now->at);
    bool is_tuple = false;
    do {
        if (at_tuple_end(p, rules->end_name)) break;
        tmpl_node_add(p, &n->list,
                      rules->is_target ? tmpl_parse_primary(p, with_namespace)
                                       : tmpl_parse_expression(p, rules->with_condition));
        is_tuple |= at_kind(p, T_COMMA);
    } while (tmpl_parse_skip(p, T_COMMA));
    if (!is_tuple && n->list.count) return n->list.at[0];
    if (!is_tuple && !rules->in_parentheses)
        return tmpl_parse_fail(p, p->now->at, QP_BAD_FORMAT, "Expected an expression, got '%s'",
                               tmpl_token_name((token_kind)p->now->kind));
    return tmpl_parse_checked(p, n);
}

node *tmpl_parse_tuple(parser *p, const tuple_rules *rules) { return parse_tuple(p, rules, false); }

/* Turns what was read into a target, or refuses it. */
static void make_target(parser *p, node *n) {
    if (p->status != QP_OK) return;
    if (n->kind == N_NAME)
        n->use = USE_STORE;
    else if (n->kind == N_TUPLE)
        for (int i = 0; i < n->list.count; i++) make_target(p, n->list.at[i]);
    else if (n->kind != N_NSREF)
        tmpl_parse_fail(p, n->at, QP_BAD_FORMAT, "can't assign to this expression");
}

node *tmpl_parse_target(parser *p, const char *end_name, bool with_namespace) {
    const tuple_rules rules = {.is_target = true, .end_name = end_name};
    node *n = parse_tuple(p, &rules, with_namespace);
    make_target(p, n);
    return n;
}

node *tmpl_parse_target_name(parser *p) {
    const token *t = tmpl_parse_expect(p, T_NAME);
    node *n = tmpl_node_new(p, N_NAME, t->at);
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (span_is(t->text, reserved[i]))
            return tmpl_parse_fail(p, t->at, QP_BAD_FORMAT, "can't assign to '%s'", reserved[i]);
    n->text = tmpl_parse_text(p, t->text);
    n->use = USE_STORE;
    return n;
}
