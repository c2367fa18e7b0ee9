/* schema_read_object.c — the keywords about objects: which keys, with which values, how many. */
#include "schema_pattern.h"
#include "schema_reader.h"
#include <stdlib.h>

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool wants(schema_reader *r, const sj_value *value, sj_kind kind, const char *what) {
    if (value->kind == kind) return true;
    schema_invalid(r->s, value, what);
    return false;
}

static void add_rules(schema_reader *r, const key_rule *rules, uint32_t n) {
    object_shape *o = r->members;
    key_rule *all = o ? schema_grown(r->s, o->rules, o->n_rules, n, sizeof *all) : NULL;
    if (!all) return;
    memcpy(all + o->n_rules, rules, n * sizeof *all);
    o->rules = all;
    o->n_rules += n;
}

/* Makes keys known by name; those that are there already keep their place, and a declaration wins over a mention. */
static void add_order(schema_reader *r, const uint32_t *keys, uint32_t n, bool only_required) {
    object_shape *o = r->members;
    uint32_t *order = o ? schema_grown(r->s, o->order, o->n_order, n, sizeof *order) : NULL;
    uint8_t *there = room_get(&r->s->room, r->s->n_keys, 1);
    if (!order || !there) return;
    uint32_t n_kept = 0;
    for (uint32_t i = 0; !only_required && i < n; i++) there[keys[i]] = 1;
    for (uint32_t i = 0; i < o->n_order; i++) {
        if (o->order[i] & 1 && there[o->order[i] >> 1]) continue;
        order[n_kept++] = o->order[i];
        there[o->order[i] >> 1] = 2;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (there[keys[i]] == 2) continue;
        order[n_kept++] = keys[i] << 1 | only_required;
        there[keys[i]] = 2;
    }
    /* Declared ones stand before those that are only required. */
    uint32_t *sorted = room_get(&r->s->room, n_kept, sizeof *sorted), at = 0;
    for (uint32_t pass = 0; sorted && pass < 2; pass++)
        for (uint32_t i = 0; i < n_kept; i++)
            if ((order[i] & 1) == pass) sorted[at++] = order[i];
    o->order = sorted;
    o->n_order = sorted ? n_kept : 0;
}

static void add_clause(schema_reader *r, const uint32_t *literals, uint32_t n) {
    object_shape *o = r->members;
    uint32_t *copy = schema_grown(r->s, literals, n, 0, sizeof *copy);
    clause *all = o ? schema_grown(r->s, o->clauses, o->n_clauses, 1, sizeof *all) : NULL;
    if (!all || !copy) return;
    qsort(copy, n, sizeof *copy, by_number);
    if (n == 2 && copy[0] == copy[1]) n = 1;
    if (n == 2 && (copy[0] ^ 1) == copy[1]) return;
    all[o->n_clauses++] = (clause){copy, n};
    o->clauses = all;
}

static void see_keys(schema_reader *r, const uint32_t *keys, uint32_t n) {
    object_shape *o = r->members;
    uint32_t *seen = o ? schema_grown(r->s, o->seen, o->n_seen, n, sizeof *seen) : NULL;
    if (!seen) return;
    memcpy(seen + o->n_seen, keys, n * sizeof *seen);
    o->seen = seen;
    o->n_seen += n;
}

static void read_properties(schema_reader *r, const sj_value *value) {
    schema *s = r->s;
    if (!wants(r, value, SJ_OBJECT, "properties are an object of schemas")) return;
    key_rule *rules = room_get(&s->room, value->n, sizeof *rules);
    uint32_t *keys = room_get(&s->room, value->n, sizeof *keys), n = 0;
    for (const sj_value *m = value->first; rules && keys && m; m = m->next, n++) {
        keys[n] = schema_key(s, m->key);
        rules[n] = (key_rule){.keys = {.kind = KEYS_ONE, .key = keys[n]}, .value = schema_goal_of(s, m)};
    }
    if (!n) return;
    add_rules(r, rules, n);
    add_order(r, keys, n, false);
    if (s->tracks_seen) see_keys(r, keys, n);
    s->wrote_order |= n > 1;
}

static void read_patterns(schema_reader *r, const sj_value *value) {
    if (!wants(r, value, SJ_OBJECT, "patternProperties are an object of schemas")) return;
    for (const sj_value *m = value->first; m && r->members; m = m->next) {
        bool ok;
        const rx text = read_pattern(r->s, m, m->key, &ok);
        if (!ok) continue;
        const key_rule rule = {.keys = {.kind = KEYS_IN, .text = text}, .value = schema_goal_of(r->s, m)};
        if (rule.value != GOAL_ANY) add_rules(r, &rule, 1);
        if (r->s->tracks_seen) r->members->seen_text = rx_or(r->s->pool, r->members->seen_text, text);
    }
}

/* All keys that `properties` and `patternProperties` beside it do not name. */
static key_set other_keys(schema_reader *r) {
    schema *s = r->s;
    key_set keys = {.kind = KEYS_OTHER};
    const sj_value *declared = read_member(r->object, "properties", SJ_OBJECT);
    const sj_value *patterns = read_member(r->object, "patternProperties", SJ_OBJECT);
    uint32_t *names = room_get(&s->room, declared ? declared->n : 0, sizeof *names);
    if (!names) return keys;
    for (const sj_value *m = declared ? declared->first : NULL; m; m = m->next)
        names[keys.n_names++] = schema_key(s, m->key);
    qsort(names, keys.n_names, sizeof *names, by_number);
    keys.names = names;
    for (const sj_value *m = patterns ? patterns->first : NULL; m; m = m->next) {
        pattern_error error;
        const rx text = pattern_language(&s->text, m->key, false, &error);
        if (!error.what) keys.text = rx_or(s->pool, keys.text, text);
    }
    return keys;
}

static void read_additional(schema_reader *r, const sj_value *value) {
    const goal inner = schema_goal_of(r->s, value);
    if (r->members) r->members->seen_all = true;
    if (inner == GOAL_ANY) return;
    const key_rule rule = {.keys = other_keys(r), .value = inner};
    add_rules(r, &rule, 1);
}

static void read_required(schema_reader *r, const sj_value *value) {
    schema *s = r->s;
    if (!wants(r, value, SJ_ARRAY, "required is a list of names")) return;
    uint32_t *keys = room_get(&s->room, value->n, sizeof *keys), n = 0;
    for (const sj_value *item = value->first; keys && item; item = item->next) {
        if (item->kind == SJ_STRING)
            keys[n++] = schema_key(s, item->text);
        else
            schema_invalid(s, item, "required is a list of names");
    }
    if (!n) return;
    add_order(r, keys, n, true);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t literal = keys[i] << 1;
        add_clause(r, &literal, 1);
    }
}

static int by_rank(const void *a, const void *b) {
    const string_word *x = *(const string_word *const *)a, *y = *(const string_word *const *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Names that are listed become known keys; other languages forbid the keys that are not in them. */
static void read_names(schema_reader *r, const sj_value *value) {
    schema *s = r->s;
    const string_set allowed = schema_goal_set(s, schema_goal_of(s, value))->strings;
    if (string_is_all(&s->text, allowed)) return;
    key_rule rule = {.keys = {.kind = KEYS_OTHER}, .value = GOAL_NONE};
    if (!allowed.is_words) {
        rule.keys = (key_set){.kind = KEYS_IN, .text = rx_minus(s->pool, s->text.any_text, allowed.text)};
        add_rules(r, &rule, 1);
        return;
    }
    uint32_t *keys = room_get(&s->room, allowed.n, sizeof *keys), *names = room_get(&s->room, allowed.n, sizeof *names);
    if (!keys || !names) return;
    for (size_t i = 0; i < allowed.n; i++) names[i] = schema_key(s, allowed.words[i].text);
    const string_word **listed = room_get(&s->room, allowed.n, sizeof *listed);
    if (!listed) return;
    for (size_t i = 0; i < allowed.n; i++) listed[i] = &allowed.words[i];
    qsort(listed, allowed.n, sizeof *listed, by_rank);
    for (size_t i = 0; i < allowed.n; i++) keys[i] = schema_key(s, listed[i]->text);
    qsort(names, allowed.n, sizeof *names, by_number);
    rule.keys.names = names;
    rule.keys.n_names = (uint32_t)allowed.n;
    add_rules(r, &rule, 1);
    add_order(r, keys, (uint32_t)allowed.n, true);
}

static void read_counts(schema_reader *r, const sj_value *value) {
    uint32_t count;
    if (!read_count(r->s, value, &count) || !r->members) return;
    if (span_is(value->key, "minProperties"))
        r->members->min = count;
    else
        r->members->max = count;
}

/* If the key is there, so are these names; they come before it where nothing else gives an order. */
static void add_dependency(schema_reader *r, const sj_value *list) {
    const uint32_t key = schema_key(r->s, list->key);
    uint32_t *names = room_get(&r->s->room, (size_t)list->n + 1, sizeof *names), n = 0;
    for (const sj_value *item = list->first; names && item; item = item->next) {
        if (item->kind == SJ_STRING)
            names[n++] = schema_key(r->s, item->text);
        else
            schema_invalid(r->s, item, "a dependency is a list of names");
    }
    if (!n) return;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t literals[2] = {key << 1 | 1, names[i] << 1};
        add_clause(r, literals, 2);
    }
    names[n++] = key;
    add_order(r, names, n, true);
}

/* dependentRequired, and the lists in dependencies; schemas there are schema_apply.c's. */
static void read_dependencies(schema_reader *r, const sj_value *value) {
    if (!wants(r, value, SJ_OBJECT, "dependencies are an object")) return;
    for (const sj_value *m = value->first; m; m = m->next) {
        if (m->kind == SJ_ARRAY)
            add_dependency(r, m);
        else if (span_is(value->key, "dependentRequired"))
            schema_invalid(r->s, m, "a dependency is a list of names");
    }
}

keyword_reader *object_keyword(span name) {
    static const struct {
        const char *name;
        keyword_reader *read;
    } rows[] = {
        {"properties", read_properties},
        {"patternProperties", read_patterns},
        {"additionalProperties", read_additional},
        {"required", read_required},
        {"propertyNames", read_names},
        {"minProperties", read_counts},
        {"maxProperties", read_counts},
        {"dependentRequired", read_dependencies},
        {"dependencies", read_dependencies},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_is(name, rows[i].name)) return rows[i].read;
    return NULL;
}
