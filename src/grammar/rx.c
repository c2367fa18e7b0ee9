/* rx.c — the pool of hash-consed regex nodes: its memory, its table, its limits.
 *
 * rx_build.c decides what is simplified before a node is made, rx_derive.c asks, rx_chars.c knows UTF-8. Here a node
 * is found or made, and the first failure is kept for rx_status. */
#include "rx_node.h"
#include "base/hash.h"
#include "base/mem.h"
#include <stdio.h>

enum { STOP_SHIFT = 12 }; /* 4096 steps are some tens of microseconds */
enum { NODE_LIMIT = 1000000, BYTE_LIMIT = 256 << 20, STEP_LIMIT = 20000000, FIRST_TABLE = 256 };

rx rx_fail(rx_pool *p, qp_status status, const char *what, size_t limit) {
    if (p->failed == QP_OK) {
        p->failed = status;
        snprintf(p->why, sizeof p->why, "%s: over %zu", what, limit);
    }
    return RX_NONE;
}

bool rx_step(rx_pool *p, size_t n) {
    if (p->failed != QP_OK) return false;
    const size_t before = p->steps;
    p->steps += n;
    if ((before ^ p->steps) >> STOP_SHIFT && p->limits.stop.asked && p->limits.stop.asked(p->limits.stop.user)) {
        p->failed = QP_CANCELLED;
        snprintf(p->why, sizeof p->why, "constraint: cancelled while it was compiled");
        return false;
    }
    if (p->steps <= p->limits.steps) return true;
    rx_fail(p, QP_TOO_LARGE, "regular expressions: steps", p->limits.steps);
    return false;
}

bool rx_room(rx_pool *p, void *array, uint32_t *room, uint32_t used, uint32_t more, size_t size) {
    if (p->failed != QP_OK) return false;
    if (more <= *room - used) return true;
    size_t wanted = *room ? (size_t)*room * 2 : 64;
    while (wanted - used < more) wanted *= 2;
    const size_t grown = (wanted - *room) * size;
    if (wanted > UINT32_MAX / 2 || grown > p->limits.bytes || p->bytes > p->limits.bytes - grown) {
        rx_fail(p, QP_TOO_LARGE, "regular expressions: bytes of memory", p->limits.bytes);
        return false;
    }
    void *old, *fresh;
    memcpy(&old, array, sizeof old);
    fresh = mem_resize(old, wanted, size);
    if (!fresh) {
        rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", wanted * size);
        return false;
    }
    memcpy(array, &fresh, sizeof fresh);
    p->bytes += grown;
    *room = (uint32_t)wanted;
    return true;
}

static uint64_t hash_node(const rx_pool *p, const rx_node *n, const rx *kids) {
    if (n->op == RX_OP_SET) return hash_bytes(&p->sets[n->a], sizeof *p->sets, RX_OP_SET);
    const uint32_t plain[5] = {n->op, n->op == RX_OP_OR || n->op == RX_OP_AND ? 0 : n->a, n->b, n->min, n->max};
    const uint64_t h = hash_bytes(plain, sizeof plain, 0);
    return kids ? hash_bytes(kids, n->b * sizeof *kids, h) : h;
}

static const rx *kids_of(const rx_pool *p, const rx_node *n) {
    return n->op == RX_OP_OR || n->op == RX_OP_AND ? &p->kids[n->a] : NULL;
}

static bool is_same(const rx_pool *p, const rx_node *n, const rx_node *wanted, const rx *kids) {
    if (n->op != wanted->op || n->b != wanted->b || n->min != wanted->min || n->max != wanted->max) return false;
    if (kids) return !memcmp(&p->kids[n->a], kids, n->b * sizeof *kids);
    if (n->op == RX_OP_SET) return !memcmp(&p->sets[n->a], &p->sets[wanted->a], sizeof *p->sets);
    return n->a == wanted->a;
}

static bool grow_table(rx_pool *p) {
    if ((p->n_nodes + 1) * 2 < p->table_room) return true;
    const uint32_t room = p->table_room ? p->table_room * 2 : FIRST_TABLE;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) {
        rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", room * sizeof *table);
        return false;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const rx_node *n = &p->nodes[i];
        uint32_t at = (uint32_t)hash_node(p, n, kids_of(p, n)) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(p->table);
    p->bytes += (room - p->table_room) * sizeof *table;
    p->table = table;
    p->table_room = room;
    return true;
}

static uint16_t deeper(const rx_pool *p, rx a, uint16_t depth) {
    const uint16_t inner = (uint16_t)(p->nodes[a].depth + 1);
    return inner > depth ? inner : depth;
}

static void flags_of_concat(const rx_pool *p, rx_node *n) {
    const rx_node *head = &p->nodes[n->a], *tail = &p->nodes[n->b];
    const uint8_t any = head->flags | tail->flags, all = head->flags & tail->flags;
    n->flags = (all & (RX_NULLABLE | RX_FINITE)) | (any & (RX_HARD | RX_COUNTS | RX_ENDLESS));
    n->depth = deeper(p, n->a, tail->depth);
}

static void flags_of_many(const rx_pool *p, rx_node *n, const rx *kids) {
    uint8_t any = 0, all = 0xFF;
    for (uint32_t i = 0; i < n->b; i++) {
        any |= p->nodes[kids[i]].flags;
        all &= p->nodes[kids[i]].flags;
        n->depth = deeper(p, kids[i], n->depth);
    }
    n->flags = any & (RX_HARD | RX_COUNTS);
    if (n->op == RX_OP_OR)
        n->flags |= (any & (RX_NULLABLE | RX_ENDLESS)) | (all & RX_FINITE);
    else
        n->flags |= (all & RX_NULLABLE) | (any & RX_FINITE) | RX_HARD;
}

static void flags_of_one(const rx_pool *p, rx_node *n) {
    const rx_node *inner = &p->nodes[n->a];
    const bool is_bounded = n->max != RX_INFINITE;
    n->flags = inner->flags & (RX_HARD | RX_COUNTS);
    n->depth = deeper(p, n->a, 0);
    if (n->op == RX_OP_NOT) n->flags |= RX_HARD | (inner->flags & RX_NULLABLE ? 0 : RX_NULLABLE);
    if (n->op == RX_OP_NOT && inner->flags & RX_FINITE) n->flags |= RX_ENDLESS;
    if (n->op == RX_OP_LAZY) n->flags |= inner->flags & (RX_NULLABLE | RX_FINITE);
    if (n->op != RX_OP_REPEAT) return;
    if (n->min == 0 || inner->flags & RX_NULLABLE) n->flags |= RX_NULLABLE;
    if (is_bounded || n->min > 1) n->flags |= RX_COUNTS;
    if (!is_bounded || (n->min && inner->flags & RX_ENDLESS)) n->flags |= RX_ENDLESS;
    if (is_bounded) n->flags |= inner->flags & RX_FINITE;
}

/* What follows from the parts: nullable, hard, counts, how many words, depth. */
static void derive_flags(const rx_pool *p, rx_node *n, const rx *kids) {
    if (n->op == RX_OP_CONCAT)
        flags_of_concat(p, n);
    else if (kids)
        flags_of_many(p, n, kids);
    else if (n->op == RX_OP_NOT || n->op == RX_OP_REPEAT || n->op == RX_OP_LAZY)
        flags_of_one(p, n);
    else if (n->op == RX_OP_EMPTY)
        n->flags = RX_NULLABLE | RX_FINITE;
    else if (n->op == RX_OP_SET)
        n->flags = RX_FINITE;
    else if (n->op == RX_OP_MULTIPLE)
        n->flags = RX_ENDLESS | (n->b == 0 ? RX_NULLABLE : 0);
}

static rx add_node(rx_pool *p, const rx_node *wanted, const rx *kids) {
    if (p->n_nodes >= p->limits.nodes) return rx_fail(p, QP_TOO_LARGE, "regular expressions: nodes", p->limits.nodes);
    if (!rx_room(p, &p->nodes, &p->node_room, p->n_nodes, 1, sizeof *p->nodes)) return RX_NONE;
    rx_node n = *wanted;
    n.flags = 0, n.depth = 0, n.derivatives = RX_NO_DERIVATIVE;
    derive_flags(p, &n, kids);
    if (n.depth > RX_MOST_DEPTH) return rx_fail(p, QP_TOO_LARGE, "regular expressions: nesting", RX_MOST_DEPTH);
    if (kids) {
        if (!rx_room(p, &p->kids, &p->kid_room, p->n_kids, n.b, sizeof *p->kids)) return RX_NONE;
        memcpy(p->kids + p->n_kids, kids, n.b * sizeof *kids);
        n.a = p->n_kids;
        p->n_kids += n.b;
    }
    p->nodes[p->n_nodes] = n;
    return p->n_nodes++;
}

rx rx_intern(rx_pool *p, const rx_node *wanted, const rx *kids) {
    if (!rx_step(p, 1) || !grow_table(p)) return RX_NONE;
    uint32_t at = (uint32_t)hash_node(p, wanted, kids) & (p->table_room - 1);
    for (; p->table[at]; at = (at + 1) & (p->table_room - 1))
        if (is_same(p, &p->nodes[p->table[at] - 1], wanted, kids)) return p->table[at] - 1;
    const rx made = add_node(p, wanted, kids);
    if (p->failed != QP_OK) return RX_NONE;
    p->table[at] = made + 1;
    return made;
}

static qp_status add_constants(rx_pool *p, qp_error *err) {
    const rx_set all = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    rx_intern(p, &(rx_node){.op = RX_OP_NONE}, NULL);
    rx_intern(p, &(rx_node){.op = RX_OP_EMPTY}, NULL);
    rx_bytes(p, &all);
    rx_intern(p, &(rx_node){.op = RX_OP_REPEAT, .a = RX_ANY, .max = RX_INFINITE}, NULL);
    return rx_status(p, err);
}

qp_status rx_pool_new(rx_pool **out, const rx_limits *limits, qp_error *err) {
    *out = NULL;
    rx_pool *p = MEM_NEW(rx_pool);
    if (!p) return err_no_memory(err, sizeof *p, "regular expressions");
    if (limits) p->limits = *limits;
    if (!p->limits.nodes) p->limits.nodes = NODE_LIMIT;
    if (!p->limits.bytes) p->limits.bytes = BYTE_LIMIT;
    if (!p->limits.steps) p->limits.steps = STEP_LIMIT;
    const qp_status status = add_constants(p, err);
    if (status != QP_OK)
        rx_pool_free(p);
    else
        *out = p;
    return status;
}

void rx_pool_free(rx_pool *p) {
    if (!p) return;
    mem_free(p->nodes);
    mem_free(p->sets);
    mem_free(p->kids);
    mem_free(p->known);
    mem_free(p->table);
    mem_free(p);
}

qp_status rx_status(const rx_pool *p, qp_error *err) {
    if (p->failed == QP_OK) return QP_OK;
    return err_set(err, p->failed, 0, "%s", p->why);
}

void rx_pool_refuel(rx_pool *p, size_t steps) {
    p->steps = 0;
    p->limits.steps = steps;
    p->limits.stop = (rx_stop){NULL, NULL};
    p->failed = QP_OK; /* what has failed is not kept, so it can be tried again */
}

size_t rx_pool_bytes(const rx_pool *p) { return p->bytes; }
