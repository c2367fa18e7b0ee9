/* schema_read_scalar.c — the keywords about types, numbers and strings, and values given as such (enum, const). */
#include "schema_format.h"
#include "schema_reader.h"

/* ---- type ---- */

static bool add_type(schema_reader *r, span name) {
    if (span_is(name, "null"))
        r->null = true;
    else if (span_is(name, "boolean"))
        r->truth = r->lie = true;
    else if (span_is(name, "object"))
        r->has_objects = true;
    else if (span_is(name, "array"))
        r->has_arrays = true;
    else if (span_is(name, "string"))
        r->has_strings = true;
    else if (span_is(name, "number"))
        r->has_numbers = true, r->number.whole = NUMBER_ANY;
    else if (span_is(name, "integer"))
        r->number.whole = r->has_numbers ? r->number.whole : NUMBER_WHOLE, r->has_numbers = true;
    else
        return false;
    return true;
}

static void read_type(schema_reader *r, const sj_value *value) {
    r->null = r->truth = r->lie = false;
    r->has_numbers = r->has_strings = r->has_objects = r->has_arrays = false;
    if (value->kind == SJ_STRING) {
        if (!add_type(r, value->text)) schema_invalid(r->s, value, "this type is not known");
        return;
    }
    if (value->kind != SJ_ARRAY) schema_invalid(r->s, value, "a type is a string or a list of strings");
    for (const sj_value *item = value->kind == SJ_ARRAY ? value->first : NULL; item; item = item->next)
        if (item->kind != SJ_STRING || !add_type(r, item->text)) schema_invalid(r->s, item, "this type is not known");
}

/* ---- numbers ---- */

static bool read_number(schema *s, const sj_value *value, decimal *out) {
    bool too_long = false;
    if (value->kind == SJ_NUMBER && decimal_read(out, &s->room.memory, value->text, &too_long)) return true;
    if (too_long)
        schema_over_limit(s, value, "the number has more than 400 digits");
    else
        schema_invalid(s, value, "expected a number");
    return false;
}

static void set_low(number_part *p, decimal low, bool open) {
    const int order = p->has_low ? decimal_compare(low, p->low) : 1;
    if (order < 0 || (order == 0 && !open)) return;
    p->low = low;
    p->low_open = open;
    p->has_low = true;
}

static void set_high(number_part *p, decimal high, bool open) {
    const int order = p->has_high ? decimal_compare(high, p->high) : -1;
    if (order > 0 || (order == 0 && !open)) return;
    p->high = high;
    p->high_open = open;
    p->has_high = true;
}

static void read_minimum(schema_reader *r, const sj_value *value) {
    decimal bound;
    const bool open = read_member(r->object, "exclusiveMinimum", SJ_TRUE) != NULL;
    if (read_number(r->s, value, &bound)) set_low(&r->number, bound, open);
}

static void read_maximum(schema_reader *r, const sj_value *value) {
    decimal bound;
    const bool open = read_member(r->object, "exclusiveMaximum", SJ_TRUE) != NULL;
    if (read_number(r->s, value, &bound)) set_high(&r->number, bound, open);
}

static void read_exclusive_minimum(schema_reader *r, const sj_value *value) {
    decimal bound;
    if (value->kind == SJ_TRUE || value->kind == SJ_FALSE) return; /* the older spelling: read beside minimum */
    if (read_number(r->s, value, &bound)) set_low(&r->number, bound, true);
}

static void read_exclusive_maximum(schema_reader *r, const sj_value *value) {
    decimal bound;
    if (value->kind == SJ_TRUE || value->kind == SJ_FALSE) return;
    if (read_number(r->s, value, &bound)) set_high(&r->number, bound, true);
}

static void read_multiple(schema_reader *r, const sj_value *value) {
    decimal divisor;
    if (!read_number(r->s, value, &divisor)) return;
    if (!divisor.n || divisor.negative) {
        schema_invalid(r->s, value, "a divisor is greater than 0");
        return;
    }
    r->number.divisors[0] = divisor;
    r->number.n_divisors = 1;
}

/* ---- strings ---- */

static void read_lengths(schema_reader *r, const sj_value *value) {
    uint32_t count;
    const bool is_min = span_is(value->key, "minLength");
    if (!read_count(r->s, value, &count)) return;
    const rx language =
        is_min ? spelling_length(&r->s->text, count, RX_INFINITE) : spelling_length(&r->s->text, 0, count);
    /* Both bounds as one count: an intersection of two would have a state for each pair. */
    const sj_value *other = sj_member(r->object, is_min ? SPAN("maxLength") : SPAN("minLength"));
    uint32_t other_count;
    if (other && other->kind == SJ_NUMBER && read_count(r->s, other, &other_count)) {
        if (!is_min) return; /* done with minLength */
        r->strings = string_and(&r->s->text, r->strings,
                                count > other_count ? string_none()
                                                    : string_text(spelling_length(&r->s->text, count, other_count)));
        return;
    }
    r->strings = string_and(&r->s->text, r->strings, string_text(language));
}

static void read_pattern_keyword(schema_reader *r, const sj_value *value) {
    bool ok;
    if (value->kind != SJ_STRING) {
        schema_invalid(r->s, value, "a pattern is a string");
        return;
    }
    const rx language = read_pattern(r->s, value, value->text, &ok);
    if (ok) r->strings = string_and(&r->s->text, r->strings, string_text(language));
}

/* Whether `type` lets strings be: formats of numbers ("int32") assert nothing. */
static bool may_be_string(const schema_reader *r) {
    const sj_value *type = sj_member(r->object, SPAN("type"));
    if (!type) return true;
    if (type->kind == SJ_STRING) return span_is(type->text, "string");
    for (const sj_value *item = type->first; item; item = item->next)
        if (item->kind == SJ_STRING && span_is(item->text, "string")) return true;
    return false;
}

static void read_format(schema_reader *r, const sj_value *value) {
    rx language;
    if (value->kind != SJ_STRING) {
        schema_invalid(r->s, value, "a format is a string");
        return;
    }
    if (!may_be_string(r)) return;
    if (format_language(&r->s->text, value->text, &language))
        r->strings = string_and(&r->s->text, r->strings, string_text(language));
    else if (r->s->options->ignore_formats)
        schema_report(r->s, IR_REMARK, "", value, "this format is not known: it asserts nothing", "");
    else
        schema_unsupported(r->s, value, "this format is not known", "use a pattern, or let unknown formats be ignored");
}

/* ---- values ---- */

static value_set const_object(schema *s, const sj_value *value) {
    value_set set = set_none();
    object_shape *o = object_new(s);
    key_rule *rules = room_get(&s->room, (size_t)value->n + 1, sizeof *rules);
    clause *clauses = room_get(&s->room, value->n, sizeof *clauses);
    uint32_t *order = room_get(&s->room, value->n, sizeof *order), *names = room_get(&s->room, value->n, sizeof *names);
    uint32_t n = 0;
    if (!o || !rules || !clauses || !order || !names) return set;
    for (const sj_value *m = value->first; m; m = m->next, n++) {
        const uint32_t key = schema_key(s, m->key);
        order[n] = key << 1;
        clauses[n] = (clause){&order[n], 1};
        rules[n] = (key_rule){.keys = {.kind = KEYS_ONE, .key = key}, .value = schema_goal_const(s, m)};
        uint32_t at = n;
        for (; at > 0 && names[at - 1] > key; at--) names[at] = names[at - 1];
        names[at] = key;
    }
    rules[n] = (key_rule){.keys = {.kind = KEYS_OTHER, .names = names, .n_names = n}, .value = GOAL_NONE};
    o->order = order, o->n_order = n;
    o->clauses = clauses, o->n_clauses = n;
    o->rules = rules, o->n_rules = n + 1;
    set.objects = o;
    return set;
}

static value_set const_array(schema *s, const sj_value *value) {
    value_set set = set_none();
    array_shape *a = array_new(s);
    goal *prefix = room_get(&s->room, value->n, sizeof *prefix);
    uint32_t n = 0;
    if (!a || !prefix) return set;
    for (const sj_value *item = value->first; item; item = item->next) prefix[n++] = schema_goal_const(s, item);
    a->prefix = prefix, a->n_prefix = n;
    a->min = a->max = n;
    a->rest = GOAL_NONE;
    set.arrays = a;
    return set;
}

value_set schema_read_const(schema *s, const sj_value *value) {
    value_set set = set_none();
    decimal number;
    switch (value->kind) {
    case SJ_OBJECT:
        return const_object(s, value);
    case SJ_ARRAY:
        return const_array(s, value);
    case SJ_STRING:
        set.strings = string_words(&s->text, &value->text, 1);
        return set;
    case SJ_NUMBER:
        if (read_number(s, value, &number)) set.numbers = number_value(&s->numbers, number);
        return set;
    default:
        set.null = value->kind == SJ_NULL;
        set.truth = value->kind == SJ_TRUE;
        set.lie = value->kind == SJ_FALSE;
        return set;
    }
}

keyword_reader *scalar_keyword(span name) {
    static const struct {
        const char *name;
        keyword_reader *read;
    } rows[] = {
        {"type", read_type},
        {"minimum", read_minimum},
        {"maximum", read_maximum},
        {"exclusiveMinimum", read_exclusive_minimum},
        {"exclusiveMaximum", read_exclusive_maximum},
        {"multipleOf", read_multiple},
        {"minLength", read_lengths},
        {"maxLength", read_lengths},
        {"pattern", read_pattern_keyword},
        {"format", read_format},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_is(name, rows[i].name)) return rows[i].read;
    return NULL;
}
