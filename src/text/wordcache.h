/* wordcache.h — words that a call has met and their ids, so that a common word is encoded once.
 *
 * Lives in one call (the tokenizer is shared and takes no locks). A word and its ids fill one cache line; two lines
 * that a hash may use, the older one gives way. Grows while the text brings new words. */
#ifndef TEXT_WORDCACHE_H
#define TEXT_WORDCACHE_H

#include "idvec.h"
#include "base/str.h"

enum { WORDCACHE_BYTES = 31, WORDCACHE_IDS = 7 };

typedef struct wordcache_line {
    uint8_t bytes, n; /* bytes == 0: free */
    uint8_t pad[2];
    int32_t ids[WORDCACHE_IDS];
    uint64_t word[4]; /* padded with zeros */
} wordcache_line;

typedef struct wordcache {
    wordcache_line *lines;
    uint32_t n_lines, n_misses, limit;
} wordcache;

/* A word made ready for comparing. */
typedef struct wordcache_key {
    uint64_t word[4];
    uint32_t hash;
    uint8_t bytes;
} wordcache_key;

static inline bool wordcache_takes(span word) { return word.bytes <= WORDCACHE_BYTES; }

static inline wordcache_key wordcache_key_of(span word) {
    wordcache_key k = {.bytes = (uint8_t)word.bytes};
    memcpy(k.word, word.at, word.bytes);
    uint64_t h = (k.word[0] ^ word.bytes) * 0x9E3779B97F4A7C15ull;
    h = (h ^ h >> 29 ^ k.word[1]) * 0xBF58476D1CE4E5B9ull;
    if (word.bytes > 16) h = (h ^ h >> 32 ^ k.word[2] ^ (k.word[3] * 0x94D049BB133111EBull)) * 0xC4CEB9FE1A85EC53ull;
    k.hash = (uint32_t)(h >> 32);
    return k;
}

static inline bool wordcache_same(const wordcache_line *line, const wordcache_key *k) {
    return line->bytes == k->bytes && line->word[0] == k->word[0] && line->word[1] == k->word[1] &&
           line->word[2] == k->word[2] && line->word[3] == k->word[3];
}

/* Appends the ids of a known word. */
static inline bool wordcache_get(const wordcache *c, const wordcache_key *k, idvec *out) {
    const uint32_t at = k->hash & (c->n_lines - 1);
    const wordcache_line *line = &c->lines[at];
    if (!wordcache_same(line, k)) line = &c->lines[at ^ 1];
    if (!wordcache_same(line, k)) return false;
    if (!idvec_room(out, WORDCACHE_IDS)) return true;
    memcpy(out->at + out->n, line->ids, sizeof line->ids);
    out->n += line->n;
    return true;
}

/* Begins with `n` lines (a power of two) and doubles up to `limit`; no cache where memory is short. */
void wordcache_start(wordcache *c, uint32_t n, uint32_t limit);
void wordcache_put(wordcache *c, const wordcache_key *k, const int32_t *ids, size_t n);
void wordcache_free(wordcache *c);

#endif
