/* rows.h — the parser: Earley's algorithm over rows that know nothing of where they stand in the text.
 *
 * A row is the set of items after a terminal: what is waited for, and for each item the row to which it returns when
 * its rule is complete. Rows are interned by their items, so equal situations, in one text or in many jobs of a
 * grammar, are one row with one number, and a mask remembered for it is found again. Completed rules are worked off
 * before a row is made; only what still waits is its core.
 *
 * The tricky thing is the return label. An item that waits for a rule in the last place of its own would only pass the
 * completion on; where it is the only one, the rule's items return straight to where it would (Leo 1991, turned into
 * tail calls). Right recursion then costs no rows, and a long list has the same row at each element. */
#ifndef GRAMMAR_ROWS_H
#define GRAMMAR_ROWS_H

#include "grammar/lexer.h"

typedef struct row_item {
    uint64_t parameter;
    uint32_t at;     /* position in the cfg */
    uint32_t origin; /* row it returns to; ROW_SELF: the row it lies in */
    uint32_t label;  /* rule that is then complete there */
    uint32_t symbol; /* what it waits for */
} row_item;
enum { ROW_SELF = UINT32_MAX };

typedef struct parse_row {
    uint32_t core, n_core;   /* in rows.items */
    uint32_t waits, n_waits; /* the core and what it predicts, by symbol */
    uint32_t start;          /* state of the lexer; 0: not asked yet */
    uint32_t class;          /* equal for rows that a token cannot tell apart */
    bool accepts;            /* the text may end here */
    bool has_special;
} parse_row;

/* A growing list of items without repeats, the working space of one row. */
typedef struct row_scratch {
    row_item *at;
    uint32_t *table;
    uint32_t n, room, table_room;
} row_scratch;

typedef struct rows {
    const cfg *grammar;
    lexer *lexer;
    size_t bytes, limit_bytes, limit_items, steps;
    parse_row *at;
    row_item *items;
    uint32_t *table;    /* row + 1 by core */
    uint64_t *memo_key; /* row << 32 | state + 1 ... */
    uint32_t *memo_row; /* ... and where its completed terminals lead */
    uint32_t *class_table;
    row_item *class_items;
    uint32_t *class_first; /* [n_classes + 1] */
    uint32_t n_rows, n_items, n_memo, n_classes, n_class_items;
    uint32_t row_room, item_room, table_room, memo_room, class_table_room, class_item_room, class_room;
    row_scratch core, closure;
    uint32_t *predicted; /* by rule: round in which it was predicted */
    uint32_t *waiter;    /* by rule: its only waiter, ROW_SELF: several */
    uint32_t round;
    bool accepts; /* of the row being made */
    qp_status failed;
    char why[96];
} rows;

qp_status rows_open(rows *r, const cfg *grammar, lexer *l, size_t limit_items, size_t limit_bytes, qp_error *err);
void rows_close(rows *r);
qp_status rows_status(const rows *r, qp_error *err);
/* Row 0, where a text begins. */
enum { ROWS_FIRST = 0 };

/* The state of the lexer in which this row begins; 0 on failure. */
uint32_t rows_start(rows *r, uint32_t row);
/* The row after the terminals that are complete in this state of the lexer; ROW_SELF on failure. */
uint32_t rows_scan(rows *r, uint32_t row, uint32_t state);
/* The same out of several: begin, add each, then make. */
void rows_begin(rows *r);
void rows_add(rows *r, uint32_t row, uint32_t state);
/* ROW_SELF if nothing was added, or on failure. */
uint32_t rows_make(rows *r);
/* Adds what waits for a special token with this id. */
void rows_add_special(rows *r, uint32_t row, int32_t id);

#endif
