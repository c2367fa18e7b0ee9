/* vocab.h — the pieces of a model: id to text and text to id.
 *
 * All pieces lie in one block, each with its id and length before its text, so that a look-up waits for memory twice:
 * for the slot and for the piece. Several texts may share an id (the last one added is its piece), as a map in a file
 * allows. Filled while loading, read-only afterwards. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "base/mem.h"
#include "base/str.h"

enum { VOCAB_MAX_ID = 1 << 22 };

typedef struct vocab_entry {
    int32_t id;
    uint32_t bytes;
    char text[];
} vocab_entry;

typedef struct vocab_slot {
    uint32_t hash, at; /* in `pool`; 0: free */
} vocab_slot;

typedef struct vocab {
    char *pool; /* entries side by side; the first place is none's */
    uint32_t pool_bytes, pool_capacity, n_entries;
    vocab_slot *slots; /* open addressing */
    uint32_t n_slots;
    uint32_t *by_id;            /* places in `pool`, 0: none */
    int32_t n_ids, id_capacity; /* n_ids: highest id + 1 */
    uint32_t longest;           /* bytes of the longest piece */
} vocab;

uint32_t vocab_hash(const char *at, size_t bytes);
/* Room for so many entries (a guess is enough), so that adding them moves nothing. */
qp_status vocab_expect(vocab *v, size_t n_entries, qp_error *err);
/* Adds or, for a text that is there, changes the id. */
qp_status vocab_add(vocab *v, span piece, int64_t id, qp_error *err);
void vocab_free(vocab *v);
/* -1: none. */
int32_t vocab_id(const vocab *v, span piece);
/* The same for many texts at once: waits for memory once for all of them. */
void vocab_ids(const vocab *v, const span *pieces, int32_t *ids, size_t n);
/* at == NULL: no such id. */
span vocab_piece(const vocab *v, int32_t id);
/* Walks over all entries in the order of adding: begin with NULL, ends with NULL. */
const vocab_entry *vocab_next(const vocab *v, const vocab_entry *entry);

#endif
