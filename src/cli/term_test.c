/* term_test.c — who gets colours, and what cannot command a terminal. */
#include "term.h"
#include "harness.h"

static const struct {
    const char *color, *no_color;
    bool wanted; /* of a stdout that is no terminal */
} colours[] = {{"always", "1", true}, {"always", NULL, true}, {"never", NULL, false}, {"auto", NULL, false}};

static void styles(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(colours); i++) {
        term t;
        if (colours[i].no_color)
            setenv("NO_COLOR", colours[i].no_color, 1);
        else
            unsetenv("NO_COLOR");
        term_init(&t, colours[i].color, false, false);
        if (!t.live_out) assert_int_equal(t.colour_out, colours[i].wanted);
        if (!t.live_err) assert_int_equal(t.colour_err, colours[i].wanted);
    }
    assert_string_equal(term_set(false, STYLE_RED), "");
    assert_string_equal(term_set(true, STYLE_DIM), "\033[2m");
}

static const struct {
    const char *text, *wanted;
} texts[] = {
    {"", ""},
    {"plain\n\ttext", "plain\n\ttext"},
    {"\033[2J\a\r\x7f", "?[2J???"},
    {"\xc2\x9b"
     "2J",
     "?2J"}, /* CSI in one character */
    {"\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xe2\x82\x9b", "\xe2\x82\x9b"}, /* such bytes inside other characters are harmless */
    {"\xc2", "\xc2"},
};

static void masked(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(texts); i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        term_text(out, texts[i].text, strlen(texts[i].text));
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, texts[i].wanted);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(styles), cmocka_unit_test(masked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
