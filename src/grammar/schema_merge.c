/* schema_merge.c — intersection and union of sets of JSON values, and when a shape cannot be met.
 *
 * An intersection of shapes is little more than both their constraints side by side; what is looked for on the way is
 * whether they contradict each other, because shapes that nothing can meet must go at once: the branches of anyOf and
 * oneOf multiply. Called from all of the schema_*.c above schema_set.h. */
#include "schema_set.h"
#include <stdlib.h>

enum { MAX_JOINED_CLAUSES = 64, MAX_JOIN_TRIES = 64 };

/* ---- shapes in themselves ---- */

object_shape *object_new(schema *s) {
    object_shape *o = room_get(&s->room, 1, sizeof *o);
    if (o) o->max = COUNT_INFINITE;
    return o;
}

array_shape *array_new(schema *s) {
    array_shape *a = room_get(&s->room, 1, sizeof *a);
    if (a) a->max = COUNT_INFINITE, a->rest = GOAL_ANY, a->seen_where = GOAL_NONE;
    return a;
}

static bool says_nothing_of_objects(const object_shape *o) {
    return !o->n_rules && !o->n_clauses && !o->n_exists && !o->min && o->max == COUNT_INFINITE;
}

static bool says_nothing_of_arrays(const array_shape *a) {
    return !a->n_prefix && !a->n_counts && !a->min && a->max == COUNT_INFINITE && a->rest == GOAL_ANY && !a->unique;
}

value_set set_none(void) { return (value_set){.strings = string_none()}; }

value_set set_any(schema *s) {
    return (value_set){.null = true,
                       .truth = true,
                       .lie = true,
                       .numbers = number_all(&s->numbers),
                       .strings = string_all(&s->text),
                       .objects = object_new(s),
                       .arrays = array_new(s)};
}

bool key_set_has(schema *s, const key_set *k, uint32_t key) {
    if (k->kind == KEYS_ONE) return k->key == key;
    if (k->kind == KEYS_IN) return string_has(&s->text, string_text(k->text), s->keys[key]);
    for (uint32_t low = 0, high = k->n_names; low < high;) {
        const uint32_t mid = (low + high) / 2;
        if (k->names[mid] == key) return false;
        if (k->names[mid] < key)
            low = mid + 1;
        else
            high = mid;
    }
    return k->text == RX_NONE || !string_has(&s->text, string_text(k->text), s->keys[key]);
}

goal object_key_goal(schema *s, const object_shape *o, uint32_t key) {
    goal out = GOAL_ANY;
    for (uint32_t i = 0; i < o->n_rules; i++)
        if (o->rules[i].value != GOAL_ANY && key_set_has(s, &o->rules[i].keys, key))
            out = schema_goal_and(s, out, o->rules[i].value);
    return out;
}

/* ---- presence ---- */

static bool set_presence(schema *s, uint32_t literal, bool *changed) {
    uint8_t *now = &s->presence[literal >> 1];
    const presence wanted = literal & 1 ? MUST_NOT_BE : MUST_BE;
    if (*now == wanted) return true;
    if (*now != MAY_BE) return false;
    *now = (uint8_t)wanted;
    *changed = true;
    return true;
}

/* 1: the clause holds already; 0: it cannot hold; -1: open. *last: an open literal, *n_open how many. */
static int clause_state(const schema *s, const clause *c, uint32_t *last, uint32_t *n_open) {
    *n_open = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint8_t now = s->presence[c->literals[i] >> 1];
        if (now == MAY_BE)
            *last = c->literals[i], ++*n_open;
        else if ((now == MUST_NOT_BE) == (c->literals[i] & 1))
            return 1;
    }
    return *n_open ? -1 : 0;
}

static bool presence_ready(schema *s) {
    if (s->presence_room < s->n_keys) {
        uint8_t *grown = mem_resize(s->presence, s->key_room, 1);
        if (!grown) return s->room.failed = true, false;
        s->presence = grown;
        s->presence_room = s->key_room;
    }
    if (s->n_keys) memset(s->presence, MAY_BE, s->n_keys);
    return true;
}

bool object_presence(schema *s, const object_shape *o) {
    if (!presence_ready(s)) return false;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < o->n_clauses; i++) {
            uint32_t last = 0, n_open;
            const int state = clause_state(s, &o->clauses[i], &last, &n_open);
            if (state == 0 || (state < 0 && n_open == 1 && !set_presence(s, last, &changed))) return false;
        }
    }
    return true;
}

/* No other keys than the known ones may come. */
static bool is_closed(schema *s, const object_shape *o) {
    for (uint32_t i = 0; i < o->n_rules; i++) {
        const key_set *k = &o->rules[i].keys;
        if (o->rules[i].value != GOAL_NONE) continue;
        if ((k->kind == KEYS_OTHER && k->text == RX_NONE) || (k->kind == KEYS_IN && k->text == s->text.any_text))
            return true;
    }
    return false;
}

bool object_is_dead(schema *s, const object_shape *o) {
    if (o->min > o->max || !object_presence(s, o)) return true;
    uint32_t n_must = 0, n_may = 0;
    for (uint32_t i = 0; i < o->n_order; i++) {
        const uint32_t key = o->order[i] >> 1;
        const uint8_t now = s->presence[key];
        n_must += now == MUST_BE;
        n_may += now != MUST_NOT_BE;
    }
    if (n_must > o->max || (o->min > n_may && is_closed(s, o))) return true;
    for (uint32_t i = 0; i < o->n_exists; i++)
        if (o->exists[i].value == GOAL_NONE) return true;
    /* The emptiness tests below may ask for other shapes and use the scratch: first the list. */
    uint32_t *musts = room_get(&s->room, n_must, sizeof *musts), n = 0;
    for (uint32_t i = 0; musts && i < o->n_order; i++)
        if (s->presence[o->order[i] >> 1] == MUST_BE) musts[n++] = o->order[i] >> 1;
    for (uint32_t i = 0; musts && i < n; i++) {
        const goal value = object_key_goal(s, o, musts[i]);
        if (value == GOAL_NONE || (value > GOAL_NONE && s->goals[value].n > 1 && schema_goal_is_empty(s, value)))
            return true;
    }
    return false;
}

static bool item_is_empty(schema *s, goal item) {
    return item == GOAL_NONE || (item > GOAL_NONE && s->goals[item].n > 1 && schema_goal_is_empty(s, item));
}

bool array_is_dead(schema *s, array_shape *a) {
    /* Places that nothing can fill end the array. */
    for (uint32_t i = 0; i < a->n_prefix && i < a->max; i++)
        if (item_is_empty(s, a->prefix[i])) a->max = i;
    if (a->max > a->n_prefix && item_is_empty(s, a->rest)) a->max = a->n_prefix;
    if (a->min > a->max) return true;
    for (uint32_t i = 0; i < a->n_counts; i++) {
        const count_rule *c = &a->counts[i];
        if (c->min > c->max || (c->min && (c->value == GOAL_NONE || (uint64_t)c->from + c->min > a->max))) return true;
    }
    return false;
}

/* ---- intersection ---- */

static bool declares(const object_shape *o, uint32_t key) {
    for (uint32_t i = 0; i < o->n_order; i++)
        if (o->order[i] == key << 1) return true;
    return false;
}

/* Keys of `from` that are declared (or only required) and not there yet. A mark in the scratch is their being there. */
static uint32_t take_order(schema *s, uint32_t *out, uint32_t n, const object_shape *from, const object_shape *other,
                           bool only_required) {
    for (uint32_t i = 0; i < from->n_order; i++) {
        const uint32_t key = from->order[i] >> 1;
        const bool required = from->order[i] & 1;
        if (required != only_required || s->presence[key]) continue;
        if (required && declares(other, key)) continue;
        s->presence[key] = MUST_BE;
        out[n++] = key << 1 | required;
    }
    return n;
}

/* Declared keys of the left one, of the right one, then names that are only required, in the same order. */
static bool merge_order(schema *s, object_shape *out, const object_shape *a, const object_shape *b) {
    uint32_t *order = room_get(&s->room, (size_t)a->n_order + b->n_order, sizeof *order), n = 0;
    if (!order || !presence_ready(s)) return false;
    n = take_order(s, order, n, a, b, false);
    n = take_order(s, order, n, b, a, false);
    n = take_order(s, order, n, a, b, true);
    out->n_order = take_order(s, order, n, b, a, true);
    out->order = order;
    return true;
}

static bool has_clause(const clause *list, uint32_t n, const clause *c) {
    for (uint32_t i = 0; i < n; i++)
        if (list[i].n == c->n && !memcmp(list[i].literals, c->literals, c->n * sizeof *c->literals)) return true;
    return false;
}

static void merge_clauses(schema *s, object_shape *out, const object_shape *a, const object_shape *b) {
    clause *list = schema_grown(s, a->clauses, a->n_clauses, b->n_clauses, sizeof *list);
    uint32_t n = a->n_clauses;
    for (uint32_t i = 0; list && i < b->n_clauses; i++)
        if (!has_clause(list, a->n_clauses, &b->clauses[i])) list[n++] = b->clauses[i];
    out->clauses = list;
    out->n_clauses = list ? n : 0;
}

static bool same_rule(const key_rule *a, const key_rule *b) {
    const key_set *x = &a->keys, *y = &b->keys;
    return a->value == b->value && x->kind == y->kind && x->key == y->key && x->text == y->text &&
           x->n_names == y->n_names && (!x->n_names || !memcmp(x->names, y->names, x->n_names * sizeof *x->names));
}

static const key_rule *merge_rules(schema *s, const key_rule *a, uint32_t n_a, const key_rule *b, uint32_t n_b,
                                   uint32_t *n_out) {
    key_rule *list = schema_grown(s, a, n_a, n_b, sizeof *list);
    uint32_t n = n_a;
    for (uint32_t i = 0; list && i < n_b; i++) {
        bool old = false;
        for (uint32_t k = 0; k < n_a && !old; k++) old = same_rule(&list[k], &b[i]);
        if (!old) list[n++] = b[i];
    }
    *n_out = list ? n : 0;
    return list;
}

static void merge_seen(schema *s, object_shape *out, const object_shape *a, const object_shape *b) {
    out->seen_all = a->seen_all || b->seen_all;
    out->seen_text = rx_or(s->pool, a->seen_text, b->seen_text);
    uint32_t *seen = schema_grown(s, a->seen, a->n_seen, b->n_seen, sizeof *seen);
    if (seen && b->n_seen) memcpy(seen + a->n_seen, b->seen, b->n_seen * sizeof *seen);
    out->seen = seen;
    out->n_seen = seen ? a->n_seen + b->n_seen : 0;
}

object_shape *object_and(schema *s, const object_shape *a, const object_shape *b) {
    object_shape *out = object_new(s);
    if (!out || !merge_order(s, out, a, b)) return NULL;
    merge_clauses(s, out, a, b);
    out->rules = merge_rules(s, a->rules, a->n_rules, b->rules, b->n_rules, &out->n_rules);
    out->exists = merge_rules(s, a->exists, a->n_exists, b->exists, b->n_exists, &out->n_exists);
    out->min = a->min > b->min ? a->min : b->min;
    out->max = a->max < b->max ? a->max : b->max;
    if (s->tracks_seen) merge_seen(s, out, a, b);
    return s->room.failed || object_is_dead(s, out) ? NULL : out;
}

array_shape *array_and(schema *s, const array_shape *a, const array_shape *b) {
    array_shape *out = array_new(s);
    const uint32_t n = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    goal *prefix = room_get(&s->room, n, sizeof *prefix);
    count_rule *counts = schema_grown(s, a->counts, a->n_counts, b->n_counts, sizeof *counts);
    if (!out || !prefix || !counts) return NULL;
    for (uint32_t i = 0; i < n; i++) prefix[i] = schema_goal_and(s, array_item(a, i), array_item(b, i));
    if (b->n_counts) memcpy(counts + a->n_counts, b->counts, b->n_counts * sizeof *counts);
    out->prefix = prefix;
    out->n_prefix = n;
    out->rest = schema_goal_and(s, a->rest, b->rest);
    out->counts = counts;
    out->n_counts = a->n_counts + b->n_counts;
    out->min = a->min > b->min ? a->min : b->min;
    out->max = a->max < b->max ? a->max : b->max;
    out->unique = a->unique ? a->unique : b->unique;
    out->seen_all = a->seen_all || b->seen_all;
    out->n_seen = a->n_seen > b->n_seen ? a->n_seen : b->n_seen;
    const goal both[2] = {a->seen_where, b->seen_where};
    if (s->tracks_seen) out->seen_where = schema_goal_either(s, both, 2);
    return s->room.failed || array_is_dead(s, out) ? NULL : out;
}

/* Merging large shapes is more work. */
static size_t weight_of(const object_shape *a, const object_shape *b) { return 1 + (a->n_rules + b->n_rules) / 16; }

static bool spend(schema *s, size_t weight) {
    if (s->merges_left >= weight) return s->merges_left -= weight, schema_ok(s);
    schema_over_limit(s, s->root, "the alternatives of anyOf, oneOf and their like multiply to too many");
    return false;
}

static object_shape *objects_and(schema *s, const object_shape *a, const object_shape *b) {
    object_shape *out = NULL;
    for (const object_shape *x = a; x; x = x->next)
        for (const object_shape *y = b; y && spend(s, weight_of(x, y)); y = y->next) {
            object_shape *both = object_and(s, x, y);
            if (both) out = objects_add(s, out, both);
        }
    return out;
}

static array_shape *arrays_and(schema *s, const array_shape *a, const array_shape *b) {
    array_shape *out = NULL;
    for (const array_shape *x = a; x; x = x->next)
        for (const array_shape *y = b; y && spend(s, 1); y = y->next) {
            array_shape *both = array_and(s, x, y);
            if (both) out = arrays_add(s, out, both);
        }
    return out;
}

value_set set_and(schema *s, const value_set *a, const value_set *b) {
    return (value_set){.null = a->null && b->null,
                       .truth = a->truth && b->truth,
                       .lie = a->lie && b->lie,
                       .numbers = number_and(&s->numbers, a->numbers, b->numbers),
                       .strings = string_and(&s->text, a->strings, b->strings),
                       .objects = objects_and(s, a->objects, b->objects),
                       .arrays = arrays_and(s, a->arrays, b->arrays)};
}

/* ---- union ---- */

static bool differ_only_in_clauses(const schema *s, const object_shape *a, const object_shape *b) {
    if (s->tracks_seen || a->n_rules != b->n_rules || a->n_exists != b->n_exists || a->min != b->min ||
        a->max != b->max)
        return false;
    for (uint32_t i = 0; i < a->n_rules; i++)
        if (!same_rule(&a->rules[i], &b->rules[i])) return false;
    for (uint32_t i = 0; i < a->n_exists; i++)
        if (!same_rule(&a->exists[i], &b->exists[i])) return false;
    return true;
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* x or y as one clause; false: it always holds. */
static bool either_clause(schema *s, clause *out, const clause *x, const clause *y) {
    uint32_t *literals = schema_grown(s, x->literals, x->n, y->n, sizeof *literals), n = 0;
    if (!literals) return false;
    memcpy(literals + x->n, y->literals, y->n * sizeof *literals);
    qsort(literals, x->n + y->n, sizeof *literals, by_number);
    for (uint32_t i = 0; i < x->n + y->n; i++) {
        if (n && literals[n - 1] == literals[i]) continue;
        if (n && literals[n - 1] == (literals[i] ^ 1) && literals[i] & 1) return false;
        literals[n++] = literals[i];
    }
    *out = (clause){literals, n};
    return true;
}

/* (common and x1 and x2 ..) or (common and y1 ..) = common and (x1 or y1) and (x1 or y2) .. */
static object_shape *join(schema *s, const object_shape *a, const object_shape *b) {
    object_shape *out = object_new(s);
    clause *list = room_get(&s->room, (size_t)a->n_clauses + MAX_JOINED_CLAUSES, sizeof *list);
    if (!out || !list || !merge_order(s, out, a, b)) return NULL;
    uint32_t n = 0, n_products = 0;
    for (uint32_t i = 0; i < a->n_clauses; i++)
        if (has_clause(b->clauses, b->n_clauses, &a->clauses[i])) list[n++] = a->clauses[i];
    for (uint32_t i = 0; i < a->n_clauses; i++) {
        if (has_clause(b->clauses, b->n_clauses, &a->clauses[i])) continue;
        for (uint32_t k = 0; k < b->n_clauses; k++) {
            clause both;
            if (has_clause(a->clauses, a->n_clauses, &b->clauses[k])) continue;
            if (++n_products > MAX_JOINED_CLAUSES) return NULL;
            if (either_clause(s, &both, &a->clauses[i], &b->clauses[k]) && !has_clause(list, n, &both))
                list[n++] = both;
        }
    }
    out->clauses = list;
    out->n_clauses = n;
    out->rules = a->rules, out->n_rules = a->n_rules;
    out->exists = a->exists, out->n_exists = a->n_exists;
    out->min = a->min, out->max = a->max;
    return out;
}

object_shape *objects_add(schema *s, object_shape *list, object_shape *shape) {
    if (!s->tracks_seen && list && says_nothing_of_objects(list)) return list;
    if (!s->tracks_seen && says_nothing_of_objects(shape)) return shape->next = NULL, shape;
    int tries = 0;
    object_shape **at = &list;
    for (; *at && tries < MAX_JOIN_TRIES; at = &(*at)->next, tries++) {
        if (!differ_only_in_clauses(s, *at, shape)) continue;
        object_shape *joined = join(s, *at, shape);
        if (!joined) continue;
        *at = (*at)->next;
        return objects_add(s, list, joined);
    }
    while (*at) at = &(*at)->next;
    *at = shape;
    shape->next = NULL;
    return list;
}

array_shape *arrays_add(schema *s, array_shape *list, array_shape *shape) {
    if (!s->tracks_seen && list && says_nothing_of_arrays(list)) return list;
    shape->next = NULL;
    if (!s->tracks_seen && says_nothing_of_arrays(shape)) return shape;
    array_shape **at = &list;
    while (*at) at = &(*at)->next;
    *at = shape;
    return list;
}

static object_shape *objects_or(schema *s, const object_shape *a, const object_shape *b) {
    object_shape *out = NULL;
    const object_shape *const lists[2] = {a, b};
    for (int i = 0; i < 2; i++)
        for (const object_shape *o = lists[i]; o && spend(s, 1); o = o->next) {
            object_shape *copy = room_get(&s->room, 1, sizeof *copy);
            if (!copy) return out;
            *copy = *o;
            out = objects_add(s, out, copy);
        }
    return out;
}

static array_shape *arrays_or(schema *s, const array_shape *a, const array_shape *b) {
    array_shape *out = NULL;
    const array_shape *const lists[2] = {a, b};
    for (int i = 0; i < 2; i++)
        for (const array_shape *o = lists[i]; o && spend(s, 1); o = o->next) {
            array_shape *copy = room_get(&s->room, 1, sizeof *copy);
            if (!copy) return out;
            *copy = *o;
            out = arrays_add(s, out, copy);
        }
    return out;
}

value_set set_or(schema *s, const value_set *a, const value_set *b) {
    return (value_set){.null = a->null || b->null,
                       .truth = a->truth || b->truth,
                       .lie = a->lie || b->lie,
                       .numbers = number_or(&s->numbers, a->numbers, b->numbers),
                       .strings = string_or(&s->text, a->strings, b->strings),
                       .objects = objects_or(s, a->objects, b->objects),
                       .arrays = arrays_or(s, a->arrays, b->arrays)};
}

bool set_is_empty(schema *s, const value_set *a) {
    return !a->null && !a->truth && !a->lie && !a->numbers.parts && !a->objects && !a->arrays &&
           !string_has_any(&s->text, a->strings);
}
