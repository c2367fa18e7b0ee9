/* schema_write_array.c — one shape of arrays as rules.
 *
 * Without counted kinds of items: the first places in a row, then the rest as a counted repetition. With them
 * (contains, or a broken `items` under not), a state for each place and each count so far; an item that is of a kind
 * may be counted or not where only a minimum is asked for, which needs no complement. Unique items out of few values: a
 * state for each set of values that has been used. */
#include "schema_writer.h"

enum { MAX_COUNTS = 4, MAX_UNIQUE = 10, MAX_ANY_ORDER = 64 };

typedef struct array_writer {
    schema_writer *w;
    const array_shape *a;
    int depth;
    ir_sym open, close, close_empty, comma;
} array_writer;

static ir_sym terminal(schema_writer *w, rx language) { return ir_terminal(w->rules, language); }

static ir_sym sequence(schema_writer *w, ir_sym a, ir_sym b, ir_sym c) {
    const ir_sym row[3] = {a, b, c};
    return ir_sequence(w->rules, row, 3);
}

static ir_sym item_symbol(const array_writer *x, goal value) { return write_value(x->w, value, x->depth + 1); }

/* ---- plain arrays ---- */

/* Items from `i` on, each with a comma before it, and the closing bracket. */
static ir_sym plain_rest(const array_writer *x, uint32_t from) {
    const array_shape *a = x->a;
    const uint32_t min = a->min > from ? a->min - from : 0,
                   max = a->max == COUNT_INFINITE ? IR_INFINITE : a->max - from;
    const ir_sym pair[2] = {x->comma, max ? item_symbol(x, a->rest) : IR_NOTHING};
    const ir_sym items = max ? ir_repeat(x->w->rules, ir_sequence(x->w->rules, pair, 2), min, max) : IR_EPSILON;
    const ir_sym row[2] = {items, x->close};
    return ir_sequence(x->w->rules, row, 2);
}

/* From the back: after place i there is an end (if there are enough), or a comma and place i + 1. */
static ir_sym plain_array(const array_writer *x) {
    schema_writer *w = x->w;
    const array_shape *a = x->a;
    const uint32_t n = a->n_prefix < a->max ? a->n_prefix : a->max;
    ir_sym tail = n ? plain_rest(x, n) : IR_NOTHING;
    for (uint32_t i = n; i-- > 0 && write_spend(w);) {
        if (i + 1 < n) {
            const ir_sym ways[2] = {tail, i + 1 >= a->min ? x->close : IR_NOTHING};
            tail = ir_choice(w->rules, ways, 2);
        }
        tail = sequence(w, i ? x->comma : IR_EPSILON, item_symbol(x, a->prefix[i]), tail);
    }
    if (!n && a->max) tail = sequence(w, IR_EPSILON, item_symbol(x, a->rest), plain_rest(x, 1));
    const ir_sym ways[2] = {tail, a->min == 0 ? x->close_empty : IR_NOTHING};
    return sequence(w, x->open, ir_choice(w->rules, ways, 2), IR_EPSILON);
}

/* ---- counted kinds ---- */

typedef struct count_state {
    uint32_t place; /* how many items so far; past all that matters it stands still */
    uint32_t counts[MAX_COUNTS];
    ir_sym rule;
} count_state;

typedef struct count_writer {
    const array_writer *x;
    count_state *states;
    uint32_t n, room;
    uint32_t last_place;
} count_writer;

/* Beyond this number of items nothing changes but what is counted. */
static uint32_t place_cap(const array_shape *a) {
    uint32_t cap = a->n_prefix > a->min ? a->n_prefix : a->min;
    for (uint32_t i = 0; i < a->n_counts; i++)
        if (a->counts[i].from > cap) cap = a->counts[i].from;
    return a->max != COUNT_INFINITE ? a->max : cap;
}

/* A count stands still at its minimum, or one past its maximum. */
static uint32_t count_cap(const count_rule *c) { return c->max != COUNT_INFINITE ? c->max + 1 : c->min; }

static ir_sym state_rule(count_writer *c, const count_state *wanted) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->states[i].place == wanted->place && !memcmp(c->states[i].counts, wanted->counts, sizeof wanted->counts))
            return c->states[i].rule;
    if (!write_spend(c->x->w)) return IR_NOTHING;
    if (c->n == c->room) {
        const uint32_t room = c->room ? c->room * 2 : 16;
        count_state *grown = schema_grown(c->x->w->s, c->states, c->n, room - c->n, sizeof *grown);
        if (!grown) return IR_NOTHING;
        c->states = grown;
        c->room = room;
    }
    c->states[c->n] = *wanted;
    c->states[c->n].rule = ir_rule(c->x->w->rules, "items");
    return c->states[c->n++].rule;
}

/* One way to take the next item: bit i of `counted` says that it is of kind i (and counted), the others are not. Where
 * only a minimum is asked for, "not counted" needs not be "not of the kind". */
static void add_way(count_writer *c, ir_sym rule, const count_state *from, unsigned counted) {
    const array_writer *x = c->x;
    schema *s = x->w->s;
    goal value = array_item(x->a, from->place);
    count_state to = *from;
    for (uint32_t i = 0; i < x->a->n_counts; i++) {
        const count_rule *count = &x->a->counts[i];
        const bool takes_part = from->place >= count->from && from->counts[i] < count_cap(count);
        if (counted >> i & 1) {
            if (!takes_part) return;
            value = schema_goal_and(s, value, count->value);
            to.counts[i]++;
        } else if (takes_part && count->max != COUNT_INFINITE) {
            value = schema_goal_and(s, value, schema_goal_not(s, count->value));
        }
        if (to.counts[i] > count->max) return;
    }
    if (value == GOAL_NONE) return;
    if (to.place < c->last_place) to.place++;
    const ir_sym first = from->place == 0 ? IR_EPSILON : x->comma;
    const ir_sym way = sequence(x->w, first, item_symbol(x, value), state_rule(c, &to));
    ir_alternative(x->w->rules, rule, &way, 1);
}

static void fill_state(count_writer *c, uint32_t number) {
    const array_writer *x = c->x;
    const count_state now = c->states[number];
    bool may_end = now.place >= x->a->min;
    for (uint32_t i = 0; i < x->a->n_counts; i++) may_end &= now.counts[i] >= x->a->counts[i].min;
    const ir_sym end = now.place ? x->close : x->close_empty;
    if (may_end) ir_alternative(x->w->rules, now.rule, &end, 1);
    if (x->a->max != COUNT_INFINITE && now.place >= x->a->max) return;
    for (unsigned counted = 0; counted < 1u << x->a->n_counts && schema_ok(x->w->s); counted++)
        add_way(c, now.rule, &now, counted);
}

static ir_sym counted_array(const array_writer *x) {
    count_writer c = {.x = x, .last_place = place_cap(x->a)};
    if (x->a->n_counts > MAX_COUNTS) {
        schema_over_limit(x->w->s, x->w->s->root, "more than 4 counts of kinds of items meet in one array");
        return IR_NOTHING;
    }
    if (!c.last_place) c.last_place = 1; /* the first item is told from the others by its comma */
    const ir_sym first = state_rule(&c, &(count_state){0});
    for (uint32_t i = 0; i < c.n && schema_ok(x->w->s); i++) fill_state(&c, i);
    return sequence(x->w, x->open, first, IR_EPSILON);
}

/* ---- unique items ---- */

/* The values that a goal of few scalars has, at most `most`; -1: others, or more. */
static int few_values(schema *s, goal value, value_set *out, int most) {
    const value_set *set = schema_goal_set(s, value);
    if (set->objects || set->arrays || !set->strings.is_words || !number_is_values(set->numbers)) return -1;
    int n = 0;
    for (int word = 0; word < 3; word++) {
        const bool has[3] = {set->null, set->truth, set->lie};
        if (!has[word] || n >= most) continue;
        out[n] = set_none();
        out[n].null = word == 0, out[n].truth = word == 1, out[n].lie = word == 2;
        n++;
    }
    for (const number_part *p = set->numbers.parts; p; p = p->next) {
        if (n >= most) return -1;
        out[n] = set_none();
        out[n++].numbers = number_part_set(&s->numbers, p);
    }
    for (size_t i = 0; i < set->strings.n; i++) {
        if (n >= most) return -1;
        out[n] = set_none();
        out[n++].strings = string_words(&s->text, &set->strings.words[i].text, 1);
    }
    return n;
}

static bool same_value(schema *s, const value_set *a, const value_set *b) {
    const value_set both = {.null = a->null && b->null,
                            .truth = a->truth && b->truth,
                            .lie = a->lie && b->lie,
                            .numbers = number_and(&s->numbers, a->numbers, b->numbers),
                            .strings = string_and(&s->text, a->strings, b->strings)};
    return !set_is_empty(s, &both);
}

/* Adds the values of a place that are not there yet; -1: too many. */
static int add_values(schema *s, goal place, value_set *all, int n, int most) {
    value_set *own = room_get(&s->room, (size_t)most, sizeof *own);
    const int n_own = own ? few_values(s, place, own, most) : -1;
    if (n_own < 0) return -1;
    for (int i = 0; i < n_own; i++) {
        bool old = false;
        for (int k = 0; k < n && !old; k++) old = same_value(s, &all[k], &own[i]);
        if (!old && n >= most) return -1;
        if (!old) all[n++] = own[i];
    }
    return n;
}

static ir_sym scalar_symbol(const array_writer *x, const value_set *one) {
    schema_writer *w = x->w;
    rx language = RX_NONE;
    if (one->null) language = rx_text(w->pool, SPAN("null"));
    if (one->truth) language = rx_text(w->pool, SPAN("true"));
    if (one->lie) language = rx_text(w->pool, SPAN("false"));
    if (one->numbers.parts) language = number_write(w->pool, &w->s->numbers, one->numbers, w->numbers);
    if (one->strings.n) {
        const rx quote = rx_text(w->pool, SPAN("\""));
        const rx parts[3] = {quote, string_write(&w->s->text, one->strings), quote};
        language = rx_concat_n(w->pool, parts, 3);
    }
    return terminal(w, language);
}

static bool place_allows(schema *s, goal place, const value_set *one) {
    if (place == GOAL_ANY) return true;
    return same_value(s, schema_goal_set(s, place), one);
}

/* A rule for each set of values that have been used: its size is the place. */
static ir_sym unique_states(const array_writer *x, const value_set *values, int n) {
    schema_writer *w = x->w;
    ir_sym rules[1 << MAX_UNIQUE], symbols[MAX_UNIQUE];
    for (int i = 0; i < n; i++) symbols[i] = scalar_symbol(x, &values[i]);
    for (unsigned used = 0; used < 1u << n; used++) rules[used] = ir_rule(w->rules, "items");
    for (unsigned used = 0; used < 1u << n && write_spend(w); used++) {
        const uint32_t place = (uint32_t)__builtin_popcount(used);
        const ir_sym end = place ? x->close : x->close_empty;
        if (place >= x->a->min) ir_alternative(w->rules, rules[used], &end, 1);
        for (int i = 0; i < n && place < x->a->max; i++) {
            if (used >> i & 1 || !place_allows(w->s, array_item(x->a, place), &values[i])) continue;
            const ir_sym way = sequence(w, place ? x->comma : IR_EPSILON, symbols[i], rules[used | 1u << i]);
            ir_alternative(w->rules, rules[used], &way, 1);
        }
    }
    return sequence(w, x->open, rules[0], IR_EPSILON);
}

/* Any number of the values, in any order. */
static ir_sym unique_any(const array_writer *x, const value_set *values, int n) {
    schema_writer *w = x->w;
    ir_sym symbols[MAX_ANY_ORDER], ways[MAX_ANY_ORDER + 1];
    for (int i = 0; i < n; i++) symbols[i] = scalar_symbol(x, &values[i]);
    /* At least one: each in turn is the one that must come. */
    for (int i = 0; i < n; i++)
        ways[i] =
            sequence(w, ir_any_order(w->rules, symbols, (size_t)n, x->comma, (uint64_t)1 << i), x->close, IR_EPSILON);
    ways[n] = x->a->min == 0 ? x->close_empty : IR_NOTHING;
    return sequence(w, x->open, ir_choice(w->rules, ways, (size_t)n + 1), IR_EPSILON);
}

static ir_sym unique_array(const array_writer *x) {
    schema *s = x->w->s;
    value_set *all = room_get(&s->room, MAX_ANY_ORDER, sizeof *all);
    const uint32_t places = x->a->n_prefix < x->a->max ? x->a->n_prefix : x->a->max;
    int n = all && places <= MAX_ANY_ORDER ? 0 : -1;
    for (uint32_t i = 0; i < places && n >= 0; i++) n = add_values(s, x->a->prefix[i], all, n, MAX_ANY_ORDER);
    if (n >= 0 && x->a->max > x->a->n_prefix) n = add_values(s, x->a->rest, all, n, MAX_ANY_ORDER);
    if (n >= 0 && n <= MAX_UNIQUE && !x->a->n_counts) return unique_states(x, all, n);
    if (n > 0 && !x->a->n_counts && !x->a->n_prefix && x->a->min <= 1 && x->a->max >= (uint32_t)n)
        return unique_any(x, all, n);
    schema_unsupported(s, x->a->unique, "that all items differ cannot be promised for such items",
                       "list the values in an enum of at most 10, or leave uniqueItems out");
    array_shape *wider = room_get(&s->room, 1, sizeof *wider);
    if (!wider) return IR_NOTHING;
    *wider = *x->a;
    wider->unique = NULL;
    return write_array(x->w, wider, x->depth);
}

static bool may_be_empty(const array_shape *a) {
    bool may = a->min == 0;
    for (uint32_t i = 0; i < a->n_counts; i++) may &= a->counts[i].min == 0;
    return may;
}

ir_sym write_array(schema_writer *w, const array_shape *a, int depth) {
    const bool pretty = w->gaps.indent >= 0;
    array_writer x = {.w = w, .a = a, .depth = depth};
    const ir_sym empty = may_be_empty(a) && pretty ? terminal(w, rx_text(w->pool, SPAN("[]"))) : IR_NOTHING;
    if (!write_may_nest(w, depth)) return empty;
    x.open = terminal(w, write_open(w, "[", depth));
    x.close = terminal(w, write_close(w, "]", depth));
    x.close_empty = pretty ? IR_NOTHING : terminal(w, rx_text(w->pool, SPAN("]")));
    x.comma = terminal(w, write_comma(w, depth));
    const ir_sym ways[2] = {empty, a->unique && a->max > 1 ? unique_array(&x)
                                   : a->n_counts           ? counted_array(&x)
                                                           : plain_array(&x)};
    return empty == IR_NOTHING ? ways[1] : ir_choice(w->rules, ways, 2);
}
