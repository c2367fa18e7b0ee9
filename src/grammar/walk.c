/* walk.c — heads stepped by bytes, and the walk over the vocabulary's tries.
 *
 * The common case is one head inside one terminal: a load from the automaton's row, and either the subtree is jumped
 * over or the next node follows. Where a terminal is complete, the parser gives the row behind it and both readings go
 * on. Heads of each depth lie behind those of the depth before, so leaving a subtree forgets them for free. */
#include "grammar_impl.h"
#include <stdio.h>

bool walk_room(heads *s, uint32_t more) {
    if (more <= s->room - s->n) return true;
    uint32_t room = s->room ? s->room * 2 : 64;
    while (room - s->n < more) room *= 2;
    head *at = room < UINT32_MAX / 16 ? mem_resize(s->at, room, sizeof *at) : NULL;
    if (!at) return false;
    s->at = at;
    s->room = room;
    return true;
}

void walk_begin(grammar *g) {
    rx_pool_refuel(g->automaton.pool, g->limits.mask_steps);
    g->automaton.failed = QP_OK;
    g->parser.failed = QP_OK;
    g->parser.steps = 0;
}

qp_status walk_status(const grammar *g, qp_error *err) { return rows_status(&g->parser, err); }

static void out_of_memory(grammar *g) {
    if (g->parser.failed != QP_OK) return;
    g->parser.failed = QP_NO_MEMORY;
    memcpy(g->parser.why, "parser: out of memory", 22);
}

static bool is_within_budget(grammar *g) {
    if (g->parser.steps <= g->limits.mask_steps) return g->parser.failed == QP_OK && g->automaton.failed == QP_OK;
    if (g->parser.failed == QP_OK) {
        g->parser.failed = QP_TOO_LARGE;
        snprintf(g->parser.why, sizeof g->parser.why, "parser: items in one mask: over %zu", g->limits.mask_steps);
    }
    return false;
}

/* Adds a head unless the same reading is there since `from`. */
static void add_head(heads *s, uint32_t from, head h) {
    for (uint32_t i = from; i < s->n; i++)
        if (s->at[i].row == h.row && (s->at[i].state & HEAD_STATE) == (h.state & HEAD_STATE)) {
            s->at[i].state |= h.state & HEAD_FRESH;
            return;
        }
    s->at[s->n++] = h;
}

/* Adds the head that begins at this row. */
static void add_row_head(grammar *g, heads *s, uint32_t from, uint32_t row) {
    if (row == ROW_SELF) return;
    const uint32_t start = rows_start(&g->parser, row);
    if (start) add_head(s, from, (head){row, start | HEAD_FRESH});
}

/* The row behind all terminals that are complete in heads of `from` on, whose states still have their flag. */
static uint32_t scan_all(grammar *g, const heads *s, uint32_t from, uint32_t n_complete) {
    rows *r = &g->parser;
    if (n_complete > 1) rows_begin(r);
    for (uint32_t i = from; i < s->n; i++) {
        if (!(s->at[i].state & LEXER_COMPLETE)) continue;
        const uint32_t state = s->at[i].state & LEXER_STATE;
        if (n_complete == 1) return rows_scan(r, s->at[i].row, state);
        rows_add(r, s->at[i].row, state);
    }
    return rows_make(r);
}

uint32_t walk_step(grammar *g, heads *s, uint32_t first, uint32_t n, uint8_t byte) {
    const uint32_t from = first + n;
    uint32_t n_complete = 0;
    s->n = from;
    if (!walk_room(s, n + 1)) return out_of_memory(g), 0;
    for (uint32_t i = first; i < from; i++) {
        const uint32_t next = lexer_step(&g->automaton, s->at[i].state & HEAD_STATE, byte);
        if (next == LEXER_DEAD || next == 0) continue;
        n_complete += (next & LEXER_COMPLETE) != 0;
        s->at[s->n++] = (head){s->at[i].row, next};
    }
    if (n_complete) {
        const uint32_t row = scan_all(g, s, from, n_complete);
        uint32_t kept = from; /* those whose terminals have ended for good go */
        for (uint32_t i = from; i < s->n; i++) {
            const uint32_t state = s->at[i].state & LEXER_STATE;
            if (g->automaton.states[state].n_parts) s->at[kept++] = (head){s->at[i].row, state};
        }
        s->n = kept;
        add_row_head(g, s, from, row);
    }
    if (!is_within_budget(g)) s->n = from;
    return s->n - from;
}

uint32_t walk_special(grammar *g, heads *s, uint32_t first, uint32_t n, int32_t id) {
    const uint32_t from = first + n;
    s->n = from;
    if (!walk_room(s, 1)) return out_of_memory(g), 0;
    rows_begin(&g->parser);
    for (uint32_t i = first; i < from; i++)
        if (s->at[i].state & HEAD_FRESH) rows_add_special(&g->parser, s->at[i].row, id);
    add_row_head(g, s, from, rows_make(&g->parser));
    return is_within_budget(g) ? s->n - from : 0;
}

/* ---- slices ---- */

/* Follows every byte of [low, high] from each of the states; the distinct ones behind them. */
typedef struct state_list {
    uint32_t at[64];
    int n;
} state_list;

static bool add_state(state_list *l, uint32_t state) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == state) return true;
    if (l->n == 64) return false;
    l->at[l->n++] = state;
    return true;
}

static bool step_range(grammar *g, const state_list *from, int low, int high, state_list *to) {
    for (int i = 0; i < from->n; i++)
        for (int b = low; b <= high; b++) {
            const uint32_t next = lexer_step(&g->automaton, from->at[i], (uint8_t)b);
            const uint32_t state = next & LEXER_STATE;
            if (next == 0 || next == LEXER_DEAD || !g->automaton.states[state].n_parts || !add_state(to, state))
                return false;
        }
    return true;
}

/* Every character that stands for itself in a JSON string, from each of the states. */
static bool step_chars(grammar *g, const state_list *from, state_list *to) {
    static const struct {
        uint8_t lead_low, lead_high, next_low, next_high, n_more;
    } kinds[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
                 {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    if (!step_range(g, from, 0x20, 0x21, to) || !step_range(g, from, 0x23, 0x5B, to) ||
        !step_range(g, from, 0x5D, 0x7E, to))
        return false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        state_list lead = {.n = 0}, second = {.n = 0}, third = {.n = 0};
        if (!step_range(g, from, kinds[k].lead_low, kinds[k].lead_high, &lead)) return false;
        if (kinds[k].n_more == 0) {
            if (!step_range(g, &lead, kinds[k].next_low, kinds[k].next_high, to)) return false;
            continue;
        }
        if (!step_range(g, &lead, kinds[k].next_low, kinds[k].next_high, &second)) return false;
        if (kinds[k].n_more == 2 && !step_range(g, &second, 0x80, 0xBF, &third)) return false;
        if (!step_range(g, kinds[k].n_more == 2 ? &third : &second, 0x80, 0xBF, to)) return false;
    }
    return true;
}

/* Whether `most` characters of the slice stay inside terminals, whatever they are: all states met after one more
 * character are known already, or there are not more to come. */
static bool follows_all(grammar *g, uint32_t state, int most) {
    state_list seen = {.n = 0}, border = {.n = 1, .at = {state}};
    for (int i = 0; i < most; i++) {
        state_list next = {.n = 0};
        if (!step_chars(g, &border, &next)) return false;
        border.n = 0;
        for (int k = 0; k < next.n; k++) {
            const int known = seen.n;
            if (!add_state(&seen, next.at[k])) return false;
            if (seen.n > known) add_state(&border, next.at[k]);
        }
        if (border.n == 0) return true;
    }
    return true;
}

/* Remembered at the state: two bits a slice. */
static bool holds_slice(grammar *g, uint32_t state, int slice) {
    const int shift = 2 * slice, known = g->automaton.states[state].holds >> shift & 3;
    if (known) return known == 1;
    const bool holds = follows_all(g, state, trie_slice_at(g->vocabulary, slice)->most_chars);
    g->automaton.states[state].holds |= (uint8_t)((holds ? 1 : 2) << shift);
    return holds;
}

/* ---- the walk ---- */

typedef struct frame {
    uint32_t first, n;
} frame;

/* One step for the walk: as walk_step, with the common case in line. */
static inline uint32_t step_node(grammar *g, heads *s, frame now, uint8_t byte) {
    if (now.n == 1) {
        const head h = s->at[now.first];
        const uint32_t *row = g->automaton.states[h.state & HEAD_STATE].row;
        const uint32_t next = row ? row[byte] : 0;
        if (next == LEXER_DEAD) return 0;
        if (next && !(next & LEXER_COMPLETE)) {
            s->at[now.first + 1] = (head){h.row, next};
            return 1;
        }
    }
    return walk_step(g, s, now.first, now.n, byte);
}

static void walk_slice(grammar *g, heads *s, uint32_t n_now, const trie_slice *slice, uint32_t *bits) {
    frame frames[TRIE_MOST_BYTES + 2];
    frames[0] = (frame){0, n_now};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < slice->n_nodes;) {
        const trie_node node = slice->nodes[i];
        const frame now = frames[depth];
        if (now.first + now.n + 2 > s->room) {
            s->n = now.first + now.n;
            if (!walk_room(s, 2)) return out_of_memory(g);
        }
        const uint32_t n = step_node(g, s, now, (uint8_t)node.byte);
        if (n == 0) {
            if (g->parser.failed != QP_OK || g->automaton.failed != QP_OK) return;
            depth -= node.pops;
            i += node.size;
            continue;
        }
        if (node.id != TRIE_NO_ID) bits[node.id >> 5] |= 1u << (node.id & 31);
        if (node.size > 1)
            frames[++depth] = (frame){now.first + now.n, n};
        else
            depth -= node.pops;
        i++;
    }
}

static bool any_holds(grammar *g, const head *now, uint32_t n, int slice) {
    for (uint32_t i = 0; i < n; i++)
        if (holds_slice(g, now[i].state & HEAD_STATE, slice)) return true;
    return false;
}

bool walk_token(grammar *g, const head *now, uint32_t n, span bytes) {
    heads *s = &g->stack;
    s->n = 0;
    if (!walk_room(s, n)) return out_of_memory(g), false;
    memcpy(s->at, now, n * sizeof *now);
    uint32_t first = 0;
    for (size_t i = 0; i < bytes.bytes; i++) {
        const uint32_t next = walk_step(g, s, first, n, (uint8_t)bytes.at[i]);
        first += n;
        n = next;
        if (n == 0) return false;
    }
    return true;
}

qp_status walk_mask(grammar *g, const head *now, uint32_t n, uint32_t *bits, qp_error *err) {
    heads *s = &g->stack;
    s->n = 0;
    if (!walk_room(s, n + 2)) return err_no_memory(err, n * sizeof *now, "mask");
    if (n) memcpy(s->at, now, n * sizeof *now);
    const size_t words = ((size_t)trie_size(g->vocabulary) + 31) / 32;
    for (int i = 0; n && i < TRIE_SLICES; i++) {
        const trie_slice *slice = trie_slice_at(g->vocabulary, i);
        if (!slice->n_nodes) continue;
        if (i != TRIE_REST && any_holds(g, now, n, i)) {
            for (size_t w = 0; w < words; w++) bits[w] |= slice->mask[w];
        } else {
            walk_slice(g, s, n, slice, bits);
        }
    }
    size_t n_twins;
    const int32_t(*twins)[2] = trie_twins(g->vocabulary, &n_twins);
    for (size_t i = 0; i < n_twins; i++)
        if (bits[twins[i][0] >> 5] >> (twins[i][0] & 31) & 1) bits[twins[i][1] >> 5] |= 1u << (twins[i][1] & 31);
    return walk_status(g, err);
}
