/* walk.c — heads stepped by bytes, and the walk over the vocabulary's tries.
 *
 * The common case is one head inside one terminal, a loop over the nodes (walk_one). Where a terminal is complete, the
 * parser gives the row behind it and both readings go on as one set (head_set.c), again a loop over the nodes
 * (walk_set). Only where there is no room for sets are the heads themselves carried along (walk_many): those of each
 * depth lie behind those of the depth before, so leaving a subtree forgets them for free.
 *
 * The tricky thing is a string that takes any text: tokens that plain characters begin and something else ends are
 * decided by what is behind the characters, so instead of thousands of tokens a few hundred tails are walked (trie.h),
 * for the state itself or for one that the walk soon comes to, as inside "any key but these". */
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

uint32_t walk_no_memory(grammar *g) {
    if (g->parser.failed != QP_OK) return 0;
    g->parser.failed = QP_NO_MEMORY;
    memcpy(g->parser.why, "parser: out of memory", 22);
    return 0;
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
    if (!walk_room(s, n + 1)) return walk_no_memory(g);
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
    if (!walk_room(s, 1)) return walk_no_memory(g);
    rows_begin(&g->parser);
    for (uint32_t i = first; i < from; i++)
        if (s->at[i].state & HEAD_FRESH) rows_add_special(&g->parser, s->at[i].row, id);
    add_row_head(g, s, from, rows_make(&g->parser));
    return is_within_budget(g) ? s->n - from : 0;
}

/* ---- the walk ---- */

enum { WORTH_A_PROOF = 200, MOST_PROOFS = 16 }; /* nodes below; proofs in one walk that may be in vain */

/* A walk in progress; `states` and `from` belong to the nodes on the way down, by depth: states of the lexer or sets.
 */
typedef struct walker {
    grammar *g;
    heads *s;
    const trie_node *nodes;
    int slice;
    uint32_t proofs_left; /* of subtrees that may follow as a whole */
    uint32_t plain_depth; /* so many bytes of the path are plain ASCII; more than its depth where it turned back */
    head tails_of;        /* whose tails are known; state 0: nobody's */
    bool is_full;         /* there was no room for a set: from now on without */
    uint32_t *bits;
    uint32_t states[TRIE_MOST_BYTES + 2];
    const uint32_t *from[TRIE_MOST_BYTES + 2]; /* their rows */
} walker;

static const uint32_t not_left_yet[256]; /* the row of a state that has none: all of it is to be computed */

static inline void go_down(walker *w, uint32_t depth, uint32_t state) {
    const uint32_t *row = w->g->automaton.states[state].row;
    w->states[depth] = state;
    w->from[depth] = row ? row : not_left_yet;
}

static inline void mark(const walker *w, trie_node node) {
    if (node.id != TRIE_NO_ID) w->bits[node.id >> 5] |= 1u << (node.id & 31);
}

/* Inside a string that is nearly free (any key but these, a pattern or anything) the walk soon comes to a state behind
 * which all plain text may follow, and so all that is below the node. In the middle of a character the rest is no plain
 * text; where a byte of ASCII or a token ends, a character does. */
static bool all_follows(walker *w, trie_node node, uint32_t state) {
    if (node.size < WORTH_A_PROOF || w->slice >= TRIE_REST || (node.byte >= 0x80 && node.id == TRIE_NO_ID))
        return false;
    const int known = slice_known(&w->g->automaton, state, w->slice);
    if (known) return known == SLICE_ALL;
    return w->proofs_left && w->proofs_left-- && slice_follows(&w->g->automaton, state, w->slice);
}

static void mark_all(const walker *w, uint32_t begin, uint32_t end) {
    uint32_t nowhere = 0;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t id = w->nodes[i].id;
        uint32_t *const to = id == TRIE_NO_ID ? &nowhere : &w->bits[id >> 5];
        *to |= 1u << (id & 31);
    }
}

static bool has_failed(const walker *w) { return w->g->parser.failed != QP_OK || w->g->automaton.failed != QP_OK; }

static void walk_one(walker *w, uint32_t begin, uint32_t end, uint32_t depth, uint32_t first);
static void walk_many(walker *w, uint32_t begin, uint32_t end, uint32_t depth, uint32_t first, uint32_t n);

/* The heads of a set, behind `first`; how many. */
static uint32_t unpack_set(walker *w, uint32_t set, uint32_t first) {
    const head_set *from = &w->g->sets.at[set];
    w->s->n = first;
    if (!walk_room(w->s, from->n)) return walk_no_memory(w->g);
    memcpy(w->s->at + first, w->g->sets.heads.at + from->first, from->n * sizeof(head));
    w->s->n = first + from->n;
    return from->n;
}

static inline void enter_set(walker *w, uint32_t depth, uint32_t set) {
    w->states[depth] = set;
    w->from[depth] = head_set_row(w->g, set);
}

/* One node, and all below it, from a set whose next one finds no room. */
static void walk_without_room(walker *w, uint32_t i, uint32_t depth, uint32_t first) {
    const uint32_t set = w->states[depth], n = has_failed(w) ? 0 : unpack_set(w, set, first);
    w->is_full = true;
    w->plain_depth = 0;
    if (n) walk_many(w, i, i + w->nodes[i].size, depth, first, n);
    enter_set(w, depth, set);
}

/* Nodes begin .. end, siblings and all below them, from a set of heads; the stack is free from `first` on. */
static void walk_set(walker *w, uint32_t begin, uint32_t end, uint32_t depth, uint32_t set, uint32_t first) {
    enter_set(w, depth, set);
    for (uint32_t i = begin; i < end;) {
        const trie_node node = w->nodes[i];
        uint32_t next = w->from[depth][node.byte];
        if (next == 0) {
            next = head_set_fill(w->g, w->states[depth], (uint8_t)node.byte);
            w->from[depth] = head_set_row(w->g, w->states[depth]);
            if (next == 0) walk_without_room(w, i, depth, first);
            if (next == 0 && has_failed(w)) return;
        }
        if (next > HEAD_SET_DEAD) mark(w, node);
        if (next > HEAD_SET_DEAD && node.size > 1) {
            enter_set(w, ++depth, next);
            i++;
        } else {
            depth -= node.pops;
            i += node.size;
        }
    }
}

/* The same from heads, the long way. */
static void step_border(walker *w, uint32_t i, uint32_t depth, uint32_t first, head before) {
    const trie_node node = w->nodes[i];
    w->s->n = first;
    if (!walk_room(w->s, 1)) {
        walk_no_memory(w->g);
        return;
    }
    w->s->at[first] = before;
    const uint32_t n = walk_step(w->g, w->s, first, 1, (uint8_t)node.byte);
    if (n) mark(w, node);
    if (n && node.size > 1) walk_many(w, i + 1, i + node.size, depth + 1, first + 1, n);
}

/* A node behind which a terminal is complete, and what is below it. */
static void walk_border(walker *w, uint32_t i, uint32_t depth, uint32_t first, uint32_t row) {
    const head before = {row, w->states[depth]};
    const uint32_t set = w->is_full ? 0 : head_set_find(w->g, &before, 1);
    if (w->plain_depth > depth) w->plain_depth = depth;
    if (set)
        walk_set(w, i, i + w->nodes[i].size, depth, set, first);
    else
        step_border(w, i, depth, first, before);
    go_down(w, depth, before.state);
}

/* Marks, by its tail, each token of nodes begin .. end. */
static void mark_tails(const walker *w, uint32_t begin, uint32_t end) {
    const uint32_t *const of_node = trie_tails_of(w->g->vocabulary)->of_node, *const tails = w->g->tails;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t id = w->nodes[i].id, tail = of_node[i];
        if (id != TRIE_NO_ID) w->bits[id >> 5] |= (tails[tail >> 5] >> (tail & 31) & 1) << (id & 31);
    }
}

/* Which tails may follow a head whose state comes back to itself with plain text, into grammar.tails. */
static bool find_tails(walker *w, head now, uint32_t first) {
    const trie_tails *tails = trie_tails_of(w->g->vocabulary);
    const size_t words = ((size_t)tails->n + 31) / 32;
    if (!w->g->tails) w->g->tails = mem_array(words + 1, sizeof *w->g->tails);
    w->s->n = first;
    if (!w->g->tails || !walk_room(w->s, 1)) return walk_no_memory(w->g) != 0;
    memset(w->g->tails, 0, words * sizeof *w->g->tails);
    w->s->at[first] = now;
    walker down;
    down.g = w->g, down.s = w->s, down.nodes = tails->nodes, down.slice = TRIE_TAILS, down.bits = w->g->tails;
    down.is_full = w->is_full, down.proofs_left = down.plain_depth = 0;
    walk_one(&down, 0, tails->n_nodes, 0, first);
    w->tails_of = now;
    return true;
}

enum { WORTH_TAILS = 16 }; /* nodes below */

/* Asked of few states that nothing is known of: where counts go down each is another, and none comes back. */
static bool comes_back(walker *w, uint32_t state) {
    const lexer_state *s = &w->g->automaton.states[state];
    if (!s->loops && !w->proofs_left) return false;
    w->proofs_left -= !s->loops;
    return slice_loops(&w->g->automaton, state);
}

/* Whether a node's subtree of TRIE_REST, behind plain ASCII, was decided by the tails of a state that it leads to. */
static bool tails_decide(walker *w, uint32_t i, uint32_t depth, uint32_t state, uint32_t row, uint32_t first) {
    const trie_node node = w->nodes[i];
    if (w->plain_depth < depth) return false;
    w->plain_depth = depth + (node.byte < 0x7F && trie_is_plain(node.byte));
    if (w->plain_depth == depth || node.size < WORTH_TAILS || !comes_back(w, state)) return false;
    const head now = {row, lexer_class(&w->g->automaton, state)};
    const bool is_known = w->tails_of.state == now.state && w->tails_of.row == row;
    if (w->tails_of.state && !is_known) return false;
    if (!is_known && !find_tails(w, now, first)) return false;
    mark_tails(w, i, i + node.size);
    return true;
}

/* Nodes begin .. end, siblings and all below them, from one head. Until a terminal is complete the automaton alone
 * decides: per node a load from the row of the state above it, and either the subtree is jumped over or the next node
 * follows. */
static void walk_one(walker *w, uint32_t begin, uint32_t end, uint32_t depth, uint32_t first) {
    const head now = w->s->at[first];
    go_down(w, depth, now.state & HEAD_STATE);
    for (uint32_t i = begin; i < end;) {
        const trie_node node = w->nodes[i];
        uint32_t next = w->from[depth][node.byte];
        if (next == 0) {
            next = lexer_step(&w->g->automaton, w->states[depth], (uint8_t)node.byte);
            go_down(w, depth, w->states[depth]);
            if (next == 0) return;
        }
        if (next == LEXER_DEAD || next & LEXER_COMPLETE) {
            if (next != LEXER_DEAD) walk_border(w, i, depth, first + 1, now.row);
            if (next != LEXER_DEAD && has_failed(w)) return;
            depth -= node.pops;
            i += node.size;
            continue;
        }
        const bool is_decided =
            w->slice == TRIE_REST ? tails_decide(w, i, depth, next, now.row, first + 1) : all_follows(w, node, next);
        if (is_decided) {
            if (w->slice != TRIE_REST) mark_all(w, i, i + node.size);
            depth -= node.pops;
            i += node.size;
            continue;
        }
        mark(w, node);
        if (node.size > 1)
            go_down(w, ++depth, next);
        else
            depth -= node.pops;
        i++;
    }
}

/* The same from several heads. */
static void walk_many(walker *w, uint32_t begin, uint32_t end, uint32_t depth, uint32_t first, uint32_t n) {
    if (n == 1) {
        walk_one(w, begin, end, depth, first);
        return;
    }
    for (uint32_t i = begin; i < end && !has_failed(w); i += w->nodes[i].size) {
        const trie_node node = w->nodes[i];
        const uint32_t next = walk_step(w->g, w->s, first, n, (uint8_t)node.byte);
        if (next) mark(w, node);
        if (next && node.size > 1) walk_many(w, i + 1, i + node.size, depth + 1, first + n, next);
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
    if (!walk_room(s, n)) return walk_no_memory(g) != 0;
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

static void mark_ids_of_tails(const walker *w) {
    const trie_tails *tails = trie_tails_of(w->g->vocabulary);
    for (size_t word = 0; word * 32 < tails->n; word++)
        for (uint32_t left = w->g->tails[word]; left; left &= left - 1) {
            const size_t tail = word * 32 + (size_t)__builtin_ctz(left);
            for (uint32_t k = tails->first[tail]; k < tails->first[tail + 1]; k++)
                w->bits[tails->ids[k] >> 5] |= 1u << (tails->ids[k] & 31);
        }
}

/* All of a slice from the heads at the bottom of the stack. */
static void walk_slice(walker *w, uint32_t n_nodes, uint32_t n) {
    lexer *const l = &w->g->automaton;
    const head now = w->s->at[0];
    if (n == 1 && w->slice == TRIE_REST && slice_loops(l, now.state & HEAD_STATE)) {
        if (find_tails(w, (head){now.row, lexer_class(l, now.state & HEAD_STATE)}, 1)) mark_ids_of_tails(w);
        return;
    }
    const uint32_t set = n > 1 && !w->is_full ? head_set_find(w->g, w->s->at, n) : 0;
    if (set)
        walk_set(w, 0, n_nodes, 0, set, n);
    else
        walk_many(w, 0, n_nodes, 0, 0, n);
}

qp_status walk_mask(grammar *g, const head *now, uint32_t n, uint32_t *bits, qp_error *err) {
    heads *s = &g->stack;
    s->n = 0;
    if (!walk_room(s, n + 2)) return err_no_memory(err, n * sizeof *now, "mask");
    if (n) memcpy(s->at, now, n * sizeof *now);
    const size_t words = ((size_t)trie_size(g->vocabulary) + 31) / 32;
    walker down;
    down.g = g, down.s = s, down.bits = bits; /* the rest is written before it is read */
    down.is_full = false, down.tails_of = (head){0, 0};
    head_sets_begin(&g->sets, g->limits.head_sets);
    for (int i = 0; n && i < TRIE_SLICES; i++) {
        const trie_slice *slice = trie_slice_at(g->vocabulary, i);
        if (!slice->n_nodes) continue;
        if (i != TRIE_REST && any_holds(g, now, n, i)) {
            for (size_t w = 0; w < words; w++) bits[w] |= slice->mask[w];
        } else {
            down.nodes = slice->nodes, down.slice = i, down.proofs_left = MOST_PROOFS, down.plain_depth = 0;
            walk_slice(&down, slice->n_nodes, n);
        }
    }
    size_t n_twins;
    const int32_t(*twins)[2] = trie_twins(g->vocabulary, &n_twins);
    for (size_t i = 0; i < n_twins; i++)
        if (bits[twins[i][0] >> 5] >> (twins[i][0] & 31) & 1) bits[twins[i][1] >> 5] |= 1u << (twins[i][1] & 31);
    return walk_status(g, err);
}
