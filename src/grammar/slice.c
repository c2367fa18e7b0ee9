/* slice.c — inside a string nearly everything may follow: proving it once for a state instead of walking it each time.
 *
 * It is enough that one terminal of the state takes every plain text, or that a few do together (keys by the patterns
 * that they match). A lazy one beside it could end all, so then nothing is claimed. */
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
