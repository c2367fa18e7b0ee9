/* schema_minus.c — the difference of two sets of JSON values: what not, oneOf and if/else are made of.
 *
 * A shape minus another is the first with, in turn, each constraint of the second broken: a required key missing, a
 * value that is none of what it must be, a member that must not exist, too few or too many. If the two have nothing in
 * common it is the first itself, which is what keeps discriminated unions small: that is tried before all else. */
#include "schema_set.h"
#include <stdlib.h>

typedef struct difference {
    schema *s;
    const sj_value *where; /* for problems */
} difference;

/* ---- objects ---- */

static object_shape *with_one_clause(schema *s, const uint32_t *literals, uint32_t n) {
    object_shape *o = object_new(s);
    clause *c = room_get(&s->room, 1, sizeof *c);
    uint32_t *order = room_get(&s->room, n, sizeof *order);
    if (!o || !c || !order) return NULL;
    for (uint32_t i = 0; i < n; i++) order[i] = literals[i] | 1;
    *c = (clause){literals, n};
    o->clauses = c, o->n_clauses = 1;
    o->order = order, o->n_order = n;
    return o;
}

static object_shape *try_with(schema *s, object_shape *list, const object_shape *a, const object_shape *broken) {
    object_shape *both = broken ? object_and(s, a, broken) : NULL;
    return both ? objects_add(s, list, both) : list;
}

/* The names that a rule makes exceptions for must be known by name wherever the rule is. */
static bool know_names(schema *s, object_shape *o, const key_set *keys) {
    uint32_t *order = room_get(&s->room, keys->n_names, sizeof *order);
    for (uint32_t i = 0; order && i < keys->n_names; i++) order[i] = keys->names[i] << 1 | 1;
    o->order = order, o->n_order = order ? keys->n_names : 0;
    return order;
}

static object_shape *break_rule(schema *s, object_shape *list, const object_shape *a, const key_rule *rule) {
    object_shape *broken = object_new(s);
    key_rule *opposite = room_get(&s->room, 1, sizeof *opposite);
    if (!broken || !opposite || rule->value == GOAL_ANY) return list;
    *opposite = *rule;
    opposite->value = schema_goal_not(s, rule->value);
    if (rule->keys.kind != KEYS_ONE) {
        if (!know_names(s, broken, &rule->keys)) return list;
        broken->exists = opposite, broken->n_exists = 1;
        return try_with(s, list, a, broken);
    }
    uint32_t *present = room_get(&s->room, 1, sizeof *present);
    if (!present) return list;
    *present = rule->keys.key << 1;
    broken = with_one_clause(s, present, 1);
    if (!broken) return list;
    broken->rules = opposite, broken->n_rules = 1;
    return try_with(s, list, a, broken);
}

/* Each literal of a clause false. */
static object_shape *break_clause(schema *s, object_shape *list, const object_shape *a, const clause *c) {
    object_shape *now = (object_shape *)a;
    for (uint32_t i = 0; now && i < c->n; i++) {
        uint32_t *literal = room_get(&s->room, 1, sizeof *literal);
        if (!literal) return list;
        *literal = c->literals[i] ^ 1;
        const object_shape *broken = with_one_clause(s, literal, 1);
        now = broken ? object_and(s, now, broken) : NULL;
    }
    return now ? objects_add(s, list, now) : list;
}

/* All clauses of one literal broken together: one of them is false. */
static object_shape *break_single_clauses(schema *s, object_shape *list, const object_shape *a, const object_shape *b) {
    uint32_t *literals = room_get(&s->room, b->n_clauses, sizeof *literals), n = 0;
    for (uint32_t i = 0; literals && i < b->n_clauses; i++)
        if (b->clauses[i].n == 1) literals[n++] = b->clauses[i].literals[0] ^ 1;
    if (!n) return list;
    for (uint32_t i = 1; i < n; i++) /* rising, as clauses are */
        for (uint32_t k = i; k > 0 && literals[k - 1] > literals[k]; k--) {
            const uint32_t swap = literals[k];
            literals[k] = literals[k - 1], literals[k - 1] = swap;
        }
    return try_with(s, list, a, with_one_clause(s, literals, n));
}

static object_shape *break_exist(schema *s, object_shape *list, const object_shape *a, const key_rule *exist) {
    object_shape *broken = object_new(s);
    key_rule *opposite = room_get(&s->room, 1, sizeof *opposite);
    if (!broken || !opposite) return list;
    *opposite = *exist;
    opposite->value = schema_goal_not(s, exist->value);
    if (!know_names(s, broken, &exist->keys)) return list;
    broken->rules = opposite, broken->n_rules = 1;
    return try_with(s, list, a, broken);
}

static object_shape *break_counts(schema *s, object_shape *list, const object_shape *a, const object_shape *b) {
    object_shape *fewer = object_new(s), *others = object_new(s);
    if (!fewer || !others) return list;
    fewer->max = b->min - 1;
    others->min = b->max + 1;
    if (b->min) list = try_with(s, list, a, fewer);
    return b->max == COUNT_INFINITE ? list : try_with(s, list, a, others);
}

static object_shape *object_minus(schema *s, object_shape *list, const object_shape *a, const object_shape *b) {
    if (!object_and(s, a, b)) {
        object_shape *copy = room_get(&s->room, 1, sizeof *copy);
        if (!copy) return list;
        *copy = *a;
        return objects_add(s, list, copy);
    }
    list = break_single_clauses(s, list, a, b);
    for (uint32_t i = 0; i < b->n_clauses; i++)
        if (b->clauses[i].n > 1) list = break_clause(s, list, a, &b->clauses[i]);
    for (uint32_t i = 0; i < b->n_rules; i++) list = break_rule(s, list, a, &b->rules[i]);
    for (uint32_t i = 0; i < b->n_exists; i++) list = break_exist(s, list, a, &b->exists[i]);
    return break_counts(s, list, a, b);
}

/* Each constraint of the second may give a piece of the size of the first. */
static bool spend(const difference *d, size_t n_rules) {
    schema *s = d->s;
    const size_t weight = 1 + n_rules / 4;
    if (s->merges_left >= weight) return s->merges_left -= weight, schema_ok(s);
    schema_over_limit(s, d->where, "taking the overlap of alternatives apart gives too many pieces");
    return false;
}

static object_shape *objects_minus(const difference *d, object_shape *a, const object_shape *b) {
    for (; b; b = b->next) {
        object_shape *rest = NULL;
        for (const object_shape *x = a; x && spend(d, x->n_rules); x = x->next) rest = object_minus(d->s, rest, x, b);
        a = rest;
    }
    return a;
}

/* ---- arrays ---- */

static array_shape *try_array(schema *s, array_shape *list, const array_shape *a, const array_shape *broken) {
    array_shape *both = broken ? array_and(s, a, broken) : NULL;
    return both ? arrays_add(s, list, both) : list;
}

/* Item `at` exists and is none of `value`. */
static array_shape *item_broken(schema *s, uint32_t at, goal value) {
    array_shape *broken = array_new(s);
    goal *prefix = room_get(&s->room, (size_t)at + 1, sizeof *prefix); /* zeros are GOAL_ANY */
    if (!broken || !prefix) return NULL;
    prefix[at] = schema_goal_not(s, value);
    broken->prefix = prefix, broken->n_prefix = at + 1;
    broken->min = at + 1;
    return broken;
}

static array_shape *count_broken(schema *s, goal value, uint32_t from, uint32_t min, uint32_t max) {
    array_shape *broken = array_new(s);
    count_rule *count = room_get(&s->room, 1, sizeof *count);
    if (!broken || !count) return NULL;
    *count = (count_rule){value, from, min, max};
    broken->counts = count, broken->n_counts = 1;
    return broken;
}

static array_shape *length_broken(schema *s, uint32_t min, uint32_t max) {
    array_shape *broken = array_new(s);
    if (broken) broken->min = min, broken->max = max;
    return broken;
}

static array_shape *array_minus(const difference *d, array_shape *list, const array_shape *a, const array_shape *b) {
    schema *s = d->s;
    if (!array_and(s, a, b)) {
        array_shape *copy = room_get(&s->room, 1, sizeof *copy);
        if (!copy) return list;
        *copy = *a;
        return arrays_add(s, list, copy);
    }
    for (uint32_t i = 0; i < b->n_prefix; i++)
        if (b->prefix[i] != GOAL_ANY) list = try_array(s, list, a, item_broken(s, i, b->prefix[i]));
    if (b->rest != GOAL_ANY)
        list = try_array(s, list, a, count_broken(s, schema_goal_not(s, b->rest), b->n_prefix, 1, COUNT_INFINITE));
    if (b->min) list = try_array(s, list, a, length_broken(s, 0, b->min - 1));
    if (b->max != COUNT_INFINITE) list = try_array(s, list, a, length_broken(s, b->max + 1, COUNT_INFINITE));
    for (uint32_t i = 0; i < b->n_counts; i++) {
        const count_rule *c = &b->counts[i];
        if (c->min) list = try_array(s, list, a, count_broken(s, c->value, c->from, 0, c->min - 1));
        if (c->max != COUNT_INFINITE)
            list = try_array(s, list, a, count_broken(s, c->value, c->from, c->max + 1, COUNT_INFINITE));
    }
    if (b->unique)
        schema_unsupported(s, d->where, "the negation of uniqueItems is not supported", "leave uniqueItems out of it");
    return list;
}

static array_shape *arrays_minus(const difference *d, array_shape *a, const array_shape *b) {
    for (; b; b = b->next) {
        array_shape *rest = NULL;
        for (const array_shape *x = a; x && spend(d, 1); x = x->next) rest = array_minus(d, rest, x, b);
        a = rest;
    }
    return a;
}

value_set set_minus(schema *s, const value_set *a, const value_set *b, const sj_value *where) {
    const difference d = {s, where};
    return (value_set){.null = a->null && !b->null,
                       .truth = a->truth && !b->truth,
                       .lie = a->lie && !b->lie,
                       .numbers = number_minus(&s->numbers, a->numbers, b->numbers),
                       .strings = string_minus(&s->text, a->strings, b->strings),
                       .objects = objects_minus(&d, a->objects, b->objects),
                       .arrays = arrays_minus(&d, a->arrays, b->arrays)};
}
