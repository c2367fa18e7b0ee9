/* rx_search.c — whether a language has a word, and a shortest one: a breadth-first search over derivatives.
 *
 * Without intersections and complements a node other than RX_NONE has a word by construction (rx_build.c lets RX_NONE
 * rise), so the search runs only below those; what it finds is remembered at the nodes. */
#include "rx_node.h"
#include "base/mem.h"

typedef struct visit {
    rx node;
    uint32_t from; /* the visit that led here */
    uint8_t byte;
} visit;

typedef struct search {
    rx_pool *pool;
    visit *at;
    uint32_t n, room;
    uint32_t *table; /* visit + 1 by node */
    uint32_t table_room;
} search;

static bool widen(search *s) {
    if ((s->n + 1) * 2 < s->table_room) return true;
    const uint32_t room = s->table_room ? s->table_room * 2 : 64;
    uint32_t *table = mem_zarray(room, sizeof *table);
    visit *at = table ? mem_resize(s->at, room / 2, sizeof *at) : NULL;
    if (!at) {
        mem_free(table);
        return rx_fail(s->pool, QP_NO_MEMORY, "regular expressions: out of memory", room), false;
    }
    s->at = at;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t slot = s->at[i].node * 2654435761u & (room - 1);
        while (table[slot]) slot = (slot + 1) & (room - 1);
        table[slot] = i + 1;
    }
    mem_free(s->table);
    s->table = table;
    s->table_room = room;
    return true;
}

static bool add(search *s, rx node, uint32_t from, uint8_t byte) {
    if (node == RX_NONE) return true;
    if (!widen(s)) return false;
    uint32_t slot = node * 2654435761u & (s->table_room - 1);
    for (; s->table[slot]; slot = (slot + 1) & (s->table_room - 1))
        if (s->at[s->table[slot] - 1].node == node) return true;
    s->at[s->n] = (visit){node, from, byte};
    s->table[slot] = ++s->n;
    return true;
}

/* Adds what follows the i-th visited node, one entry a class of bytes. */
static bool expand(search *s, uint32_t i) {
    rx_set left = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    for (int b = 0; b < 256; b++) {
        if (!rx_set_has(&left, (uint8_t)b)) continue;
        rx_set same = left;
        const rx next = rx_derive_class(s->pool, s->at[i].node, (uint8_t)b, &same);
        if (!rx_step(s->pool, 1) || !add(s, next, i, (uint8_t)b)) return false;
        for (int w = 0; w < 4; w++) left.bits[w] &= ~same.bits[w];
    }
    return true;
}

static void close_search(search *s) {
    mem_free(s->at);
    mem_free(s->table);
}

/* Sure by its shape: one way of a union is enough, all of a row is needed. Looks a few levels down only. */
static bool plainly_has(const rx_pool *p, rx a, int levels) {
    for (;; a = rx_at(p, a)->b) {
        const rx_node *n = rx_at(p, a);
        if (n->flags & (RX_NULLABLE | RX_HAS)) return true;
        if (!(n->flags & RX_HARD)) return n->op != RX_OP_NONE;
        if (!levels) return false;
        if (n->op == RX_OP_REPEAT || n->op == RX_OP_LAZY) return plainly_has(p, n->a, levels - 1);
        for (uint32_t i = 0; n->op == RX_OP_OR && i < n->b; i++)
            if (plainly_has(p, p->kids[n->a + i], levels - 1)) return true;
        if (n->op != RX_OP_CONCAT || !plainly_has(p, n->a, levels - 1)) return false;
    }
}

/* 1: this node has a word for sure, 0: it has none for sure, -1: look further. */
static int is_decided(const rx_pool *p, rx a) {
    const rx_node *n = rx_at(p, a);
    if (n->op == RX_OP_NONE) return 0;
    if (n->flags & RX_NULLABLE || !(n->flags & RX_HARD) || n->flags & RX_HAS) return 1;
    if (n->flags & RX_HAS_NOT) return 0;
    return plainly_has(p, a, 6) ? 1 : -1;
}

/* Marks the node where a word was found and all those on the way to it. */
static void mark_way(search *s, uint32_t i) {
    for (;; i = s->at[i].from) {
        s->pool->nodes[s->at[i].node].flags |= RX_HAS;
        if (i == 0) return;
    }
}

static bool look_for_word(search *s, rx a) {
    if (!add(s, a, 0, 0)) return false;
    for (uint32_t i = 0; i < s->n; i++) {
        const int decided = is_decided(s->pool, s->at[i].node);
        if (decided == 1) {
            mark_way(s, i);
            return true;
        }
        if (decided < 0 && !expand(s, i)) return false;
    }
    for (uint32_t i = 0; i < s->n && s->pool->failed == QP_OK; i++) s->pool->nodes[s->at[i].node].flags |= RX_HAS_NOT;
    return false;
}

bool rx_has_word(rx_pool *p, rx a) {
    if (p->failed != QP_OK) return false;
    const int decided = is_decided(p, a);
    if (decided >= 0) return decided;
    search s = {.pool = p};
    const bool found = look_for_word(&s, a);
    close_search(&s);
    return found && p->failed == QP_OK;
}

bool rx_shortest(rx_pool *p, rx a, strbuf *out) {
    search s = {.pool = p};
    bool found = add(&s, a, 0, 0);
    uint32_t i = 0;
    for (; found && i < s.n; i++) {
        if (rx_nullable(p, s.at[i].node)) break;
        found = expand(&s, i);
    }
    found = found && i < s.n;
    const size_t start = out->bytes;
    for (; found && i; i = s.at[i].from) strbuf_char(out, (char)s.at[i].byte);
    for (size_t left = start, right = out->bytes; left + 1 < right; left++) {
        const char swap = out->at[left];
        out->at[left] = out->at[--right];
        out->at[right] = swap;
    }
    close_search(&s);
    return found;
}
