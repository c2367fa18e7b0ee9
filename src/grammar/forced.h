/* forced.h — the tokens that must come next because the text must: taken without asking the model.
 *
 * ahead.c asks behind every mask that leaves little. */
#ifndef GRAMMAR_FORCED_H
#define GRAMMAR_FORCED_H

#include "grammar/grammar.h"
#include "text/tok.h"

/* The next `most` of them; 0 where the model has a choice, or where the tokens would not be those that the tokenizer
 * writes. A failure is none: then the model is asked. */
size_t forced_tokens(matcher *m, const tok *t, const trie *vocabulary, int32_t *out, size_t most);

#endif
