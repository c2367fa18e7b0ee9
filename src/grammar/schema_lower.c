/* schema_lower.c — the front end for JSON Schema, from text to rules.
 *
 * Reads the text, makes the index of references, asks for the goal of the root and has it written; then says what was
 * narrowed. Memory and work have limits, because schemas come from strangers: the arena's, the number of merges of
 * shapes, the states of objects and arrays, and those of the regular expressions. */
#include "schema_lower.h"
#include "schema_set.h"

enum { MOST_MEMORY = 48 << 20, MOST_MERGES = 10000, MOST_PRODUCTS = 100000 };

/* Goals 0 and 1 have no literals. */
static bool begin(schema *s, ir *g, const ir_options *options) {
    static const ir_options defaults;
    *s = (schema){.rules = g, .pool = ir_pool(g), .options = options ? options : &defaults, .merges_left = MOST_MERGES};
    s->room.memory.limit_bytes = MOST_MEMORY;
    s->numbers = (number_work){.room = &s->room, .products_left = MOST_PRODUCTS};
    s->text = spelling_start(s->pool, &s->room, true, s->options->unicode_escapes);
    s->goals = mem_zarray(64, sizeof *s->goals);
    s->goal_room = s->goals ? 64 : 0;
    s->n_goals = 2;
    return s->goals != NULL;
}

static void say_narrowings(schema *s) {
    const struct {
        bool applies;
        const char *message;
    } rows[] = {
        {s->wrote_order, "properties come in the order of the schema"},
        {s->wrote_number, "integers are written without fraction and exponent"},
        {s->wrote_range,
         "numbers with bounds or divisors are written without exponent, and an upper bound without more zeros"},
        {!s->options->unicode_escapes, "in strings, / is not escaped and printable characters are not written as \\u"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].applies && !(i == 0 && s->options->any_order))
            schema_report(s, IR_NARROWED, "", NULL, rows[i].message, "");
}

/* Not narrowed but wider than one might think, so always told. */
static void say_repeated_keys(schema *s) {
    if (s->repeats_keys && !s->options->repeat_extra_keys)
        schema_report(s, IR_WARNING, "", NULL, "keys that the schema does not name may come twice in one object",
                      "close the object with additionalProperties: false");
}

static qp_status finish(schema *s, qp_error *err) {
    if (s->numbers.refused && !s->room.failed) {
        const ir_entry entry = {IR_PROBLEM, "limit", "", "multipleOf", s->numbers.refused, "use a smaller divisor"};
        ir_report(s->rules, &entry);
    }
    if (s->room.memory.over_limit)
        return err_set(err, QP_TOO_LARGE, 0, "schema: needs more than %d MiB of memory", MOST_MEMORY >> 20);
    if (s->room.failed) return err_no_memory(err, s->room.memory.total_bytes, "schema");
    ERR_TRY(ir_status(s->rules, err));
    say_narrowings(s);
    say_repeated_keys(s);
    return ir_verdict(s->rules, err);
}

static qp_status lower(schema *s, ir_sym *out, span source, qp_error *err) {
    sj_value *root;
    ERR_TRY(sj_parse(&root, &s->room.memory, source, "schema", err));
    s->root = root;
    schema_ref_index(s);
    const goal start = schema_ok(s) ? schema_goal_of(s, root) : GOAL_NONE;
    if (schema_ok(s)) ERR_TRY(schema_write(s, out, start, err));
    return finish(s, err);
}

qp_status schema_lower(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    schema s;
    *out = IR_NOTHING;
    qp_status status = begin(&s, g, options) ? lower(&s, out, source, err) : err_no_memory(err, 0, "schema");
    schema_free(&s);
    return status;
}

qp_status schema_lower_object(ir *g, ir_sym *out, span source, const ir_options *options, qp_error *err) {
    return schema_lower(g, out, SPAN("{\"type\":\"object\"}"), options, err);
}
