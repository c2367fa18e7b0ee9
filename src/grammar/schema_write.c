/* schema_write.c — lowers sets of values to rules: a symbol for each goal that is reached, made once.
 *
 * A goal that has only scalars is one terminal; one with objects or arrays is a rule, filled later from a list, so
 * that recursion in the schema is recursion of rules and not of this program. */
#include "schema_writer.h"
#include "base/hash.h"

enum { MAX_STATES = 100000 };

bool write_spend(schema_writer *w) {
    if (w->states_left) return w->states_left--, schema_ok(w->s);
    schema_over_limit(w->s, w->s->root, "objects or arrays have more than 100000 states to tell apart");
    return false;
}

rx write_open(schema_writer *w, const char *bracket, int depth) {
    return rx_concat(w->pool, rx_text(w->pool, span_of(bracket)), gaps_line(&w->gaps, w->pool, depth + 1, false));
}

rx write_close(schema_writer *w, const char *bracket, int depth) {
    return rx_concat(w->pool, gaps_line(&w->gaps, w->pool, depth, false), rx_text(w->pool, span_of(bracket)));
}

rx write_comma(schema_writer *w, int depth) {
    const rx parts[3] = {gaps_before_comma(&w->gaps), rx_text(w->pool, SPAN(",")),
                         gaps_line(&w->gaps, w->pool, depth + 1, true)};
    return rx_concat_n(w->pool, parts, 3);
}

bool write_may_nest(const schema_writer *w, int depth) { return w->gaps.indent < 0 || depth < GAPS_MAX_DEPTH; }

/* ---- scalars ---- */

static rx quoted(schema_writer *w, rx text) {
    const rx quote = rx_text(w->pool, SPAN("\""));
    return rx_concat(w->pool, quote, rx_concat(w->pool, text, quote));
}

static rx scalars(schema_writer *w, const value_set *set) {
    rx parts[5];
    size_t n = 0;
    if (set->null) parts[n++] = rx_text(w->pool, SPAN("null"));
    if (set->truth) parts[n++] = rx_text(w->pool, SPAN("true"));
    if (set->lie) parts[n++] = rx_text(w->pool, SPAN("false"));
    if (set->numbers.parts) {
        parts[n++] = number_write(w->pool, &w->s->numbers, set->numbers, w->numbers);
        w->s->wrote_number = true;
        w->s->wrote_range |= !number_is_all(set->numbers) && !number_is_values(set->numbers);
    }
    if (!set->strings.is_words || set->strings.n) parts[n++] = quoted(w, string_write(&w->s->text, set->strings));
    return rx_or_n(w->pool, parts, n);
}

/* ---- goals ---- */

static uint32_t *slot_of(schema_writer *w, goal value, int depth) {
    const uint32_t key[2] = {value, (uint32_t)depth};
    uint32_t at = (uint32_t)hash_bytes(key, sizeof key, 0) & (w->table_size - 1);
    while (w->table[at] && (w->goals[w->table[at] - 1].value != value || w->goals[w->table[at] - 1].depth != depth))
        at = (at + 1) & (w->table_size - 1);
    return &w->table[at];
}

static bool make_room(schema_writer *w) {
    if (w->s->room.failed) return false;
    if (w->n_goals < w->goal_room) return true;
    const uint32_t room = w->goal_room ? w->goal_room * 2 : 64;
    written_goal *goals = mem_resize(w->goals, room, sizeof *goals);
    uint32_t *table = goals ? mem_zarray((size_t)room * 2, sizeof *table) : NULL;
    if (goals) w->goals = goals;
    if (!table) return w->s->room.failed = true, false;
    mem_free(w->table);
    w->table = table;
    w->table_size = room * 2;
    w->goal_room = room;
    for (uint32_t i = 0; i < w->n_goals; i++) *slot_of(w, goals[i].value, goals[i].depth) = i + 1;
    return true;
}

ir_sym write_value(schema_writer *w, goal value, int depth) {
    if (value == GOAL_NONE || !schema_ok(w->s) || !make_room(w)) return IR_NOTHING;
    if (w->gaps.indent < 0) depth = 0;
    uint32_t *slot = slot_of(w, value, depth);
    if (*slot) return w->goals[*slot - 1].symbol;
    *slot = w->n_goals + 1;
    const uint32_t number = w->n_goals++;
    w->goals[number] = (written_goal){value, depth, IR_NOTHING};
    const value_set *set = schema_goal_set(w->s, value);
    w->goals[number].symbol =
        set->objects || set->arrays ? ir_rule(w->rules, "value") : ir_terminal(w->rules, scalars(w, set));
    return w->goals[number].symbol;
}

static void fill(schema_writer *w, const written_goal *g) {
    const value_set *set = schema_goal_set(w->s, g->value);
    if (!set->objects && !set->arrays) return;
    const ir_sym scalar = ir_terminal(w->rules, scalars(w, set));
    if (scalar != IR_NOTHING) ir_alternative(w->rules, g->symbol, &scalar, 1);
    for (const object_shape *o = set->objects; o && schema_ok(w->s); o = o->next) {
        const ir_sym object = write_object(w, o, g->depth);
        ir_alternative(w->rules, g->symbol, &object, 1);
    }
    for (const array_shape *a = set->arrays; a && schema_ok(w->s); a = a->next) {
        const ir_sym array = write_array(w, a, g->depth);
        ir_alternative(w->rules, g->symbol, &array, 1);
    }
}

static int digits_wanted(int option, int otherwise) { return option ? option : otherwise; }

qp_status schema_write(schema *s, ir_sym *out, goal start, qp_error *err) {
    schema_writer w = {.s = s, .rules = s->rules, .pool = s->pool, .states_left = MAX_STATES};
    const spelling plain = spelling_start(s->pool, &s->room, false, false);
    w.numbers =
        (number_style){digits_wanted(s->options->fraction_digits, 20), digits_wanted(s->options->exponent_digits, 3)};
    ERR_TRY(gaps_read(&w.gaps, &plain, s->options->whitespace, err));
    *out = write_value(&w, start, 0);
    while (w.next < w.n_goals && schema_ok(s)) {
        const written_goal g = w.goals[w.next++];
        fill(&w, &g);
    }
    mem_free(w.goals);
    mem_free(w.table);
    return QP_OK;
}
