/* lark_reader.h — the reading half of the Lark front end: characters, literals, names, places (lark_reader.c), shared
 * with what gives them meaning (lark.c, lark_expr.c). */
#ifndef GRAMMAR_LARK_READER_H
#define GRAMMAR_LARK_READER_H

#include "base/mem.h"
#include "grammar/names.h"

/* What a definition's name holds in name_entry.extra: its number in `definitions`. */
typedef struct definition {
    span name;
    size_t offset;     /* of the name */
    size_t body;       /* behind the colon */
    size_t attributes; /* behind the [; 0: none */
    bool is_terminal;  /* upper case */
    bool is_ignore;    /* of %ignore: without a name */
    enum { LARK_NEW, LARK_OPEN, LARK_DONE } state;
    const char *imported; /* a regular expression instead of a body */
    ir_sym symbol;        /* of a rule */
    rx language;          /* of a terminal that is LARK_DONE */
} definition;

typedef struct lark {
    ir *g;
    span text;
    size_t at;
    int depth;
    const ir_options *options;
    names names;
    definition *definitions;
    size_t n_definitions, definition_room;
    int n_open; /* terminals being read, one inside the other */
    qp_error *err;
    qp_status failed;
} lark;

/* Remembers the first problem, with line and column. */
void lark_refuse(lark *p, qp_status status, size_t at, const char *what);
bool lark_more(const lark *p);
char lark_peek(const lark *p); /* 0 at the end */
bool lark_looks_at(const lark *p, const char *what);
bool lark_take(lark *p, const char *what);
/* Spaces and comments, with `lines` line ends too. */
void lark_skip(lark *p, bool lines);
/* Letters, digits and _; empty if there are none. */
span lark_name(lark *p);
bool lark_number(lark *p, uint32_t *out);
/* Behind the opening quote: the text without escapes, in `out`. */
void lark_string(lark *p, strbuf *out);
/* Behind the opening slash: the pattern, borrowed, and its flags. */
span lark_regex(lark *p, char flags[8]);
/* Behind the opening brace: to the matching one, strings respected; the piece with both. */
span lark_braces(lark *p);
/* Behind a |, at a line's end: whether the definition goes on with a | on a later line, which is then taken. */
bool lark_bar(lark *p);

/* ---- lark_expr.c ---- */
/* The body of a rule / of a terminal, from here to its end. */
ir_sym lark_rule_body(lark *p);
rx lark_terminal_body(lark *p);
/* ---- lark.c ---- */
/* The definition of this name; NULL and a problem if there is none. */
definition *lark_find(lark *p, span name, size_t at);
/* The language of a terminal, read when first asked for. */
rx lark_terminal(lark *p, definition *d, size_t at);

#endif
