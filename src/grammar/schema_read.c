/* schema_read.c — makes the set of values that a schema means, from its keywords.
 *
 * Keywords of one schema hold together, so the set is an intersection. The schema's own assertions make one set; where
 * `properties` stands (or first, without it) that set comes in, and the keywords that bring in other schemas come in
 * where they stand: this is the order in which properties are produced. `not` and the unevaluated ones come last. */
#include "schema_keyword.h"
#include "schema_pattern.h"
#include "schema_reader.h"
#include <stdio.h>

enum { MAX_REMARKS = 100 };

const sj_value *read_member(const sj_value *object, const char *name, sj_kind kind) {
    const sj_value *m = sj_member(object, span_of(name));
    return m && m->kind == kind ? m : NULL;
}

bool read_count(schema *s, const sj_value *value, uint32_t *out) {
    decimal number;
    bool too_long;
    uint64_t count = COUNT_INFINITE - 1;
    if (value->kind != SJ_NUMBER || !decimal_read(&number, &s->room.memory, value->text, &too_long) ||
        number.negative || !decimal_is_integer(number)) {
        schema_invalid(s, value, "a count is a whole number from 0 up");
        return false;
    }
    if (!decimal_to_count(number, COUNT_INFINITE - 1, &count)) count = COUNT_INFINITE - 1;
    *out = (uint32_t)count;
    return true;
}

rx read_pattern(schema *s, const sj_value *where, span pattern, bool *ok) {
    pattern_error error;
    const rx language = pattern_language(&s->text, pattern, false, &error);
    *ok = !error.what;
    if (*ok) return language;
    char why[160];
    snprintf(why, sizeof why, "the pattern, at byte %zu: %s", error.offset, error.what);
    if (error.is_syntax)
        schema_invalid(s, where, why);
    else
        schema_unsupported(s, where, why, "write it without that");
    return RX_NONE;
}

/* ---- a schema ---- */

static schema_reader start(schema *s, const sj_value *object) {
    return (schema_reader){.s = s,
                           .object = object,
                           .null = true,
                           .truth = true,
                           .lie = true,
                           .has_numbers = true,
                           .has_strings = true,
                           .has_objects = true,
                           .has_arrays = true,
                           .strings = string_all(&s->text),
                           .members = object_new(s),
                           .items = array_new(s)};
}

/* A divisor that cannot be written is refused here, where its place is known. */
static void check_divisor(schema_reader *r) {
    schema *s = r->s;
    number_work probe = {.room = &s->room, .products_left = 1};
    number_part part = {.whole = r->number.whole, .n_divisors = 1, .divisors = {r->number.divisors[0]}};
    number_write(s->pool, &probe, number_part_set(&probe, &part), (number_style){-1, -1});
    if (!probe.refused) return;
    schema_unsupported(s, sj_member(r->object, SPAN("multipleOf")), probe.refused, "use a smaller divisor");
    r->number.n_divisors = 0;
}

/* What the schema's own assertions leave. */
static value_set own_set(schema_reader *r) {
    schema *s = r->s;
    value_set set = {.null = r->null, .truth = r->truth, .lie = r->lie, .strings = string_none()};
    if (!r->members || !r->items) return set;
    if (r->has_strings) set.strings = r->strings;
    if (r->has_numbers && r->number.n_divisors) check_divisor(r);
    if (r->has_numbers) {
        /* Through an intersection, which brings bounds of whole numbers to whole numbers. */
        number_part whole = {.whole = r->number.whole};
        set.numbers =
            number_and(&s->numbers, number_part_set(&s->numbers, &whole), number_part_set(&s->numbers, &r->number));
    }
    if (r->has_objects && !object_is_dead(s, r->members)) set.objects = r->members;
    if (r->has_arrays && !array_is_dead(s, r->items)) set.arrays = r->items;
    return set;
}

static void note_unknown(schema *s, const sj_value *member) {
    if (span_starts(member->key, SPAN("x-")) || ir_n_entries(s->rules) >= MAX_REMARKS) return;
    schema_report(s, IR_REMARK, "", member, "not a keyword that is known: it asserts nothing", "");
}

static void read_own(schema_reader *r) {
    for (const sj_value *m = r->object->first; m && schema_ok(r->s); m = m->next) {
        keyword_reader *read = scalar_keyword(m->key);
        if (!read) read = object_keyword(m->key);
        if (!read) read = array_keyword(m->key);
        if (read)
            read(r, m);
        else if (!keyword_find(m->key))
            note_unknown(r->s, m);
    }
}

static void bring_in(schema *s, value_set *set, const value_set *own, bool *done) {
    if (!*done) *set = set_and(s, set, own);
    *done = true;
}

value_set schema_read(schema *s, const sj_value *object) {
    if (object->kind != SJ_OBJECT) {
        if (object->kind != SJ_TRUE && object->kind != SJ_FALSE)
            schema_invalid(s, object, "a schema is an object, true or false");
        return object->kind == SJ_FALSE ? set_none() : set_any(s);
    }
    schema_reader r = start(s, object);
    read_own(&r);
    const value_set own = own_set(&r);
    const bool waits = sj_member(object, SPAN("properties")) != NULL;
    value_set set = waits ? set_any(s) : own;
    bool done = !waits;
    for (const sj_value *m = object->first; m && schema_ok(s); m = m->next) {
        keyword_applier *apply = apply_keyword(m->key);
        if (span_is(m->key, "properties")) bring_in(s, &set, &own, &done);
        if (apply) apply(s, &set, m);
    }
    const sj_value *not = sj_member(object, SPAN("not"));
    if (not &&schema_ok(s)) apply_not(s, &set, not );
    if (s->tracks_seen && schema_ok(s)) apply_unevaluated(s, &set, object);
    return set;
}
