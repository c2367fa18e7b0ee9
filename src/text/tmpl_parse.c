/* tmpl_parse.c — tokens -> statements. Expressions are tmpl_expr.c's.
 *
 * Each tag is a row of a table. A body ends at one of the names its statement allows; which statements are open is
 * kept so that a wrong end tag is reported with what was expected. */
#include "tmpl_parse.h"
#include "tmpl_text.h"
#include "tmpl_unicode.h"

node *tmpl_parse_fail(parser *p, size_t at, qp_status code, const char *format, ...) {
    static const token end = {.kind = T_EOF};
    char text[400];
    va_list args;
    if (p->status != QP_OK) return &p->broken;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->status = code == QP_NO_MEMORY ? err_no_memory(p->err, sizeof(node), "template tree")
                                     : tmpl_source_fail(&p->t->source, at, p->err, code, "%s", text);
    p->now = &end;
    return &p->broken;
}

node *tmpl_node_new(parser *p, node_kind kind, size_t at) {
    node *n = arena_zget(&p->t->memory, 1, sizeof *n);
    if (!n) return tmpl_parse_fail(p, at, QP_NO_MEMORY, "out of memory");
    n->kind = (uint8_t)kind;
    n->at = (uint32_t)at;
    return n;
}

void tmpl_node_add(parser *p, node_list *list, node *item) {
    if (p->status != QP_OK) return;
    if ((list->count & (list->count - 1)) == 0) { /* grown at powers of two */
        node **at = arena_get(&p->t->memory, list->count ? 2 * (size_t)list->count : 1, sizeof *at);
        if (!at) {
            tmpl_parse_fail(p, item->at, QP_NO_MEMORY, "out of memory");
            return;
        }
        if (list->count) memcpy(at, list->at, (size_t)list->count * sizeof *at);
        list->at = at;
    }
    list->at[list->count++] = item;
}

bool tmpl_is_named_before(parser *p, const node *n, const vstr *name) {
    if (n->list2.count >= MAX_NAMED)
        tmpl_parse_fail(p, p->now->at, QP_TOO_LARGE, "more than %d parameters or keyword arguments", MAX_NAMED);
    for (int i = 0; i < n->list2.count && p->status == QP_OK; i++)
        if (n->list2.at[i]->text->hash == name->hash && tmpl_text_equal(n->list2.at[i]->text, name)) return true;
    return false;
}

vstr *tmpl_parse_text(parser *p, span text) {
    if (p->status != QP_OK) return NULL;
    vstr *s = tmpl_text_shared(&p->t->memory, text);
    if (!s) tmpl_parse_fail(p, p->now->at, QP_NO_MEMORY, "out of memory");
    return s;
}

const token *tmpl_parse_next(parser *p) {
    const token *t = p->now;
    if (t->kind != T_EOF) p->now++;
    return t;
}

bool tmpl_parse_skip(parser *p, token_kind kind) {
    if (!at_kind(p, kind)) return false;
    tmpl_parse_next(p);
    return true;
}

bool tmpl_parse_skip_name(parser *p, const char *name) {
    if (!at_name(p, name)) return false;
    tmpl_parse_next(p);
    return true;
}

static void fail_expected(parser *p, const char *wanted) {
    const token *t = p->now;
    const bool is_name = t->kind == T_NAME;
    if (t->kind == T_EOF)
        tmpl_parse_fail(p, t->at, QP_BAD_FORMAT, "unexpected end of template, expected '%s'.", wanted);
    else
        tmpl_parse_fail(p, t->at, QP_BAD_FORMAT, "expected token '%s', got '%.*s'", wanted,
                        is_name ? (int)(t->text.bytes < 60 ? t->text.bytes : 60) : 60,
                        is_name ? t->text.at : tmpl_token_name((token_kind)t->kind));
}

const token *tmpl_parse_expect(parser *p, token_kind kind) {
    if (!at_kind(p, kind)) fail_expected(p, tmpl_token_name(kind));
    return tmpl_parse_next(p);
}

void tmpl_parse_expect_name(parser *p, const char *name) {
    if (!tmpl_parse_skip_name(p, name)) fail_expected(p, name);
}

/* ---- bodies ---- */

/* The end tags that the open statements wait for, innermost first. */
typedef struct open_tag {
    const char *tag;
    const char *const *ends; /* NULL-terminated */
} open_tag;

static void parse_body(parser *p, node_list *out, const open_tag *open);

static void fail_tag(parser *p, const token *name, const open_tag *open) {
    strbuf text = {.limit = 380};
    if (name)
        strbuf_format(&text, "Encountered unknown tag '%.*s'.", (int)(name->text.bytes < 60 ? name->text.bytes : 60),
                      name->text.at);
    else
        strbuf_text(&text, "Unexpected end of template.");
    if (open) {
        strbuf_text(&text, " Jinja was looking for the following tags: ");
        for (int i = 0; open->ends[i]; i++) strbuf_format(&text, "%s'%s'", i ? " or " : "", open->ends[i]);
        strbuf_format(&text, ". The innermost block that needs to be closed is '%s'.", open->tag);
    }
    tmpl_parse_fail(p, name ? name->at : p->t->source.bytes, QP_BAD_FORMAT, "%s", text.at ? text.at : "unknown tag");
    strbuf_free(&text);
}

/* `%}`, the body, and the `{% name` that ends it, which stays the current token. */
static void body_until(parser *p, node_list *out, const char *tag, const char *const *ends) {
    const open_tag open = {tag, ends};
    tmpl_parse_skip(p, T_COLON);
    tmpl_parse_expect(p, T_BLOCK_END);
    parse_body(p, out, &open);
    if (at_kind(p, T_EOF)) fail_tag(p, NULL, &open);
}

/* The same for a statement with a single end tag, which is read too. */
static void body_of(parser *p, node_list *out, const char *tag, const char *end) {
    const char *const ends[] = {end, NULL};
    body_until(p, out, tag, ends);
    tmpl_parse_next(p);
}

/* ---- statements ---- */

static node *parse_if(parser *p, size_t at) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const tuple_rules rules = {0};
    node *first = tmpl_node_new(p, N_IF, at), *branch = first;
    for (;;) {
        branch->a = tmpl_parse_tuple(p, &rules);
        body_until(p, &branch->list, "if", ends);
        const token *end = tmpl_parse_next(p);
        if (p->status != QP_OK) return first;
        if (span_is(end->text, "elif")) {
            branch = tmpl_node_new(p, N_IF, p->now->at);
            tmpl_node_add(p, &first->list3, branch);
            continue;
        }
        if (span_is(end->text, "else")) body_of(p, &first->list2, "if", "endif");
        return first;
    }
}

static node *parse_for(parser *p, size_t at) {
    static const char *const ends[] = {"endfor", "else", NULL};
    static const tuple_rules rules = {.end_name = "recursive"};
    node *n = tmpl_node_new(p, N_FOR, at);
    n->c = tmpl_parse_target(p, "in", false);
    tmpl_parse_expect_name(p, "in");
    n->a = tmpl_parse_tuple(p, &rules);
    if (tmpl_parse_skip_name(p, "if")) n->b = tmpl_parse_expression(p, true);
    n->is_flag = tmpl_parse_skip_name(p, "recursive");
    body_until(p, &n->list, "for", ends);
    if (span_is(tmpl_parse_next(p)->text, "else")) body_of(p, &n->list2, "for", "endfor");
    return n;
}

static node *parse_set(parser *p, size_t at) {
    static const tuple_rules rules = {.with_condition = true};
    node *target = tmpl_parse_target(p, NULL, true);
    node *n = tmpl_node_new(p, at_kind(p, T_ASSIGN) ? N_SET : N_SETBLOCK, at);
    n->a = target;
    if (tmpl_parse_skip(p, T_ASSIGN)) {
        n->b = tmpl_parse_tuple(p, &rules);
        return n;
    }
    n->b = tmpl_parse_filters(p, NULL, false);
    body_of(p, &n->list, "set", "endset");
    return n;
}

static node *parse_with(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_WITH, at);
    while (!at_kind(p, T_BLOCK_END) && p->status == QP_OK) {
        if (n->list2.count) tmpl_parse_expect(p, T_COMMA);
        tmpl_node_add(p, &n->list2, tmpl_parse_target(p, NULL, false));
        tmpl_parse_expect(p, T_ASSIGN);
        tmpl_node_add(p, &n->list3, tmpl_parse_expression(p, true));
    }
    body_of(p, &n->list, "with", "endwith");
    return n;
}

/* (a, b=1, ...) */
static void parse_signature(parser *p, node *n) {
    tmpl_parse_expect(p, T_LPAREN);
    while (!at_kind(p, T_RPAREN) && p->status == QP_OK) {
        if (n->list2.count) tmpl_parse_expect(p, T_COMMA);
        node *name = tmpl_parse_target_name(p);
        name->use = USE_PARAM;
        if (tmpl_parse_skip(p, T_ASSIGN))
            tmpl_node_add(p, &n->list3, tmpl_parse_expression(p, true));
        else if (n->list3.count)
            tmpl_parse_fail(p, name->at, QP_BAD_FORMAT, "non-default argument follows default argument");
        if (tmpl_is_named_before(p, n, name->text))
            tmpl_parse_fail(p, name->at, QP_BAD_FORMAT, "duplicate argument '%.*s' in macro definition",
                            TEXT_ARG(name->text));
        tmpl_node_add(p, &n->list2, name);
    }
    tmpl_parse_expect(p, T_RPAREN);
}

static node *parse_macro(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_MACRO, at);
    n->text = tmpl_parse_target_name(p)->text;
    parse_signature(p, n);
    body_of(p, &n->list, "macro", "endmacro");
    return n;
}

static node *parse_call(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_CALLBLOCK, at);
    if (at_kind(p, T_LPAREN)) parse_signature(p, n);
    n->a = tmpl_parse_expression(p, true);
    if (n->a->kind != N_CALL) tmpl_parse_fail(p, at, QP_BAD_FORMAT, "expected call");
    body_of(p, &n->list, "call", "endcall");
    return n;
}

static node *parse_generation(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_GENERATION, at);
    body_of(p, &n->list, "generation", "endgeneration");
    return n;
}

static node *parse_filter_block(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_FILTERBLOCK, at);
    n->a = tmpl_parse_filters(p, NULL, true);
    body_of(p, &n->list, "filter", "endfilter");
    return n;
}

static node *parse_print(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_OUTPUT, at);
    while (!at_kind(p, T_BLOCK_END) && p->status == QP_OK) {
        if (n->list.count) tmpl_parse_expect(p, T_COMMA);
        tmpl_node_add(p, &n->list, tmpl_parse_expression(p, true));
    }
    return n;
}

static node *parse_autoescape(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_SCOPE, at);
    n->a = tmpl_parse_expression(p, true);
    body_of(p, &n->list, "autoescape", "endautoescape");
    return n;
}

static bool is_blank(const node_list *body) {
    for (int i = 0; i < body->count; i++)
        for (int k = 0; k < body->at[i]->list.count; k++) {
            const node *item = body->at[i]->list.at[k];
            if (body->at[i]->kind != N_OUTPUT || item->kind != N_DATA || tmpl_lstrip(value_span(item->val)).bytes)
                return false;
        }
    return true;
}

static node *parse_block(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_BLOCK, at);
    const span name = tmpl_parse_expect(p, T_NAME)->text;
    n->text = tmpl_parse_text(p, name);
    n->is_flag = tmpl_parse_skip_name(p, "scoped");
    const bool is_required = tmpl_parse_skip_name(p, "required");
    body_of(p, &n->list, "block", "endblock");
    if (is_required && p->status == QP_OK)
        tmpl_parse_fail(p, at, QP_BAD_FORMAT, "%s",
                        is_blank(&n->list) ? "Required block not found"
                                           : "Required blocks can only contain comments or whitespace");
    if (at_kind(p, T_NAME) && span_equal(p->now->text, name)) tmpl_parse_next(p);
    tmpl_node_add(p, &p->t->blocks, n);
    return n;
}

static node *parse_loop_control(parser *p, size_t at) {
    return tmpl_node_new(p, span_is(p->now[-1].text, "break") ? N_BREAK : N_CONTINUE, at);
}

/* include, import, from, extends: refused when they are reached, as Jinja does without a loader. */
static node *parse_refused(parser *p, size_t at) {
    node *n = tmpl_node_new(p, N_REFUSED, at);
    n->text = tmpl_parse_text(p, p->now[-1].text);
    tmpl_parse_expression(p, true);
    while (!at_kind(p, T_BLOCK_END) && !at_kind(p, T_EOF)) tmpl_parse_next(p); /* as x, with context ... */
    return n;
}

static const struct {
    const char *name;
    node *(*parse)(parser *p, size_t at);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"with", parse_with},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter_block},
    {"print", parse_print},
    {"generation", parse_generation},
    {"break", parse_loop_control},
    {"continue", parse_loop_control},
    {"autoescape", parse_autoescape},
    {"block", parse_block},
    {"include", parse_refused},
    {"import", parse_refused},
    {"from", parse_refused},
    {"extends", parse_refused},
};

/* The statement whose name is the current token; its tag's end is read too. */
static node *parse_statement(parser *p, const open_tag *open) {
    const token *name = p->now;
    if (name->kind != T_NAME) return tmpl_parse_fail(p, name->at, QP_BAD_FORMAT, "tag name expected");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (span_is(name->text, statements[i].name)) {
            tmpl_parse_next(p);
            node *n = statements[i].parse(p, name->at);
            tmpl_parse_expect(p, T_BLOCK_END);
            return n;
        }
    fail_tag(p, name, open);
    return &p->broken;
}

/* Text and {{ }} up to the next statement become one output node. */
static void parse_output(parser *p, node_list *out) {
    static const tuple_rules rules = {.with_condition = true};
    node *n = tmpl_node_new(p, N_OUTPUT, p->now->at);
    while (at_kind(p, T_DATA) || at_kind(p, T_VAR_BEGIN)) {
        const token *t = tmpl_parse_next(p);
        if (t->kind == T_DATA) {
            node *data = tmpl_node_new(p, N_DATA, t->at);
            data->val = (value){.kind = V_STR, .str = tmpl_parse_text(p, t->text)};
            tmpl_node_add(p, &n->list, data);
        } else {
            tmpl_node_add(p, &n->list, tmpl_parse_tuple(p, &rules));
            tmpl_parse_expect(p, T_VAR_END);
        }
    }
    tmpl_node_add(p, out, n);
}

static void parse_body(parser *p, node_list *out, const open_tag *open) {
    if (++p->depth > MAX_NODE_DEPTH)
        tmpl_parse_fail(p, p->now->at, QP_TOO_LARGE, "statements nested deeper than %d", MAX_NODE_DEPTH);
    while (!at_kind(p, T_EOF)) {
        if (!tmpl_parse_skip(p, T_BLOCK_BEGIN)) {
            parse_output(p, out);
            continue;
        }
        for (int i = 0; open && open->ends[i]; i++)
            if (at_name(p, open->ends[i])) {
                p->depth--;
                return;
            }
        tmpl_node_add(p, out, parse_statement(p, open));
    }
    p->depth--;
}

qp_status tmpl_parse(tmpl *t, qp_error *err) {
    token *tokens;
    ERR_TRY(tmpl_lex(&t->source, &t->memory, &tokens, err));
    parser p = {.t = t, .now = tokens, .err = err};
    parse_body(&p, &t->body, NULL);
    return p.status;
}
