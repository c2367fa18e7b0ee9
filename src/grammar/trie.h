/* trie.h — a tokenizer's vocabulary as byte tries, prepared once for all masks.
 *
 * Nodes lie in depth-first order, children by their bytes; a walk (walk.c) is one forward loop over an array. The ids
 * are cut into slices, each with its own trie and mask: where everything of a slice may follow (inside a string, say)
 * its mask is used whole and its trie is not walked. Ids that share bytes hang on one node; special tokens, end tokens
 * and ids without bytes are in no trie and can only be named by their id.
 *
 * Immutable after building: any number of threads may share it. */
#ifndef GRAMMAR_TRIE_H
#define GRAMMAR_TRIE_H

#include "base/str.h"

typedef struct trie trie;

typedef enum trie_flag { TRIE_NORMAL, TRIE_SPECIAL, TRIE_END } trie_flag;

typedef struct trie_source {
    int size; /* ids 0 .. size - 1; masks have this many bits */
    /* The bytes of a token, at == NULL: none (padding), and what it is. */
    span (*bytes)(const void *user, int32_t id, trie_flag *flag);
    const void *user;
} trie_source;

qp_status trie_new(trie **out, const trie_source *source, qp_error *err);
trie *trie_share(trie *t);
void trie_free(trie *t); /* gives back one share */
int trie_size(const trie *t);
span trie_bytes(const trie *t, int32_t id);
trie_flag trie_flag_of(const trie *t, int32_t id);
size_t trie_memory(const trie *t);

/* ---- for walk.c ---- */
typedef struct trie_node {
    uint32_t id : 24, byte : 8;   /* TRIE_NO_ID: no token ends here */
    uint32_t size : 24, pops : 8; /* nodes below and itself; levels to leave behind them */
} trie_node;
enum {
    TRIE_NO_ID = 0xFFFFFF,
    TRIE_MOST_BYTES = 255,
    TRIE_REST = 2,
    TRIE_SLICES = 3,
    TRIE_TAILS = 3,
    TRIE_FEW_CHARS = 12
};

/* Slices 0 and 1: whole characters that stand for themselves in a JSON string, up to 12 of them and more; TRIE_REST:
 * all others. */
typedef struct trie_slice {
    trie_node *nodes;
    uint32_t n_nodes;
    uint32_t *mask; /* [words], with all ids that share bytes */
} trie_slice;
const trie_slice *trie_slice_at(const trie *t, int index);

/* The tail of a token of TRIE_REST: all behind the plain characters that it begins with. Where plain text changes
 * nothing (inside a string that takes any), tokens with one tail may follow or not together. */
typedef struct trie_tails {
    trie_node *nodes; /* a trie of the tails; the ids in it are the tails' numbers */
    uint32_t n_nodes, n;
    uint32_t *first;   /* [n + 1] in ids */
    uint32_t *ids;     /* of the tokens, tail by tail */
    uint32_t *of_node; /* [nodes of TRIE_REST] the tail of the token that ends there */
} trie_tails;
const trie_tails *trie_tails_of(const trie *t);
static inline bool trie_is_plain(uint32_t c) { return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F; }
/* Pairs (id in the trie, other id with the same bytes). */
const int32_t (*trie_twins(const trie *t, size_t *n))[2];
/* Ids of tokens that are too long for the trie. */
const int32_t *trie_long(const trie *t, size_t *n);

#endif
