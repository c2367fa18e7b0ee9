/* slice.c — inside a string nearly everything may follow: proving it once for a state instead of walking it each time.
 *
 * It is enough that one terminal of the state takes every plain text, or that a few do together (keys by the patterns
 * that they match). A lazy one beside it could end all, so then nothing is claimed.
 *
 * The tricky thing: where a count is left, plain text leads to another state, but mostly to one of the same class. A
 * class stands for all counts that no token can exhaust, so a walk may begin at the class instead. */
#include "slice.h"
#include "grammar/trie.h"

enum { MOST_TOGETHER = 8 };

/* How far plain text may go from a state. */
static uint32_t reach_of(lexer *l, uint32_t state) {
    const uint32_t first = l->states[state].parts, n = l->states[state].n_parts;
    uint32_t best = 0;
    rx all = RX_NONE;
    for (uint32_t i = 0; i < n; i++)
        if (n > 1 && l->grammar->terminals[l->parts[first + i].terminal].lazy) return 0;
    for (uint32_t i = 0; i < n && best != RX_INFINITE; i++) {
        const uint32_t reach = rx_plain_reach(l->pool, l->parts[first + i].left, TRIE_FEW_CHARS);
        best = reach > best ? reach : best;
    }
    if (best >= TRIE_FEW_CHARS || n == 1 || n > MOST_TOGETHER) return best;
    for (uint32_t i = 0; i < n; i++) all = rx_or(l->pool, all, l->parts[first + i].left);
    const uint32_t together = rx_plain_reach(l->pool, all, TRIE_FEW_CHARS);
    return together > best ? together : best;
}

bool slice_follows(lexer *l, uint32_t state, int slice) {
    if (state <= LEXER_REST) return false;
    if (!l->states[state].follows) {
        const uint32_t reach = reach_of(l, state);
        const uint8_t few = reach >= TRIE_FEW_CHARS ? SLICE_ALL : SLICE_NOT_ALL;
        const uint8_t more = reach == RX_INFINITE ? SLICE_ALL : SLICE_NOT_ALL;
        l->states[state].follows = (uint8_t)(few | more << 2);
    }
    return slice_known(l, state, slice) == SLICE_ALL;
}

/* Whether all that `state` reads of low .. high and then of n_more bytes 0x80 .. 0xBF ends in `goal`. */
static bool leads_back(lexer *l, uint32_t state, uint8_t low, uint8_t high, int n_more, uint32_t goal) {
    uint32_t seen = goal;
    for (int b = low; b <= high; b++) {
        const uint32_t next = lexer_step(l, state, (uint8_t)b);
        if (next == 0 || next == LEXER_DEAD || next & LEXER_COMPLETE) return false;
        if (n_more == 0 && lexer_class(l, next) != goal) return false;
        if (n_more && next != seen && !leads_back(l, next, 0x80, 0xBF, n_more - 1, goal)) return false;
        seen = next;
    }
    return true;
}

static bool find_loops(lexer *l, uint32_t state) {
    static const struct {
        uint8_t lead_low, lead_high, next_low, next_high, n_more;
    } kinds[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
                 {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    if (!leads_back(l, state, 0x20, 0x21, 0, state) || !leads_back(l, state, 0x23, 0x5B, 0, state) ||
        !leads_back(l, state, 0x5D, 0x7E, 0, state))
        return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint32_t seen = 0;
        for (int b = kinds[k].lead_low; b <= kinds[k].lead_high; b++) {
            const uint32_t next = lexer_step(l, state, (uint8_t)b);
            if (next == 0 || next == LEXER_DEAD || next & LEXER_COMPLETE) return false;
            if (next != seen && !leads_back(l, next, kinds[k].next_low, kinds[k].next_high, kinds[k].n_more, state))
                return false;
            seen = next;
        }
    }
    return true;
}

bool slice_loops(lexer *l, uint32_t state) {
    if (state <= LEXER_REST) return false;
    if (!l->states[state].loops) {
        const uint32_t class = lexer_class(l, state);
        const bool is_so =
            class == state ? find_loops(l, state) : lexer_class(l, class) == class && slice_loops(l, class);
        l->states[state].loops = is_so ? SLICE_ALL : SLICE_NOT_ALL;
    }
    return l->states[state].loops == SLICE_ALL;
}
