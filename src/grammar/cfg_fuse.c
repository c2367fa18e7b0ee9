/* cfg_fuse.c — rules that are regular become terminals: a number, a string, a run of white space is then read by the
 * automaton alone, without a row of the parser for each character.
 *
 * From the leaves up: a symbol whose parts are all regular is regular itself; what is recursive is never reached. The
 * language stays the same, because where terminals end is never guessed. Large ones are left to the parser, which
 * shares their parts, and so are intersections and complements, which are dear to derive. */
#include "cfg_fuse.h"

enum { MOST_COST = 2000 };

typedef struct fuser {
    ir *g;
    rx_pool *pool;
    const bool *productive;
    rx *regular;
    uint32_t *cost; /* 0: not regular (yet) */
} fuser;

static uint32_t add_cost(uint32_t a, uint32_t b) { return a && b && a + b <= MOST_COST ? a + b : 0; }

/* A row of symbols; 0 if one of them is not regular, or all are too much. */
static uint32_t row_cost(const fuser *f, const ir_sym *row, size_t n) {
    uint32_t cost = 1;
    for (size_t i = 0; i < n && cost; i++) cost = add_cost(cost, f->cost[row[i]]);
    return cost;
}

static rx row_language(const fuser *f, const ir_sym *row, size_t n) {
    rx all = RX_EMPTY;
    while (n-- > 0) all = rx_concat(f->pool, f->regular[row[n]], all);
    return all;
}

/* The row of an alternative; n: SIZE_MAX where it has no words. */
static const ir_sym *words_of(const fuser *f, ir_sym s, size_t i, size_t *n) {
    const ir_sym *row = ir_look_alternative(f->g, s, i, n);
    bool has_words = true;
    for (size_t k = 0; k < *n; k++) has_words &= f->productive[row[k]];
    if (!has_words) *n = SIZE_MAX;
    return row;
}

/* A rule is tried whenever one of its parts has become regular; its language is made when all of them are. */
static uint32_t fuse_rule(const fuser *f, ir_sym s, size_t n_alternatives, rx *out) {
    uint32_t cost = 1;
    size_t n;
    *out = RX_NONE;
    for (size_t i = 0; i < n_alternatives && cost; i++) {
        const ir_sym *row = words_of(f, s, i, &n);
        if (n != SIZE_MAX) cost = add_cost(cost, row_cost(f, row, n));
    }
    for (size_t i = 0; i < n_alternatives && cost; i++) {
        const ir_sym *row = words_of(f, s, i, &n);
        if (n != SIZE_MAX) *out = rx_or(f->pool, *out, row_language(f, row, n));
    }
    return cost;
}

/* x (sep x){min-1,max-1}, and nothing where min is 0. */
static uint32_t fuse_repeat(const fuser *f, const ir_view *v, rx *out) {
    const ir_sym parts[2] = {v->symbols[0], v->separator};
    const uint32_t cost = row_cost(f, parts, 2);
    if (!cost) return 0;
    const rx one = f->regular[parts[0]], next = rx_concat(f->pool, f->regular[parts[1]], one);
    const uint32_t most = v->max == IR_INFINITE ? RX_INFINITE : v->max - 1;
    const rx some = rx_concat(f->pool, one, rx_repeat(f->pool, next, v->min ? v->min - 1 : 0, most));
    *out = v->min ? some : rx_optional(f->pool, some);
    return cost;
}

static bool try_symbol(const fuser *f, ir_sym s) {
    const ir_view v = ir_look(f->g, s);
    rx language = RX_NONE;
    uint32_t cost = 0;
    if (f->cost[s] || !f->productive[s]) return false;
    if (v.kind == IR_IS_TERMINAL && !v.lazy && !rx_is_hard(f->pool, v.language)) language = v.language, cost = 4;
    if (v.kind == IR_IS_RULE) cost = fuse_rule(f, s, v.n, &language);
    if (v.kind == IR_IS_REPEAT) cost = fuse_repeat(f, &v, &language);
    if (!cost || language == RX_NONE) return false;
    f->cost[s] = cost;
    f->regular[s] = language;
    return true;
}

bool cfg_fuse(ir *g, const uint32_t *from, const uint32_t *uses, const bool *productive, rx *regular) {
    const size_t n = ir_size(g);
    fuser f = {g, ir_pool(g), productive, regular, mem_zarray(n + 1, sizeof(uint32_t))};
    uint32_t *list = mem_array(n + 1, sizeof *list);
    size_t n_list = 0;
    for (size_t s = 0; f.cost && list && s < n; s++)
        if (try_symbol(&f, (ir_sym)s)) list[n_list++] = (uint32_t)s;
    while (n_list) {
        const uint32_t s = list[--n_list];
        for (uint32_t i = from[s]; i < from[s + 1]; i++)
            if (try_symbol(&f, uses[i])) list[n_list++] = uses[i];
    }
    const bool is_fine = f.cost && list;
    mem_free(f.cost);
    mem_free(list);
    return is_fine;
}
