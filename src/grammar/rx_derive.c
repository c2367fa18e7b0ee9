/* rx_derive.c — derivatives of regex nodes by a class of bytes, and what is asked through them.
 *
 * A derivative is remembered at its node together with the bytes that share it, so an automaton row (lexer.c) is
 * filled a class at a time. Recursion goes down the nesting only (limited by RX_MOST_DEPTH); tails of concatenations
 * are a loop. */
#include "rx_node.h"
#include "base/mem.h"

bool rx_is_hard(const rx_pool *p, rx a) { return rx_at(p, a)->flags & RX_HARD; }

bool rx_nullable(const rx_pool *p, rx a) { return rx_at(p, a)->flags & RX_NULLABLE; }

static void cut(rx_set *same, const rx_set *by, bool inside) {
    for (int w = 0; w < 4; w++) same->bits[w] &= inside ? by->bits[w] : ~by->bits[w];
}

static rx derive_set(const rx_pool *p, rx a, uint8_t byte, rx tail, rx_set *same) {
    const rx_set *set = rx_set_of(p, a);
    const bool inside = rx_set_has(set, byte);
    cut(same, set, inside);
    return inside ? tail : RX_NONE;
}

static rx derive_inner(rx_pool *p, rx a, uint8_t byte, rx_set *same);

/* d(h1·h2·…·t): the first head, and while the heads can be empty the next ones too. */
static rx derive_concat(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    rx all = RX_NONE;
    for (rx at = a;;) {
        const rx_node n = *rx_at(p, at);
        if (n.op != RX_OP_CONCAT) return rx_or(p, all, derive_inner(p, at, byte, same));
        const bool goes_on = rx_nullable(p, n.a);
        all = rx_or(p, all, rx_concat(p, derive_inner(p, n.a, byte, same), n.b));
        if (!goes_on) return all;
        at = n.b;
    }
}

static rx derive_many(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    const rx_node n = *rx_at(p, a);
    rx few[16], *parts = few;
    if (n.b > 16) parts = mem_array(n.b, sizeof *parts);
    if (!parts) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n.b);
    uint32_t used = 0;
    for (uint32_t i = 0; i < n.b; i++) {
        const rx d = derive_inner(p, p->kids[n.a + i], byte, same);
        if (d != RX_NONE || n.op == RX_OP_AND) parts[used++] = d;
    }
    const rx result = n.op == RX_OP_OR ? rx_or_n(p, parts, used) : rx_and_n(p, parts, used);
    if (parts != few) mem_free(parts);
    return result;
}

static rx derive_repeat(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    const rx_node n = *rx_at(p, a);
    const uint32_t min = n.min ? n.min - 1 : 0, max = n.max == RX_INFINITE ? RX_INFINITE : n.max - 1;
    const rx d = derive_inner(p, n.a, byte, same);
    return d == RX_NONE ? RX_NONE : rx_concat(p, d, rx_repeat(p, n.a, min, max));
}

static rx derive_multiple(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    static const rx_set other = {{~((uint64_t)0x3FF << '0' | (uint64_t)1 << '.'), UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    const rx_node n = *rx_at(p, a);
    const bool is_digit = byte >= '0' && byte <= '9';
    rx_set only = {{0}};
    rx_set_add(&only, byte);
    cut(same, is_digit || byte == '.' ? &only : &other, true);
    if (!is_digit) return byte == '.' ? a : RX_NONE;
    const uint64_t remainder = ((uint64_t)n.b * 10 + (uint64_t)(byte - '0')) % n.a;
    return rx_intern(p, &(rx_node){.op = RX_OP_MULTIPLE, .a = n.a, .b = (uint32_t)remainder}, NULL);
}

static rx compute(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    switch ((rx_op)rx_at(p, a)->op) {
    case RX_OP_CONCAT:
        return derive_concat(p, a, byte, same);
    case RX_OP_OR:
    case RX_OP_AND:
        return derive_many(p, a, byte, same);
    case RX_OP_NOT:
        return rx_not(p, derive_inner(p, rx_at(p, a)->a, byte, same));
    case RX_OP_REPEAT:
        return derive_repeat(p, a, byte, same);
    case RX_OP_MULTIPLE:
        return derive_multiple(p, a, byte, same);
    case RX_OP_LAZY:
        return rx_lazy(p, derive_inner(p, rx_at(p, a)->a, byte, same));
    default:
        return RX_NONE;
    }
}

static rx derive_known(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    for (uint32_t i = rx_at(p, a)->derivatives; i != RX_NO_DERIVATIVE; i = p->known[i].next) {
        if (!rx_set_has(&p->known[i].bytes, byte)) continue;
        cut(same, &p->known[i].bytes, true);
        return p->known[i].result;
    }
    rx_set class = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    const rx result = compute(p, a, byte, &class);
    if (!rx_step(p, 1) || !rx_room(p, &p->known, &p->known_room, p->n_known, 1, sizeof *p->known)) return RX_NONE;
    p->known[p->n_known] = (rx_known){class, result, p->nodes[a].derivatives};
    p->nodes[a].derivatives = p->n_known++;
    cut(same, &class, true);
    return result;
}

static rx derive_inner(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    const rx_node *n = rx_at(p, a);
    if (n->op <= RX_OP_EMPTY) return RX_NONE;
    if (n->op == RX_OP_SET) return derive_set(p, a, byte, RX_EMPTY, same);
    if (n->op == RX_OP_CONCAT && rx_is(p, n->a, RX_OP_SET)) return derive_set(p, n->a, byte, n->b, same);
    return derive_known(p, a, byte, same);
}

rx rx_derive_class(rx_pool *p, rx a, uint8_t byte, rx_set *same) {
    const rx result = derive_inner(p, a, byte, same);
    return p->failed == QP_OK ? result : RX_NONE;
}

rx rx_derive(rx_pool *p, rx a, uint8_t byte) {
    rx_set same = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    return rx_derive_class(p, a, byte, &same);
}

bool rx_matches(rx_pool *p, rx a, span text) {
    for (size_t i = 0; i < text.bytes && a != RX_NONE; i++) a = rx_derive(p, a, (uint8_t)text.at[i]);
    return rx_nullable(p, a) && p->failed == QP_OK;
}

void rx_first(rx_pool *p, rx a, rx_set *out) {
    rx_set left = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    *out = (rx_set){{0}};
    for (int b = 0; b < 256; b++) {
        if (!rx_set_has(&left, (uint8_t)b)) continue;
        rx_set same = left;
        const rx d = rx_derive_class(p, a, (uint8_t)b, &same);
        for (int w = 0; w < 4; w++) {
            left.bits[w] &= ~same.bits[w];
            if (d != RX_NONE) out->bits[w] |= same.bits[w];
        }
        left.bits[b >> 6] &= ~((uint64_t)1 << (b & 63));
    }
}
