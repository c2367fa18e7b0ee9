/* rx_node.h — the inside of a regex pool, for the rx_*.c files alone: nodes, their table, the sticky failure. */
#ifndef GRAMMAR_RX_NODE_H
#define GRAMMAR_RX_NODE_H

#include "grammar/rx.h"

/* SET a: index of the set. CONCAT a, b: head and tail. OR, AND a, b: first of b numbers in kids, rising. NOT, LAZY a.
 * REPEAT a, min .. max. NONE and EMPTY have nothing. MULTIPLE a, b: modulus
 * and remainder so far (no nodes). */
typedef enum rx_op {
    RX_OP_NONE,
    RX_OP_EMPTY,
    RX_OP_SET,
    RX_OP_CONCAT,
    RX_OP_OR,
    RX_OP_AND,
    RX_OP_NOT,
    RX_OP_REPEAT,
    RX_OP_LAZY,
    RX_OP_MULTIPLE
} rx_op;

enum {
    RX_NULLABLE = 1,
    RX_HARD = 2,     /* an intersection or complement inside: may be empty without being RX_NONE */
    RX_HAS = 4,      /* hard, and known to have a word */
    RX_HAS_NOT = 8,  /* hard, and known to have none */
    RX_COUNTS = 16,  /* a bounded repetition inside */
    RX_ENDLESS = 32, /* for sure infinitely many words, if any at all */
    RX_FINITE = 64,  /* for sure finitely many */
};
enum { RX_MOST_DEPTH = 1000, RX_NO_DERIVATIVE = UINT32_MAX };

typedef struct rx_node {
    uint8_t op, flags;
    uint16_t depth; /* of nesting; tails of concatenations do not count */
    uint32_t a, b, min, max;
    uint32_t derivatives; /* first of the known ones, RX_NO_DERIVATIVE: none */
} rx_node;

typedef struct rx_known {
    rx_set bytes;
    rx result;
    uint32_t next;
} rx_known;

struct rx_pool {
    rx_node *nodes;
    rx_set *sets;
    rx *kids;
    rx_known *known;
    uint32_t *table; /* node + 1 by hash; 0: free */
    uint32_t n_nodes, n_sets, n_kids, n_known;
    uint32_t node_room, set_room, kid_room, known_room, table_room;
    rx single[256]; /* SET nodes of one byte each, RX_NONE: not made yet */
    rx utf8;
    rx_limits limits;
    size_t steps, bytes;
    qp_status failed;
    char why[96];
};

static inline const rx_node *rx_at(const rx_pool *p, rx a) { return &p->nodes[a]; }
static inline bool rx_is(const rx_pool *p, rx a, rx_op op) { return p->nodes[a].op == op; }
static inline const rx_set *rx_set_of(const rx_pool *p, rx a) { return &p->sets[p->nodes[a].a]; }

/* Remembers the first failure; answers RX_NONE. */
rx rx_fail(rx_pool *p, qp_status status, const char *what, size_t limit);
/* Makes room for `more` entries of *array. */
bool rx_room(rx_pool *p, void *array, uint32_t *room, uint32_t used, uint32_t more, size_t size);
/* The number of this node, new or old. For OR and AND, `kids` has wanted->b numbers that are copied when it is new. */
rx rx_intern(rx_pool *p, const rx_node *wanted, const rx *kids);

#endif
