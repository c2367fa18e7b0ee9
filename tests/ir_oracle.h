/* ir_oracle.h — a slow, plain recogniser of the intermediate form, for tests: what the compiled matcher must agree
 * with.
 *
 * For a symbol and a place in the text it finds all places where a word of the symbol can end, remembered by (symbol,
 * place). No lexer, no parser tables, nothing shared with the engine but the derivatives of rx.h. Not for grammars
 * with left recursion (the front end for JSON Schema makes none): it fails there. */
#ifndef IR_ORACLE_H
#define IR_ORACLE_H

#include "grammar/ir.h"
#include "harness.h"

typedef struct oracle_entry {
    ir_sym symbol;
    uint32_t at, n;
    uint32_t *ends; /* rising */
    bool busy;
} oracle_entry;

typedef struct oracle {
    ir *g;
    span text;
    oracle_entry *entries;
    size_t n, room;
    uint32_t *table;
    size_t table_size;
} oracle;

static inline size_t oracle_slot(const oracle *o, ir_sym symbol, uint32_t at) {
    size_t i = (symbol * 2654435761u ^ at * 40503u) & (o->table_size - 1);
    while (o->table[i] && (o->entries[o->table[i] - 1].symbol != symbol || o->entries[o->table[i] - 1].at != at))
        i = (i + 1) & (o->table_size - 1);
    return i;
}

static inline size_t oracle_add(oracle *o, ir_sym symbol, uint32_t at) {
    if (o->n == o->room) {
        o->room = o->room ? o->room * 2 : 1024;
        o->entries = realloc(o->entries, o->room * sizeof *o->entries);
        free(o->table);
        o->table_size = o->room * 4;
        o->table = calloc(o->table_size, sizeof *o->table);
        assert_true(o->entries && o->table);
        for (size_t i = 0; i < o->n; i++)
            o->table[oracle_slot(o, o->entries[i].symbol, o->entries[i].at)] = (uint32_t)i + 1;
    }
    o->table[oracle_slot(o, symbol, at)] = (uint32_t)o->n + 1;
    o->entries[o->n] = (oracle_entry){.symbol = symbol, .at = at, .busy = true};
    return o->n++;
}

/* A set of places as a byte for each. */
typedef struct oracle_places {
    uint8_t *is;
    size_t n;
} oracle_places;

static inline oracle_places oracle_none(const oracle *o) { return (oracle_places){calloc(o->text.bytes + 1, 1), 0}; }
static inline void oracle_put(oracle_places *p, uint32_t at) {
    p->n += !p->is[at];
    p->is[at] = 1;
}

static inline const oracle_entry *oracle_ends(oracle *o, ir_sym symbol, uint32_t at);

/* All places that one more `symbol` leads to from `from`. */
static inline oracle_places oracle_step(oracle *o, const oracle_places *from, ir_sym symbol) {
    oracle_places to = oracle_none(o);
    for (uint32_t i = 0; from->n && i <= o->text.bytes; i++) {
        if (!from->is[i]) continue;
        const oracle_entry *e = oracle_ends(o, symbol, i);
        for (uint32_t k = 0; k < e->n; k++) oracle_put(&to, e->ends[k]);
    }
    return to;
}

static inline void oracle_terminal(oracle *o, const ir_view *v, uint32_t at, oracle_places *out) {
    rx state = v->language;
    if (rx_nullable(ir_pool(o->g), state)) oracle_put(out, at);
    while (at < o->text.bytes && state != RX_NONE) {
        state = rx_derive(ir_pool(o->g), state, (uint8_t)o->text.at[at++]);
        if (rx_nullable(ir_pool(o->g), state)) oracle_put(out, at);
    }
}

static inline void oracle_rule(oracle *o, ir_sym symbol, size_t n, uint32_t at, oracle_places *out) {
    for (size_t i = 0; i < n; i++) {
        size_t n_symbols;
        const ir_sym *borrowed = ir_look_alternative(o->g, symbol, i, &n_symbols);
        ir_sym symbols[16];
        assert_true(n_symbols <= 16);
        if (n_symbols) memcpy(symbols, borrowed, n_symbols * sizeof *symbols);
        oracle_places now = oracle_none(o);
        oracle_put(&now, at);
        for (size_t k = 0; k < n_symbols; k++) {
            const oracle_places next = oracle_step(o, &now, symbols[k]);
            free(now.is);
            now = next;
        }
        for (uint32_t k = 0; now.n && k <= o->text.bytes; k++)
            if (now.is[k]) oracle_put(out, k);
        free(now.is);
    }
}

static inline void oracle_repeat(oracle *o, const ir_view *v, ir_sym inner, uint32_t at, oracle_places *out) {
    oracle_places now = oracle_none(o), seen = oracle_none(o);
    oracle_put(&now, at);
    for (uint32_t count = 0; now.n; count++) {
        size_t fresh = 0;
        for (uint32_t k = 0; k <= o->text.bytes; k++) {
            if (!now.is[k]) continue;
            if (count >= v->min) oracle_put(out, k);
            fresh += !seen.is[k];
            oracle_put(&seen, k);
        }
        if (count == v->max || (count > v->min && !fresh)) break;
        oracle_places next = now;
        if (count && v->separator != IR_EPSILON) next = oracle_step(o, &now, v->separator);
        const oracle_places after = oracle_step(o, &next, inner);
        if (next.is != now.is) free(next.is);
        free(now.is);
        now = after;
    }
    free(now.is);
    free(seen.is);
}

/* Members of the set bits of `left` in any order. */
static inline void oracle_any(oracle *o, const ir_view *v, const ir_sym *members, uint64_t left, bool first,
                              uint32_t at, oracle_places *out) {
    if (!(left & v->required)) oracle_put(out, at);
    for (size_t i = 0; i < v->n; i++) {
        if (!(left >> i & 1)) continue;
        oracle_places now = oracle_none(o);
        oracle_put(&now, at);
        if (!first && v->separator != IR_EPSILON) {
            const oracle_places next = oracle_step(o, &now, v->separator);
            free(now.is);
            now = next;
        }
        const oracle_places next = oracle_step(o, &now, members[i]);
        for (uint32_t k = 0; next.n && k <= o->text.bytes; k++)
            if (next.is[k]) oracle_any(o, v, members, left & ~((uint64_t)1 << i), false, k, out);
        free(now.is);
        free(next.is);
    }
}

static inline const oracle_entry *oracle_ends(oracle *o, ir_sym symbol, uint32_t at) {
    if (o->table_size) {
        const uint32_t known = o->table[oracle_slot(o, symbol, at)];
        if (known) {
            assert_false(o->entries[known - 1].busy); /* left recursion */
            return &o->entries[known - 1];
        }
    }
    const size_t mine = oracle_add(o, symbol, at);
    const ir_view v = ir_look(o->g, symbol);
    oracle_places out = oracle_none(o);
    if (v.kind == IR_IS_TERMINAL) {
        oracle_terminal(o, &v, at, &out);
    } else if (v.kind == IR_IS_RULE) {
        oracle_rule(o, symbol, v.n, at, &out);
    } else if (v.kind == IR_IS_REPEAT) {
        oracle_repeat(o, &v, v.symbols[0], at, &out);
    } else if (v.kind == IR_IS_ANY_ORDER) {
        ir_sym members[64];
        memcpy(members, v.symbols, v.n * sizeof *members);
        oracle_any(o, &v, members, v.n == 64 ? UINT64_MAX : ((uint64_t)1 << v.n) - 1, true, at, &out);
    }
    oracle_entry *e = &o->entries[mine];
    e->ends = out.n ? malloc(out.n * sizeof *e->ends) : NULL;
    for (uint32_t k = 0; out.n && k <= o->text.bytes; k++)
        if (out.is[k]) e->ends[e->n++] = k;
    e->busy = false;
    free(out.is);
    return e;
}

/* Whether the text is a word of the symbol. */
static inline bool oracle_accepts(ir *g, ir_sym symbol, span text) {
    oracle o = {.g = g, .text = text};
    const oracle_entry *e = oracle_ends(&o, symbol, 0);
    const bool accepts = e->n && e->ends[e->n - 1] == text.bytes;
    for (size_t i = 0; i < o.n; i++) free(o.entries[i].ends);
    free(o.entries);
    free(o.table);
    return accepts;
}

#endif
