/* slice.c — inside a string nearly everything may follow: proving it once for a state instead of walking it each time.
 *
 * It is enough that one terminal of the state takes every plain text. A lazy one beside it could end all, so then
 * nothing is claimed. */
#include "slice.h"
#include "grammar/trie.h"

static bool any_part_follows(lexer *l, uint32_t state, int most) {
    const uint32_t first = l->states[state].parts, n = l->states[state].n_parts;
    for (uint32_t i = 0; i < n; i++)
        if (n > 1 && l->grammar->terminals[l->parts[first + i].terminal].lazy) return false;
    for (uint32_t i = 0; i < n; i++)
        if (rx_follows_plain(l->pool, l->parts[first + i].left, most)) return true;
    return false;
}

bool slice_follows(lexer *l, uint32_t state, int slice) {
    const int shift = 2 * slice, known = l->states[state].follows >> shift & 3;
    if (known || state <= LEXER_REST) return known == 1;
    const bool follows = any_part_follows(l, state, slice == 0 ? TRIE_FEW_CHARS : TRIE_MOST_BYTES);
    l->states[state].follows |= (uint8_t)((follows ? 1 : 2) << shift);
    return follows;
}
