/* stop_test.c — stop texts: every way of cutting the text into pieces gives the same result. */
#include "stop.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
    const char *text, *stops[3], *shown;
    int matched;
} cases[] = {
    {"hello world", {NULL}, "hello world", -1},
    {"hello world", {"wor"}, "hello ", 0},
    {"hello world", {"xyz", "world", "hello"}, "", 2},
    {"END#", {"##", "END"}, "", 1},
    {"aaab", {"aab"}, "a", 0},
    {"ababac", {"abac"}, "ab", 0},
    {"abcd", {"abc", "bc"}, "", 0},    /* both end together: the longest */
    {"abcd", {"abcd", "bc"}, "a", 1},  /* "bc" is complete first */
    {"one tw", {"two"}, "one tw", -1}, /* held back, then shown at the end */
    {"caf\xc3\xa9 noir", {"\xc3\xa9"}, "caf", 0},
};

static size_t count_stops(const char *const *stops) {
    size_t n = 0;
    while (n < 3 && stops[n]) n++;
    return n;
}

/* Feeds the text cut at the bits of `cuts`. */
static void run_cut(size_t c, unsigned cuts) {
    stop_scan s;
    strbuf out = {0};
    int matched = -1;
    const char *text = cases[c].text;
    assert_int_equal(stop_open(&s, cases[c].stops, count_stops(cases[c].stops), NULL), QP_OK);
    for (size_t from = 0, to = 1; from < strlen(text) && matched < 0; to++) {
        if (text[to] && !(cuts >> (to - 1) & 1)) continue;
        assert_int_equal(stop_feed(&s, (span){text + from, to - from}, &out, &matched, NULL), QP_OK);
        from = to;
    }
    if (matched < 0) stop_flush(&s, &out);
    assert_int_equal(matched, cases[c].matched);
    assert_string_equal(out.at ? out.at : "", cases[c].shown);
    strbuf_free(&out);
    stop_close(&s);
}

static void every_cut_gives_the_same(void **state) {
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned cuts = 0; cuts < 1u << (strlen(cases[c].text) - 1); cuts++) run_cut(c, cuts);
}

/* Only what may still match is held back. */
static void nothing_is_held_in_vain(void **state) {
    const char *const stops[] = {"stop", "halt"};
    stop_scan s;
    strbuf out = {0};
    int matched;
    assert_int_equal(stop_open(&s, stops, 2, NULL), QP_OK);
    stop_feed(&s, SPAN("please s"), &out, &matched, NULL);
    assert_string_equal(out.at, "please ");
    stop_feed(&s, SPAN("ha"), &out, &matched, NULL);
    assert_string_equal(out.at, "please s");
    stop_feed(&s, SPAN("x"), &out, &matched, NULL);
    assert_string_equal(out.at, "please shax");
    strbuf_free(&out);
    stop_close(&s);
}

static void empty_stops_and_short_memory_are_refused(void **state) {
    const char *const stops[] = {"a", ""};
    stop_scan s;
    qp_error err;
    assert_int_equal(stop_open(&s, stops, 2, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "stop text 2"));
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        const qp_status status = stop_open(&s, stops, 1, &err);
        mem_fail_after(-1);
        assert_int_equal(status, QP_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(nothing_is_held_in_vain),
        cmocka_unit_test(empty_stops_and_short_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
