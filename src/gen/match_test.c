/* match_test.c — stop texts and banned texts: which match wins, and what may still become one. */
#include "match.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
    const char *text, *wanted[3];
    int index;
    size_t at;
} cases[] = {
    {"hello world", {NULL}, -1, 0},
    {"hello world", {"wor"}, 0, 6},
    {"hello world", {"xyz", "world", "hello"}, 2, 0},
    {"END#", {"##", "END"}, 1, 0},
    {"aaab", {"aab"}, 0, 1},
    {"abcd", {"abc", "bc"}, 0, 0},  /* both end together: the longest */
    {"abcd", {"abcd", "bc"}, 1, 1}, /* "bc" is complete first */
    {"one tw", {"two"}, -1, 0},
    {"caf\xc3\xa9 noir", {"\xc3\xa9"}, 0, 3},
};

static size_t count(const char *const *texts) {
    size_t n = 0;
    while (n < 3 && texts[n]) n++;
    return n;
}

/* Looking after every byte, as a stream does, finds what looking once finds. */
static void the_first_complete_match_wins(void **state) {
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        match_set m;
        match found = {-1, 0, 0}, whole = {-1, 0, 0};
        const size_t bytes = strlen(cases[c].text);
        assert_int_equal(match_open(&m, cases[c].wanted, count(cases[c].wanted), false, "stop text", NULL), QP_OK);
        bool has = false;
        for (size_t n = 1; n <= bytes && !has; n++) has = match_find(&m, (span){cases[c].text, n}, n - 1, &found);
        assert_int_equal(match_find(&m, (span){cases[c].text, bytes}, 0, &whole), has);
        assert_int_equal(found.index, cases[c].index);
        assert_int_equal(whole.index, cases[c].index);
        if (has) assert_int_equal(found.at, cases[c].at);
        match_close(&m);
    }
}

static void only_what_may_still_match_is_held(void **state) {
    static const char *const wanted[] = {"stop", "halt", "aab"};
    static const struct {
        const char *text;
        size_t tail;
    } tails[] = {{"please s", 1}, {"please sto", 3}, {"ha", 2}, {"shax", 0}, {"aa", 2}, {"aaa", 2}, {"", 0}};
    match_set m;
    assert_int_equal(match_open(&m, wanted, 3, false, "stop text", NULL), QP_OK);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        assert_int_equal(match_tail(&m, span_of(tails[i].text)), tails[i].tail);
    match_close(&m);
}

static void case_is_ignored_where_asked(void **state) {
    static const char *const wanted[] = {"B\xc3\x84R"};
    char text[] = "ein b\xc3\xa4r", loud[] = "EIN B\xc3\x84R";
    match_set m;
    match found;
    assert_int_equal(match_open(&m, wanted, 1, true, "banned text", NULL), QP_OK);
    char *const texts[] = {text, loud};
    for (int i = 0; i < 2; i++) {
        match_fold(texts[i], strlen(texts[i]));
        assert_true(match_find(&m, span_of(texts[i]), 0, &found));
        assert_int_equal(found.at, 4);
    }
    match_close(&m);
}

static void empty_texts_and_short_memory_are_refused(void **state) {
    static const char *const wanted[] = {"a", ""};
    match_set m;
    qp_error err;
    assert_int_equal(match_open(&m, wanted, 2, false, "stop text", &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "stop text 2"));
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        assert_int_equal(match_open(&m, wanted, 1, false, "stop text", &err), QP_NO_MEMORY);
        mem_fail_after(-1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_complete_match_wins), cmocka_unit_test(only_what_may_still_match_is_held),
        cmocka_unit_test(case_is_ignored_where_asked), cmocka_unit_test(empty_texts_and_short_memory_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
