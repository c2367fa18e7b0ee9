/* tmpl_postfix.c — what may follow an expression: .name [index] (arguments) |filter and is test. */
#include "tmpl_parse.h"
#include "tmpl_tables.h"

static bool at_subscript_end(const parser *p) { return at_kind(p, T_RBRACKET) || at_kind(p, T_COMMA); }

static node *parse_subscript_item(parser *p) {
    const size_t at = p->now->at;
    node *first = at_kind(p, T_COLON) ? NULL : tmpl_parse_expression(p, true);
    if (!tmpl_parse_skip(p, T_COLON)) return first;
    node *n = tmpl_node_new(p, N_SLICE, at);
    n->a = first;
    if (!at_kind(p, T_COLON) && !at_subscript_end(p)) n->b = tmpl_parse_expression(p, true);
    if (tmpl_parse_skip(p, T_COLON) && !at_subscript_end(p)) n->c = tmpl_parse_expression(p, true);
    return tmpl_parse_checked(p, n);
}

static node *parse_bracket(parser *p, node *on) {
    const size_t at = tmpl_parse_next(p)->at;
    node *items = tmpl_node_new(p, N_TUPLE, at);
    while (!at_kind(p, T_RBRACKET) && p->status == QP_OK) {
        if (items->list.count) tmpl_parse_expect(p, T_COMMA);
        tmpl_node_add(p, &items->list, parse_subscript_item(p));
    }
    tmpl_parse_expect(p, T_RBRACKET);
    node *n = tmpl_parse_binary(p, N_GETITEM, OP_ADD, at, on,
                                items->list.count == 1 ? items->list.at[0] : tmpl_parse_checked(p, items));
    return n;
}

/* Most attributes of dictionaries, texts and lists are methods, whose rows need not be searched for again. */
static const method_rows *find_rows(parser *p, span name) {
    const method_rows rows = {.of_dict = tmpl_method_find((value){.kind = V_DICT}, name),
                              .of_text = tmpl_method_find((value){.kind = V_STR}, name),
                              .of_list = tmpl_method_find((value){.kind = V_LIST}, name)};
    if (!rows.of_dict && !rows.of_text && !rows.of_list) return NULL;
    method_rows *kept = arena_get(&p->t->memory, 1, sizeof *kept); /* without it the search is made each time */
    if (kept) *kept = rows;
    return kept;
}

static node *parse_dot(parser *p, node *on) {
    const size_t at = tmpl_parse_next(p)->at;
    const token *name = tmpl_parse_next(p);
    if (name->kind == T_INTEGER)
        return tmpl_parse_binary(p, N_GETITEM, OP_ADD, at, on,
                                 tmpl_parse_constant(p, name->at, value_int(name->integer)));
    if (name->kind != T_NAME) return tmpl_parse_fail(p, name->at, QP_BAD_FORMAT, "expected name or number");
    node *n = tmpl_node_new(p, N_GETATTR, at);
    n->a = on;
    n->text = tmpl_parse_text(p, name->text);
    n->row = find_rows(p, name->text);
    const value dict = {.kind = V_DICT};
    n->is_flag =
        name->text.at[0] != '_' && !tmpl_method_find(dict, name->text) && !tmpl_method_is_unsafe(dict, name->text);
    return tmpl_parse_checked(p, n);
}

static void add_keyword(parser *p, node *n) {
    node *keyword = tmpl_node_new(p, N_KEYWORD, p->now->at);
    keyword->text = tmpl_parse_text(p, tmpl_parse_next(p)->text);
    tmpl_parse_next(p);
    keyword->a = tmpl_parse_expression(p, true);
    if (tmpl_is_named_before(p, n, keyword->text))
        tmpl_parse_fail(p, keyword->at, QP_BAD_FORMAT, "keyword argument repeated: %.*s", TEXT_ARG(keyword->text));
    tmpl_node_add(p, &n->list2, tmpl_parse_checked(p, keyword));
}

/* (a, b, name=c, *d, **e) into n->list, list2, b and c. */
static void parse_arguments(parser *p, node *n) {
    const size_t at = tmpl_parse_expect(p, T_LPAREN)->at;
    bool is_first = true, is_right = true;
    while (!at_kind(p, T_RPAREN) && p->status == QP_OK && is_right) {
        if (!is_first) tmpl_parse_expect(p, T_COMMA);
        if (!is_first && at_kind(p, T_RPAREN)) break;
        is_first = false;
        if (at_kind(p, T_MUL)) {
            is_right = !n->b && !n->c;
            tmpl_parse_next(p);
            n->b = tmpl_parse_expression(p, true);
        } else if (at_kind(p, T_POW)) {
            is_right = !n->c;
            tmpl_parse_next(p);
            n->c = tmpl_parse_expression(p, true);
        } else if (at_kind(p, T_NAME) && p->now[1].kind == T_ASSIGN) {
            is_right = !n->c;
            add_keyword(p, n);
        } else {
            is_right = !n->b && !n->c && !n->list2.count;
            tmpl_node_add(p, &n->list, tmpl_parse_expression(p, true));
        }
    }
    if (!is_right) tmpl_parse_fail(p, at, QP_BAD_FORMAT, "invalid syntax for function call expression");
    tmpl_parse_expect(p, T_RPAREN);
}

static node *parse_call(parser *p, node *on) {
    node *n = tmpl_node_new(p, N_CALL, p->now->at);
    n->a = on;
    parse_arguments(p, n);
    return tmpl_parse_checked(p, n);
}

node *tmpl_parse_postfix(parser *p, node *n) {
    for (;;) {
        if (at_kind(p, T_DOT))
            n = parse_dot(p, n);
        else if (at_kind(p, T_LBRACKET))
            n = parse_bracket(p, n);
        else if (at_kind(p, T_LPAREN))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* name or name.name.name */
static vstr *parse_dotted(parser *p) {
    span name = tmpl_parse_expect(p, T_NAME)->text;
    if (!at_kind(p, T_DOT)) return tmpl_parse_text(p, name);
    strbuf joined = {0};
    strbuf_add(&joined, name.at, name.bytes);
    while (tmpl_parse_skip(p, T_DOT)) {
        const span more = tmpl_parse_expect(p, T_NAME)->text;
        strbuf_char(&joined, '.');
        strbuf_add(&joined, more.at, more.bytes);
    }
    char *kept = joined.failed ? NULL : arena_text(&p->t->memory, joined.at, joined.bytes);
    name = (span){kept, joined.bytes};
    strbuf_free(&joined);
    if (!kept) return tmpl_parse_fail(p, p->now->at, QP_NO_MEMORY, "out of memory"), NULL;
    return tmpl_parse_text(p, name);
}

node *tmpl_parse_filters(parser *p, node *on, bool is_inline) {
    while (p->status == QP_OK && (is_inline || at_kind(p, T_PIPE))) {
        if (!is_inline) tmpl_parse_next(p);
        is_inline = false;
        node *n = tmpl_node_new(p, N_FILTER, p->now->at);
        n->a = on;
        n->text = parse_dotted(p);
        if (at_kind(p, T_LPAREN)) parse_arguments(p, n);
        if (p->status == QP_OK) n->row = tmpl_filter_find((span){n->text->at, n->text->bytes});
        on = tmpl_parse_checked(p, n);
    }
    return on;
}

/* A test's argument may come without parentheses: x is divisibleby 3. */
static bool at_bare_argument(const parser *p) {
    switch (p->now->kind) {
    case T_NAME:
        return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static node *parse_test(parser *p, node *on) {
    node *n = tmpl_node_new(p, N_TEST, tmpl_parse_next(p)->at);
    const bool is_negated = tmpl_parse_skip_name(p, "not");
    n->a = on;
    n->text = parse_dotted(p);
    if (at_kind(p, T_LPAREN)) {
        parse_arguments(p, n);
    } else if (at_bare_argument(p)) {
        if (at_name(p, "is"))
            return tmpl_parse_fail(p, p->now->at, QP_BAD_FORMAT, "You cannot chain multiple tests with is");
        tmpl_node_add(p, &n->list, tmpl_parse_postfix(p, tmpl_parse_primary(p, false)));
    }
    if (p->status == QP_OK) n->row = tmpl_test_find((span){n->text->at, n->text->bytes});
    n = tmpl_parse_checked(p, n);
    return is_negated ? tmpl_parse_binary(p, N_UNARY, OP_NOT, n->at, n, NULL) : n;
}

node *tmpl_parse_filters_and_tests(parser *p, node *n) {
    for (;;) {
        if (at_kind(p, T_PIPE))
            n = tmpl_parse_filters(p, n, false);
        else if (at_name(p, "is"))
            n = parse_test(p, n);
        else if (at_kind(p, T_LPAREN))
            n = parse_call(p, n);
        else
            return n;
    }
}
