/* regex_test.c — Ruby's syntax through PCRE2: matches, refusals, limits. */
#include "regex.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* The first match of the pattern in the text, NULL: none. */
static const struct {
    const char *pattern, *text, *match;
} cases[] = {
    {"a+", "baac", "aa"},
    {"\\h+", "xyzBEEFg", "BEEF"},
    {"\\s",
     "a\xe1\xa0\x8e"
     "b\xe2\x80\xa8",
     "\xe2\x80\xa8"}, /* U+180E is no space, U+2028 is */
    {"\\S+", "\xc2\xa0 x\xc2\x85", "x"},
    {"\\w+", "-a_\xcc\x81\xc2\xb2-", "a_\xcc\x81\xc2\xb2"},
    {"[\\w.]+", "-a.b-", "a.b"},
    {"[^\\W\\d]+", "12ab3", "ab"},
    {"\\d+", "x\xd9\xa3\xd9\xa4", "\xd9\xa3\xd9\xa4"},
    {"[a-z&&[^aeiou]]+", "aebcd", "bcd"},
    {"[^a-z&&[^aeiou]]", "bcax", "a"},
    {"[a-c[x-z]]+", "mxay", "xay"},
    {"[[^a-z]b]+", "aAb1c", "Ab1"},
    {"[^[a-c]d]+", "abcdxyz", "xyz"},
    {"\\p{^L}+", "ab12", "12"},
    {"[\\P{L}x]+", "abx1c", "x1"},
    {"\\p{Alpha}+", "1a", "a"},
    {"\\p{Lu}", "a\xe1\xb2\x89", "\xe1\xb2\x89"}, /* U+1C89, an upper case letter since Unicode 16 */
    {"\\P{L}", "\xe1\xb2\x89-", "-"},
    {"(?m:a.b)", "a\nb", "a\nb"},
    {"a.b", "a\nb", NULL},
    {"(?i)K", "k", "k"},
    {"^b", "a\nb", "b"},
    {"a$", "a\nb", "a"},
    {"\\d{1,2}+", "12345", "12345"},
    {"(?:ab){1,2}+c", "abababc", "abababc"},
    {"x{,2}y", "xxxy", "xxy"},
    {"a{b", "a{b", "a{b"},
    {"", "x", ""},
    {"[[:alpha:]]+", "1ab", "ab"},
};

static void test_matches(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        regex *r;
        regex_scratch s = {0};
        qp_error err;
        bool found;
        size_t start, end;
        if (regex_compile(&r, span_of(cases[i].pattern), &err)) fail_msg("%s: %s", cases[i].pattern, err.text);
        assert_int_equal(regex_next(r, &s, span_of(cases[i].text), 0, &found, &start, &end, NULL), QP_OK);
        if (found != (cases[i].match != NULL))
            fail_msg("%s in \"%s\": %s", cases[i].pattern, cases[i].text, found ? "found" : "not found");
        if (found && !span_is((span){cases[i].text + start, end - start}, cases[i].match))
            fail_msg("%s in \"%s\": [%zu, %zu)", cases[i].pattern, cases[i].text, start, end);
        regex_scratch_free(&s);
        regex_free(r);
    }
}

static void test_refusals(void **state) {
    static const char *const bad[] = {"(",     "[",     "[a", "[]",     "a)", "\\", "[a&&", "\\p{", "\\p{Nonsense}",
                                      "(?~a)", "[z-a]", "*",  "[[[[[[["};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        regex *r = (regex *)1;
        qp_error err = {0};
        if (regex_compile(&r, span_of(bad[i]), &err) == QP_OK) fail_msg("\"%s\" is taken", bad[i]);
        assert_null(r);
        assert_non_null(strstr(err.text, "regular expression"));
    }
    char deep[400];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    regex *r;
    assert_int_equal(regex_compile(&r, span_of(deep), NULL), QP_BAD_FORMAT);
}

/* A pattern that would take years is stopped. */
static void test_limit(void **state) {
    regex *r;
    regex_scratch s = {0};
    bool found;
    size_t start, end;
    strbuf text = {0};
    for (int i = 0; i < 2000; i++) strbuf_char(&text, 'a');
    assert_int_equal(regex_compile(&r, SPAN("(?:a|aa)+(?:a|aa)+(?:a|aa)+[bc]"), NULL), QP_OK);
    assert_int_equal(regex_next(r, &s, (span){text.at, text.bytes}, 0, &found, &start, &end, NULL), QP_TOO_LARGE);
    regex_scratch_free(&s);
    regex_free(r);
    strbuf_free(&text);
}

static void test_failing_memory(void **state) {
    for (int64_t n = 0;; n++) {
        regex *r;
        mem_fail_after(n);
        const qp_status status = regex_compile(&r, SPAN("[a[b]]+x{1,2}+\\p{Lu}"), NULL);
        mem_fail_after(-1);
        regex_free(r);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_limit), cmocka_unit_test(test_failing_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
