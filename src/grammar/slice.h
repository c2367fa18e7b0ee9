/* slice.h — whether a whole slice of the vocabulary may follow a state of the automaton. */
#ifndef GRAMMAR_SLICE_H
#define GRAMMAR_SLICE_H

#include "grammar/lexer.h"

enum { SLICE_UNKNOWN, SLICE_ALL, SLICE_NOT_ALL };

/* What is remembered. */
static inline int slice_known(const lexer *l, uint32_t state, int slice) {
    return l->states[state].follows >> (2 * slice) & 3;
}
/* Remembered at the state. May say no where the answer is yes: then the slice is walked. */
bool slice_follows(lexer *l, uint32_t state, int slice);

/* Whether the state, taken for its class, comes back to itself with every plain character and nothing is complete on
 * the way, as inside a string that takes any text. Remembered. */
bool slice_loops(lexer *l, uint32_t state);

#endif
