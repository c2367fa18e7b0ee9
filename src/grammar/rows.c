/* rows.c — making a row: scanned items, completions worked off, looked up, predictions added.
 *
 * rows_make does it in two halves. The core (items that began in earlier rows) is closed under completion and under
 * skipping what can be empty, sorted and interned; only for a new core are predictions, their labels and the index by
 * symbol made. */
#include "rows.h"
#include "base/hash.h"
#include <stdio.h>
#include <stdlib.h>

enum { BLUR = 256 }; /* no token in the trie is so long: see trie.c */

static uint32_t fail(rows *r, qp_status status, const char *what, size_t limit) {
    if (r->failed == QP_OK) {
        r->failed = status;
        snprintf(r->why, sizeof r->why, "parser: %s: over %zu", what, limit);
    }
    return ROW_SELF;
}

static bool make_room(rows *r, void *array, uint32_t *room, uint32_t used, size_t more, size_t size) {
    if (r->failed != QP_OK) return false;
    if (more <= *room - used) return true;
    size_t wanted = *room ? (size_t)*room * 2 : 64;
    while (wanted - used < more) wanted *= 2;
    if (wanted >= UINT32_MAX / 2 || (wanted - *room) * size > r->limit_bytes - r->bytes)
        return fail(r, QP_TOO_LARGE, "bytes of memory", r->limit_bytes), false;
    void *old, *fresh;
    memcpy(&old, array, sizeof old);
    fresh = mem_resize(old, wanted, size);
    if (!fresh) return fail(r, QP_NO_MEMORY, "out of memory", wanted * size), false;
    memcpy(array, &fresh, sizeof fresh);
    r->bytes += (wanted - *room) * size;
    *room = (uint32_t)wanted;
    return true;
}

/* ---- lists without repeats ---- */

static uint32_t hash_item(const row_item *i) {
    uint64_t h = i->parameter * 0x9E3779B97F4A7C15u ^ ((uint64_t)i->at << 32 | i->origin);
    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u + i->label * 0x94D049BBu;
    return (uint32_t)(h ^ h >> 32);
}

static bool is_equal(const row_item *a, const row_item *b) {
    return a->at == b->at && a->origin == b->origin && a->label == b->label && a->parameter == b->parameter;
}

static void scratch_clear(row_scratch *s) {
    if (s->table) memset(s->table, 0, s->table_room * sizeof *s->table);
    s->n = 0;
}

static bool scratch_widen(rows *r, row_scratch *s) {
    if ((s->n + 1) * 2 < s->table_room) return true;
    const uint32_t room = s->table_room ? s->table_room * 2 : 64;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return fail(r, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t at = hash_item(&s->at[i]) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(s->table);
    s->table = table;
    s->table_room = room;
    return true;
}

static void scratch_add(rows *r, row_scratch *s, row_item item) {
    if (s->n >= r->limit_items) {
        fail(r, QP_TOO_LARGE, "items in a row", r->limit_items);
        return;
    }
    if (!make_room(r, &s->at, &s->room, s->n, 1, sizeof *s->at) || !scratch_widen(r, s)) return;
    uint32_t at = hash_item(&item) & (s->table_room - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_room - 1))
        if (is_equal(&s->at[s->table[at] - 1], &item)) return;
    s->at[s->n] = item;
    s->table[at] = ++s->n;
    r->steps++;
}

/* ---- items ---- */

static const cfg_rule *rule_of(const rows *r, const row_item *i) {
    return &r->grammar->rules[r->grammar->at[i->at].rule];
}

/* The item behind what it waited for. */
static row_item advance(const rows *r, const row_item *i) {
    const cfg_position *p = &r->grammar->at[i->at];
    const cfg_rule *rule = rule_of(r, i);
    row_item next = *i;
    switch ((cfg_place)p->place) {
    case CFG_REPEAT_AFTER:
        if (rule->has_separator) {
            next.at--;
            return next;
        }
        next.at--;
        /* fall through */
    case CFG_REPEAT_FIRST:
        if (rule->max != IR_INFINITE || next.parameter < rule->min) next.parameter++;
        next.at++;
        return next;
    case CFG_ANY_MEMBER:
        next.parameter |= (uint64_t)1 << p->member;
        next.at = rule->first + 1;
        return next;
    case CFG_ANY_AFTER:
        next.at = rule->first;
        return next;
    default:
        next.at++;
        return next;
    }
}

static bool is_complete(const rows *r, const row_item *i) {
    const cfg_position *p = &r->grammar->at[i->at];
    const cfg_rule *rule = rule_of(r, i);
    if (p->place == CFG_REPEAT_AFTER) return i->parameter >= rule->min;
    if (p->place == CFG_ANY_AFTER) return (i->parameter & rule->required) == rule->required;
    return p->place == CFG_END;
}

static uint64_t all_members(const cfg_rule *rule) {
    return rule->n_members == 64 ? UINT64_MAX : ((uint64_t)1 << rule->n_members) - 1;
}

/* What the item waits for; CFG_NO_SYMBOL: nothing. */
static uint32_t awaited(const rows *r, const row_item *i) {
    const cfg_position *p = &r->grammar->at[i->at];
    const cfg_rule *rule = rule_of(r, i);
    if (p->place == CFG_REPEAT_AFTER && i->parameter >= rule->max) return CFG_NO_SYMBOL;
    if (p->place == CFG_ANY_AFTER && i->parameter == all_members(rule)) return CFG_NO_SYMBOL;
    return p->symbol;
}

/* Adds the members that are left. */
static void choose(rows *r, row_scratch *s, const row_item *i) {
    const cfg_rule *rule = rule_of(r, i);
    for (uint32_t m = 0; m < rule->n_members; m++) {
        row_item member = *i;
        member.at = rule->first + 2 + m;
        if (i->parameter >> m & 1 || r->grammar->at[member.at].symbol == CFG_NO_SYMBOL) continue;
        scratch_add(r, s, member);
    }
}

static bool is_choosing(const rows *r, const row_item *i) {
    const uint8_t place = r->grammar->at[i->at].place;
    return place == CFG_ANY_CHOOSE || (place == CFG_ANY_AFTER && !rule_of(r, i)->has_separator);
}

static bool can_skip(const rows *r, const row_item *i, uint32_t symbol) {
    if (symbol == CFG_NO_SYMBOL || symbol & (CFG_TERMINAL | CFG_SPECIAL)) return false;
    const uint8_t place = r->grammar->at[i->at].place;
    const bool is_repeat = place == CFG_REPEAT_FIRST || place == CFG_REPEAT_AFTER;
    return r->grammar->rules[symbol].nullable && !(is_repeat && rule_of(r, i)->skips_empty);
}

/* First of a row's items that wait for this symbol. */
static uint32_t find_waits(const rows *r, uint32_t row_number, uint32_t symbol) {
    const parse_row *w = &r->at[row_number];
    uint32_t low = 0, high = w->n_waits;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (r->items[w->waits + middle].symbol < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds what comes behind the symbol in this row to the core. */
static void add_behind(rows *r, uint32_t row_number, uint32_t symbol) {
    const parse_row *w = &r->at[row_number];
    for (uint32_t i = find_waits(r, row_number, symbol); i < w->n_waits; i++) {
        const row_item *item = &r->items[w->waits + i];
        if (item->symbol != symbol) return;
        row_item next = advance(r, item);
        if (next.origin == ROW_SELF) next.origin = row_number;
        scratch_add(r, &r->core, next);
    }
}

/* ---- the core ---- */

static void complete(rows *r, const row_item *i) {
    if (i->label == 0)
        r->accepts = true;
    else
        add_behind(r, i->origin, i->label);
}

static void close_core(rows *r) {
    for (uint32_t i = 0; i < r->core.n && r->failed == QP_OK; i++) {
        const row_item item = r->core.at[i];
        if (is_complete(r, &item)) complete(r, &item);
        if (is_choosing(r, &item)) choose(r, &r->core, &item);
        const uint32_t symbol = awaited(r, &item);
        r->core.at[i].symbol = is_choosing(r, &item) ? CFG_NO_SYMBOL : symbol;
        if (can_skip(r, &item, symbol)) scratch_add(r, &r->core, advance(r, &item));
    }
}

static int by_symbol(const void *a, const void *b) {
    const row_item *x = a, *y = b;
    if (x->symbol != y->symbol) return x->symbol < y->symbol ? -1 : 1;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    if (x->origin != y->origin) return x->origin < y->origin ? -1 : 1;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->parameter > y->parameter) - (x->parameter < y->parameter);
}

/* Keeps what waits, in order. */
static uint32_t sort_waiting(row_item *items, uint32_t n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (items[i].symbol != CFG_NO_SYMBOL) items[kept++] = items[i];
    if (kept > 1) qsort(items, kept, sizeof *items, by_symbol);
    return kept;
}

static uint32_t hash_items(const row_item *items, uint32_t n, bool accepts) {
    return (uint32_t)hash_bytes(items, n * sizeof *items, accepts);
}

static bool grow_table(rows *r) {
    if ((r->n_rows + 1) * 2 < r->table_room) return true;
    const uint32_t room = r->table_room ? r->table_room * 2 : 256;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return fail(r, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = 0; i < r->n_rows; i++) {
        uint32_t at = hash_items(r->items + r->at[i].core, r->at[i].n_core, r->at[i].accepts) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(r->table);
    r->table = table;
    r->table_room = room;
    return true;
}

/* ---- predictions ---- */

static void note_waiter(rows *r, uint32_t index) {
    const uint32_t symbol = r->closure.at[index].symbol;
    if (symbol == CFG_NO_SYMBOL || symbol & (CFG_TERMINAL | CFG_SPECIAL)) return;
    if (r->predicted[symbol] == r->round) {
        r->waiter[symbol] = ROW_SELF;
        return;
    }
    r->predicted[symbol] = r->round;
    r->waiter[symbol] = index;
    const cfg_rule *rule = &r->grammar->rules[symbol];
    for (uint32_t i = 0; i < rule->n_starts; i++) {
        const uint32_t at = r->grammar->starts[rule->start + i];
        scratch_add(r, &r->closure, (row_item){.at = at, .origin = ROW_SELF, .label = symbol});
    }
}

static void predict(rows *r) {
    scratch_clear(&r->closure);
    if (++r->round == 0) fail(r, QP_TOO_LARGE, "rows", UINT32_MAX);
    for (uint32_t i = 0; i < r->core.n && r->failed == QP_OK; i++) scratch_add(r, &r->closure, r->core.at[i]);
    for (uint32_t i = 0; i < r->closure.n && r->failed == QP_OK; i++) {
        const row_item item = r->closure.at[i];
        const bool is_new = item.origin == ROW_SELF;
        if (is_new && is_choosing(r, &item)) choose(r, &r->closure, &item);
        const uint32_t symbol = is_choosing(r, &item) ? CFG_NO_SYMBOL : awaited(r, &item);
        r->closure.at[i].symbol = symbol;
        if (is_new && can_skip(r, &item, symbol)) scratch_add(r, &r->closure, advance(r, &item));
        note_waiter(r, i);
    }
}

/* Whether completing what it waits for completes the item's rule and nothing else. */
static bool is_last(const rows *r, const row_item *i) {
    const cfg_position *p = &r->grammar->at[i->at];
    return p->place == CFG_SYMBOL && p[1].place == CFG_END;
}

/* Where completing this predicted rule leads in the end: follows only waiters in last places. */
static void relabel(rows *r, row_item *item) {
    while (item->origin == ROW_SELF) {
        const uint32_t waiter = r->waiter[item->label];
        if (waiter == ROW_SELF || item->label == 0 || !is_last(r, &r->closure.at[waiter])) return;
        const row_item *w = &r->closure.at[waiter];
        item->origin = w->origin;
        item->label = w->label;
    }
}

static void relabel_all(rows *r) {
    for (uint32_t i = 0; i < r->closure.n; i++) {
        row_item *item = &r->closure.at[i];
        if (item->origin != ROW_SELF || item->symbol == CFG_NO_SYMBOL) continue;
        row_item changed = *item;
        relabel(r, &changed);
        item->origin = changed.origin; /* a waiter that is relabelled leads to the same end */
        item->label = changed.label;
    }
}

/* ---- classes ---- */

/* Counts so far from their bounds that no token can reach them are taken as equal. */
static uint64_t blur(const rows *r, const row_item *i) {
    const uint8_t place = r->grammar->at[i->at].place;
    const cfg_rule *rule = rule_of(r, i);
    if (place != CFG_REPEAT_FIRST && place != CFG_REPEAT_AFTER) return i->parameter;
    const uint32_t inner = r->grammar->at[rule->first].symbol;
    if (can_skip(r, i, inner)) return i->parameter;
    const uint64_t left = rule->max == IR_INFINITE ? BLUR : rule->max - i->parameter;
    const uint64_t missing = i->parameter < rule->min ? rule->min - i->parameter : 0;
    return (left < BLUR ? left : BLUR) << 32 | (missing < BLUR ? missing : BLUR);
}

static bool grow_classes(rows *r) {
    if ((r->n_classes + 2) * 2 < r->class_table_room) return true;
    const uint32_t room = r->class_table_room ? r->class_table_room * 2 : 256;
    uint32_t *table = mem_zarray(room, sizeof *table);
    if (!table) return fail(r, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = 0; i < r->n_classes; i++) {
        const uint32_t first = r->class_first[i], n = r->class_first[i + 1] - first;
        uint32_t at = hash_items(r->class_items + first, n, false) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = i + 1;
    }
    mem_free(r->class_table);
    r->class_table = table;
    r->class_table_room = room;
    return true;
}

static uint32_t find_class(rows *r, const row_item *core, uint32_t n) {
    if (!grow_classes(r) || !make_room(r, &r->class_items, &r->class_item_room, r->n_class_items, n, sizeof *core) ||
        !make_room(r, &r->class_first, &r->class_room, r->n_classes, 2, sizeof *r->class_first))
        return 0;
    row_item *items = r->class_items + r->n_class_items;
    for (uint32_t i = 0; i < n; i++) {
        items[i] = core[i];
        items[i].origin = r->at[core[i].origin].class;
        items[i].parameter = blur(r, &core[i]);
    }
    if (n > 1) qsort(items, n, sizeof *items, by_symbol);
    uint32_t at = hash_items(items, n, false) & (r->class_table_room - 1);
    for (; r->class_table[at]; at = (at + 1) & (r->class_table_room - 1)) {
        const uint32_t c = r->class_table[at] - 1, first = r->class_first[c];
        if (r->class_first[c + 1] - first == n && !memcmp(r->class_items + first, items, n * sizeof *items)) return c;
    }
    r->class_first[r->n_classes] = r->n_class_items;
    r->n_class_items += n;
    r->class_first[r->n_classes + 1] = r->n_class_items;
    r->class_table[at] = ++r->n_classes;
    return r->n_classes - 1;
}

/* ---- rows ---- */

static uint32_t append_items(rows *r, const row_item *items, uint32_t n) {
    if (!make_room(r, &r->items, &r->item_room, r->n_items, n, sizeof *items)) return 0;
    if (n) memcpy(r->items + r->n_items, items, n * sizeof *items);
    r->n_items += n;
    return r->n_items - n;
}

/* A text does not begin with what is skipped. */
static void forget_skip(rows *r) {
    for (uint32_t i = 0; i < r->closure.n && r->grammar->skip != CFG_NO_SYMBOL; i++)
        if (r->closure.at[i].symbol == r->grammar->skip) r->closure.at[i].symbol = CFG_NO_SYMBOL;
}

static uint32_t add_row(rows *r) {
    if (!make_room(r, &r->at, &r->row_room, r->n_rows, 1, sizeof *r->at)) return ROW_SELF;
    parse_row w = {.n_core = r->core.n, .accepts = r->accepts};
    w.core = append_items(r, r->core.at, r->core.n);
    w.class = find_class(r, r->core.at, r->core.n);
    predict(r);
    relabel_all(r);
    if (r->n_rows == 0) forget_skip(r);
    w.n_waits = sort_waiting(r->closure.at, r->closure.n);
    w.waits = append_items(r, r->closure.at, w.n_waits);
    for (uint32_t i = 0; i < w.n_waits; i++) w.has_special |= r->closure.at[i].symbol >> 29 == 1;
    if (r->failed != QP_OK) return ROW_SELF;
    r->at[r->n_rows] = w;
    return r->n_rows++;
}

void rows_begin(rows *r) {
    scratch_clear(&r->core);
    r->accepts = false;
}

void rows_add(rows *r, uint32_t row_number, uint32_t state) {
    const lexer_state *s = &r->lexer->states[state];
    for (uint32_t i = 0; i < s->n_complete; i++)
        add_behind(r, row_number, CFG_TERMINAL | r->lexer->completed[s->complete + i]);
}

void rows_add_special(rows *r, uint32_t row_number, int32_t id) {
    const parse_row *w = &r->at[row_number];
    for (uint32_t i = find_waits(r, row_number, CFG_SPECIAL); i < w->n_waits; i++) {
        const uint32_t symbol = r->items[w->waits + i].symbol;
        if (symbol >> 29 != 1) return;
        if (i && r->items[w->waits + i - 1].symbol == symbol) continue;
        const cfg_special *special = &r->grammar->specials[symbol & CFG_INDEX];
        for (size_t k = 0; k < special->n; k++)
            if (special->ids[k] == id) {
                add_behind(r, row_number, symbol);
                break;
            }
    }
}

uint32_t rows_make(rows *r) {
    if (r->core.n == 0) return ROW_SELF;
    close_core(r);
    r->core.n = sort_waiting(r->core.at, r->core.n);
    if (r->failed != QP_OK || !grow_table(r)) return ROW_SELF;
    uint32_t at = hash_items(r->core.at, r->core.n, r->accepts) & (r->table_room - 1);
    for (; r->table[at]; at = (at + 1) & (r->table_room - 1)) {
        const parse_row *w = &r->at[r->table[at] - 1];
        if (w->n_core == r->core.n && w->accepts == r->accepts &&
            (!w->n_core || !memcmp(r->items + w->core, r->core.at, w->n_core * sizeof(row_item))))
            return r->table[at] - 1;
    }
    const uint32_t made = add_row(r);
    if (made != ROW_SELF) r->table[at] = made + 1;
    return made;
}

static bool grow_memo(rows *r) {
    if ((r->n_memo + 1) * 2 < r->memo_room) return true;
    const uint32_t room = r->memo_room ? r->memo_room * 2 : 256;
    uint64_t *keys = mem_zarray(room, sizeof *keys);
    uint32_t *values = keys ? mem_array(room, sizeof *values) : NULL;
    if (!values) return mem_free(keys), fail(r, QP_NO_MEMORY, "out of memory", room), false;
    for (uint32_t i = 0; i < r->memo_room; i++) {
        if (!r->memo_key[i]) continue;
        uint32_t at = (uint32_t)(r->memo_key[i] * 0x9E3779B97F4A7C15u >> 32) & (room - 1);
        while (keys[at]) at = (at + 1) & (room - 1);
        keys[at] = r->memo_key[i];
        values[at] = r->memo_row[i];
    }
    mem_free(r->memo_key);
    mem_free(r->memo_row);
    r->memo_key = keys;
    r->memo_row = values;
    r->memo_room = room;
    return true;
}

uint32_t rows_scan(rows *r, uint32_t row_number, uint32_t state) {
    if (!grow_memo(r)) return ROW_SELF;
    const uint64_t key = (uint64_t)row_number << 32 | state; /* never 0: no state is */
    uint32_t at = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32) & (r->memo_room - 1);
    for (; r->memo_key[at]; at = (at + 1) & (r->memo_room - 1))
        if (r->memo_key[at] == key) return r->memo_row[at];
    rows_begin(r);
    rows_add(r, row_number, state);
    const uint32_t made = rows_make(r);
    if (made == ROW_SELF) return made;
    r->memo_key[at] = key;
    r->memo_row[at] = made;
    r->n_memo++;
    return made;
}

uint32_t rows_start(rows *r, uint32_t row_number) {
    const parse_row *w = &r->at[row_number];
    if (w->start) return w->start;
    uint32_t *terminals = mem_array(w->n_waits + 1, sizeof *terminals), n = 0;
    if (!terminals) return fail(r, QP_NO_MEMORY, "out of memory", w->n_waits), 0;
    for (uint32_t i = find_waits(r, row_number, CFG_TERMINAL); i < w->n_waits; i++) {
        const uint32_t symbol = r->items[w->waits + i].symbol & CFG_INDEX;
        if (r->items[w->waits + i].symbol & CFG_TERMINAL && (!n || terminals[n - 1] != symbol)) terminals[n++] = symbol;
    }
    r->at[row_number].start = lexer_start(r->lexer, terminals, n);
    mem_free(terminals);
    return r->at[row_number].start;
}

static uint32_t make_first(rows *r) {
    rows_begin(r);
    r->accepts = r->grammar->rules[0].nullable;
    /* The first row waits for the start itself: an item at its first symbol, returning nowhere. */
    const uint32_t at = r->grammar->starts[r->grammar->rules[0].start];
    scratch_add(r, &r->core, (row_item){.at = at, .origin = 0, .label = 0});
    return r->failed == QP_OK ? rows_make(r) : ROW_SELF;
}

qp_status rows_open(rows *r, const cfg *grammar, lexer *l, size_t limit_items, size_t limit_bytes, qp_error *err) {
    *r = (rows){.grammar = grammar, .lexer = l, .limit_bytes = limit_bytes, .limit_items = limit_items};
    r->predicted = mem_zarray(grammar->n_rules, sizeof *r->predicted);
    r->waiter = mem_zarray(grammar->n_rules, sizeof *r->waiter);
    if (!r->predicted || !r->waiter) fail(r, QP_NO_MEMORY, "out of memory", grammar->n_rules);
    /* The core of row 0 names row 0 as its origin: the entry must be there to have a class. */
    if (make_room(r, &r->at, &r->row_room, 0, 1, sizeof *r->at)) r->at[0] = (parse_row){.class = 0};
    if (r->failed == QP_OK) make_first(r);
    const qp_status status = rows_status(r, err);
    if (status != QP_OK) rows_close(r);
    return status;
}

void rows_close(rows *r) {
    void *const owned[] = {r->at,          r->items,         r->table,       r->memo_key, r->memo_row,
                           r->class_table, r->class_items,   r->class_first, r->core.at,  r->core.table,
                           r->closure.at,  r->closure.table, r->predicted,   r->waiter};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) mem_free(owned[i]);
    *r = (rows){.grammar = NULL};
}

qp_status rows_status(const rows *r, qp_error *err) {
    if (r->failed != QP_OK) return err_set(err, r->failed, 0, "%s", r->why);
    return lexer_status(r->lexer, err);
}
