/* vocab.h — the pieces of a model: id to text and text to id.
 *
 * All texts lie in one block; an open-addressing table finds them. Several texts may share an id (the last one added
 * is its piece), as a map in a file allows. Filled while loading, read-only afterwards. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "base/mem.h"
#include "base/str.h"

enum { VOCAB_MAX_ID = 1 << 22 };

typedef struct vocab_entry {
    uint32_t at, bytes; /* in `pool` */
    int32_t id;
    uint32_t hash;
} vocab_entry;

typedef struct vocab_slot {
    uint32_t hash, entry; /* entry + 1; 0: free */
} vocab_slot;

typedef struct vocab {
    strbuf pool;
    vocab_entry *entries;
    uint32_t n_entries, entry_capacity;
    vocab_slot *slots;
    uint32_t n_slots;
    int32_t *by_id;             /* entry, -1: none */
    int32_t n_ids, id_capacity; /* n_ids: highest id + 1 */
    uint32_t longest;           /* bytes of the longest piece */
} vocab;

uint32_t vocab_hash(const char *at, size_t bytes);
/* Adds or, for a text that is there, changes the id. */
qp_status vocab_add(vocab *v, span piece, int64_t id, qp_error *err);
void vocab_free(vocab *v);
/* -1: none. */
int32_t vocab_id(const vocab *v, span piece);
/* The same for many texts at once: waits for memory once for all of them. */
void vocab_ids(const vocab *v, const span *pieces, int32_t *ids, size_t n);
/* at == NULL: no such id. */
span vocab_piece(const vocab *v, int32_t id);

#endif
