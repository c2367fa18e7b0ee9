/* multiline_test.c — lines and the messages that they make. */
#include "multiline.h"
#include "harness.h"

enum { LINES_MAX = 5 };

static const struct {
    const char *lines[LINES_MAX], *wanted;
    bool is_whole, is_fenced;
} cases[] = {
    {{"hello"}, "hello", true, false},
    {{""}, "", true, false},
    {{"hello\r"}, "hello", true, false},
    {{"a\nb"}, "a\nb", true, false}, /* pasted */
    {{"a\\", "b"}, "a\nb", true, false},
    {{"a\\", "\\", "b"}, "a\n\nb", true, false},
    {{"a\\"}, "a\n", false, false},
    {{"a \\ b"}, "a \\ b", true, false},
    {{"\"\"\"", "a", "b", "\"\"\""}, "a\nb", true, true},
    {{"\"\"\"a", "b\"\"\""}, "a\nb", true, true},
    {{"\"\"\"a\\", "b\\\"\"\""}, "a\\\nb\\", true, true},
    {{"\"\"\"/help\"\"\""}, "/help", true, true},
    {{"\"\"\"a\"\"\" \t"}, "a", true, true},
    {{"\"\"\"\"\"\""}, "", true, true},
    {{"\"\"\"\"\""}, "\"\"\n", false, true},
    {{"\"\"\"", "", "\"\"\""}, "", true, true},
    {{"\"\"\"", "", "a", "", "\"\"\""}, "\na\n", true, true},
    {{"\"\"\"", "a"}, "a\n", false, true},
    {{"\"\"\"  ", "a", "  \"\"\""}, "a\n  ", true, true},
    {{"say \"\"\""}, "say \"\"\"", true, false},
    {{"a\\", "\"\"\"b"}, "a\n\"\"\"b", true, false}, /* inside a message three quotes are three quotes */
    {{"\"\""}, "\"\"", true, false},
};

static void messages(void **state) {
    multiline m = {.is_open = false};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        bool is_whole = false;
        for (size_t k = 0; k < LINES_MAX && cases[i].lines[k]; k++) {
            assert_false(is_whole);
            is_whole = multiline_add(&m, cases[i].lines[k], strlen(cases[i].lines[k]));
            assert_true(is_whole == !m.is_open);
        }
        if (strcmp(m.text.at ? m.text.at : "", cases[i].wanted) || is_whole != cases[i].is_whole)
            fail_msg("case %zu: \"%s\", whole %d", i, m.text.at, is_whole);
        assert_int_equal(m.is_fenced, cases[i].is_fenced);
        multiline_clear(&m);
        assert_false(m.is_open || m.is_fenced);
    }
    multiline_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
