/* schema_apply.c — the keywords that bring other schemas to the same value: references, allOf, anyOf, oneOf, if, not,
 * dependentSchemas, enum and const, and what is unevaluated after them.
 *
 * Where an unevaluated keyword is somewhere in the document, anyOf must know which of its branches hold, because each
 * may have seen other properties. It is enough to add the intersections of branches to their union: more that has been
 * seen never forbids anything. */
#include "schema_reader.h"
#include <stdlib.h>

static value_set in_place(schema *s, const sj_value *value) {
    if (value->kind == SJ_TRUE) return set_any(s);
    if (value->kind == SJ_FALSE) return set_none();
    if (value->kind == SJ_OBJECT) return schema_node_set(s, schema_node_of(s, value));
    schema_invalid(s, value, "a schema is an object, true or false");
    return set_any(s);
}

static void meet(schema *s, value_set *set, const sj_value *value) {
    const value_set other = in_place(s, value);
    *set = set_and(s, set, &other);
}

static bool is_list(schema *s, const sj_value *value) {
    if (value->kind == SJ_ARRAY && value->n) return true;
    schema_invalid(s, value, "expected a list of at least one schema");
    return false;
}

/* ---- references ---- */

static void refer(schema *s, value_set *set, const sj_value *value, bool dynamic) {
    if (value->kind != SJ_STRING) {
        schema_invalid(s, value, "a reference is a string");
        return;
    }
    const sj_value *target = schema_ref_find(s, value, value->text, dynamic);
    if (target) meet(s, set, target);
}

static void apply_ref(schema *s, value_set *set, const sj_value *value) { refer(s, set, value, false); }

static void apply_dynamic_ref(schema *s, value_set *set, const sj_value *value) { refer(s, set, value, true); }

static void apply_recursive_ref(schema *s, value_set *set, const sj_value *value) {
    if (s->n_resources > 1)
        schema_unsupported(s, value, "$recursiveRef in a document of several resources is not supported", "use $ref");
    else
        refer(s, set, value, false);
}

/* ---- combinations ---- */

static void apply_all(schema *s, value_set *set, const sj_value *value) {
    if (!is_list(s, value)) return;
    for (const sj_value *branch = value->first; branch && schema_ok(s); branch = branch->next) meet(s, set, branch);
}

static void apply_any(schema *s, value_set *set, const sj_value *value) {
    if (!is_list(s, value)) return;
    value_set all = set_none();
    for (const sj_value *branch = value->first; branch && schema_ok(s); branch = branch->next) {
        const value_set one = in_place(s, branch);
        const value_set both = s->tracks_seen ? set_and(s, &all, &one) : set_none();
        all = set_or(s, &all, &one);
        if (s->tracks_seen) all = set_or(s, &all, &both);
    }
    *set = set_and(s, set, &all);
}

static void apply_one(schema *s, value_set *set, const sj_value *value) {
    value_set out = set_none();
    if (!is_list(s, value)) return;
    for (const sj_value *branch = value->first; branch && schema_ok(s); branch = branch->next) {
        const value_set own = in_place(s, branch);
        value_set only = set_and(s, set, &own);
        for (const sj_value *other = value->first; other && schema_ok(s); other = other->next) {
            if (other == branch) continue;
            const value_set theirs = in_place(s, other);
            only = set_minus(s, &only, &theirs, other);
        }
        out = set_or(s, &out, &only);
    }
    *set = out;
}

static void apply_if(schema *s, value_set *set, const sj_value *value) {
    const sj_value *then = sj_member(value->parent, SPAN("then")), *otherwise = sj_member(value->parent, SPAN("else"));
    if (!then && !otherwise && !s->tracks_seen) return;
    const value_set condition = in_place(s, value);
    value_set yes = set_and(s, set, &condition), no = set_minus(s, set, &condition, value);
    if (then) meet(s, &yes, then);
    if (otherwise) meet(s, &no, otherwise);
    *set = set_or(s, &yes, &no);
}

void apply_not(schema *s, value_set *set, const sj_value *value) {
    const value_set other = in_place(s, value);
    *set = set_minus(s, set, &other, value);
}

/* ---- schemas for objects that have a key ---- */

static object_shape *with_presence(schema *s, uint32_t literal) {
    object_shape *o = object_new(s);
    clause *c = room_get(&s->room, 1, sizeof *c);
    uint32_t *literals = room_get(&s->room, 2, sizeof *literals);
    if (!o || !c || !literals) return NULL;
    literals[0] = literal;
    literals[1] = literal | 1;
    *c = (clause){literals, 1};
    o->clauses = c, o->n_clauses = 1;
    o->order = literals + 1, o->n_order = 1;
    return o;
}

static void apply_dependent(schema *s, value_set *set, const sj_value *value) {
    for (const sj_value *m = value->kind == SJ_OBJECT ? value->first : NULL; m && schema_ok(s); m = m->next) {
        if (m->kind == SJ_ARRAY) continue; /* names: schema_read_object.c */
        const uint32_t key = schema_key(s, m->key);
        value_set without = set_any(s), with = set_none();
        without.objects = with_presence(s, key << 1 | 1);
        with.objects = with_presence(s, key << 1);
        without = set_and(s, set, &without);
        with = set_and(s, set, &with);
        meet(s, &with, m);
        *set = set_or(s, &without, &with);
    }
}

/* ---- values ---- */

static void apply_const(schema *s, value_set *set, const sj_value *value) {
    const value_set one = schema_read_const(s, value);
    *set = set_and(s, set, &one);
}

static void apply_enum(schema *s, value_set *set, const sj_value *value) {
    if (value->kind != SJ_ARRAY) {
        schema_invalid(s, value, "an enum is a list of values");
        return;
    }
    value_set all = set_none();
    span *words = room_get(&s->room, value->n, sizeof *words);
    size_t n = 0;
    const number_part *numbers = NULL;
    for (const sj_value *item = value->first; words && item && schema_ok(s); item = item->next) {
        if (item->kind == SJ_STRING) {
            words[n++] = item->text;
            continue;
        }
        const value_set one = schema_read_const(s, item);
        if (item->kind == SJ_NUMBER && one.numbers.parts) {
            ((number_part *)one.numbers.parts)->next = (number_part *)numbers;
            numbers = one.numbers.parts;
        } else {
            all = set_or(s, &all, &one);
        }
    }
    all.numbers.parts = numbers;
    if (words) all.strings = string_words(&s->text, words, n);
    *set = set_and(s, set, &all);
}

/* ---- unevaluated ---- */

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The shape with `value` for the members that nothing has seen. */
static object_shape *members_unseen(schema *s, const object_shape *o, goal value) {
    object_shape *out = room_get(&s->room, 1, sizeof *out);
    key_rule *rules = schema_grown(s, o->rules, o->n_rules, 1, sizeof *rules);
    uint32_t *names = schema_grown(s, o->seen, o->n_seen, 0, sizeof *names);
    if (!out || !rules || !names) return NULL;
    *out = *o;
    qsort(names, o->n_seen, sizeof *names, by_number);
    if (!o->seen_all && value != GOAL_ANY) {
        rules[o->n_rules] = (key_rule){
            .keys = {.kind = KEYS_OTHER, .text = o->seen_text, .names = names, .n_names = o->n_seen}, .value = value};
        out->rules = rules;
        out->n_rules++;
    }
    out->seen_all = true;
    return object_is_dead(s, out) ? NULL : out;
}

static array_shape *items_unseen(schema *s, const array_shape *a, goal value) {
    array_shape *out = room_get(&s->room, 1, sizeof *out);
    const uint32_t n = a->n_seen > a->n_prefix ? a->n_seen : a->n_prefix;
    goal *prefix = room_get(&s->room, n, sizeof *prefix);
    if (!out || !prefix) return NULL;
    *out = *a;
    out->seen_all = true;
    if (a->seen_all || value == GOAL_ANY) return out;
    const goal both[2] = {value, a->seen_where};
    const goal unseen = schema_goal_either(s, both, 2);
    for (uint32_t i = 0; i < n; i++)
        prefix[i] = i < a->n_seen ? array_item(a, i) : schema_goal_and(s, array_item(a, i), unseen);
    out->prefix = prefix;
    out->n_prefix = n;
    out->rest = schema_goal_and(s, a->rest, unseen);
    return array_is_dead(s, out) ? NULL : out;
}

void apply_unevaluated(schema *s, value_set *set, const sj_value *object) {
    const sj_value *members = sj_member(object, SPAN("unevaluatedProperties"));
    const sj_value *items = sj_member(object, SPAN("unevaluatedItems"));
    if (members) {
        const goal value = schema_goal_of(s, members);
        object_shape *out = NULL;
        for (const object_shape *o = set->objects; o; o = o->next) {
            object_shape *closed = members_unseen(s, o, value);
            if (closed) out = objects_add(s, out, closed);
        }
        set->objects = out;
    }
    if (items) {
        const goal value = schema_goal_of(s, items);
        array_shape *out = NULL;
        for (const array_shape *a = set->arrays; a; a = a->next) {
            array_shape *closed = items_unseen(s, a, value);
            if (closed) out = arrays_add(s, out, closed);
        }
        set->arrays = out;
    }
}

keyword_applier *apply_keyword(span name) {
    static const struct {
        const char *name;
        keyword_applier *apply;
    } rows[] = {
        {"$ref", apply_ref},
        {"$dynamicRef", apply_dynamic_ref},
        {"$recursiveRef", apply_recursive_ref},
        {"allOf", apply_all},
        {"anyOf", apply_any},
        {"oneOf", apply_one},
        {"if", apply_if},
        {"dependentSchemas", apply_dependent},
        {"dependencies", apply_dependent},
        {"enum", apply_enum},
        {"const", apply_const},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_is(name, rows[i].name)) return rows[i].apply;
    return NULL;
}
