/* trie.h — a tokenizer's vocabulary as a byte trie, prepared once for all masks.
 *
 * Nodes lie in depth-first order, children by their bytes; a walk is one forward loop over an array (mask.c).
 * Ids that share bytes are leaves of one node; special tokens, end tokens and ids without bytes are not in the trie
 * and can only be named by their id.
 *
 * Immutable after building: any number of threads may share it. */
#ifndef GRAMMAR_TRIE_H
#define GRAMMAR_TRIE_H

#include "base/str.h"

typedef struct trie trie;

enum { TRIE_NORMAL = 0, TRIE_SPECIAL = 1, TRIE_END = 2 };

typedef struct trie_source {
    int size; /* ids 0 .. size - 1; masks have this many bits */
    /* The bytes of a token, at == NULL: none (padding); *flag is one of TRIE_*. */
    span (*bytes)(const void *user, int32_t id, int *flag);
    const void *user;
} trie_source;

qp_status trie_new(trie **out, const trie_source *source, qp_error *err);
void trie_free(trie *t);
int trie_size(const trie *t);
span trie_bytes(const trie *t, int32_t id);
bool trie_is_special(const trie *t, int32_t id);
bool trie_is_end(const trie *t, int32_t id);
size_t trie_memory(const trie *t);

#endif
