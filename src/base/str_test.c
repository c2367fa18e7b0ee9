/* str_test.c — the growing buffer: appends, JSON escapes, limits, and one check after many appends. */
#include "str.h"
#include "mem.h"
#include "harness.h"

static void appends(void **state) {
    strbuf b = {0};
    strbuf_text(&b, "a");
    strbuf_char(&b, 'b');
    strbuf_add(&b, "c\0d", 3);
    strbuf_utf8(&b, 0x20AC);
    strbuf_utf8(&b, 0xD800); /* not a character: nothing */
    strbuf_format(&b, "%d-%s", 42, "x");
    assert_false(b.failed);
    assert_int_equal(b.bytes, 5 + 3 + 4);
    assert_memory_equal(b.at,
                        "abc\0d\xe2\x82\xac"
                        "42-x",
                        13); /* with the zero byte */
    strbuf_free(&b);
}

static void grows_far(void **state) {
    strbuf b = {0};
    for (int i = 0; i < 100000; i++) strbuf_format(&b, "%d,", i % 10);
    assert_int_equal(b.bytes, 200000);
    for (size_t i = 0; i < b.bytes; i += 2) assert_int_equal(b.at[i], '0' + (char)(i / 2 % 10));
    strbuf_clear(&b);
    assert_int_equal(b.bytes, 0);
    assert_string_equal(b.at, "");
    strbuf_free(&b);
}

static void moves_out(void **state) {
    strbuf b = {0};
    size_t bytes = 9;
    char *text = strbuf_move(&b, &bytes);
    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    mem_free(text);
    strbuf_text(&b, "again");
    text = strbuf_move(&b, NULL);
    assert_string_equal(text, "again");
    assert_true(!b.at && !b.bytes && !b.capacity);
    mem_free(text);
}

static void writes_json(void **state) {
    static const struct {
        const char *in;
        size_t bytes;
        const char *out;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"\"\\/", 3, "\"\\\"\\\\/\""},
        {"\n\r\t\b\f", 5, "\"\\n\\r\\t\\b\\f\""},
        {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
        {"\xe2\x82\xac", 3, "\"\xe2\x82\xac\""},
        {"a\xe2\x82", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xff", 1, "\"\xef\xbf\xbd\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        strbuf b = {0};
        strbuf_json(&b, cases[i].in, cases[i].bytes);
        assert_string_equal(b.at, cases[i].out);
        strbuf_free(&b);
    }
}

static void keeps_its_limit(void **state) {
    qp_error err;
    strbuf b = {.limit = 10};
    strbuf_text(&b, "0123456789");
    assert_int_equal(strbuf_status(&b, &err, "text"), QP_OK);
    strbuf_char(&b, 'x');
    strbuf_text(&b, "");
    assert_true(b.failed);
    assert_string_equal(b.at, "0123456789");
    assert_int_equal(strbuf_status(&b, &err, "text"), QP_TOO_LARGE);
    assert_string_equal(err.text, "text: longer than the limit of 10 bytes");
    strbuf_free(&b);
    strbuf_text(&b, "01234567890"); /* over the limit at once; freeing kept the limit */
    assert_int_equal(strbuf_status(&b, &err, "text"), QP_TOO_LARGE);
    assert_null(strbuf_move(&b, NULL));
}

static void one_check_is_enough(void **state) {
    for (int n = 0; n < 4; n++) {
        strbuf b = {.limit = 1 << 20};
        qp_error err;
        mem_fail_after(n);
        for (int i = 0; i < 100; i++) strbuf_text(&b, "12345");
        mem_fail_after(-1);
        assert_int_equal(b.failed, n < 4);
        assert_int_equal(strbuf_status(&b, &err, "text"), QP_NO_MEMORY);
        strbuf_text(&b, "more");
        size_t bytes = 1;
        assert_null(strbuf_move(&b, &bytes));
        assert_int_equal(bytes, 0);
    }
}

static void spans_compare(void **state) {
    assert_true(span_is(SPAN("abc"), "abc"));
    assert_false(span_is(SPAN("abc"), "ab"));
    assert_true(span_starts(SPAN("abc"), SPAN("ab")));
    assert_true(span_starts(SPAN("abc"), (span){0}));
    assert_false(span_starts(SPAN("a"), SPAN("ab")));
    assert_true(span_equal((span){0}, SPAN("")));
    assert_int_equal(span_of(NULL).bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends),       cmocka_unit_test(grows_far),       cmocka_unit_test(moves_out),
        cmocka_unit_test(writes_json),   cmocka_unit_test(keeps_its_limit), cmocka_unit_test(one_check_is_enough),
        cmocka_unit_test(spans_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
