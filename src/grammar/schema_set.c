/* schema_set.c — numbers for keys, nodes and goals; the sets of goals; problems and limits.
 *
 * The tricky thing: whether a goal is empty is asked while sets are being computed, and may lead back to one that is
 * not finished. A node that is busy on the same level is a schema that contains itself in place, an error of the
 * schema; one busy on an outer level only means "not known yet": `unknown` is set, nothing that was computed on the way
 * is kept, and the answer is "not sure to be empty". */
#include "schema_set.h"
#include "base/hash.h"
#include "schema_keyword.h"

enum { MAX_NODES = 200000, MAX_DEPTH = 400, MAX_EMPTY_DEPTH = 100, MAX_HOPS = 64 };

/* ---- problems ---- */

void schema_report(schema *s, ir_note note, const char *category, const sj_value *where, const char *why,
                   const char *hint) {
    strbuf path = {0}, keyword = {0};
    if (where) sj_pointer(&path, where);
    if (where && where->parent && where->parent->kind == SJ_OBJECT)
        strbuf_add(&keyword, where->key.at, where->key.bytes);
    s->room.failed |= path.failed || keyword.failed;
    const ir_entry entry = {.note = note,
                            .category = category,
                            .path = path.at ? path.at : "",
                            .keyword = keyword.at ? keyword.at : "",
                            .message = why,
                            .hint = hint};
    ir_report(s->rules, &entry);
    strbuf_free(&path);
    strbuf_free(&keyword);
}

void schema_over_limit(schema *s, const sj_value *where, const char *message) {
    if (!s->over_limit) schema_report(s, IR_PROBLEM, "limit", where, message, "simplify the schema");
    s->over_limit = true;
}

void schema_unsupported(schema *s, const sj_value *where, const char *why, const char *hint) {
    if (s->options->lenient)
        schema_report(s, IR_WARNING, "", where, why, "the assertion was dropped: texts that break it are accepted");
    else
        schema_report(s, IR_PROBLEM, "unsupported", where, why, hint);
}

void schema_invalid(schema *s, const sj_value *where, const char *why) {
    schema_report(s, IR_PROBLEM, "invalid-schema", where, why, "");
}

/* ---- tables ---- */

void *schema_grown(schema *s, const void *old, uint32_t n, uint32_t more, size_t size) {
    void *fresh = room_get(&s->room, (size_t)n + more, size);
    if (fresh && n) memcpy(fresh, old, n * size);
    return fresh;
}

static bool make_room(schema *s, void *array, uint32_t *room, uint32_t used, size_t size) {
    if (s->room.failed) return false;
    if (used < *room) return true;
    const uint32_t wanted = *room ? *room * 2 : 64;
    void *old;
    memcpy(&old, array, sizeof old);
    void *fresh = mem_resize(old, wanted, size);
    if (!fresh) return s->room.failed = true, false;
    memcpy(array, &fresh, sizeof fresh);
    *room = wanted;
    return true;
}

static bool table_grow(schema *s, number_table *t, uint32_t used, uint64_t (*hash)(const schema *s, uint32_t number)) {
    if ((used + 1) * 2 < t->size) return true;
    const uint32_t size = t->size ? t->size * 2 : 128;
    uint32_t *slots = mem_zarray(size, sizeof *slots);
    if (!slots) return s->room.failed = true, false;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t at = (uint32_t)hash(s, i) & (size - 1);
        while (slots[at]) at = (at + 1) & (size - 1);
        slots[at] = i + 1;
    }
    mem_free(t->slots);
    *t = (number_table){slots, size};
    return true;
}

static uint64_t hash_key(const schema *s, uint32_t key) { return hash_bytes(s->keys[key].at, s->keys[key].bytes, 0); }

uint32_t schema_key(schema *s, span name) {
    if (!table_grow(s, &s->key_table, s->n_keys, hash_key)) return 0;
    uint32_t at = (uint32_t)hash_bytes(name.at, name.bytes, 0) & (s->key_table.size - 1);
    for (; s->key_table.slots[at]; at = (at + 1) & (s->key_table.size - 1))
        if (span_equal(s->keys[s->key_table.slots[at] - 1], name)) return s->key_table.slots[at] - 1;
    if (!make_room(s, &s->keys, &s->key_room, s->n_keys, sizeof *s->keys)) return 0;
    s->keys[s->n_keys] = name;
    s->key_table.slots[at] = s->n_keys + 1;
    return s->n_keys++;
}

/* ---- nodes ---- */

static uint32_t add_node(schema *s, node_kind kind, const sj_value *value, const goal *goals, uint32_t n) {
    if (s->n_nodes >= MAX_NODES) schema_over_limit(s, value, "more than 200000 schemas are needed");
    if (!schema_ok(s) || !make_room(s, &s->nodes, &s->node_room, s->n_nodes, sizeof *s->nodes)) return 0;
    s->nodes[s->n_nodes] = (schema_node){.kind = kind, .value = value, .goals = goals, .n = n};
    return s->n_nodes++;
}

uint32_t schema_node_of(schema *s, const sj_value *value) {
    if (!value->node) ((sj_value *)value)->node = add_node(s, NODE_SCHEMA, value, NULL, 0) + 1;
    return value->node - 1;
}

static value_set compute_node(schema *s, uint32_t node) {
    const schema_node n = s->nodes[node];
    value_set set = set_none();
    switch (n.kind) {
    case NODE_SCHEMA:
        return schema_read(s, n.value);
    case NODE_CONST:
        return schema_read_const(s, n.value);
    case NODE_EITHER:
        for (uint32_t i = 0; i < n.n; i++) set = set_or(s, &set, schema_goal_set(s, n.goals[i]));
        return set;
    default:
        return *schema_goal_set(s, n.goals[0]);
    }
}

value_set schema_node_set(schema *s, uint32_t node) {
    if (!schema_ok(s)) return set_none();
    if (s->nodes[node].state == NODE_DONE) return s->nodes[node].set;
    if (s->nodes[node].state == NODE_BUSY) {
        if (s->nodes[node].level == s->level)
            schema_report(s, IR_PROBLEM, "invalid-schema", s->nodes[node].value,
                          "the schema refers to itself without anything between",
                          "let it refer to itself below a property or item");
        else
            s->unknown = true;
        return set_any(s);
    }
    if (s->depth >= MAX_DEPTH || !s->merges_left) {
        if (s->level && s->merges_left)
            s->unknown = true;
        else
            schema_over_limit(s, s->nodes[node].value, "too many schemas apply to one value");
        return set_any(s);
    }
    s->merges_left--;
    s->depth++;
    s->nodes[node].state = NODE_BUSY;
    s->nodes[node].level = s->level;
    const value_set set = compute_node(s, node);
    s->nodes[node].state = s->unknown ? NODE_NEW : NODE_DONE;
    s->nodes[node].set = set;
    s->depth--;
    return set;
}

/* ---- goals ---- */

static uint64_t hash_goal(const schema *s, uint32_t g) {
    return hash_bytes(s->goals[g].literals, s->goals[g].n * sizeof(uint32_t), 0);
}

/* Of literals without duplicates; n > 0. */
static goal intern(schema *s, const uint32_t *literals, uint32_t n) {
    if (!table_grow(s, &s->goal_table, s->n_goals, hash_goal)) return GOAL_NONE;
    uint32_t at = (uint32_t)hash_bytes(literals, n * sizeof *literals, 0) & (s->goal_table.size - 1);
    for (; s->goal_table.slots[at]; at = (at + 1) & (s->goal_table.size - 1)) {
        const schema_goal *old = &s->goals[s->goal_table.slots[at] - 1];
        if (old->n == n && !memcmp(old->literals, literals, n * sizeof *literals)) return s->goal_table.slots[at] - 1;
    }
    const uint32_t *copy = schema_grown(s, literals, n, 0, sizeof *copy);
    if (!copy || !make_room(s, &s->goals, &s->goal_room, s->n_goals, sizeof *s->goals)) return GOAL_NONE;
    s->goals[s->n_goals] = (schema_goal){.literals = copy, .n = n};
    s->goal_table.slots[at] = s->n_goals + 1;
    return s->n_goals++;
}

static goal one_literal(schema *s, uint32_t node, bool negated) {
    const uint32_t literal = node << 1 | negated;
    return intern(s, &literal, 1);
}

/* Asserts nothing: all its keywords are annotations, or not known. */
static bool says_nothing(const sj_value *object) {
    for (const sj_value *m = object->first; m; m = m->next) {
        const keyword_row *row = keyword_find(m->key);
        if (row && row->status != KEYWORD_ANNOTATION && row->status != KEYWORD_STRUCTURE) return false;
    }
    return true;
}

/* A schema that is a reference and nothing else is what it refers to. */
static const sj_value *follow(schema *s, const sj_value *value) {
    for (int hops = 0; hops < MAX_HOPS && value->kind == SJ_OBJECT; hops++) {
        const sj_value *reference = sj_member(value, SPAN("$ref"));
        if (!reference || reference->kind != SJ_STRING) break;
        for (const sj_value *m = value->first; m; m = m->next) {
            const keyword_row *row = keyword_find(m->key);
            if (m != reference && row && row->status != KEYWORD_ANNOTATION && row->status != KEYWORD_STRUCTURE)
                return value;
        }
        const sj_value *target = schema_ref_find(s, reference, reference->text, false);
        if (!target) break;
        value = target;
    }
    return value;
}

goal schema_goal_of(schema *s, const sj_value *value) {
    value = follow(s, value);
    if (value->kind == SJ_TRUE) return GOAL_ANY;
    if (value->kind == SJ_FALSE) return GOAL_NONE;
    if (value->kind != SJ_OBJECT) {
        schema_invalid(s, value, "a schema is an object, true or false");
        return GOAL_ANY;
    }
    if (!says_nothing(value)) return one_literal(s, schema_node_of(s, value), false);
    /* Still read once, for the notes about unknown keywords. */
    if (!value->node) schema_node_set(s, schema_node_of(s, value));
    return GOAL_ANY;
}

goal schema_goal_const(schema *s, const sj_value *value) {
    return one_literal(s, add_node(s, NODE_CONST, value, NULL, 0), false);
}

goal schema_goal_either(schema *s, const goal *goals, uint32_t n) {
    goal *kept = room_get(&s->room, n, sizeof *kept);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; kept && i < n; i++) {
        if (goals[i] == GOAL_ANY) return GOAL_ANY;
        if (goals[i] != GOAL_NONE) kept[n_kept++] = goals[i];
    }
    if (!n_kept) return GOAL_NONE;
    return n_kept == 1 ? kept[0] : one_literal(s, add_node(s, NODE_EITHER, NULL, kept, n_kept), false);
}

goal schema_goal_and(schema *s, goal a, goal b) {
    if (a == b || b == GOAL_ANY) return a;
    if (a == GOAL_ANY) return b;
    if (a == GOAL_NONE || b == GOAL_NONE) return GOAL_NONE;
    const schema_goal x = s->goals[a], y = s->goals[b];
    uint32_t *both = schema_grown(s, x.literals, x.n, y.n, sizeof *both), n = x.n;
    for (uint32_t i = 0; both && i < y.n; i++) {
        bool old = false;
        for (uint32_t k = 0; k < x.n; k++) {
            if (both[k] == (y.literals[i] ^ 1)) return GOAL_NONE;
            old |= both[k] == y.literals[i];
        }
        if (!old) both[n++] = y.literals[i];
    }
    return both ? intern(s, both, n) : GOAL_NONE;
}

goal schema_goal_not(schema *s, goal a) {
    if (a <= GOAL_NONE) return a == GOAL_ANY ? GOAL_NONE : GOAL_ANY;
    if (s->goals[a].n == 1) {
        const uint32_t literal = s->goals[a].literals[0] ^ 1;
        return intern(s, &literal, 1);
    }
    goal *inner = room_get(&s->room, 1, sizeof *inner);
    if (!inner) return GOAL_NONE;
    *inner = a;
    return one_literal(s, add_node(s, NODE_GOAL, NULL, inner, 1), true);
}

static value_set compute_goal(schema *s, goal a) {
    const schema_goal g = s->goals[a];
    value_set set = set_any(s);
    for (uint32_t i = 0; i < g.n; i++) {
        if (g.literals[i] & 1) continue;
        const value_set other = schema_node_set(s, g.literals[i] >> 1);
        set = i ? set_and(s, &set, &other) : other;
    }
    for (uint32_t i = 0; i < g.n; i++) {
        if (!(g.literals[i] & 1)) continue;
        const value_set other = schema_node_set(s, g.literals[i] >> 1);
        set = set_minus(s, &set, &other, s->nodes[g.literals[i] >> 1].value);
    }
    return set;
}

const value_set *schema_goal_set(schema *s, goal a) {
    value_set *out = room_get(&s->room, 1, sizeof *out);
    static const value_set nothing;
    if (!out || !schema_ok(s)) return &nothing;
    if (a <= GOAL_NONE) return *out = a == GOAL_ANY ? set_any(s) : set_none(), out;
    if (s->goals[a].has_set) return *out = s->goals[a].set, out;
    *out = compute_goal(s, a);
    s->goals[a].set = *out;
    s->goals[a].has_set = !s->unknown;
    return out;
}

bool schema_goal_is_empty(schema *s, goal a) {
    if (a <= GOAL_NONE) return a == GOAL_NONE;
    if (s->goals[a].empty >= EMPTY_NO) return s->goals[a].empty == EMPTY_YES;
    if (s->goals[a].empty == EMPTY_BUSY || s->level >= MAX_EMPTY_DEPTH || !schema_ok(s)) return false;
    const bool was_unknown = s->unknown;
    s->unknown = false;
    s->goals[a].empty = EMPTY_BUSY;
    s->level++;
    const bool empty = set_is_empty(s, schema_goal_set(s, a)) && !s->unknown;
    s->level--;
    s->goals[a].empty = s->unknown ? EMPTY_UNKNOWN : empty ? EMPTY_YES : EMPTY_NO;
    s->unknown = was_unknown;
    return empty;
}

void schema_free(schema *s) {
    mem_free(s->nodes);
    mem_free(s->goals);
    mem_free(s->keys);
    mem_free(s->resources);
    mem_free(s->anchors);
    mem_free(s->presence);
    mem_free(s->goal_table.slots);
    mem_free(s->key_table.slots);
    arena_free(&s->room.memory);
}
