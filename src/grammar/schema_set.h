/* schema_set.h — sets of JSON values: what a schema means, in a form that can be intersected, joined, taken apart and
 * finally written as rules.
 *
 * The whole way of a schema: schema_json.c reads the text; schema_read.c makes a value_set of each place (node) of the
 * schema; schema_merge.c and schema_minus.c are the algebra of those sets; schema_write.c lowers them to the rules of
 * ir.h. Everything here is between the second step and the last.
 *
 * A value_set has the scalars of a schema as one set each, and its objects and arrays as a list of shapes whose union
 * they are. What is inside an object or array is not expanded but named by a goal: a conjunction of nodes, some of
 * them negated. Goals are hash-consed, so recursion ends: a rule is made for each goal, once.
 *
 * The tricky thing: a shape is a set of *constraints*, never a list of properties. `rules` says which values keys
 * may have, `clauses` which keys must or must not be there (a formula in conjunctive form), `exists` what at least one
 * member must be. With that the negation of a shape is a union of shapes again, which is what makes oneOf, not and if
 * exact. */
#ifndef GRAMMAR_SCHEMA_SET_H
#define GRAMMAR_SCHEMA_SET_H

#include "grammar/ir.h"
#include "schema_json.h"
#include "schema_number.h"
#include "schema_string.h"

typedef uint32_t goal;
enum { GOAL_ANY = 0, GOAL_NONE = 1 };
enum { COUNT_INFINITE = UINT32_MAX };

/* ---- shapes ---- */

typedef enum key_kind {
    KEYS_ONE,   /* `key` */
    KEYS_IN,    /* those of the language `text` */
    KEYS_OTHER, /* all but `names` and those of `text` */
} key_kind;

typedef struct key_set {
    key_kind kind;
    uint32_t key;
    rx text; /* spelled, without quotes */
    uint32_t n_names;
    const uint32_t *names; /* rising */
} key_set;

/* Members with these keys have values of the goal. */
typedef struct key_rule {
    key_set keys;
    goal value;
} key_rule;

/* At least one of the literals holds: key << 1, | 1 for "is absent". */
typedef struct clause {
    const uint32_t *literals; /* rising */
    uint32_t n;
} clause;

typedef struct object_shape object_shape;
struct object_shape {
    object_shape *next;
    const uint32_t *order; /* the keys that are known by name, as written: key << 1, | 1 if only required */
    const key_rule *rules;
    const clause *clauses;
    const key_rule *exists; /* at least one member with such a key has a value of the goal */
    uint32_t n_order, n_rules, n_clauses, n_exists;
    uint32_t min, max;
    /* What unevaluatedProperties of a schema around this one leaves alone. */
    const uint32_t *seen;
    uint32_t n_seen;
    rx seen_text;
    bool seen_all;
};

/* Of the items from `from` on, `min` to `max` are values of the goal. */
typedef struct count_rule {
    goal value;
    uint32_t from, min, max;
} count_rule;

typedef struct array_shape array_shape;
struct array_shape {
    array_shape *next;
    const goal *prefix;
    const count_rule *counts;
    uint32_t n_prefix, n_counts;
    goal rest;
    uint32_t min, max;
    const sj_value *unique; /* the keyword that says so; NULL: items may be equal */
    /* What unevaluatedItems of a schema around this one leaves alone. */
    bool seen_all;
    uint32_t n_seen; /* the first ones */
    goal seen_where; /* and those with such values; GOAL_NONE: none */
};

typedef struct value_set {
    bool null, truth, lie;
    number_set numbers;
    string_set strings;
    object_shape *objects;
    array_shape *arrays;
} value_set;

/* ---- the state of one compile ---- */

typedef enum node_kind { NODE_SCHEMA, NODE_CONST, NODE_EITHER, NODE_GOAL } node_kind;

typedef struct schema_node {
    node_kind kind;
    const sj_value *value; /* SCHEMA, CONST */
    const goal *goals;     /* EITHER: the union of n goals; GOAL: one */
    uint32_t n;
    uint32_t level; /* while it is computed: of schema.level */
    enum { NODE_NEW, NODE_BUSY, NODE_DONE } state;
    value_set set;
} schema_node;

typedef struct schema_goal {
    const uint32_t *literals; /* node << 1, | 1 for "is not in it" */
    uint32_t n;
    enum { EMPTY_UNKNOWN, EMPTY_BUSY, EMPTY_NO, EMPTY_YES } empty;
    bool has_set;
    value_set set;
} schema_goal;

typedef struct schema_anchor {
    uint32_t resource;
    span name;
    const sj_value *value;
    bool dynamic;
} schema_anchor;

typedef struct schema_resource {
    span uri;
    const sj_value *value;
} schema_resource;

typedef struct number_table {
    uint32_t *slots; /* number + 1, 0: free */
    uint32_t size;
} number_table;

typedef struct schema {
    ir *rules;
    rx_pool *pool;
    const ir_options *options;
    schema_room room;
    spelling text;
    number_work numbers;
    const sj_value *root;

    schema_node *nodes;
    schema_goal *goals;
    span *keys; /* names of properties, unescaped */
    schema_resource *resources;
    schema_anchor *anchors;
    uint32_t n_nodes, n_goals, n_keys, n_resources, n_anchors;
    uint32_t node_room, goal_room, key_room, resource_room, anchor_room;
    number_table goal_table, key_table;
    uint8_t *presence; /* scratch of schema_merge.c: by key */
    uint32_t presence_room;

    bool tracks_seen; /* an unevaluated... keyword is somewhere */
    bool unknown;     /* the set just computed hangs on one that is not finished: do not keep it */
    uint32_t level;   /* of emptiness tests inside one another */
    uint32_t depth;   /* of recursion */
    size_t merges_left;
    bool over_limit;
    bool wrote_range, wrote_order, wrote_number; /* for the report */
    bool repeats_keys;                           /* some object lets in keys that are not known by name */
} schema;

/* ---- schema_set.c: numbers for keys, nodes and goals; problems ---- */
/* Whether it is still worth going on. */
static inline bool schema_ok(const schema *s) { return !s->room.failed && !s->over_limit && rx_step(s->pool, 1); }
/* Ends the compile with the category "limit". */
void schema_over_limit(schema *s, const sj_value *where, const char *message);
/* Reports something not supported at `where`: a problem, or with `lenient` a warning. */
void schema_unsupported(schema *s, const sj_value *where, const char *why, const char *hint);
void schema_invalid(schema *s, const sj_value *where, const char *why);
void schema_report(schema *s, ir_note note, const char *category, const sj_value *where, const char *why,
                   const char *hint);
uint32_t schema_key(schema *s, span name);
/* The goal of a schema in the document: GOAL_ANY and GOAL_NONE where that is plain. */
goal schema_goal_of(schema *s, const sj_value *schema_value);
goal schema_goal_const(schema *s, const sj_value *value);
goal schema_goal_either(schema *s, const goal *goals, uint32_t n);
goal schema_goal_and(schema *s, goal a, goal b);
goal schema_goal_not(schema *s, goal a);
/* The set of a goal's values; of a node where `in_place`: a schema applied to the same value as the one being read. */
const value_set *schema_goal_set(schema *s, goal a);
value_set schema_node_set(schema *s, uint32_t node);
/* The number of the node of a schema in the document. */
uint32_t schema_node_of(schema *s, const sj_value *value);
/* Sure that no value is in it. */
bool schema_goal_is_empty(schema *s, goal a);
/* `n` old entries and room for `more` (zeros); NULL when memory is short. */
void *schema_grown(schema *s, const void *old, uint32_t n, uint32_t more, size_t size);
void schema_free(schema *s);

/* ---- schema_read.c ---- */
value_set schema_read(schema *s, const sj_value *schema_value);
value_set schema_read_const(schema *s, const sj_value *value);

/* ---- schema_ref.c ---- */
/* Finds $id, $anchor and the like in the whole document. */
void schema_ref_index(schema *s);
/* What a $ref at `where` names; NULL with the problem reported. */
const sj_value *schema_ref_find(schema *s, const sj_value *where, span reference, bool dynamic);

/* ---- schema_merge.c ---- */
value_set set_any(schema *s);
value_set set_none(void);
value_set set_and(schema *s, const value_set *a, const value_set *b);
value_set set_or(schema *s, const value_set *a, const value_set *b);
bool set_is_empty(schema *s, const value_set *a);
/* NULL: nothing is in both. */
object_shape *object_and(schema *s, const object_shape *a, const object_shape *b);
array_shape *array_and(schema *s, const array_shape *a, const array_shape *b);
object_shape *object_new(schema *s);
array_shape *array_new(schema *s);
/* Adds a shape to a list, joining it with one that differs only in which keys must be there. */
object_shape *objects_add(schema *s, object_shape *list, object_shape *shape);
array_shape *arrays_add(schema *s, array_shape *list, array_shape *shape);
/* Whether nothing can be in it. Presence of the known keys is left in s->presence: see schema_presence. */
bool object_is_dead(schema *s, const object_shape *o);
bool array_is_dead(schema *s, array_shape *a);
typedef enum presence { MAY_BE, MUST_BE, MUST_NOT_BE } presence;
/* Which keys the unit clauses decide, following from one to the next, into s->presence; false: a contradiction. */
bool object_presence(schema *s, const object_shape *o);
bool key_set_has(schema *s, const key_set *k, uint32_t key);
/* What the value of a key must be. */
goal object_key_goal(schema *s, const object_shape *o, uint32_t key);
/* Array item `i` (any i >= n_prefix: the rest). */
static inline goal array_item(const array_shape *a, uint32_t i) { return i < a->n_prefix ? a->prefix[i] : a->rest; }

/* ---- schema_minus.c ---- */
value_set set_minus(schema *s, const value_set *a, const value_set *b, const sj_value *where);

/* ---- schema_write.c ---- */
qp_status schema_write(schema *s, ir_sym *out, goal start, qp_error *err);

#endif
