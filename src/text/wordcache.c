/* wordcache.c — words that a call has met and their ids: making, growing, filling. */
#include "wordcache.h"
#include <stdlib.h>

/* Cache lines of the processor: a line of ours must not straddle two of them. */
static wordcache_line *make_lines(uint32_t n) { return mem_big((size_t)n * sizeof(wordcache_line)); }

void wordcache_start(wordcache *c, uint32_t n, uint32_t limit) {
    *c = (wordcache){.lines = make_lines(n), .n_lines = n, .limit = limit};
    if (!c->lines) c->n_lines = 0;
}

void wordcache_free(wordcache *c) {
    mem_big_free(c->lines, c->n_lines * sizeof *c->lines);
    *c = (wordcache){0};
}

static wordcache_line *place(wordcache *c, uint32_t hash) {
    const uint32_t at = hash & (c->n_lines - 1);
    if (c->lines[at].bytes && !c->lines[at ^ 1].bytes) return &c->lines[at ^ 1];
    if (c->lines[at].bytes) c->lines[at ^ 1] = c->lines[at];
    return &c->lines[at];
}

/* Old words move with their hashes. */
static void grow(wordcache *c) {
    wordcache bigger = {.lines = make_lines(c->n_lines * 2), .n_lines = c->n_lines * 2, .limit = c->limit};
    if (!bigger.lines) {
        c->limit = c->n_lines;
        return;
    }
    for (uint32_t i = 0; i < c->n_lines; i++) {
        const wordcache_line *line = &c->lines[i];
        if (!line->bytes) continue;
        const wordcache_key k = wordcache_key_of((span){(const char *)line->word, line->bytes});
        *place(&bigger, k.hash) = *line;
    }
    wordcache_free(c);
    *c = bigger;
}

void wordcache_put(wordcache *c, const wordcache_key *k, const int32_t *ids, size_t n) {
    if (n > WORDCACHE_IDS) return;
    if (++c->n_misses > c->n_lines && c->n_lines < c->limit) {
        grow(c);
        c->n_misses = 0;
    }
    wordcache_line *line = place(c, k->hash);
    *line = (wordcache_line){.bytes = k->bytes, .n = (uint8_t)n};
    memcpy(line->ids, ids, n * sizeof *ids);
    memcpy(line->word, k->word, sizeof k->word);
}
