/* walk.c — heads stepped by bytes, and the walk over the vocabulary's tries.
 *
 * The common case is one head inside one terminal: a load from the automaton's row, and either the subtree is jumped
 * over or the next node follows. Where a terminal is complete, the parser gives the row behind it and both readings go
 * on. Heads of each depth lie behind those of the depth before, so leaving a subtree forgets them for free. */
#include "grammar_impl.h"
#include "slice.h"
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
        if (slice_follows(&g->automaton, now[i].state & HEAD_STATE, slice)) return true;
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
