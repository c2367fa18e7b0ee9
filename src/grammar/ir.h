/* ir.h — what every front end makes and the compiler reads: rules over byte-regex terminals.
 *
 * A front end (schema_*, gbnf, lark, pattern) fills an `ir`: symbols are terminals (a regular language, see rx.h),
 * special tokens (by id, never by their text), and rules. The language is exactly that of the context-free grammar:
 * where one terminal ends and the next begins is never guessed, so how a front end cuts its text into terminals
 * changes speed, not meaning. Cut large: a whole string, number, or key with its colon and quotes is one terminal.
 *
 * Symbols are hash-consed: equal terminals, sequences, choices and repetitions get equal numbers. Errors are sticky as
 * in rx.h: ir_status says at the end what went wrong first.
 *
 * The tricky thing: a rule may be used before it has alternatives (recursion): ir_rule first, ir_alternative later. A
 * rule without alternatives has no words; what needs it is cut away by the compiler (and the start symbol without any
 * word is the error "unsatisfiable"). */
#ifndef GRAMMAR_IR_H
#define GRAMMAR_IR_H

#include "grammar/rx.h"

typedef struct ir ir;
typedef uint32_t ir_sym;

enum { IR_NOTHING = 0 /* no word */, IR_EPSILON = 1 /* the empty word */ };
enum { IR_INFINITE = UINT32_MAX };

/* What any front end may be told. Zeros are the defaults. */
typedef struct ir_options {
    const char *whitespace; /* JSON: "compact", "single" (NULL), "pretty:N", "flexible:K", "flexible:inf", or
                               "regex:PATTERN", at most once a gap */
    bool lenient;           /* unsupported assertions are dropped, each with a warning in the report */
    bool any_order;         /* properties in any order (up to 64), instead of the schema's */
    bool repeat_extra_keys; /* additional keys may come twice (the reference profile) */
    bool unicode_escapes;   /* printable characters may also be written as \uXXXX */
    bool ignore_formats;    /* unknown formats are annotations (noted) instead of errors */
    int fraction_digits;    /* most digits after the point; 0: 20; < 0: no limit */
    int exponent_digits;    /* 0: 3; < 0: no limit */
    const char *root;       /* GBNF: the start rule; NULL: "root" */
    int32_t (*token_id)(const void *user, span text); /* of a special token by its text, -1: none; NULL: no tokens */
    const void *token_user;
    const int32_t *specials; /* [n_specials]: the special tokens that free text may have among it */
    size_t n_specials;
} ir_options;

typedef struct ir_limits {
    size_t symbols; /* 0: 500 000 */
    size_t rules;   /* 0: 200 000 */
    rx_limits regex;
} ir_limits;

qp_status ir_new(ir **out, const ir_limits *limits, qp_error *err);
void ir_free(ir *g);
qp_status ir_status(const ir *g, qp_error *err);
/* The pool of this grammar's terminals. Borrowed. */
rx_pool *ir_pool(ir *g);

/* ---- symbols ---- */
/* The empty word may be among the terminal's. */
ir_sym ir_terminal(ir *g, rx language);
static inline ir_sym ir_literal(ir *g, span text) { return ir_terminal(g, rx_text(ir_pool(g), text)); }
/* Ends at its first possible end, and wins there over all terminals that began with it. */
ir_sym ir_lazy_terminal(ir *g, rx language);
/* One of the special tokens with these ids. */
ir_sym ir_special(ir *g, const int32_t *ids, size_t n);
/* A new rule, distinct from all others; `name` is for messages and need not be unique. */
ir_sym ir_rule(ir *g, const char *name);
/* Adds `n` symbols in a row as one more way to write the rule; n == 0: the empty word. */
void ir_alternative(ir *g, ir_sym rule, const ir_sym *symbols, size_t n);
/* The same as rules without a name, hash-consed. */
ir_sym ir_sequence(ir *g, const ir_sym *symbols, size_t n);
ir_sym ir_choice(ir *g, const ir_sym *symbols, size_t n);
/* `min` to `max` times (IR_INFINITE: no end): costs one rule, whatever the numbers. */
ir_sym ir_repeat(ir *g, ir_sym symbol, uint32_t min, uint32_t max);
/* The same with `separator` between two (IR_EPSILON: none). */
ir_sym ir_repeat_between(ir *g, ir_sym symbol, ir_sym separator, uint32_t min, uint32_t max);
static inline ir_sym ir_maybe(ir *g, ir_sym symbol) {
    const ir_sym either[2] = {IR_EPSILON, symbol};
    return ir_choice(g, either, 2);
}
/* Each of up to 64 members at most once, in any order, `separator` between two; those whose bit is set in `required`
 * must come. Costs one rule. */
ir_sym ir_any_order(ir *g, const ir_sym *members, size_t n, ir_sym separator, uint64_t required);
/* What may stand between two terminals (not before the first nor after the last); called once. */
void ir_skip(ir *g, rx language);
void ir_start(ir *g, ir_sym symbol);
/* A part without any text is an error of the compile, also where others stand beside it; `name`, for the error, is
 * copied. */
void ir_need(ir *g, ir_sym part, const char *name);
ir_sym ir_get_start(const ir *g);
/* Rules that are regular and not recursive are made terminals by the compiler: for grammars written by hand, where a
 * terminal is often one character. Off unless asked for; without effect where text is skipped. */
void ir_fuse(ir *g, bool fuse);

/* ---- looking at it (compiler, tests) ---- */
typedef enum ir_kind { IR_IS_TERMINAL, IR_IS_SPECIAL, IR_IS_RULE, IR_IS_REPEAT, IR_IS_ANY_ORDER } ir_kind;
/* Borrowed until the next building call. Epsilon is a rule with one alternative of no symbols, nothing one with none.
 */
typedef struct ir_view {
    ir_kind kind;
    const char *name;      /* rules; NULL: none */
    rx language;           /* terminal */
    bool lazy;             /* terminal */
    const int32_t *ids;    /* special: n */
    const ir_sym *symbols; /* any order: n members; repeat: the one repeated */
    size_t n;              /* rule: number of alternatives */
    ir_sym separator;      /* repeat, any order */
    uint32_t min, max;     /* repeat */
    uint64_t required;     /* any order */
} ir_view;
size_t ir_size(const ir *g); /* symbols are 0 .. size - 1 */
ir_view ir_look(const ir *g, ir_sym symbol);
/* What ir_need was called with: 0, 1, ...; false past the last. */
bool ir_look_need(const ir *g, size_t index, ir_sym *part, const char **name);
const ir_sym *ir_look_alternative(const ir *g, ir_sym rule, size_t index, size_t *n);
rx ir_get_skip(const ir *g); /* RX_NONE: there is none */
bool ir_get_fuse(const ir *g);

/* ---- what the front end has to tell ---- */
typedef enum ir_note {
    IR_NARROWED, /* valid texts that will not be produced, on purpose */
    IR_WARNING,  /* widened because `lenient` asked for it */
    IR_REMARK,   /* an unknown keyword, an ignored priority */
    IR_PROBLEM,  /* refused; the compile fails, after all problems have been collected */
} ir_note;
typedef struct ir_entry {
    ir_note note;
    const char *category; /* problems: "unsupported", "unsatisfiable", "invalid-schema", "limit", "syntax"; else "" */
    const char *path;     /* JSON Pointer ("" is the whole) or "line:column" */
    const char *keyword;  /* or the token; "" where there is none */
    const char *message;  /* one sentence: why */
    const char *hint;     /* one sentence: what to change; "" where there is none */
} ir_entry;
/* All texts are copied. */
void ir_report(ir *g, const ir_entry *entry);
size_t ir_n_entries(const ir *g);
ir_entry ir_get_entry(const ir *g, size_t index);
/* QP_OK without problems; else an error with the first problem's path, keyword, message and hint, and how many more
 * there are. Front ends end with `return ir_verdict(g, err)`. */
qp_status ir_verdict(const ir *g, qp_error *err);

/* A front end: adds the language of `source` to `g` and gives its symbol, without ir_start, so that one may sit inside
 * another (%json in Lark). JSON Schema's is schema_lower (schema_lower.h). */
typedef qp_status ir_front(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err);

#endif
