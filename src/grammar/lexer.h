/* lexer.h — all terminals that may come next, run at once: a lazy automaton over derivatives.
 *
 * A state is the list of terminals still alive, each with what is left of it. rows.c asks for the start state of a set
 * of terminals; the walks step it byte by byte through rows of 256 numbers that are filled when first needed, a whole
 * class of bytes at a time. States and rows never move and are never dropped while the lexer lives.
 *
 * The tricky thing: that a terminal is complete in a state does not end the others. The parser follows both, the text
 * where it ended and the text where it goes on; only a lazy terminal that is complete ends all. */
#ifndef GRAMMAR_LEXER_H
#define GRAMMAR_LEXER_H

#include "grammar/cfg.h"

/* In a row: 0 unknown, else a state with a flag. LEXER_DEAD: no terminal goes on. LEXER_REST: alive, nothing begun (a
 * complete text). */
enum { LEXER_BLUR = 256 }; /* more bytes than a token of the trie has */
enum { LEXER_DEAD = 1, LEXER_REST = 2, LEXER_STATE = 0x3FFFFFFF, LEXER_COMPLETE = 0x40000000 };
/* LEXER_COMPLETE is set where terminals are complete. */

typedef struct lexer_part {
    uint32_t terminal;
    rx left;
} lexer_part;

typedef struct lexer_state {
    uint32_t *row;                 /* [256], NULL: never left */
    uint32_t parts, n_parts;       /* in lexer.parts */
    uint32_t complete, n_complete; /* in lexer.completed: terminals, rising */
    uint32_t class;                /* equal for states that a token cannot tell apart; 0: not known yet */
    uint8_t loops;                 /* plain text changes nothing: 1 so it is, 2 not (slice.c) */
    uint8_t follows;               /* slices, two bits each: 1 all of it may follow, 2 not (slice.c) */
} lexer_state;

typedef struct lexer {
    rx_pool *pool;
    const cfg *grammar;
    size_t bytes, limit_states, limit_bytes;
    lexer_state *states;
    lexer_part *parts;
    uint32_t *completed, *table;
    uint32_t n_states, n_parts, n_completed, state_room, part_room, completed_room, table_room;
    arena rows;
    rx *blurred; /* by node: itself with its counts blurred, + 1; 0: not known */
    uint32_t n_blurred;
    qp_status failed;
    char why[96];
} lexer;

qp_status lexer_open(lexer *l, const cfg *grammar, rx_pool *pool, size_t limit_states, size_t limit_bytes,
                     qp_error *err);
void lexer_close(lexer *l);
/* The state in which these terminals (rising, without repeats) may begin; LEXER_REST for none. 0 on failure. */
uint32_t lexer_start(lexer *l, const uint32_t *terminals, uint32_t n);
/* Computes row[byte]; 0 on failure. */
uint32_t lexer_fill(lexer *l, uint32_t state, uint8_t byte);
qp_status lexer_status(const lexer *l, qp_error *err);

/* State (with its flag) after a byte. */
static inline uint32_t lexer_step(lexer *l, uint32_t state, uint8_t byte) {
    const uint32_t *row = l->states[state].row;
    const uint32_t next = row ? row[byte] : 0;
    return next ? next : lexer_fill(l, state, byte);
}

/* States with equal classes allow the same tokens as far as terminals decide: counts that no single token can exhaust
 * are taken as equal. */
uint32_t lexer_class(lexer *l, uint32_t state);

#endif
