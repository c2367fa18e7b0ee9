/* cfg.c — from the intermediate form to flat tables: what is useless goes, the rest is numbered.
 *
 * Three fixed points over the symbols (has a word, can be empty, is reached) with work lists, then one pass that
 * writes positions. No recursion: grammars come from strangers. */
#include "cfg.h"
#include "cfg_fuse.h"
#include <stdlib.h>

typedef struct builder {
    cfg *c;
    ir *g;
    rx_pool *pool;
    size_t n; /* symbols of the ir */
    bool *productive, *nullable;
    rx *regular;      /* by ir symbol: its language where it is made a terminal, RX_NONE: it is not */
    uint32_t *number; /* by ir symbol: its cfg symbol, CFG_NO_SYMBOL: not reached */
    uint32_t *order;  /* reached ir symbols that are rules, by rule number - 1 */
    uint32_t n_order;
    uint32_t skip; /* cfg symbol of the skipped text, CFG_NO_SYMBOL: none */
    uint32_t at_room, starts_room, terminal_room, special_room;
    qp_error *err;
} builder;

static qp_status no_memory(const builder *b) { return err_no_memory(b->err, b->n * sizeof(cfg_rule), "grammar"); }

/* ---- which symbols have words, which the empty one ---- */

/* Whether all symbols of a row are marked. */
static bool all_marked(const bool *mark, const ir_sym *row, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!mark[row[i]]) return false;
    return true;
}

static bool any_alternative(const ir *g, ir_sym s, const bool *mark) {
    const ir_view v = ir_look(g, s);
    for (size_t i = 0; i < v.n; i++) {
        size_t n;
        const ir_sym *row = ir_look_alternative(g, s, i, &n);
        if (all_marked(mark, row, n)) return true;
    }
    return false;
}

static bool repeat_marked(const ir_view *v, const bool *mark) {
    if (v->min == 0) return true;
    return mark[v->symbols[0]] && (v->min == 1 || mark[v->separator]);
}

static bool any_order_marked(const ir_view *v, const bool *mark) {
    int n_required = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (!(v->required >> i & 1)) continue;
        n_required++;
        if (!mark[v->symbols[i]]) return false;
    }
    return n_required < 2 || mark[v->separator];
}

static bool becomes_marked(const builder *b, ir_sym s, const bool *mark, bool want_nullable) {
    const ir_view v = ir_look(b->g, s);
    switch (v.kind) {
    case IR_IS_TERMINAL:
        return want_nullable ? rx_nullable(b->pool, v.language) : rx_has_word(b->pool, v.language);
    case IR_IS_SPECIAL:
        return !want_nullable;
    case IR_IS_RULE:
        return any_alternative(b->g, s, mark);
    case IR_IS_REPEAT:
        return repeat_marked(&v, mark);
    case IR_IS_ANY_ORDER:
        return any_order_marked(&v, mark);
    }
    return false;
}

/* Who mentions whom: uses[from[s] .. from[s + 1]] are the symbols that mention s. */
typedef struct users {
    uint32_t *from, *uses;
} users;

typedef void mention_fn(void *context, ir_sym user, ir_sym used);

static void each_mention(const ir *g, ir_sym s, mention_fn *fn, void *context) {
    const ir_view v = ir_look(g, s);
    if (v.kind == IR_IS_REPEAT || v.kind == IR_IS_ANY_ORDER) {
        const size_t n = v.kind == IR_IS_REPEAT ? 1 : v.n;
        for (size_t i = 0; i < n; i++) fn(context, s, v.symbols[i]);
        fn(context, s, v.separator);
    }
    for (size_t i = 0; v.kind == IR_IS_RULE && i < v.n; i++) {
        size_t n;
        const ir_sym *row = ir_look_alternative(g, s, i, &n);
        for (size_t k = 0; k < n; k++) fn(context, s, row[k]);
    }
}

static void count_use(void *context, ir_sym user, ir_sym used) { ((users *)context)->from[used + 2]++; }
static void note_use(void *context, ir_sym user, ir_sym used) {
    users *u = context;
    u->uses[u->from[used + 1]++] = user;
}

static bool find_users(const builder *b, users *u) {
    u->from = mem_zarray(b->n + 3, sizeof *u->from);
    if (!u->from) return false;
    for (size_t s = 0; s < b->n; s++) each_mention(b->g, (ir_sym)s, count_use, u);
    for (size_t s = 0; s <= b->n; s++) u->from[s + 2] += u->from[s + 1];
    u->uses = mem_array(u->from[b->n + 1] + 1, sizeof *u->uses);
    if (!u->uses) return false;
    for (size_t s = 0; s < b->n; s++) each_mention(b->g, (ir_sym)s, note_use, u);
    return true;
}

/* Marks symbols from the leaves up, until nothing changes. */
static bool mark_all(const builder *b, const users *u, bool *mark, bool want_nullable) {
    uint32_t *list = mem_array(b->n + 1, sizeof *list);
    if (!list) return false;
    size_t n = 0;
    for (size_t s = 0; s < b->n; s++)
        if (!mark[s] && becomes_marked(b, (ir_sym)s, mark, want_nullable)) mark[s] = true, list[n++] = (uint32_t)s;
    while (n) {
        const uint32_t s = list[--n];
        for (uint32_t i = u->from[s]; i < u->from[s + 1]; i++) {
            const uint32_t user = u->uses[i];
            if (!mark[user] && becomes_marked(b, user, mark, want_nullable)) mark[user] = true, list[n++] = user;
        }
    }
    mem_free(list);
    return true;
}

/* ---- numbering ---- */

static bool grow(builder *b, void *array, uint32_t *room, uint32_t used, uint32_t more, size_t size) {
    if (more <= *room - used) return true;
    size_t wanted = *room ? (size_t)*room * 2 : 64;
    while (wanted - used < more) wanted *= 2;
    void *old, *fresh = wanted < CFG_INDEX ? arena_get(&b->c->memory, wanted, size) : NULL;
    if (!fresh) return false;
    memcpy(&old, array, sizeof old);
    if (used) memcpy(fresh, old, used * size);
    memcpy(array, &fresh, sizeof fresh);
    *room = (uint32_t)wanted;
    return true;
}

static uint32_t add_terminal(builder *b, rx language, bool lazy, const char *name) {
    cfg *c = b->c;
    if (!grow(b, &c->terminals, &b->terminal_room, c->n_terminals, 1, sizeof *c->terminals)) return CFG_NO_SYMBOL;
    c->terminals[c->n_terminals] = (cfg_terminal){language, lazy, name};
    return CFG_TERMINAL | c->n_terminals++;
}

static uint32_t add_special(builder *b, const ir_view *v) {
    cfg *c = b->c;
    if (!grow(b, &c->specials, &b->special_room, c->n_specials, 1, sizeof *c->specials)) return CFG_NO_SYMBOL;
    c->specials[c->n_specials] = (cfg_special){v->ids, v->n};
    return CFG_SPECIAL | c->n_specials++;
}

/* What the symbol is made of; specials and lazy terminals are never part of a larger terminal. */
static rx language_of(const builder *b, ir_sym s) {
    const ir_view v = ir_look(b->g, s);
    return v.kind == IR_IS_TERMINAL ? v.language : b->regular[s];
}

static void reach(void *context, ir_sym user, ir_sym used) {
    builder *b = context;
    if (b->number[used] != CFG_NO_SYMBOL || !b->productive[used]) return;
    b->number[used] = b->n_order + 1; /* rule 0 is the start */
    b->order[b->n_order++] = used;
}

/* Gives every reached symbol a rule number first; plain terminals and specials get theirs instead of it. */
static bool number_symbols(builder *b) {
    for (size_t s = 0; s < b->n; s++) b->number[s] = CFG_NO_SYMBOL;
    reach(b, 0, ir_get_start(b->g));
    for (uint32_t i = 0; i < b->n_order; i++)
        if (language_of(b, b->order[i]) == RX_NONE) each_mention(b->g, b->order[i], reach, b);
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_order; i++) {
        const ir_sym s = b->order[i];
        const ir_view v = ir_look(b->g, s);
        if (v.kind == IR_IS_SPECIAL)
            b->number[s] = add_special(b, &v);
        else if (language_of(b, s) != RX_NONE && !b->nullable[s])
            b->number[s] = add_terminal(b, language_of(b, s), v.lazy, v.name);
        else
            b->order[n] = s, b->number[s] = ++n;
        if (b->number[s] == CFG_NO_SYMBOL) return false;
    }
    b->n_order = n;
    return true;
}

/* ---- positions ---- */

static bool add_position(builder *b, cfg_place place, uint32_t symbol, uint32_t rule) {
    cfg *c = b->c;
    if (!grow(b, &c->at, &b->at_room, c->n_at, 1, sizeof *c->at)) return false;
    c->at[c->n_at++] = (cfg_position){(uint8_t)place, 0, symbol, rule};
    return true;
}

static bool add_start(builder *b, cfg_rule *rule) {
    cfg *c = b->c;
    if (!grow(b, &c->starts, &b->starts_room, c->n_starts, 1, sizeof *c->starts)) return false;
    if (rule->n_starts++ == 0) rule->start = c->n_starts;
    c->starts[c->n_starts++] = c->n_at;
    return true;
}

/* A symbol, and the skipped text before it if it is one that stands in the text. */
static bool add_symbol(builder *b, uint32_t symbol, uint32_t rule) {
    const bool is_text = symbol & (CFG_TERMINAL | CFG_SPECIAL);
    if (is_text && b->skip != CFG_NO_SYMBOL && !add_position(b, CFG_SYMBOL, b->skip, rule)) return false;
    return add_position(b, CFG_SYMBOL, symbol, rule);
}

static bool write_rule(builder *b, cfg_rule *rule, uint32_t number, ir_sym s, size_t n_alternatives) {
    for (size_t i = 0; i < n_alternatives; i++) {
        size_t n;
        const ir_sym *row = ir_look_alternative(b->g, s, i, &n);
        if (!all_marked(b->productive, row, n)) continue;
        if (!add_start(b, rule)) return false;
        for (size_t k = 0; k < n; k++)
            if (row[k] != IR_EPSILON && !add_symbol(b, b->number[row[k]], number)) return false;
        if (!add_position(b, CFG_END, CFG_NO_SYMBOL, number)) return false;
    }
    return true;
}

/* "Nothing, or the terminal." */
static bool write_optional(builder *b, cfg_rule *rule, uint32_t number, uint32_t terminal) {
    if (terminal == CFG_NO_SYMBOL || !add_start(b, rule) || !add_position(b, CFG_END, CFG_NO_SYMBOL, number) ||
        !add_start(b, rule))
        return false;
    const bool is_skip = b->skip == number;
    return (is_skip ? add_position(b, CFG_SYMBOL, terminal, number) : add_symbol(b, terminal, number)) &&
           add_position(b, CFG_END, CFG_NO_SYMBOL, number);
}

static uint32_t new_rule(builder *b) { return b->c->n_rules++; /* room was made for all */ }

/* A terminal that is repeated or a member gets a rule of its own where text is skipped before it. */
static uint32_t part_symbol(builder *b, ir_sym s) {
    const uint32_t symbol = b->number[s];
    if (b->skip == CFG_NO_SYMBOL || !(symbol & (CFG_TERMINAL | CFG_SPECIAL))) return symbol;
    const uint32_t number = new_rule(b);
    cfg_rule *rule = &b->c->rules[number];
    if (!add_start(b, rule) || !add_symbol(b, symbol, number) || !add_position(b, CFG_END, CFG_NO_SYMBOL, number))
        return CFG_NO_SYMBOL;
    return number;
}

static bool write_repeat(builder *b, cfg_rule *rule, uint32_t number, const ir_view *v) {
    const ir_sym inner = v->symbols[0];
    const bool has_separator = v->separator != IR_EPSILON;
    rule->min = v->min;
    rule->max = !b->productive[inner] ? 0 : has_separator && !b->productive[v->separator] ? 1 : v->max;
    rule->has_separator = has_separator;
    if (rule->max == 0) return add_start(b, rule) && add_position(b, CFG_END, CFG_NO_SYMBOL, number);
    if (b->nullable[inner] && !has_separator) rule->skips_empty = true, rule->min = 0;
    const uint32_t repeated = part_symbol(b, inner);
    const uint32_t between = !has_separator ? repeated : rule->max == 1 ? repeated : part_symbol(b, v->separator);
    if (rule->min == 0 && (!add_start(b, rule) || !add_position(b, CFG_END, CFG_NO_SYMBOL, number))) return false;
    if (repeated == CFG_NO_SYMBOL || between == CFG_NO_SYMBOL || !add_start(b, rule)) return false;
    rule->first = b->c->n_at;
    return add_position(b, CFG_REPEAT_FIRST, repeated, number) && add_position(b, CFG_REPEAT_AFTER, between, number);
}

/* Positions: choose, after, then one a member. */
static bool write_any_order(builder *b, cfg_rule *rule, uint32_t number, const ir_view *v) {
    uint32_t parts[64], between = CFG_NO_SYMBOL;
    uint64_t possible = 0;
    rule->has_separator = v->separator != IR_EPSILON;
    rule->n_members = (uint32_t)v->n;
    rule->required = v->required;
    for (size_t i = 0; i < v->n; i++) {
        if (!b->productive[v->symbols[i]]) continue;
        parts[i] = part_symbol(b, v->symbols[i]);
        possible |= (uint64_t)1 << i;
        if (parts[i] == CFG_NO_SYMBOL) return false;
    }
    if (rule->has_separator && b->productive[v->separator]) between = part_symbol(b, v->separator);
    if (!v->required && (!add_start(b, rule) || !add_position(b, CFG_END, CFG_NO_SYMBOL, number))) return false;
    if (!add_start(b, rule)) return false;
    rule->first = b->c->n_at;
    if (!add_position(b, CFG_ANY_CHOOSE, CFG_NO_SYMBOL, number) || !add_position(b, CFG_ANY_AFTER, between, number))
        return false;
    for (size_t i = 0; i < v->n; i++) {
        const bool is_possible = possible >> i & 1;
        if (!add_position(b, CFG_ANY_MEMBER, is_possible ? parts[i] : CFG_NO_SYMBOL, number)) return false;
        b->c->at[b->c->n_at - 1].member = (uint8_t)i;
    }
    return true;
}

static bool write_symbol(builder *b, uint32_t number, ir_sym s) {
    const ir_view v = ir_look(b->g, s);
    cfg_rule *rule = &b->c->rules[number];
    rule->name = v.name;
    rule->nullable = b->nullable[s];
    if (language_of(b, s) != RX_NONE)
        return write_optional(b, rule, number, add_terminal(b, language_of(b, s), v.lazy, v.name));
    switch (v.kind) {
    case IR_IS_RULE:
        return write_rule(b, rule, number, s, v.n);
    case IR_IS_REPEAT:
        return write_repeat(b, rule, number, &v);
    case IR_IS_ANY_ORDER:
        return write_any_order(b, rule, number, &v);
    case IR_IS_TERMINAL:
    case IR_IS_SPECIAL:
        break;
    }
    return true;
}

/* Rule 0: the start symbol. */
static bool write_start(builder *b) {
    cfg_rule *rule = &b->c->rules[0];
    rule->name = "start";
    rule->nullable = b->nullable[ir_get_start(b->g)];
    if (!add_start(b, rule)) return false;
    return add_symbol(b, b->number[ir_get_start(b->g)], 0) && add_position(b, CFG_END, CFG_NO_SYMBOL, 0);
}

static bool write_skip(builder *b) {
    const rx skip = ir_get_skip(b->g);
    if (skip == RX_NONE || skip == RX_EMPTY) return true;
    b->skip = new_rule(b);
    cfg_rule *rule = &b->c->rules[b->skip];
    rule->name = "skip";
    rule->nullable = true;
    b->c->skip = add_terminal(b, rx_repeat(b->pool, skip, 1, RX_INFINITE), false, "skip");
    return write_optional(b, rule, b->skip, b->c->skip);
}

/* Rules of the ir, the start, the skipped text, and those that part_symbol may add. */
static size_t count_rules(const builder *b) {
    size_t n = b->n_order + 2;
    for (uint32_t i = 0; i < b->n_order; i++) {
        const ir_view v = ir_look(b->g, b->order[i]);
        if (v.kind == IR_IS_REPEAT || v.kind == IR_IS_ANY_ORDER) n += v.n + 2;
    }
    return n;
}

static bool write_all(builder *b) {
    cfg *c = b->c;
    c->rules = arena_zget(&c->memory, count_rules(b), sizeof *c->rules);
    if (!c->rules) return false;
    c->n_rules = b->n_order + 1;
    if (!write_skip(b) || !write_start(b)) return false;
    for (uint32_t i = 0; i < b->n_order; i++)
        if (!write_symbol(b, i + 1, b->order[i])) return false;
    return true;
}

static qp_status check_needs(const builder *b) {
    const char *name;
    ir_sym symbol;
    for (size_t i = 0; ir_look_need(b->g, i, &symbol, &name); i++)
        if (!b->productive[symbol])
            return err_set(b->err, QP_BAD_FORMAT, 0, "%s: unsatisfiable: nothing at all is allowed", name);
    return QP_OK;
}

static qp_status run(builder *b, users *u) {
    b->productive = mem_zarray(b->n, sizeof *b->productive);
    b->nullable = mem_zarray(b->n, sizeof *b->nullable);
    b->regular = mem_zarray(b->n, sizeof *b->regular);
    b->number = mem_array(b->n, sizeof *b->number);
    b->order = mem_array(b->n, sizeof *b->order);
    if (!b->productive || !b->nullable || !b->regular || !b->number || !b->order || !find_users(b, u))
        return no_memory(b);
    if (!mark_all(b, u, b->productive, false) || !mark_all(b, u, b->nullable, true)) return no_memory(b);
    ERR_TRY(rx_status(b->pool, b->err));
    ERR_TRY(check_needs(b));
    if (!b->productive[ir_get_start(b->g)])
        return err_set(b->err, QP_BAD_FORMAT, 0, "unsatisfiable: no text at all is in the language");
    const bool fuses = ir_get_fuse(b->g) && ir_get_skip(b->g) == RX_NONE;
    if (fuses && !cfg_fuse(b->g, u->from, u->uses, b->productive, b->regular)) return no_memory(b);
    if (!number_symbols(b) || !write_all(b)) return no_memory(b);
    return rx_status(b->pool, b->err);
}

qp_status cfg_build(cfg *out, ir *g, qp_error *err) {
    *out = (cfg){.memory = {.block_bytes = 1 << 14}, .skip = CFG_NO_SYMBOL};
    builder b = {.c = out, .g = g, .pool = ir_pool(g), .n = ir_size(g), .skip = CFG_NO_SYMBOL, .err = err};
    users u = {0};
    const qp_status status = run(&b, &u);
    mem_free(u.from);
    mem_free(u.uses);
    mem_free(b.productive);
    mem_free(b.nullable);
    mem_free(b.regular);
    mem_free(b.number);
    mem_free(b.order);
    if (status != QP_OK) cfg_free(out);
    return status;
}

void cfg_free(cfg *c) {
    arena_free(&c->memory);
    *c = (cfg){.memory = {0}};
}
