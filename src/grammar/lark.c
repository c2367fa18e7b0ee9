/* lark.c — grammars in a Lark-like notation: definitions found first, then read.
 *
 * The first pass notes where each definition's body begins; rules are then read in order and terminals when first
 * used, so that a terminal is a finished regular language wherever it stands and one that uses itself is caught. */
#include "fronts.h"
#include "lark_common.h"
#include "lark_reader.h"
#include "pattern.h"

enum { MOST_TERMINAL_DEPTH = 200 };

definition *lark_find(lark *p, span name, size_t at) {
    const name_entry *e = names_find(&p->names, name);
    if (!e) lark_refuse(p, QP_BAD_FORMAT, at, "this name is not defined");
    return e ? &p->definitions[e->extra] : NULL;
}

static bool is_upper(span name) {
    for (size_t i = 0; i < name.bytes; i++)
        if ((name.at[i] | 0x20) >= 'a' && (name.at[i] | 0x20) <= 'z') return name.at[i] >= 'A' && name.at[i] <= 'Z';
    return false;
}

static definition *add_definition(lark *p, definition d) {
    if (p->n_definitions == p->definition_room) {
        const size_t room = p->definition_room ? p->definition_room * 2 : 32;
        definition *more = mem_resize(p->definitions, room, sizeof *more);
        if (!more) return lark_refuse(p, QP_NO_MEMORY, d.offset, "out of memory"), NULL;
        p->definitions = more;
        p->definition_room = room;
    }
    p->definitions[p->n_definitions] = d;
    return &p->definitions[p->n_definitions++];
}

static definition *define(lark *p, span name, size_t at) {
    bool is_new;
    name_entry *e = names_get(&p->names, name, &is_new);
    if (!e) return lark_refuse(p, QP_NO_MEMORY, at, "out of memory"), NULL;
    if (!is_new) return lark_refuse(p, QP_BAD_FORMAT, at, "this name is defined twice"), NULL;
    e->extra = (int)p->n_definitions;
    return add_definition(p, (definition){.name = name, .offset = at, .is_terminal = is_upper(name)});
}

/* ---- the first pass ---- */

/* Over a body: to the end of the line on which it ends. */
static void skip_body(lark *p) {
    int depth = 0;
    char flags[8];
    strbuf scratch = {0};
    while (lark_more(p)) {
        const size_t start = p->at;
        lark_skip(p, depth > 0);
        const char c = lark_peek(p);
        if (c == '\n' || c == '\r') {
            if (!lark_bar(p)) break;
            continue;
        }
        if (lark_take(p, "\""))
            lark_string(p, &scratch), strbuf_clear(&scratch);
        else if (lark_take(p, "/"))
            lark_regex(p, flags);
        else if (lark_take(p, "%json") || lark_take(p, "%regex")) {
            lark_skip(p, true);
            if (lark_take(p, "{")) lark_braces(p);
        } else if (c) {
            depth += c == '(' || c == '[';
            depth -= (c == ')' || c == ']') && depth > 0;
            p->at++;
            if (c == '|') lark_skip(p, true); /* a | at a line's end */
        }
        if (p->at == start) break;
    }
    strbuf_free(&scratch);
}

static void remark(lark *p, size_t at, const char *token, const char *message) {
    char place[48];
    ir_report(p->g, &(ir_entry){IR_REMARK, "", names_place(place, p->text, at), token, message, ""});
}

static void find_definition(lark *p) {
    const size_t start = p->at;
    if (!lark_take(p, "?")) lark_take(p, "!"); /* how a tree is shaped: there is none here */
    const size_t at = p->at;
    const span name = lark_name(p);
    if (!name.bytes) {
        lark_refuse(p, QP_BAD_FORMAT, start, "expected a definition");
        return;
    }
    if (lark_looks_at(p, "{")) lark_refuse(p, QP_UNSUPPORTED, start, "templates are not supported");
    size_t attributes = 0;
    if (lark_take(p, "[")) {
        attributes = p->at;
        strbuf scratch = {0};
        while (lark_more(p) && lark_peek(p) != ']' && lark_peek(p) != '\n')
            if (lark_take(p, "\""))
                lark_string(p, &scratch);
            else
                p->at++;
        strbuf_free(&scratch);
        if (!lark_take(p, "]")) lark_refuse(p, QP_BAD_FORMAT, attributes, "the attributes have no ]");
    }
    uint32_t priority;
    if (lark_take(p, ".") && lark_number(p, &priority))
        remark(p, at, "priority", "priorities do not change the language and are ignored");
    lark_skip(p, false);
    if (!lark_take(p, ":")) lark_refuse(p, QP_BAD_FORMAT, p->at, "expected a colon after the name");
    definition *d = define(p, name, at);
    if (!d) return;
    d->body = p->at;
    d->attributes = attributes;
    skip_body(p);
}

static void import_one(lark *p, span name, span as, size_t at) {
    const char *pattern = lark_common(name);
    if (!pattern) {
        lark_refuse(p, QP_UNSUPPORTED, at, "the common module has no terminal of this name");
        return;
    }
    definition *d = define(p, as.bytes ? as : name, at);
    if (d) d->imported = pattern, d->is_terminal = true;
}

/* Behind %import: common.X, common.X -> Y, common (X, Y). */
static void read_import(lark *p) {
    lark_skip(p, false);
    const size_t at = p->at;
    if (!span_is(lark_name(p), "common")) {
        lark_refuse(p, QP_UNSUPPORTED, at, "imports are supported from common only");
        return;
    }
    if (lark_take(p, ".")) {
        const span name = lark_name(p);
        span as = {NULL, 0};
        lark_skip(p, false);
        if (lark_take(p, "->")) lark_skip(p, false), as = lark_name(p);
        import_one(p, name, as, at);
        return;
    }
    lark_skip(p, false);
    if (!lark_take(p, "(")) lark_refuse(p, QP_BAD_FORMAT, p->at, "expected .NAME or (NAMES)");
    do {
        lark_skip(p, true);
        import_one(p, lark_name(p), (span){NULL, 0}, at);
        lark_skip(p, true);
    } while (lark_take(p, ",") && p->failed == QP_OK);
    if (!lark_take(p, ")")) lark_refuse(p, QP_BAD_FORMAT, p->at, "the list of names has no )");
}

/* Read after all names are known. */
static void find_ignore(lark *p) {
    const definition d = {.offset = p->at, .body = p->at, .is_terminal = true, .is_ignore = true};
    if (add_definition(p, d)) skip_body(p);
}

static void find_all(lark *p) {
    for (lark_skip(p, true); lark_more(p); lark_skip(p, true)) {
        const size_t at = p->at;
        if (lark_take(p, "%import"))
            read_import(p);
        else if (lark_take(p, "%ignore"))
            find_ignore(p);
        else if (lark_looks_at(p, "%"))
            lark_refuse(p, QP_UNSUPPORTED, at, "of % only %import and %ignore stand here");
        else
            find_definition(p);
    }
}

/* ---- the second pass ---- */

rx lark_terminal(lark *p, definition *d, size_t at) {
    if (d->state == LARK_DONE || p->failed != QP_OK) return d->language;
    if (d->state == LARK_OPEN) return lark_refuse(p, QP_BAD_FORMAT, at, "the terminal uses itself"), RX_NONE;
    const size_t index = (size_t)(d - p->definitions), back = p->at;
    const int depth = p->depth;
    if (++p->n_open > MOST_TERMINAL_DEPTH) lark_refuse(p, QP_TOO_LARGE, at, "terminals use each other over 200 deep");
    d->state = LARK_OPEN;
    p->depth = 0;
    rx language = RX_NONE;
    qp_error why;
    if (d->imported) {
        const qp_status status = pattern_parse(ir_pool(p->g), &language, span_of(d->imported), NULL, &why);
        if (status != QP_OK) lark_refuse(p, status, at, why.text);
    } else {
        p->at = d->body;
        language = lark_terminal_body(p);
        p->at = back;
    }
    p->depth = depth;
    p->n_open--;
    p->definitions[index].language = language;
    p->definitions[index].state = LARK_DONE;
    return language;
}

/* What the brackets behind a rule's name ask for. */
typedef struct attributes {
    bool lazy, has_suffix;
    strbuf suffix;
} attributes;

static void read_suffix(lark *p, attributes *a, size_t at) {
    lark_skip(p, false);
    if (lark_take(p, "=")) lark_skip(p, false);
    a->has_suffix = true;
    if (lark_take(p, "\""))
        lark_string(p, &a->suffix);
    else
        lark_refuse(p, QP_UNSUPPORTED, at, "a suffix is a string here");
}

static void read_attribute(lark *p, attributes *a) {
    const size_t at = p->at;
    const span name = lark_name(p);
    if (span_is(name, "lazy"))
        a->lazy = true;
    else if (span_is(name, "suffix"))
        read_suffix(p, a, at);
    else if (span_is(name, "capture")) {
        remark(p, at, "capture", "captured pieces are not reported; the language is the same");
        lark_skip(p, false);
        strbuf label = {0};
        if (lark_take(p, "=") && (lark_skip(p, false), lark_take(p, "\""))) lark_string(p, &label);
        strbuf_free(&label);
    } else if (span_is(name, "stop"))
        lark_refuse(p, QP_UNSUPPORTED, at, "stop is not supported, write suffix");
    else if (span_is(name, "max_tokens"))
        lark_refuse(p, QP_UNSUPPORTED, at, "max_tokens is not supported, count characters with {m,n}");
    else
        lark_refuse(p, QP_UNSUPPORTED, at, "unknown attribute, allowed are lazy, suffix, capture");
}

static void read_attributes(lark *p, const definition *d, attributes *a) {
    p->at = d->attributes;
    do {
        lark_skip(p, false);
        read_attribute(p, a);
        lark_skip(p, false);
    } while (lark_take(p, ",") && p->failed == QP_OK);
}

static void read_rule(lark *p, const definition *d) {
    attributes a = {.lazy = false};
    if (d->attributes) read_attributes(p, d, &a);
    p->at = d->body;
    ir_sym body = IR_NOTHING;
    if (a.lazy || a.has_suffix) {
        rx language = lark_terminal_body(p);
        if (a.has_suffix)
            language = rx_concat(ir_pool(p->g), language, rx_text(ir_pool(p->g), (span){a.suffix.at, a.suffix.bytes}));
        body = ir_lazy_terminal(p->g, language);
    } else {
        body = lark_rule_body(p);
    }
    strbuf_free(&a.suffix);
    if (p->failed == QP_OK) ir_alternative(p->g, d->symbol, &body, 1);
}

static void make_rules(lark *p) {
    for (size_t i = 0; i < p->n_definitions && p->failed == QP_OK; i++) {
        definition *d = &p->definitions[i];
        if (d->is_terminal) continue;
        char *name = mem_copy_text(d->name.at, d->name.bytes);
        if (!name) lark_refuse(p, QP_NO_MEMORY, d->offset, "out of memory");
        d->symbol = ir_rule(p->g, name);
        mem_free(name);
    }
}

static void read_all(lark *p) {
    rx ignored = RX_NONE;
    make_rules(p);
    for (size_t i = 0; i < p->n_definitions && p->failed == QP_OK; i++) {
        definition *d = &p->definitions[i];
        if (!d->is_terminal)
            read_rule(p, d);
        else if (d->attributes)
            lark_refuse(p, QP_UNSUPPORTED, d->attributes, "attributes stand at rules, not at terminals");
        else if (d->is_ignore)
            ignored = rx_or(ir_pool(p->g), ignored, lark_terminal(p, d, d->offset));
        else
            lark_terminal(p, d, d->offset);
    }
    if (ignored != RX_NONE) ir_skip(p->g, ignored);
}

qp_status lark_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    lark p = {.g = g, .text = source, .options = options, .err = err};
    ir_fuse(g, true);
    find_all(&p);
    read_all(&p);
    const name_entry *e = names_find(&p.names, SPAN("start"));
    if (p.failed == QP_OK && !e) p.failed = err_set(err, QP_BAD_FORMAT, 0, "lark: there is no rule \"start\"");
    if (p.failed == QP_OK) *out = p.definitions[e->extra].symbol;
    names_free(&p.names);
    mem_free(p.definitions);
    return p.failed != QP_OK ? p.failed : ir_status(g, err);
}
