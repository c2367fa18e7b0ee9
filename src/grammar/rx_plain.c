/* rx_plain.c — does a language take every plain text? Symbolically, character by character.
 *
 * The nodes met after one more character are followed until they repeat or the length is reached; a byte range is
 * stepped by classes, so a free string costs a few dozen derivatives. "Any key but these" would have a node for every
 * beginning of a key; there a shortcut helps: a language that stays endless whatever plain text is read stays
 * non-empty when finitely many words are taken from it. */
#include "rx_node.h"

enum { MOST_NODES = 128 };

typedef struct node_list {
    rx at[MOST_NODES];
    int n;
} node_list;

static bool add_node(node_list *l, rx node) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == node) return true;
    if (l->n == MOST_NODES) return false;
    l->at[l->n++] = node;
    return true;
}

/* Every byte of low .. high from each node; false if one may not come. */
static bool step_range(rx_pool *p, const node_list *from, uint8_t low, uint8_t high, node_list *to) {
    for (int i = 0; i < from->n; i++) {
        rx_set left = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
        for (int b = low; b <= high; b++) {
            if (!rx_set_has(&left, (uint8_t)b)) continue;
            rx_set same = left;
            const rx next = rx_derive_class(p, from->at[i], (uint8_t)b, &same);
            if (next == RX_NONE || !add_node(to, next)) return false;
            for (int w = 0; w < 4; w++) left.bits[w] &= ~same.bits[w];
        }
    }
    return true;
}

/* Every plain character from each node. */
static bool step_chars(rx_pool *p, const node_list *from, node_list *to) {
    static const struct {
        uint8_t lead_low, lead_high, next_low, next_high, n_more;
    } kinds[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
                 {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    if (!step_range(p, from, 0x20, 0x21, to) || !step_range(p, from, 0x23, 0x5B, to) ||
        !step_range(p, from, 0x5D, 0x7E, to))
        return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        node_list tails[4] = {{.n = 0}, {.n = 0}, {.n = 0}, {.n = 0}};
        if (!step_range(p, from, kinds[k].lead_low, kinds[k].lead_high, &tails[0])) return false;
        for (int i = 0; i <= kinds[k].n_more; i++) {
            const bool is_first = i == 0;
            node_list *const next = i == kinds[k].n_more ? to : &tails[i + 1];
            if (!step_range(p, &tails[i], is_first ? kinds[k].next_low : 0x80, is_first ? kinds[k].next_high : 0xBF,
                            next))
                return false;
        }
    }
    return true;
}

/* Whether all that is met behind plain texts is endless. */
static bool stays_endless(rx_pool *p, rx a) {
    node_list seen = {.n = 1, .at = {a}};
    for (int i = 0; i < seen.n; i++) {
        const node_list one = {.n = 1, .at = {seen.at[i]}};
        if (!(rx_at(p, seen.at[i])->flags & RX_ENDLESS) || rx_at(p, seen.at[i])->flags & RX_HARD) return false;
        if (!step_chars(p, &one, &seen)) return false;
    }
    return true;
}

/* An intersection of one endless language with complements of finite ones. */
static bool and_holds(rx_pool *p, const rx_node *n) {
    rx rest = RX_NONE;
    for (uint32_t i = 0; i < n->b; i++) {
        const rx kid = p->kids[n->a + i];
        const bool is_cut = rx_is(p, kid, RX_OP_NOT) && rx_at(p, rx_at(p, kid)->a)->flags & RX_FINITE;
        if (is_cut) continue;
        if (rest != RX_NONE) return false;
        rest = kid;
    }
    return rest != RX_NONE && stays_endless(p, rest);
}

static bool holds_at_once(rx_pool *p, rx a) {
    const rx_node n = *rx_at(p, a);
    if (n.op == RX_OP_AND) return and_holds(p, &n);
    if (n.op == RX_OP_CONCAT && rx_is(p, n.a, RX_OP_AND)) return rx_has_word(p, n.b) && holds_at_once(p, n.a);
    for (uint32_t i = 0; n.op == RX_OP_OR && i < n.b; i++) {
        const rx kid = p->kids[n.a + i];
        const bool may = rx_is(p, kid, RX_OP_AND) || rx_is(p, kid, RX_OP_CONCAT);
        if (may && holds_at_once(p, kid)) return true;
    }
    return false;
}

uint32_t rx_plain_reach(rx_pool *p, rx a, uint32_t most) {
    node_list seen = {.n = 0}, border = {.n = 1, .at = {rx_blur(p, a, 256)}};
    if (holds_at_once(p, a)) return RX_INFINITE;
    for (uint32_t reach = 0; reach < most; reach++) {
        node_list next = {.n = 0};
        if (!step_chars(p, &border, &next)) return reach;
        border.n = 0;
        for (int k = 0; k < next.n; k++) {
            const int known = seen.n;
            if (!rx_has_word(p, next.at[k]) || !add_node(&seen, next.at[k])) return reach;
            if (seen.n > known && !holds_at_once(p, next.at[k])) add_node(&border, next.at[k]);
        }
        if (border.n == 0) return RX_INFINITE;
    }
    return most;
}
