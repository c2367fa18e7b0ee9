/* slice.h — whether a whole slice of the vocabulary may follow a state of the automaton. */
#ifndef GRAMMAR_SLICE_H
#define GRAMMAR_SLICE_H

#include "grammar/lexer.h"

/* Remembered at the state. May say no where the answer is yes: then the slice is walked. */
bool slice_follows(lexer *l, uint32_t state, int slice);

#endif
