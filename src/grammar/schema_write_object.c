/* schema_write_object.c — one shape of objects as rules.
 *
 * The known keys come in their order, each there or not; then other keys, any number. What must be remembered on the
 * way is a state: how many members so far (if they are counted), which clauses hold already, which "at least one"
 * rules are met. A rule is made for each state that can be reached; without counts, clauses and the like there are two
 * for each key, because the first member has no comma.
 *
 * The tricky thing: a clause is a bit that is set as soon as it holds, and set as well once its last key has passed, so
 * states that can never differ again are one. */
#include "schema_writer.h"
#include "base/hash.h"
#include <stdlib.h>

enum { MAX_EXISTS = 8, MAX_CLAUSES = 64, MAX_PATTERNS = 32, FEW_PATTERNS = 5, MAX_REGIONS = 64, MAX_ANY_ORDER = 64 };

/* A known key. */
typedef struct member {
    uint32_t key;
    goal value;
    bool must, must_not;
    uint64_t holds_present, holds_absent; /* clauses that its being there (or not) makes true */
    uint64_t ends;                        /* clauses whose last key it is */
    uint8_t exists;                       /* "at least one" rules that it may meet */
    ir_sym first, next;                   /* key and colon, without and with a comma; made when needed */
} member;

/* Other keys that have the same rules. */
typedef struct region {
    rx keys;
    goal value;
    uint8_t exists;
    ir_sym first, next;
} region;

typedef struct object_state {
    uint32_t place; /* of the next known key; n_members: other keys */
    uint32_t count; /* members so far; stands still where it no longer matters */
    uint64_t holds; /* clauses */
    uint8_t met;    /* "at least one" rules */
    bool any;       /* there is a member before */
    uint8_t padding[2];
} object_state;

typedef struct object_rule {
    object_state state;
    ir_sym rule;
} object_rule;

typedef struct object_writer {
    schema_writer *w;
    const object_shape *o;
    int depth;
    member *members;
    uint32_t n_members;
    region *regions;
    uint32_t n_regions;
    uint8_t all_exists;
    uint32_t count_cap; /* 0: members are not counted */
    object_rule *states;
    uint32_t n_states, state_room;
    uint32_t *table;
    uint32_t table_size;
    ir_sym close, close_empty;
} object_writer;

static ir_sym row2(schema_writer *w, ir_sym a, ir_sym b) {
    const ir_sym row[2] = {a, b};
    return ir_sequence(w->rules, row, 2);
}

static ir_sym row3(schema_writer *w, ir_sym a, ir_sym b, ir_sym c) {
    const ir_sym row[3] = {a, b, c};
    return ir_sequence(w->rules, row, 3);
}

/* "key": with its gaps, after a comma or not. */
static ir_sym key_symbol(const object_writer *x, rx key, bool comma) {
    schema_writer *w = x->w;
    const rx quote = rx_text(w->pool, SPAN("\""));
    const rx parts[7] = {comma ? write_comma(w, x->depth) : RX_EMPTY,
                         quote,
                         key,
                         quote,
                         gaps_before_colon(&w->gaps),
                         rx_text(w->pool, SPAN(":")),
                         gaps_after_colon(&w->gaps, w->pool)};
    return ir_terminal(w->rules, rx_concat_n(w->pool, parts, 7));
}

static ir_sym member_key(const object_writer *x, member *m, bool comma) {
    ir_sym *symbol = comma ? &m->next : &m->first;
    if (*symbol == IR_NOTHING) *symbol = key_symbol(x, spelling_word(&x->w->s->text, x->w->s->keys[m->key]), comma);
    return *symbol;
}

static ir_sym region_key(const object_writer *x, region *r, bool comma) {
    ir_sym *symbol = comma ? &r->next : &r->first;
    if (*symbol == IR_NOTHING) *symbol = key_symbol(x, r->keys, comma);
    return *symbol;
}

/* ---- members and clauses ---- */

static void add_clause_bits(object_writer *x, const clause *c, uint64_t bit) {
    member *last = NULL;
    for (uint32_t m = 0; m < x->n_members; m++)
        for (uint32_t i = 0; i < c->n; i++) {
            if (c->literals[i] >> 1 != x->members[m].key) continue;
            if (c->literals[i] & 1)
                x->members[m].holds_absent |= bit;
            else
                x->members[m].holds_present |= bit;
            last = &x->members[m];
        }
    if (last) last->ends |= bit;
}

/* Clauses that the unit clauses have not decided; false: too many. */
static bool add_clauses(object_writer *x, const uint8_t *decided) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->o->n_clauses; i++) {
        const clause *c = &x->o->clauses[i];
        bool holds = false;
        for (uint32_t k = 0; k < c->n && !holds; k++) {
            const uint8_t now = decided[c->literals[k] >> 1];
            holds = now != MAY_BE && (now == MUST_NOT_BE) == (c->literals[k] & 1);
        }
        if (holds) continue;
        if (n == MAX_CLAUSES) {
            schema_over_limit(x->w->s, x->w->s->root, "more than 64 conditions between the keys of one object");
            return false;
        }
        add_clause_bits(x, c, (uint64_t)1 << n++);
    }
    return true;
}

static uint8_t exists_for_key(const object_writer *x, uint32_t key) {
    uint8_t bits = 0;
    for (uint32_t i = 0; i < x->o->n_exists; i++)
        if (key_set_has(x->w->s, &x->o->exists[i].keys, key)) bits |= (uint8_t)(1u << i);
    return bits;
}

static int by_key(const void *a, const void *b) {
    const key_rule *x = *(const key_rule *const *)a, *y = *(const key_rule *const *)b;
    if (x->keys.key != y->keys.key) return x->keys.key < y->keys.key ? -1 : 1;
    return (x > y) - (x < y); /* in one array: as they came */
}

/* Rules for one key each, sorted by it, and the others apart: large objects have one rule a key. */
typedef struct rule_index {
    const key_rule **single, **wide;
    uint32_t n_single, n_wide;
} rule_index;

static bool index_rules(object_writer *x, rule_index *index) {
    schema_room *room = &x->w->s->room;
    *index = (rule_index){.single = room_get(room, x->o->n_rules, sizeof *index->single),
                          .wide = room_get(room, x->o->n_rules, sizeof *index->wide)};
    if (!index->single || !index->wide) return false;
    for (uint32_t i = 0; i < x->o->n_rules; i++) {
        const key_rule *rule = &x->o->rules[i];
        if (rule->value == GOAL_ANY) continue;
        if (rule->keys.kind == KEYS_ONE)
            index->single[index->n_single++] = rule;
        else
            index->wide[index->n_wide++] = rule;
    }
    if (index->n_single > 1) qsort(index->single, index->n_single, sizeof *index->single, by_key);
    return true;
}

static goal value_of(const object_writer *x, const rule_index *index, uint32_t key) {
    goal out = GOAL_ANY;
    uint32_t low = 0, high = index->n_single;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (index->single[mid]->keys.key < key)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < index->n_single && index->single[low]->keys.key == key; low++)
        out = schema_goal_and(x->w->s, out, index->single[low]->value);
    for (uint32_t i = 0; i < index->n_wide; i++)
        if (key_set_has(x->w->s, &index->wide[i]->keys, key))
            out = schema_goal_and(x->w->s, out, index->wide[i]->value);
    return out;
}

static bool make_members(object_writer *x) {
    schema *s = x->w->s;
    rule_index index;
    x->members = room_get(&s->room, x->o->n_order, sizeof *x->members);
    if (!x->members || !index_rules(x, &index) || !object_presence(s, x->o)) return false;
    uint8_t *decided = room_get(&s->room, s->n_keys, 1);
    if (!decided) return false;
    if (s->n_keys) memcpy(decided, s->presence, s->n_keys); /* the scratch is used again below */
    for (uint32_t i = 0; i < x->o->n_order; i++) {
        const uint32_t key = x->o->order[i] >> 1;
        const goal value = value_of(x, &index, key);
        x->members[x->n_members++] = (member){.key = key,
                                              .value = value,
                                              .must = decided[key] == MUST_BE,
                                              .must_not = decided[key] == MUST_NOT_BE || value == GOAL_NONE,
                                              .exists = exists_for_key(x, key)};
    }
    return add_clauses(x, decided);
}

/* ---- other keys ---- */

/* All keys but the known ones. */
static rx unknown_keys(const object_writer *x) {
    schema *s = x->w->s;
    rx *words = room_get(&s->room, x->n_members, sizeof *words);
    for (uint32_t i = 0; words && i < x->n_members; i++) words[i] = spelling_word(&s->text, s->keys[x->members[i].key]);
    if (!words) return RX_NONE;
    return x->n_members ? rx_minus(s->pool, s->text.any_text, rx_or_n(s->pool, words, x->n_members)) : s->text.any_text;
}

/* The patterns that rules tell keys apart by; -1: too many. */
static int collect_patterns(const object_writer *x, rx *patterns) {
    int n = 0;
    for (uint32_t i = 0; i < x->o->n_rules + x->o->n_exists; i++) {
        const key_rule *rule = i < x->o->n_rules ? &x->o->rules[i] : &x->o->exists[i - x->o->n_rules];
        const rx text = rule->keys.text;
        if (rule->keys.kind == KEYS_ONE || text == RX_NONE || text == x->w->s->text.any_text) continue;
        bool old = false;
        for (int k = 0; k < n && !old; k++) old = patterns[k] == text;
        if (!old && n == MAX_PATTERNS) return -1;
        if (!old) patterns[n++] = text;
    }
    return n;
}

/* Keys that are in some of the patterns and in none of the others. */
typedef struct part {
    rx keys;
    uint32_t inside; /* bit i: in pattern i */
} part;

/* Whether no member may have a key inside (or outside) the pattern. */
static bool is_forbidden(const object_writer *x, rx pattern, key_kind kind) {
    for (uint32_t i = 0; i < x->o->n_rules; i++)
        if (x->o->rules[i].value == GOAL_NONE && x->o->rules[i].keys.kind == kind &&
            x->o->rules[i].keys.text == pattern)
            return true;
    return false;
}

/* Patterns that forbid keys come first: what they forbid needs no further splitting. */
static void sort_patterns(const object_writer *x, rx *patterns, int n) {
    int n_first = 0;
    for (int i = 0; i < n; i++) {
        const rx pattern = patterns[i];
        if (!is_forbidden(x, pattern, KEYS_IN) && !is_forbidden(x, pattern, KEYS_OTHER)) continue;
        patterns[i] = patterns[n_first];
        patterns[n_first++] = pattern;
    }
}

/* Splits all keys by one pattern after the other. Of many patterns, parts without a key fall away at once, so patterns
 * that exclude each other give one part each; of few, that is asked only where a part is used. -1: too many. */
static int split_keys(const object_writer *x, const rx *patterns, int n_patterns, part *parts) {
    rx_pool *pool = x->w->pool;
    const bool few = n_patterns <= FEW_PATTERNS;
    int n = 1;
    parts[0] = (part){x->w->s->text.any_text, 0};
    for (int i = 0; i < n_patterns; i++) {
        const bool no_in = is_forbidden(x, patterns[i], KEYS_IN), no_out = is_forbidden(x, patterns[i], KEYS_OTHER);
        const int before = n;
        for (int k = 0; k < before; k++) {
            const rx in = rx_and(pool, parts[k].keys, patterns[i]), out = rx_minus(pool, parts[k].keys, patterns[i]);
            const bool has_in = !no_in && (few || rx_has_word(pool, in));
            const bool has_out = !no_out && (few || rx_has_word(pool, out));
            if (has_in && has_out && n == MAX_REGIONS) return -1;
            if (has_in && has_out) parts[n++] = (part){in, parts[k].inside | 1u << i};
            parts[k] = has_out ? (part){out, parts[k].inside} : (part){in, parts[k].inside | 1u << i};
            if (!has_out && !has_in) parts[k].keys = RX_NONE;
        }
    }
    return n;
}

/* Whether a rule for these keys is one for the part. */
static bool part_in(const object_writer *x, const part *p, const key_set *keys, const rx *patterns, int n) {
    bool in_text = keys->text == x->w->s->text.any_text;
    for (int i = 0; i < n; i++) in_text |= patterns[i] == keys->text && p->inside >> i & 1;
    return keys->kind == KEYS_IN ? in_text : keys->kind == KEYS_OTHER && !in_text;
}

static region region_of(const object_writer *x, const part *p, const rx *patterns, int n) {
    region r = {.keys = p->keys};
    for (uint32_t i = 0; i < x->o->n_rules; i++)
        if (part_in(x, p, &x->o->rules[i].keys, patterns, n))
            r.value = schema_goal_and(x->w->s, r.value, x->o->rules[i].value);
    for (uint32_t i = 0; i < x->o->n_exists; i++)
        if (part_in(x, p, &x->o->exists[i].keys, patterns, n)) r.exists |= (uint8_t)(1u << i);
    return r;
}

static bool make_regions(object_writer *x) {
    rx patterns[MAX_PATTERNS];
    part parts[MAX_REGIONS];
    const int n = collect_patterns(x, patterns);
    sort_patterns(x, patterns, n);
    const int n_parts = n < 0 ? -1 : split_keys(x, patterns, n, parts);
    x->regions = room_get(&x->w->s->room, MAX_REGIONS, sizeof *x->regions);
    if (!x->regions) return false;
    if (n_parts < 0) {
        schema_over_limit(x->w->s, x->w->s->root, "the patterns of keys divide them into more than 64 kinds");
        return false;
    }
    rx unknown = RX_NONE; /* made only where other keys may come: a closed object has no need of it */
    for (int i = 0; i < n_parts; i++) {
        if (parts[i].keys == RX_NONE) continue;
        region r = region_of(x, &parts[i], patterns, n);
        if (r.value == GOAL_NONE || (n > 1 && !rx_has_word(x->w->pool, r.keys))) continue;
        if (unknown == RX_NONE) unknown = unknown_keys(x);
        r.keys = rx_and(x->w->pool, unknown, r.keys);
        x->regions[x->n_regions++] = r;
    }
    return true;
}

/* ---- states ---- */

static uint32_t *state_slot(object_writer *x, const object_state *state) {
    uint32_t at = (uint32_t)hash_bytes(state, sizeof *state, 0) & (x->table_size - 1);
    while (x->table[at] && memcmp(&x->states[x->table[at] - 1].state, state, sizeof *state))
        at = (at + 1) & (x->table_size - 1);
    return &x->table[at];
}

static bool grow_states(object_writer *x) {
    if (x->n_states < x->state_room) return true;
    schema *s = x->w->s;
    const uint32_t room = x->state_room ? x->state_room * 2 : 32;
    object_rule *states = schema_grown(s, x->states, x->n_states, room - x->n_states, sizeof *states);
    uint32_t *table = room_get(&s->room, (size_t)room * 2, sizeof *table);
    if (!states || !table) return false;
    x->states = states;
    x->state_room = room;
    x->table = table;
    x->table_size = room * 2;
    for (uint32_t i = 0; i < x->n_states; i++) *state_slot(x, &states[i].state) = i + 1;
    return true;
}

static ir_sym state_rule(object_writer *x, const object_state *state) {
    if (!grow_states(x)) return IR_NOTHING;
    uint32_t *slot = state_slot(x, state);
    if (*slot) return x->states[*slot - 1].rule;
    if (!write_spend(x->w)) return IR_NOTHING;
    const ir_sym rule = ir_rule(x->w->rules, "members");
    x->states[x->n_states] = (object_rule){*state, rule};
    *slot = ++x->n_states;
    return rule;
}

static object_state with_member(const object_writer *x, object_state state, uint8_t met) {
    state.any = true;
    state.met |= met;
    if (state.count < x->count_cap) state.count++;
    return state;
}

/* `value` with what the "at least one" rules in `met` ask for. */
static goal met_value(const object_writer *x, goal value, uint8_t met) {
    for (uint32_t i = 0; i < x->o->n_exists; i++)
        if (met >> i & 1) value = schema_goal_and(x->w->s, value, x->o->exists[i].value);
    return value;
}

static bool count_allows_more(const object_writer *x, const object_state *state) {
    return x->o->max == COUNT_INFINITE || state->count < x->o->max;
}

/* The member is there, meeting each subset of the rules that it may meet. */
static void add_present(object_writer *x, ir_sym rule, const object_state *now, member *m) {
    schema_writer *w = x->w;
    const uint8_t may_meet = m->exists & ~now->met;
    for (unsigned met = 0; met <= may_meet && schema_ok(w->s); met++) {
        if ((met & may_meet) != met) continue;
        const ir_sym value = write_value(w, met_value(x, m->value, (uint8_t)met), x->depth + 1);
        object_state to = with_member(x, *now, (uint8_t)met);
        to.place++;
        to.holds |= m->holds_present;
        if (m->ends & ~to.holds) return;
        if (value == IR_NOTHING) continue;
        const ir_sym way[3] = {member_key(x, m, now->any), value, state_rule(x, &to)};
        ir_alternative(w->rules, rule, way, 3);
    }
}

static void add_absent(object_writer *x, ir_sym rule, const object_state *now, const member *m) {
    object_state to = *now;
    to.place++;
    to.holds |= m->holds_absent;
    if (m->ends & ~to.holds) return;
    const ir_sym next = state_rule(x, &to);
    ir_alternative(x->w->rules, rule, &next, 1);
}

static ir_sym region_pair(object_writer *x, region *r, uint8_t met, bool comma) {
    const ir_sym value = write_value(x->w, met_value(x, r->value, met), x->depth + 1);
    return value == IR_NOTHING ? IR_NOTHING : row2(x->w, region_key(x, r, comma), value);
}

/* Any number of other keys from `min` to `max`, and the end. */
static ir_sym all_others(object_writer *x, uint32_t min, uint32_t max, bool comma) {
    ir_sym pairs[MAX_REGIONS], firsts[MAX_REGIONS];
    schema_writer *w = x->w;
    for (uint32_t i = 0; i < x->n_regions; i++) pairs[i] = region_pair(x, &x->regions[i], 0, true);
    const ir_sym pair = max ? ir_choice(w->rules, pairs, x->n_regions) : IR_NOTHING;
    if (comma) return row2(w, ir_repeat(w->rules, pair, min, max), x->close);
    for (uint32_t i = 0; i < x->n_regions; i++) firsts[i] = region_pair(x, &x->regions[i], 0, false);
    const ir_sym first = max ? ir_choice(w->rules, firsts, x->n_regions) : IR_NOTHING;
    const uint32_t more = max == COUNT_INFINITE || !max ? max : max - 1;
    const ir_sym some = row3(w, first, ir_repeat(w->rules, pair, min ? min - 1 : 0, more), x->close);
    const ir_sym ways[2] = {min ? IR_NOTHING : x->close_empty, some};
    return ir_choice(w->rules, ways, 2);
}

/* After the known keys. */
static void fill_others(object_writer *x, ir_sym rule, const object_state *now) {
    schema_writer *w = x->w;
    const uint32_t min = x->count_cap && x->o->min > now->count ? x->o->min - now->count : 0;
    if (now->met == x->all_exists) {
        const uint32_t max = x->o->max == COUNT_INFINITE ? COUNT_INFINITE : x->o->max - now->count;
        const ir_sym others = all_others(x, min, x->n_regions ? max : 0, now->any);
        ir_alternative(w->rules, rule, &others, 1);
        return;
    }
    for (uint32_t i = 0; i < x->n_regions && count_allows_more(x, now); i++) {
        const uint8_t may_meet = x->regions[i].exists & ~now->met;
        for (unsigned met = 0; met <= may_meet && schema_ok(w->s); met++) {
            if ((met & may_meet) != met) continue;
            const ir_sym pair = region_pair(x, &x->regions[i], (uint8_t)met, now->any);
            const object_state to = with_member(x, *now, (uint8_t)met);
            if (pair == IR_NOTHING) continue;
            const ir_sym way[2] = {pair, state_rule(x, &to)};
            ir_alternative(w->rules, rule, way, 2);
        }
    }
}

static void fill_state(object_writer *x, uint32_t number) {
    const object_rule now = x->states[number];
    if (now.state.place == x->n_members) {
        fill_others(x, now.rule, &now.state);
        return;
    }
    member *m = &x->members[now.state.place];
    if (!m->must_not && count_allows_more(x, &now.state)) add_present(x, now.rule, &now.state, m);
    if (!m->must) add_absent(x, now.rule, &now.state, m);
}

/* Members are counted if there may be too few or too many of them. */
static uint32_t count_cap(const object_writer *x) {
    uint32_t n_must = 0, n_may = 0;
    for (uint32_t i = 0; i < x->n_members; i++) {
        n_must += x->members[i].must;
        n_may += !x->members[i].must_not;
    }
    if (x->o->n_exists && x->o->max != COUNT_INFINITE) return x->o->max;
    const bool too_many = x->o->max != COUNT_INFINITE && (x->n_regions || n_may > x->o->max);
    if (too_many)
        return x->o->max > n_may && x->o->max > x->o->min ? (n_may > x->o->min ? n_may : x->o->min) : x->o->max;
    return x->o->min > n_must ? x->o->min : 0;
}

/* ---- any order ---- */

/* Known keys in any order, then the others. */
static ir_sym write_any_order(object_writer *x) {
    schema_writer *w = x->w;
    ir_sym pairs[MAX_ANY_ORDER], ways[MAX_ANY_ORDER + 1];
    uint64_t required = 0;
    size_t n = 0, n_ways = 0;
    for (uint32_t i = 0; i < x->n_members; i++) {
        member *m = &x->members[i];
        if (m->must_not) continue;
        if (m->must) required |= (uint64_t)1 << n;
        pairs[n++] = row2(w, member_key(x, m, false), write_value(w, m->value, x->depth + 1));
    }
    const ir_sym comma = ir_terminal(w->rules, write_comma(w, x->depth));
    const ir_sym after = all_others(x, 0, x->n_regions ? COUNT_INFINITE : 0, true);
    /* At least one of them, or none: the first of the others then has no comma before it. */
    for (size_t i = 0; i < (required ? 1 : n); i++)
        ways[n_ways++] =
            row2(w, ir_any_order(w->rules, pairs, n, comma, required ? required : (uint64_t)1 << i), after);
    if (!required) ways[n_ways++] = all_others(x, 0, x->n_regions ? COUNT_INFINITE : 0, false);
    return ir_choice(w->rules, ways, n_ways);
}

static bool may_be_any_order(object_writer *x) {
    bool plain = x->n_members > 1 && x->n_members <= MAX_ANY_ORDER && !x->o->n_exists && !x->count_cap;
    for (uint32_t i = 0; i < x->n_members; i++) plain &= !x->members[i].ends;
    if (!plain && x->n_members > 1)
        schema_report(x->w->s, IR_NARROWED, "", x->w->s->root,
                      "an object with conditions between its keys, or over 64 of them, keeps the order of the schema",
                      "");
    return plain;
}

ir_sym write_object(schema_writer *w, const object_shape *o, int depth) {
    const bool pretty = w->gaps.indent >= 0;
    object_writer x = {.w = w, .o = o, .depth = depth, .all_exists = (uint8_t)((1u << o->n_exists) - 1)};
    if (o->n_exists > MAX_EXISTS) {
        schema_over_limit(w->s, w->s->root, "more than 8 members that must exist meet in one object");
        return IR_NOTHING;
    }
    if (!make_members(&x) || !make_regions(&x)) return IR_NOTHING;
    x.count_cap = count_cap(&x);
    w->s->repeats_keys |= x.n_regions > 0;
    bool may_be_empty = o->min == 0 && !o->n_exists;
    uint64_t open_clauses = 0;
    for (uint32_t i = 0; i < x.n_members; i++) {
        may_be_empty &= !x.members[i].must;
        open_clauses |= x.members[i].ends;
    }
    for (uint32_t i = 0; i < x.n_members; i++) open_clauses &= ~x.members[i].holds_absent;
    const ir_sym empty =
        pretty && may_be_empty && !open_clauses ? ir_terminal(w->rules, rx_text(w->pool, SPAN("{}"))) : IR_NOTHING;
    if (!write_may_nest(w, depth)) return empty;
    x.close = ir_terminal(w->rules, write_close(w, "}", depth));
    x.close_empty = pretty ? IR_NOTHING : ir_terminal(w->rules, rx_text(w->pool, SPAN("}")));
    const ir_sym open = ir_terminal(w->rules, write_open(w, "{", depth));
    ir_sym inside;
    if (w->s->options->any_order && may_be_any_order(&x)) {
        inside = write_any_order(&x);
    } else {
        inside = state_rule(&x, &(object_state){0});
        for (uint32_t i = 0; i < x.n_states && schema_ok(w->s); i++) fill_state(&x, i);
    }
    const ir_sym ways[2] = {empty, row2(w, open, inside)};
    return empty == IR_NOTHING ? ways[1] : ir_choice(w->rules, ways, 2);
}
