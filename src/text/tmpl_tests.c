/* tmpl_tests.c — the tests behind `is`: a row each. */
#include "tmpl_tables.h"
#include "tmpl_unicode.h"
#include "base/utf8.h"

static bool answer(bool holds, bool *out) { return *out = holds, true; }

/* value % number == wanted */
static bool remainder_is(tmpl_run *r, value on, value number, int64_t wanted, bool *out) {
    value rest;
    return value_binary(r, OP_MOD, on, number, &rest) && value_equal(r, rest, value_int(wanted), out);
}

static bool test_odd(tmpl_run *r, value on, const value *args, bool *out) {
    return remainder_is(r, on, value_int(2), 1, out);
}
static bool test_even(tmpl_run *r, value on, const value *args, bool *out) {
    return remainder_is(r, on, value_int(2), 0, out);
}
static bool test_divisible(tmpl_run *r, value on, const value *args, bool *out) {
    return remainder_is(r, on, args[0], 0, out);
}

static bool test_defined(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind != V_UNDEFINED, out);
}
static bool test_undefined(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind == V_UNDEFINED, out);
}
static bool test_none(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_NONE, out); }
static bool test_boolean(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_BOOL, out); }
static bool test_true(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind == V_BOOL && on.truth, out);
}
static bool test_false(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind == V_BOOL && !on.truth, out);
}
static bool test_integer(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_INT, out); }
static bool test_float(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_FLOAT, out); }
static bool test_number(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(value_is_number(on), out);
}
static bool test_string(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_STR, out); }
static bool test_mapping(tmpl_run *r, value on, const value *args, bool *out) { return answer(on.kind == V_DICT, out); }
static bool test_iterable(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(value_is_iterable(on), out);
}
static bool test_escaped(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind == V_STR && on.is_markup, out);
}

/* what has a length and an index */
static bool test_sequence(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(
        on.kind == V_STR || value_is_seq(on) || on.kind == V_DICT || on.kind == V_RANGE || on.kind == V_UNDEFINED, out);
}

static bool test_callable(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(on.kind == V_FUNCTION || on.kind == V_METHOD || on.kind == V_MACRO || on.kind == V_JOINER ||
                      on.kind == V_LOOP || on.kind == V_BLOCK || on.kind == V_UNDEFINED,
                  out);
}

/* str(value).isupper() and islower(): cased letters, all of this case. */
static bool all_cased(tmpl_run *r, value on, unsigned wanted, bool *out) {
    value text;
    bool any = false;
    *out = false;
    if (!value_to_text(r, on, &text) || !tmpl_spend(r, text.str->bytes / STEP_READS)) return false;
    for (size_t i = 0; i < text.str->bytes;) {
        uint32_t c = 0;
        const int length = utf8_decode(text.str->at + i, text.str->bytes - i, &c);
        const unsigned kinds = tmpl_char_kinds(c);
        if (kinds & CHAR_CASED & ~wanted) return true;
        any |= (kinds & wanted) != 0;
        i += length ? (size_t)length : 1;
    }
    return answer(any, out);
}

static bool test_lower(tmpl_run *r, value on, const value *args, bool *out) {
    return all_cased(r, on, CHAR_LOWER, out);
}
static bool test_upper(tmpl_run *r, value on, const value *args, bool *out) {
    return all_cased(r, on, CHAR_UPPER, out);
}

static bool test_filter(tmpl_run *r, value on, const value *args, bool *out) {
    uint64_t hash; /* what cannot be hashed cannot be looked up */
    return value_hash(r, on, &hash) && answer(on.kind == V_STR && tmpl_filter_find(value_span(on)), out);
}

static bool test_test(tmpl_run *r, value on, const value *args, bool *out) {
    uint64_t hash;
    return value_hash(r, on, &hash) && answer(on.kind == V_STR && tmpl_test_find(value_span(on)), out);
}

static bool test_same(tmpl_run *r, value on, const value *args, bool *out) {
    return answer(value_is_same(on, args[0]), out);
}
static bool test_in(tmpl_run *r, value on, const value *args, bool *out) { return value_contains(r, on, args[0], out); }
static bool test_eq(tmpl_run *r, value on, const value *args, bool *out) { return value_equal(r, on, args[0], out); }
static bool test_ne(tmpl_run *r, value on, const value *args, bool *out) {
    return value_equal(r, on, args[0], out) && answer(!*out, out);
}
static bool test_gt(tmpl_run *r, value on, const value *args, bool *out) {
    return value_order(r, OP_GT, on, args[0], out);
}
static bool test_ge(tmpl_run *r, value on, const value *args, bool *out) {
    return value_order(r, OP_GE, on, args[0], out);
}
static bool test_lt(tmpl_run *r, value on, const value *args, bool *out) {
    return value_order(r, OP_LT, on, args[0], out);
}
static bool test_le(tmpl_run *r, value on, const value *args, bool *out) {
    return value_order(r, OP_LE, on, args[0], out);
}

static const test_row tests[] = {
    {"odd", 0, test_odd},
    {"even", 0, test_even},
    {"divisibleby", 1, test_divisible},
    {"defined", 0, test_defined},
    {"undefined", 0, test_undefined},
    {"filter", 0, test_filter},
    {"test", 0, test_test},
    {"none", 0, test_none},
    {"boolean", 0, test_boolean},
    {"false", 0, test_false},
    {"true", 0, test_true},
    {"integer", 0, test_integer},
    {"float", 0, test_float},
    {"lower", 0, test_lower},
    {"upper", 0, test_upper},
    {"string", 0, test_string},
    {"mapping", 0, test_mapping},
    {"number", 0, test_number},
    {"sequence", 0, test_sequence},
    {"iterable", 0, test_iterable},
    {"callable", 0, test_callable},
    {"sameas", 1, test_same},
    {"escaped", 0, test_escaped},
    {"in", 1, test_in},
    {"==", 1, test_eq},
    {"eq", 1, test_eq},
    {"equalto", 1, test_eq},
    {"!=", 1, test_ne},
    {"ne", 1, test_ne},
    {">", 1, test_gt},
    {"gt", 1, test_gt},
    {"greaterthan", 1, test_gt},
    {">=", 1, test_ge},
    {"ge", 1, test_ge},
    {"<", 1, test_lt},
    {"lt", 1, test_lt},
    {"lessthan", 1, test_lt},
    {"<=", 1, test_le},
    {"le", 1, test_le},
};

const test_row *tmpl_test_find(span name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (span_is(name, tests[i].name)) return &tests[i];
    return NULL;
}

bool tmpl_test_call(tmpl_run *r, const void *row, value on, const call_args *args, bool *out) {
    static const struct {
        const char *test, *name;
    } named[] = {{"divisibleby", "num"}, {"sameas", "other"}, {"in", "seq"}};
    const test_row *t = row;
    value slots[1];
    const char *name = t->n_args ? "value" : "";
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strcmp(t->name, named[i].test)) name = named[i].name;
    return tmpl_bind(r, t->name, name, args, slots) && t->run(r, on, slots, out);
}
