/* cfg.h — a grammar as flat tables: what the parser (rows.c) runs on.
 *
 * cfg_build cuts away what has no words or cannot be reached, puts the skipped text between terminals, and numbers the
 * rest: terminals for the lexer, special sets, rules. An item of the parser is a position in `at` with a parameter:
 * the count of a repetition, the members that an any-order rule has seen.
 *
 * The tricky thing: a terminal may hold the empty word. Then a rule "nothing or the terminal" stands in its place, and
 * the lexer never ends a terminal before its first byte. */
#ifndef GRAMMAR_CFG_H
#define GRAMMAR_CFG_H

#include "base/mem.h"
#include "grammar/ir.h"

enum { CFG_TERMINAL = 0x40000000, CFG_SPECIAL = 0x20000000, CFG_INDEX = 0x1FFFFFFF };

typedef enum cfg_place {
    CFG_SYMBOL,       /* waits for its symbol, then goes to the next position */
    CFG_END,          /* the rule is complete */
    CFG_REPEAT_FIRST, /* waits for the repeated symbol: nothing or a separator is behind it */
    CFG_REPEAT_AFTER, /* one was seen: complete, or waits for the separator or, without one, the next */
    CFG_ANY_CHOOSE,   /* becomes the members that are left */
    CFG_ANY_MEMBER,   /* waits for one member */
    CFG_ANY_AFTER,    /* one was seen: complete, or waits for the separator or, without one, chooses */
} cfg_place;

typedef struct cfg_position {
    uint8_t place;
    uint8_t member;  /* ANY_MEMBER: its bit */
    uint32_t symbol; /* rule, CFG_TERMINAL | index, CFG_SPECIAL | index; CFG_NO_SYMBOL */
    uint32_t rule;   /* that it is part of */
} cfg_position;
enum { CFG_NO_SYMBOL = UINT32_MAX };

typedef struct cfg_rule {
    const char *name;
    bool nullable, has_separator;
    bool skips_empty;         /* REPEAT of something that may be empty: it need not be counted */
    uint32_t start, n_starts; /* in cfg.starts: first positions of its alternatives */
    uint32_t first;           /* repeat, any order: its first position */
    uint32_t min, max, n_members;
    uint64_t required;
} cfg_rule;

typedef struct cfg_terminal {
    rx language;
    bool lazy;
    const char *name; /* for messages; may be NULL */
} cfg_terminal;

typedef struct cfg_special {
    const int32_t *ids; /* the ir's */
    size_t n;
} cfg_special;

/* Rule 0 is the start: one alternative, never used inside. */
typedef struct cfg {
    arena memory;
    cfg_position *at;
    cfg_rule *rules;
    cfg_terminal *terminals;
    cfg_special *specials;
    uint32_t *starts;
    uint32_t skip; /* the terminal of skipped text, which the first row does not wait for; CFG_NO_SYMBOL: none */
    uint32_t n_at, n_rules, n_terminals, n_specials, n_starts;
} cfg;

/* Reads the ir (which must outlive the cfg; its pool may grow). QP_BAD_FORMAT if the grammar has no text at all. */
qp_status cfg_build(cfg *out, ir *g, qp_error *err);
void cfg_free(cfg *c);

#endif
