/* grammar_impl.h — the inside of a grammar and of a matcher, for grammar.c, walk.c, mask.c and matcher.c alone. */
#ifndef GRAMMAR_GRAMMAR_IMPL_H
#define GRAMMAR_GRAMMAR_IMPL_H

#include "grammar/grammar.h"
#include "grammar/rows.h"
#include <pthread.h>
#include <stdatomic.h>

/* One way to read the text so far: the row behind the last terminal, and how far the lexer is in the next. */
typedef struct head {
    uint32_t row;
    uint32_t state; /* of the lexer; HEAD_FRESH: nothing of it has been read yet */
} head;
enum { HEAD_FRESH = 0x40000000, HEAD_STATE = 0x3FFFFFFF };

typedef struct heads {
    head *at;
    uint32_t n, room;
} heads;

typedef struct mask_entry {
    uint32_t key, n_key; /* in mask_cache.keys */
    uint32_t n_allowed;
    uint32_t *bits; /* either all of them ... */
    int32_t *ids;   /* ... or n_allowed ids */
} mask_entry;

typedef struct mask_cache {
    mask_entry *entries;
    uint32_t *table, *keys;
    uint32_t n_entries, n_keys, entry_room, key_room, table_room;
    size_t bytes;
} mask_cache;

/* A state of the automaton of head_set.c. */
typedef struct head_set {
    uint32_t first, n; /* in head_sets.heads */
    uint32_t *row;     /* [256] sets, 0: not known; NULL: never left */
} head_set;
enum { HEAD_SET_DEAD = 1 }; /* no head is left */

typedef struct head_sets {
    head_set *at;
    uint32_t *table;
    uint32_t n, room, table_room;
    heads heads, scratch;
    arena rows;
} head_sets;

struct grammar {
    atomic_int shares;
    trie *vocabulary;
    ir *source;
    cfg rules;
    grammar_limits limits;
    pthread_mutex_t lock; /* over all that follows */
    lexer automaton;
    rows parser;
    mask_cache masks;
    heads stack; /* of a walk */
    head_sets sets;
    uint32_t *tails; /* of a walk: a bit for each tail of the vocabulary (trie.h) */
};

enum { TAIL_BYTES = 64 };

/* What is behind a matcher is its clones' too, until one of them goes on: who wants to write while others have a share
 * of `heads.at` and `firsts` takes copies. */
struct matcher {
    grammar *g;
    atomic_int *shares; /* of the two arrays */
    heads heads;        /* of every position, those of the present last */
    uint32_t *firsts;   /* [n_tokens + 1] where the heads of a position begin */
    size_t n_tokens, first_room;
    char tail[TAIL_BYTES]; /* [n_tail] the newest bytes, for messages and as what forced text continues */
    size_t n_tail;
};

/* ---- walk.c; with the lock held ---- */
/* Adds the heads after a byte behind those of first .. first + n; how many. 0: it may not come, or a failure. */
uint32_t walk_step(grammar *g, heads *s, uint32_t first, uint32_t n, uint8_t byte);
/* The same after a special token. */
uint32_t walk_special(grammar *g, heads *s, uint32_t first, uint32_t n, int32_t id);
/* Sets the bits of all tokens that may follow. */
qp_status walk_mask(grammar *g, const head *now, uint32_t n, uint32_t *bits, qp_error *err);
bool walk_room(heads *s, uint32_t more);
/* Begins a piece of work: full budgets, no failure. */
void walk_begin(grammar *g);
qp_status walk_status(const grammar *g, qp_error *err);
/* The piece of work fails for want of memory; gives 0, as no head. */
uint32_t walk_no_memory(grammar *g);
/* Whether a token (bytes, not in the trie) may follow. */
bool walk_token(grammar *g, const head *now, uint32_t n, span bytes);

/* ---- head_set.c; with the lock held ---- */
void head_sets_close(head_sets *h);
/* Before a mask: forgets all where there are many. */
void head_sets_begin(head_sets *h, uint32_t most);
/* The set of these heads; 0: there is no room. */
uint32_t head_set_find(grammar *g, const head *now, uint32_t n);
const uint32_t *head_set_row(grammar *g, uint32_t set);
/* Computes row[byte]; 0: there is no room, or the walk has failed. */
uint32_t head_set_fill(grammar *g, uint32_t set, uint8_t byte);

/* ---- mask.c ---- */
void mask_cache_close(mask_cache *c);

#endif
