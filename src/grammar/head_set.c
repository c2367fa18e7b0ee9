/* head_set.c — sets of heads as states of one more lazy automaton, so that behind the end of a terminal, too, a walk
 * costs a load for each node (walk.c), not a step of the parser.
 *
 * Rows are interned, so the same situation comes again as the same heads: each blank of a gap leads from a set to
 * itself, and all tokens that close a string meet in one set.
 *
 * The tricky thing: what is kept is bounded. Once there are too many sets (or no memory for one more) nothing is added
 * any more and the walk goes on with the heads themselves, which gives the same mask; the next mask begins anew. */
#include "grammar_impl.h"
#include "base/hash.h"

enum { FIRST_TABLE = 64 };

void head_sets_close(head_sets *h) {
    mem_free(h->at);
    mem_free(h->table);
    mem_free(h->heads.at);
    mem_free(h->scratch.at);
    arena_free(&h->rows);
    *h = (head_sets){.n = 0};
}

void head_sets_begin(head_sets *h, uint32_t most) {
    if (h->n < most / 2) return;
    if (h->table) memset(h->table, 0, h->table_room * sizeof *h->table);
    arena_reset(&h->rows);
    h->n = h->heads.n = 0;
}

static bool widen_table(head_sets *h) {
    if ((h->n + 1) * 2 < h->table_room) return true;
    const uint32_t room = h->table_room ? h->table_room * 2 : FIRST_TABLE;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return false;
    for (uint32_t i = HEAD_SET_DEAD + 1; i < h->n; i++) {
        const head_set *s = &h->at[i];
        uint32_t at = (uint32_t)hash_bytes(h->heads.at + s->first, s->n * sizeof(head), 0) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i;
    }
    mem_free(h->table);
    h->table = table;
    h->table_room = room;
    return true;
}

static bool has_room(head_sets *h, uint32_t n_heads) {
    if (h->n < HEAD_SET_DEAD + 1) h->n = HEAD_SET_DEAD + 1;
    if (h->n >= h->room) {
        const uint32_t room = h->room ? h->room * 2 : FIRST_TABLE;
        head_set *at = mem_resize(h->at, room, sizeof *at);
        if (!at) return false;
        h->at = at;
        h->room = room;
    }
    return walk_room(&h->heads, n_heads) && widen_table(h);
}

uint32_t head_set_find(grammar *g, const head *now, uint32_t n) {
    head_sets *h = &g->sets;
    if (n == 0) return HEAD_SET_DEAD;
    if (!has_room(h, n)) return 0;
    uint32_t at = (uint32_t)hash_bytes(now, n * sizeof *now, 0) & (h->table_room - 1);
    for (; h->table[at]; at = (at + 1) & (h->table_room - 1)) {
        const head_set *s = &h->at[h->table[at]];
        if (s->n == n && !memcmp(h->heads.at + s->first, now, n * sizeof *now)) return h->table[at];
    }
    if (h->n >= g->limits.head_sets) return 0;
    memcpy(h->heads.at + h->heads.n, now, n * sizeof *now);
    h->at[h->n] = (head_set){.first = h->heads.n, .n = n};
    h->heads.n += n;
    h->table[at] = h->n;
    return h->n++;
}

const uint32_t *head_set_row(grammar *g, uint32_t set) {
    static const uint32_t unknown[256];
    const uint32_t *row = g->sets.at[set].row;
    return row ? row : unknown;
}

uint32_t head_set_fill(grammar *g, uint32_t set, uint8_t byte) {
    head_sets *h = &g->sets;
    const head_set from = h->at[set];
    if (!h->rows.block_bytes) h->rows.block_bytes = 1 << 14;
    uint32_t *row = from.row ? from.row : arena_zget(&h->rows, 256, sizeof *row);
    h->at[set].row = row;
    h->scratch.n = 0;
    if (!row || !walk_room(&h->scratch, from.n)) return 0;
    memcpy(h->scratch.at, h->heads.at + from.first, from.n * sizeof(head));
    const uint32_t n = walk_step(g, &h->scratch, 0, from.n, byte);
    if (g->parser.failed != QP_OK || g->automaton.failed != QP_OK) return 0;
    const uint32_t next = head_set_find(g, h->scratch.at + from.n, n);
    row[byte] = next;
    return next;
}
