/* rx_blur.c — an expression without the counts that no short text can reach: what masks are remembered under.
 *
 * A bound that is further away than `most` bytes becomes "far": lower bounds are cut to it, upper ones fall away. Below
 * an intersection or complement nothing is changed, since there a count may decide whether any word is left. */
#include "rx_node.h"
#include "base/mem.h"

static rx blur_repeat(rx_pool *p, const rx_node *n, uint32_t most) {
    const bool is_far = n->max != RX_INFINITE && n->max > most;
    const uint32_t min = n->min < most ? n->min : most;
    return rx_repeat(p, rx_blur(p, n->a, most), min, is_far ? RX_INFINITE : n->max);
}

static rx blur_or(rx_pool *p, const rx_node *n, uint32_t most) {
    rx *parts = mem_array(n->b, sizeof *parts);
    if (!parts) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n->b);
    for (uint32_t i = 0; i < n->b; i++) parts[i] = rx_blur(p, p->kids[n->a + i], most);
    const rx result = rx_or_n(p, parts, n->b);
    mem_free(parts);
    return result;
}

/* Heads of a concatenation in a loop: only those with counts cost anything. */
static rx blur_concat(rx_pool *p, rx a, uint32_t most) {
    size_t n = 1;
    for (rx at = a; rx_is(p, at, RX_OP_CONCAT) && rx_at(p, at)->flags & RX_COUNTS; at = rx_at(p, at)->b) n++;
    rx *parts = mem_array(n, sizeof *parts);
    if (!parts) return rx_fail(p, QP_NO_MEMORY, "regular expressions: out of memory", n);
    rx at = a;
    for (size_t i = 0; i + 1 < n; i++, at = rx_at(p, at)->b) parts[i] = rx_blur(p, rx_at(p, at)->a, most);
    parts[n - 1] = rx_is(p, at, RX_OP_CONCAT) ? at : rx_blur(p, at, most);
    const rx result = rx_concat_n(p, parts, n);
    mem_free(parts);
    return result;
}

rx rx_blur(rx_pool *p, rx a, uint32_t most) {
    const rx_node n = *rx_at(p, a);
    if (!(n.flags & RX_COUNTS) || n.flags & RX_HARD || !rx_step(p, 1)) return a;
    switch ((rx_op)n.op) {
    case RX_OP_REPEAT:
        return blur_repeat(p, &n, most);
    case RX_OP_OR:
        return blur_or(p, &n, most);
    case RX_OP_CONCAT:
        return blur_concat(p, a, most);
    case RX_OP_LAZY:
        return rx_lazy(p, rx_blur(p, n.a, most));
    default:
        return a;
    }
}
