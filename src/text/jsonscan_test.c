/* jsonscan_test.c — the forward JSON reader: what it gives, where it refuses. */
#include "jsonscan.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct {
    const char *text, *value; /* value NULL: refused */
    size_t offset;            /* of the error */
} strings[] = {
    {"\"\"", "", 0},
    {"  \"abc\"", "abc", 0},
    {"\"a\\\"b\\\\\\/\\b\\f\\n\\r\\t\"", "a\"b\\/\b\f\n\r\t", 0},
    {"\"\\u00e9\\u4f60\"", "\xc3\xa9\xe4\xbd\xa0", 0},
    {"\"\\ud83d\\ude00!\"", "\xf0\x9f\x98\x80!", 0},
    {"\"\xc3\xa9\\n\xc3\xa9\"", "\xc3\xa9\n\xc3\xa9", 0},
    {"\"\\ud83d\"", NULL, 7},
    {"\"\\ud83dx\"", NULL, 7},
    {"\"\\ude00\"", NULL, 7},
    {"\"\\ud83d\\u0041\"", NULL, 7},
    {"\"\\u00g0\"", NULL, 3},
    {"\"\\x\"", NULL, 3},
    {"\"a", NULL, 2},
    {"\"a\\", NULL, 4},
    {"\"a\nb\"", NULL, 2},
    {"\"\\t\nb\"", NULL, 3},
    {"\"\xff\"", NULL, 1},
    {"\"\\t\xff\"", NULL, 3},
    {"x", NULL, 0},
    {"", NULL, 0},
};

static void test_strings(void **state) {
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        qp_error err = {0};
        span got;
        char *exact = mem_copy(strings[i].text, strlen(strings[i].text), 1); /* reading on would be seen */
        jsonscan s = jsonscan_start(exact, strlen(strings[i].text), "test", &err);
        const bool ok = jsonscan_string(&s, &got);
        if (ok != (strings[i].value != NULL)) fail_msg("%s: %s", strings[i].text, ok ? "taken" : err.text);
        if (ok && !span_is(got, strings[i].value)) fail_msg("%s: \"%.*s\"", strings[i].text, (int)got.bytes, got.at);
        if (!ok) assert_int_equal(s.status, QP_BAD_FORMAT);
        if (!ok && err.offset != strings[i].offset) fail_msg("%s: error at %d", strings[i].text, (int)err.offset);
        jsonscan_end(&s);
        mem_free(exact);
    }
}

/* A quote, backslash, control or foreign byte at every place of strings of every length, before text of every length:
 * the reader goes by words of eight bytes. */
static void test_places(void **state) {
    static const char odd[] = {'"', '\\', 0x1f, (char)0x80, (char)0xff, 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f};
    for (size_t bytes = 1; bytes < 20; bytes++)
        for (size_t place = 0; place < bytes; place++)
            for (size_t i = 0; i < sizeof odd; i++)
                for (size_t more = 0; more < 9; more++) {
                    char text[64];
                    const size_t whole = bytes + 2 + more;
                    memset(text, 'x', sizeof text);
                    text[0] = text[bytes + 1] = '"';
                    text[place + 1] = odd[i];
                    if (odd[i] == '\\' && place + 1 < bytes) text[place + 2] = 'n';
                    char *exact = mem_copy(text, whole, 1);
                    span got;
                    jsonscan s = jsonscan_start(exact, whole, "test", NULL), t = s;
                    const bool is_taken = jsonscan_string(&s, &got);
                    const bool is_cut = odd[i] == '\\' && place + 1 == bytes; /* the closing quote is escaped */
                    const bool is_bad = odd[i] == 0x1f || (unsigned char)odd[i] >= 0x80 || is_cut;
                    assert_int_equal(is_taken, !is_bad);
                    if (is_taken) assert_int_equal(got.bytes, odd[i] == '"' ? place : bytes - (odd[i] == '\\'));
                    assert_int_equal(jsonscan_skip(&t, &got), !is_cut);
                    if (!is_cut) assert_int_equal(got.bytes, odd[i] == '"' ? place + 2 : bytes + 2);
                    assert_int_equal(t.n_skipped, 1);
                    jsonscan_end(&s);
                    mem_free(exact);
                }
}

static const struct {
    const char *text;
    bool is_integer, is_real;
    double value;
} numbers[] = {{"1", true, true, 1},
               {"-12", true, true, -12},
               {"1.5", false, true, 1.5},
               {"0 ", true, true, 0},
               {" 17,", true, true, 17},
               {"1.5,", false, true, 1.5},
               {"2e2]", false, true, 200},
               {"7-,", false, false, 0},
               {"+1,", false, false, 0},
               {"123456789012345678,", true, true, 123456789012345678.0},
               {"1234567890123456789,", true, true, 1234567890123456789.0},
               {"-1e3", false, true, -1000},
               {"", false, false, 0},
               {"-", false, false, 0},
               {"1-2", false, false, 0},
               {"abc", false, false, 0},
               {"1.2.3", false, false, 0},
               {"\"1\"", false, false, 0}};

static void test_numbers(void **state) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t integer;
        double real;
        jsonscan s = jsonscan_start(numbers[i].text, strlen(numbers[i].text), "test", NULL);
        assert_int_equal(jsonscan_integer(&s, &integer), numbers[i].is_integer);
        if (numbers[i].is_integer) assert_true((double)integer == numbers[i].value);
        s = jsonscan_start(numbers[i].text, strlen(numbers[i].text), "test", NULL);
        assert_int_equal(jsonscan_real(&s, &real), numbers[i].is_real);
        if (numbers[i].is_real) assert_true(real == numbers[i].value);
        jsonscan_end(&s);
    }
}

static void test_walk(void **state) {
    static const char text[] = " { \"a\" : [1, {\"x]\": \"}\\\"\"}, null] , \"b\":2}";
    jsonscan s = jsonscan_start(text, sizeof text - 1, "test", NULL);
    span key, value;
    size_t n = 0;
    int64_t two;
    assert_true(jsonscan_enter(&s, '{'));
    assert_true(jsonscan_member(&s, &n, &key) && span_is(key, "a") && n == 1);
    assert_true(jsonscan_skip(&s, &value) && span_is(value, "[1, {\"x]\": \"}\\\"\"}, null]"));
    assert_true(jsonscan_member(&s, &n, &key) && span_is(key, "b") && n == 2);
    assert_true(jsonscan_integer(&s, &two) && two == 2);
    assert_false(jsonscan_member(&s, &n, &key));
    assert_int_equal(s.status, QP_OK);
    assert_int_equal(jsonscan_peek(&s), 0);
    jsonscan_end(&s);
}

/* Walks a list of any values; how many there were, -1 after an error. */
static int count(const char *text) {
    jsonscan s = jsonscan_start(text, strlen(text), "test", NULL);
    span unused;
    size_t n = 0;
    if (jsonscan_enter(&s, '['))
        while (jsonscan_element(&s, &n) && jsonscan_skip(&s, &unused)) {
        }
    jsonscan_end(&s);
    return s.status == QP_OK ? (int)n : -1;
}

static void test_lists(void **state) {
    assert_int_equal(count("[]"), 0);
    assert_int_equal(count("[1]"), 1);
    assert_int_equal(count("[\"a\", [], {}, true]"), 4);
    static const char *const bad[] = {"",      "[",    "[1",  "[1,", "[1,]", "[,]", "[1 2]",
                                      "[\"a]", "[[1]", "[{]", "{}",  "[1}",  "[:]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (count(bad[i]) != -1) fail_msg("\"%s\" is taken", bad[i]);
    char deep[1000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(count(deep), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strings), cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_numbers), cmocka_unit_test(test_walk),
                                       cmocka_unit_test(test_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
