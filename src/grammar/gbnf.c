/* gbnf.c — grammars in GBNF, the notation of llama.cpp: read by recursive descent into rules of the ir.
 *
 * A rule ends at a line's end outside parentheses, unless the line ends in | or the next begins with it. Names may be
 * used before they are defined; what never is, is refused where it was used first. Groups may nest 200 deep. */
#include "fronts.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "names.h"
#include "pattern.h"

enum { MOST_DEPTH = 200, MOST_COUNT = 1000000 };

typedef struct parser {
    ir *g;
    span text;
    size_t at;
    int depth;
    const ir_options *options;
    names rules;
    qp_error *err;
    qp_status failed;
} parser;

static ir_sym refuse(parser *p, qp_status status, size_t at, const char *what) {
    char place[48];
    if (p->failed == QP_OK)
        p->failed = err_set(p->err, status, at, "gbnf, %s: %s", names_place(place, p->text, at), what);
    return IR_NOTHING;
}

static bool more(const parser *p) { return p->at < p->text.bytes && p->failed == QP_OK; }
static char peek(const parser *p) { return more(p) ? p->text.at[p->at] : 0; }
static bool take(parser *p, const char *what) {
    if (p->failed != QP_OK || !span_starts((span){p->text.at + p->at, p->text.bytes - p->at}, span_of(what)))
        return false;
    p->at += strlen(what);
    return true;
}

static void skip_space(parser *p, bool lines) {
    while (more(p)) {
        const char c = peek(p);
        if (c == '#')
            while (more(p) && peek(p) != '\n' && peek(p) != '\r') p->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            p->at++;
        else
            return;
    }
}

/* ---- characters ---- */

static uint32_t take_hex(parser *p, int n) {
    const size_t start = p->at;
    uint32_t value = 0;
    for (int i = 0; i < n; i++, p->at++) {
        const char c = peek(p);
        const char low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (uint32_t)(low - 'a' + 10);
        else
            return refuse(p, QP_BAD_FORMAT, start, "hexadecimal digits are missing"), 0;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) refuse(p, QP_BAD_FORMAT, start, "no such code point");
    return value;
}

/* One character of a literal or class, escapes resolved. */
static uint32_t take_char(parser *p) {
    const size_t start = p->at;
    uint32_t c = 0;
    if (!take(p, "\\")) {
        const int length = utf8_decode(p->text.at + p->at, p->text.bytes - p->at, &c);
        if (!length) refuse(p, QP_BAD_FORMAT, start, "broken UTF-8");
        p->at += (size_t)length;
        return c;
    }
    if (take(p, "x")) return take_hex(p, 2);
    if (take(p, "u")) return take_hex(p, 4);
    if (take(p, "U")) return take_hex(p, 8);
    static const char letters[] = "nrt\\\"[]-^/'", values[] = "\n\r\t\\\"[]-^/'";
    const char *known = peek(p) ? strchr(letters, peek(p)) : NULL;
    if (!known) return refuse(p, QP_BAD_FORMAT, start, "unknown escape"), 0;
    p->at++;
    return (uint8_t)values[known - letters];
}

static ir_sym take_literal(parser *p) {
    const size_t start = p->at - 1;
    strbuf text = {0};
    while (more(p) && peek(p) != '"' && peek(p) != '\n') strbuf_utf8(&text, take_char(p));
    if (!take(p, "\"")) refuse(p, QP_BAD_FORMAT, start, "the literal has no end");
    if (text.failed) refuse(p, QP_NO_MEMORY, start, "out of memory");
    const ir_sym made = p->failed == QP_OK ? ir_literal(p->g, (span){text.at, text.bytes}) : IR_NOTHING;
    strbuf_free(&text);
    return made;
}

static ir_sym take_class(parser *p) {
    const size_t start = p->at - 1;
    const bool negated = take(p, "^");
    range_list l = {.at = NULL};
    while (more(p) && peek(p) != ']' && peek(p) != '\n') {
        const size_t item = p->at;
        const uint32_t first = take_char(p);
        uint32_t last = first;
        if (peek(p) == '-' && p->at + 1 < p->text.bytes && p->text.at[p->at + 1] != ']') p->at++, last = take_char(p);
        if (last < first) refuse(p, QP_BAD_FORMAT, item, "the range is reversed");
        range_add(&l, first, last);
    }
    if (!take(p, "]")) refuse(p, QP_BAD_FORMAT, start, "the class has no ]");
    if (l.failed) refuse(p, QP_NO_MEMORY, start, "out of memory");
    rx language = RX_NONE;
    if (p->failed == QP_OK)
        language = negated ? rx_chars_except(ir_pool(p->g), l.at, l.n) : rx_chars(ir_pool(p->g), l.at, l.n);
    range_free(&l);
    return ir_terminal(p->g, language);
}

/* ---- names and tokens ---- */

static bool is_name_char(char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '-';
}

static span take_name(parser *p) {
    const size_t start = p->at;
    while (more(p) && is_name_char(peek(p))) p->at++;
    return (span){p->text.at + start, p->at - start};
}

/* The rule of this name, made at its first mention. */
static name_entry *rule_of(parser *p, span name, size_t at) {
    bool is_new;
    name_entry *e = names_get(&p->rules, name, &is_new);
    if (!e) return refuse(p, QP_NO_MEMORY, at, "out of memory"), NULL;
    if (!is_new) return e;
    char *text = mem_copy_text(name.at, name.bytes);
    if (!text) return refuse(p, QP_NO_MEMORY, at, "out of memory"), NULL;
    e->symbol = ir_rule(p->g, text);
    e->offset = at;
    mem_free(text);
    return e;
}

/* <name> or <[id]>. */
static ir_sym take_token(parser *p) {
    const size_t start = p->at - 1;
    const char *end = memchr(p->text.at + p->at, '>', p->text.bytes - p->at);
    if (!end) return refuse(p, QP_BAD_FORMAT, start, "the token has no >");
    const span whole = {p->text.at + start, (size_t)(end + 1 - p->text.at) - start};
    p->at = start + whole.bytes;
    int32_t id = -1;
    if (whole.bytes > 4 && whole.at[1] == '[') {
        int64_t value = 0;
        for (size_t i = 2; i + 2 < whole.bytes && value < INT32_MAX; i++) {
            if (whole.at[i] < '0' || whole.at[i] > '9') return refuse(p, QP_BAD_FORMAT, start, "no token id");
            value = value * 10 + whole.at[i] - '0';
        }
        if (value < INT32_MAX && whole.at[whole.bytes - 2] == ']') id = (int32_t)value;
    } else if (p->options->token_id) {
        id = p->options->token_id(p->options->token_user, whole);
    }
    if (id < 0) return refuse(p, QP_BAD_FORMAT, start, "no such special token");
    return ir_special(p->g, &id, 1);
}

/* ---- expressions ---- */

typedef struct row {
    ir_sym *at;
    size_t n, room;
} row;

static void row_add(parser *p, row *r, ir_sym s) {
    if (r->n == r->room) {
        const size_t room = r->room ? r->room * 2 : 8;
        ir_sym *at = mem_resize(r->at, room, sizeof *at);
        if (!at) {
            refuse(p, QP_NO_MEMORY, p->at, "out of memory");
            return;
        }
        r->at = at;
        r->room = room;
    }
    r->at[r->n++] = s;
}

static ir_sym take_choice(parser *p);

static ir_sym take_group(parser *p) {
    const size_t start = p->at - 1;
    if (++p->depth > MOST_DEPTH) return refuse(p, QP_TOO_LARGE, start, "groups are nested over 200 deep");
    const ir_sym inner = take_choice(p);
    p->depth--;
    if (!take(p, ")")) return refuse(p, QP_BAD_FORMAT, start, "the group has no )");
    return inner;
}

static bool take_number(parser *p, uint32_t *out) {
    const size_t start = p->at;
    uint64_t value = 0;
    for (; more(p) && peek(p) >= '0' && peek(p) <= '9'; p->at++)
        if (value <= MOST_COUNT) value = value * 10 + (uint64_t)(peek(p) - '0');
    if (value > MOST_COUNT) refuse(p, QP_TOO_LARGE, start, "counts are allowed up to 1000000");
    *out = (uint32_t)value;
    return p->at > start;
}

static ir_sym take_repeats(parser *p, ir_sym s) {
    for (;;) {
        const size_t start = p->at;
        uint32_t min = 0, max = IR_INFINITE;
        if (take(p, "+"))
            min = 1;
        else if (take(p, "?"))
            max = 1;
        else if (take(p, "{")) {
            skip_space(p, false);
            if (!take_number(p, &min)) return refuse(p, QP_BAD_FORMAT, start, "the count has no number");
            max = min;
            skip_space(p, false);
            if (take(p, ",")) {
                skip_space(p, false);
                if (!take_number(p, &max)) max = IR_INFINITE;
            }
            skip_space(p, false);
            if (!take(p, "}")) return refuse(p, QP_BAD_FORMAT, start, "the count has no }");
            if (min > max) return refuse(p, QP_BAD_FORMAT, start, "the count is reversed");
        } else if (!take(p, "*"))
            return s;
        s = ir_repeat(p->g, s, min, max);
    }
}

static ir_sym take_item(parser *p) {
    const size_t start = p->at;
    if (take(p, "\"")) return take_literal(p);
    if (take(p, "[")) return take_class(p);
    if (take(p, "(")) return take_group(p);
    if (take(p, ".")) return ir_terminal(p->g, rx_chars_except(ir_pool(p->g), NULL, 0));
    if (take(p, "<")) return take_token(p);
    if (take(p, "!")) return refuse(p, QP_UNSUPPORTED, start, "negated tokens are not supported");
    const span name = take_name(p);
    if (!name.bytes) return refuse(p, QP_BAD_FORMAT, start, "expected a literal, class, group, token or rule name");
    const name_entry *e = rule_of(p, name, start);
    return e ? e->symbol : IR_NOTHING;
}

/* Whether the sequence goes on: not at ) or |, nor at a line's end that ends the rule. */
static bool goes_on(parser *p) {
    skip_space(p, p->depth > 0);
    const char c = peek(p);
    return more(p) && c != '|' && c != ')' && c != '\n' && c != '\r';
}

static ir_sym take_sequence(parser *p) {
    row r = {.at = NULL};
    while (goes_on(p)) {
        const ir_sym item = take_item(p);
        row_add(p, &r, take_repeats(p, item));
    }
    const ir_sym all = p->failed == QP_OK ? ir_sequence(p->g, r.at, r.n) : IR_NOTHING;
    mem_free(r.at);
    return all;
}

/* A | on this line or at the beginning of a later one. */
static bool take_bar(parser *p) {
    const size_t start = p->at;
    skip_space(p, true);
    if (take(p, "|")) return skip_space(p, true), true;
    p->at = start;
    return false;
}

static ir_sym take_choice(parser *p) {
    row r = {.at = NULL};
    skip_space(p, p->depth > 0);
    do row_add(p, &r, take_sequence(p));
    while (take_bar(p));
    const ir_sym any = p->failed == QP_OK ? ir_choice(p->g, r.at, r.n) : IR_NOTHING;
    mem_free(r.at);
    return any;
}

/* ---- rules ---- */

static void take_rule(parser *p) {
    const size_t start = p->at;
    const span name = take_name(p);
    if (!name.bytes) {
        refuse(p, QP_BAD_FORMAT, start, "expected a rule name");
        return;
    }
    skip_space(p, false);
    if (!take(p, "::=")) {
        refuse(p, QP_BAD_FORMAT, p->at, "expected ::= after the rule name");
        return;
    }
    name_entry *e = rule_of(p, name, start);
    if (!e) return;
    if (e->is_defined) {
        refuse(p, QP_BAD_FORMAT, start, "the rule is defined twice");
        return;
    }
    e->is_defined = true;
    const ir_sym rule = e->symbol;
    skip_space(p, true); /* the body may begin on the next line */
    const ir_sym body = take_choice(p);
    if (p->failed == QP_OK) ir_alternative(p->g, rule, &body, 1);
    skip_space(p, false);
    if (more(p) && peek(p) != '\n' && peek(p) != '\r') refuse(p, QP_BAD_FORMAT, p->at, "expected the end of the rule");
}

static void check_names(parser *p) {
    for (size_t i = 0; i < p->rules.n && p->failed == QP_OK; i++)
        if (!p->rules.at[i].is_defined) refuse(p, QP_BAD_FORMAT, p->rules.at[i].offset, "this rule is not defined");
}

qp_status gbnf_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    parser p = {.g = g, .text = source, .options = options, .err = err};
    ir_fuse(g, true);
    for (skip_space(&p, true); more(&p); skip_space(&p, true)) take_rule(&p);
    check_names(&p);
    const char *root = options->root ? options->root : "root";
    const name_entry *e = names_find(&p.rules, span_of(root));
    if (p.failed == QP_OK && !e)
        p.failed = err_set(err, QP_BAD_FORMAT, 0, "gbnf: there is no rule \"%.60s\" to start at", root);
    if (p.failed == QP_OK) *out = e->symbol;
    names_free(&p.rules);
    return p.failed != QP_OK ? p.failed : ir_status(g, err);
}
