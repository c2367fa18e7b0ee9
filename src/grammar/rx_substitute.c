/* rx_substitute.c — a language with every byte spelled differently, as a pattern inside a JSON string is.
 *
 * Works on the expression, node by node with a memo, so that counts stay counts. The images form a prefix code; then
 * a written text has one reading, and intersection and complement commute with the spelling. */
#include "rx_node.h"
#include "base/mem.h"

typedef struct spelling {
    rx_pool *pool;
    const rx *image;
    rx *memo; /* by old node: new node + 1; 0: not yet */
    uint32_t n_memo;
    rx any; /* all that is spelled from any text */
} spelling;

static rx spell(spelling *s, rx a);

static rx spell_set(spelling *s, rx a) {
    const rx_set set = *rx_set_of(s->pool, a);
    rx parts[256];
    size_t n = 0;
    for (int b = 0; b < 256; b++)
        if (rx_set_has(&set, (uint8_t)b)) parts[n++] = s->image[b];
    return rx_or_n(s->pool, parts, n);
}

static rx spell_many(spelling *s, rx a) {
    const rx_node n = *rx_at(s->pool, a);
    rx *parts = mem_array(n.b, sizeof *parts);
    if (!parts) return rx_fail(s->pool, QP_NO_MEMORY, "regular expressions: out of memory", n.b);
    for (uint32_t i = 0; i < n.b; i++) parts[i] = spell(s, s->pool->kids[n.a + i]);
    const rx result = n.op == RX_OP_OR ? rx_or_n(s->pool, parts, n.b) : rx_and_n(s->pool, parts, n.b);
    mem_free(parts);
    return result;
}

/* The tails of a concatenation are walked, then joined from the last. */
static rx spell_concat(spelling *s, rx a) {
    size_t n = 1;
    for (rx at = a; rx_is(s->pool, at, RX_OP_CONCAT); at = rx_at(s->pool, at)->b) n++;
    rx *parts = mem_array(n, sizeof *parts);
    if (!parts) return rx_fail(s->pool, QP_NO_MEMORY, "regular expressions: out of memory", n);
    rx at = a;
    for (size_t i = 0; i < n; i++) {
        const bool is_last = i + 1 == n;
        parts[i] = spell(s, is_last ? at : rx_at(s->pool, at)->a);
        if (!is_last) at = rx_at(s->pool, at)->b;
    }
    const rx result = rx_concat_n(s->pool, parts, n);
    mem_free(parts);
    return result;
}

static rx spell_new(spelling *s, rx a) {
    const rx_node n = *rx_at(s->pool, a);
    switch ((rx_op)n.op) {
    case RX_OP_SET:
        return spell_set(s, a);
    case RX_OP_CONCAT:
        return spell_concat(s, a);
    case RX_OP_OR:
    case RX_OP_AND:
        return spell_many(s, a);
    case RX_OP_NOT:
        return rx_minus(s->pool, s->any, spell(s, n.a));
    case RX_OP_REPEAT:
        return rx_repeat(s->pool, spell(s, n.a), n.min, n.max);
    case RX_OP_LAZY:
        return rx_lazy(s->pool, spell(s, n.a));
    default:
        return a;
    }
}

static rx spell(spelling *s, rx a) {
    if (s->pool->failed != QP_OK) return RX_NONE;
    if (a < s->n_memo && s->memo[a]) return s->memo[a] - 1;
    const rx made = spell_new(s, a);
    if (a < s->n_memo) s->memo[a] = made + 1;
    return made;
}

rx rx_substitute(rx_pool *p, rx a, const rx image[256]) {
    spelling s = {.pool = p, .image = image, .n_memo = p->n_nodes};
    s.memo = mem_zarray(s.n_memo, sizeof *s.memo);
    if (!s.memo) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", s.n_memo);
    s.any = rx_star(p, rx_or_n(p, image, 256));
    const rx result = spell(&s, a);
    mem_free(s.memo);
    return p->failed == QP_OK ? result : RX_NONE;
}
