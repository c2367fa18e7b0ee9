/* rx_test.c — regular languages: identities that simplification must find, derivatives against a slow matcher, words,
 * characters, counts, emptiness, limits, and every failing allocation. */
#include "pattern.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"

static rx_pool *open_pool(void) {
    rx_pool *p;
    assert_int_equal(rx_pool_new(&p, NULL, NULL), QP_OK);
    return p;
}

static void equal_languages_are_one_node(void **state) {
    rx_pool *p = open_pool();
    const rx a = rx_text(p, SPAN("a")), b = rx_text(p, SPAN("b")), ab = rx_text(p, SPAN("ab"));
    assert_int_equal(rx_or(p, a, b), rx_or(p, b, a));
    assert_int_equal(rx_or(p, a, b), rx_byte_range(p, 'a', 'b'));
    assert_int_equal(rx_concat(p, a, b), ab);
    assert_int_equal(rx_star(p, rx_star(p, a)), rx_star(p, a));
    assert_int_equal(rx_and(p, a, b), RX_NONE);
    assert_int_equal(rx_or(p, ab, rx_not(p, ab)), RX_ALL);
    assert_int_equal(rx_and(p, ab, rx_not(p, ab)), RX_NONE);
    assert_int_equal(rx_star(p, RX_ANY), RX_ALL);
    assert_int_equal(rx_or(p, rx_repeat(p, a, 0, 3), rx_repeat(p, a, 2, 7)), rx_repeat(p, a, 0, 7));
    assert_int_equal(rx_chars(p, &(rx_range){0, 0x10FFFF}, 1), rx_chars_except(p, NULL, 0));
    rx_pool_free(p);
}

static const struct {
    const char *pattern, *flags, *text;
    bool matches;
} matches[] = {
    {"(ab|c)*d{2,3}", NULL, "abcabdd", true},
    {"(ab|c)*d{2,3}", NULL, "abcabdddd", false},
    {"[^a-c\\n]+", NULL, "xyz\xC3\xA9", true},
    {"[^a-c\\n]+", NULL, "xaz", false},
    {".", NULL, "\n", false},
    {".", "s", "\n", true},
    {"stra\xC3\x9F"
     "e",
     "i",
     "STRA\xC3\x9F"
     "E",
     true},
    {"(?i:a)b", NULL, "Ab", true},
    {"(?i:a)b", NULL, "AB", false},
    {"a b # c", "x", "ab", true},
    {"^abc$", NULL, "abc", true},
    {"\\p{Greek}\\p{Lu}\\pL", NULL, "\xCE\xB1XY", true},
    {"\\P{Greek}", NULL, "\xCE\xB1", false},
    {"[\\d\\-x]+", NULL, "1-x", true},
    {"\\x41\\u0042\\u{43}\\cJ", NULL, "ABC\n", true},
    {"\\uD83D\\uDC22", NULL, "\xF0\x9F\x90\xA2", true},
    {"a{,3}", NULL, "a{,3}", true},
    {"(?<n>x)(?P<m>y)", NULL, "xy", true},
    {"a??b*?c+?", NULL, "bbc", true},
    {"\\w+", "u", "\xC3\xA9\xCE\xB1", true},
    {"\\w+", NULL, "\xC3\xA9", false},
};

static void patterns_match_whole_texts(void **state) {
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++) {
        rx_pool *p = open_pool();
        rx language;
        qp_error err;
        if (pattern_parse(p, &language, span_of(matches[i].pattern), matches[i].flags, &err) != QP_OK)
            fail_msg("%s: %s", matches[i].pattern, err.text);
        if (rx_matches(p, language, span_of(matches[i].text)) != matches[i].matches)
            fail_msg("%s on \"%s\"", matches[i].pattern, matches[i].text);
        rx_pool_free(p);
    }
}

static const struct {
    const char *pattern;
    qp_status status;
    uint64_t offset;
} refusals[] = {
    {"a(b", QP_BAD_FORMAT, 1},      {"ab)", QP_BAD_FORMAT, 2},        {"[a", QP_BAD_FORMAT, 0},
    {"[b-a]", QP_BAD_FORMAT, 1},    {"*a", QP_BAD_FORMAT, 0},         {"a{3,1}", QP_BAD_FORMAT, 1},
    {"a**", QP_BAD_FORMAT, 0},      {"a++", QP_UNSUPPORTED, 2},       {"x(?=y)", QP_UNSUPPORTED, 1},
    {"(?<!y)x", QP_UNSUPPORTED, 0}, {"\\bx", QP_UNSUPPORTED, 0},      {"(a)\\1", QP_UNSUPPORTED, 3},
    {"a^b", QP_UNSUPPORTED, 1},     {"(a$)b", QP_UNSUPPORTED, 2},     {"\\", QP_BAD_FORMAT, 0},
    {"\\xZ", QP_BAD_FORMAT, 2},     {"\\p{Nope}", QP_UNSUPPORTED, 2}, {"\\uD800", QP_BAD_FORMAT, 2},
    {"a{200000}", QP_TOO_LARGE, 1}, {"(?>a)", QP_UNSUPPORTED, 0},     {"[a[:digit:]]", QP_UNSUPPORTED, 2},
};

static void what_cannot_be_kept_is_refused_with_its_place(void **state) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        rx_pool *p = open_pool();
        rx language;
        qp_error err = {.code = QP_OK};
        const qp_status status = pattern_parse(p, &language, span_of(refusals[i].pattern), NULL, &err);
        if (status != refusals[i].status || err.offset != refusals[i].offset)
            fail_msg("%s: %d at %d: %s", refusals[i].pattern, (int)status, (int)err.offset, err.text);
        rx_pool_free(p);
    }
}

/* Any pattern cut anywhere: what lies behind the cut changes nothing. */
static void nothing_behind_the_end_is_read(void **state) {
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++) {
        const span whole = span_of(matches[i].pattern);
        for (size_t bytes = 0; bytes < whole.bytes; bytes++) {
            char *cut = memcpy(calloc(1, whole.bytes), whole.at, bytes);
            const span texts[] = {{whole.at, bytes}, {cut, bytes}};
            qp_error errors[2] = {{.code = QP_OK}, {.code = QP_OK}};
            for (int k = 0; k < 2; k++) {
                rx_pool *p = open_pool();
                rx language;
                pattern_parse(p, &language, texts[k], matches[i].flags, &errors[k]);
                rx_pool_free(p);
            }
            free(cut);
            if (errors[0].code != errors[1].code || errors[0].offset != errors[1].offset)
                fail_msg("%s cut at %d: \"%s\" or \"%s\"", matches[i].pattern, (int)bytes, errors[0].text,
                         errors[1].text);
        }
    }
}

static void words_are_exactly_the_words(void **state) {
    rx_pool *p = open_pool();
    const span words[] = {SPAN("alpha"), SPAN("alphabet"), SPAN("beta"), SPAN("gab"), SPAN("alpha"), SPAN("")};
    const span others[] = {SPAN("alph"), SPAN("alphabets"), SPAN("b"), SPAN("ab")};
    const rx language = rx_words(p, words, 6);
    for (int i = 0; i < 6; i++) assert_true(rx_matches(p, language, words[i]));
    for (int i = 0; i < 4; i++) assert_false(rx_matches(p, language, others[i]));
    assert_true(rx_within(p, language, rx_utf8(p)));
    assert_false(rx_within(p, rx_utf8(p), language));
    rx_pool_free(p);
}

static void a_lazy_end_is_the_first(void **state) {
    rx_pool *p = open_pool();
    const rx lazy = rx_lazy(p, rx_concat(p, RX_ALL, rx_text(p, SPAN("</t>"))));
    assert_true(rx_matches(p, lazy, SPAN("ab<</t>")));
    assert_false(rx_matches(p, lazy, SPAN("a</t></t>")));
    assert_false(rx_matches(p, lazy, SPAN("a</t")));
    rx_pool_free(p);
}

static void emptiness_is_found_behind_intersections(void **state) {
    rx_pool *p = open_pool();
    rx even, odd, words;
    assert_int_equal(pattern_parse(p, &even, SPAN("(aa)*"), NULL, NULL), QP_OK);
    assert_int_equal(pattern_parse(p, &odd, SPAN("a(aa)*"), NULL, NULL), QP_OK);
    assert_int_equal(pattern_parse(p, &words, SPAN("a{0,9}"), NULL, NULL), QP_OK);
    assert_true(rx_disjoint(p, even, odd));
    assert_false(rx_disjoint(p, even, words));
    assert_true(rx_within(p, words, rx_or(p, even, odd)));
    strbuf shortest = {0};
    assert_true(rx_shortest(p, rx_minus(p, words, rx_or(p, RX_EMPTY, odd)), &shortest));
    assert_string_equal(shortest.at, "aa");
    strbuf_free(&shortest);
    rx_pool_free(p);
}

static void plain_text_is_proved_only_where_it_may_follow(void **state) {
    static const struct {
        const char *pattern;
        bool follows;
    } cases[] = {{"[^\"\\\\\\x00-\\x1f]*\"", true}, {"[a-z]*\"", false}, {".{0,11}\"", false}, {".{0,12}\"", true},
                 {".{0,100000}\"", true},           {"(.|\\n)*x", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rx_pool *p = open_pool();
        rx language;
        assert_int_equal(pattern_parse(p, &language, span_of(cases[i].pattern), NULL, NULL), QP_OK);
        if ((rx_plain_reach(p, language, 12) >= 12) != cases[i].follows) fail_msg("%s", cases[i].pattern);
        rx_pool_free(p);
    }
}

/* ---- against a slow matcher: sets of positions, on random expressions of a few letters ---- */

enum { NODES = 12 };
typedef struct slow {
    int op, a, b; /* 0 letter a, 1 concat, 2 or, 3 and, 4 not, 5 star, 6 {1,2}, 7 lazy */
} slow;

static bool slow_matches(const slow *e, int at, const char *text, int from, int to);

static bool slow_repeats(const slow *e, int inner, const char *text, int from, int to, int least, int most) {
    if (least <= 0 && from == to) return true;
    if (most == 0) return false;
    for (int middle = from + 1; middle <= to; middle++)
        if (slow_matches(e, inner, text, from, middle) && slow_repeats(e, inner, text, middle, to, least - 1, most - 1))
            return true;
    return slow_matches(e, inner, text, from, from) && from == to;
}

static bool slow_matches(const slow *e, int at, const char *text, int from, int to) {
    const slow n = e[at];
    if (n.op == 0) return to == from + 1 && text[from] == n.a;
    if (n.op == 2) return slow_matches(e, n.a, text, from, to) || slow_matches(e, n.b, text, from, to);
    if (n.op == 3) return slow_matches(e, n.a, text, from, to) && slow_matches(e, n.b, text, from, to);
    if (n.op == 4) return !slow_matches(e, n.a, text, from, to);
    if (n.op == 5) return slow_repeats(e, n.a, text, from, to, 0, 99);
    if (n.op == 6) return slow_repeats(e, n.a, text, from, to, 1, 2);
    for (int middle = from; middle < to && n.op == 7; middle++)
        if (slow_matches(e, n.a, text, from, middle)) return false;
    if (n.op == 7) return slow_matches(e, n.a, text, from, to);
    for (int middle = from; middle <= to; middle++)
        if (slow_matches(e, n.a, text, from, middle) && slow_matches(e, n.b, text, middle, to)) return true;
    return false;
}

static rx build_slow(rx_pool *p, const slow *e, int at) {
    const slow n = e[at];
    if (n.op == 0) return rx_byte_range(p, (uint8_t)n.a, (uint8_t)n.a);
    const rx a = build_slow(p, e, n.a);
    switch (n.op) {
    case 1:
        return rx_concat(p, a, build_slow(p, e, n.b));
    case 2:
        return rx_or(p, a, build_slow(p, e, n.b));
    case 3:
        return rx_and(p, a, build_slow(p, e, n.b));
    case 4:
        return rx_not(p, a);
    case 5:
        return rx_star(p, a);
    case 6:
        return rx_repeat(p, a, 1, 2);
    default:
        return rx_lazy(p, a);
    }
}

static void derivatives_agree_with_a_slow_matcher(void **state) {
    for (uint64_t round = 0; round < 400; round++) {
        slow e[NODES];
        for (int i = 0; i < NODES; i++) {
            uint32_t r[4];
            rng_philox(7, round, (uint64_t)i, r);
            e[i] = (slow){i < 3 ? 0 : 1 + (int)(r[0] % 7), i < 3 ? "abc"[i] : (int)(r[1] % (uint32_t)i),
                          i < 3 ? 0 : (int)(r[2] % (uint32_t)i)};
        }
        rx_pool *p = open_pool();
        const rx language = build_slow(p, e, NODES - 1);
        bool any = false;
        for (int text_number = 0; text_number < 121; text_number++) { /* all of up to 4 letters */
            char text[5];
            int n = 0, rest = text_number, count = 1;
            for (; rest >= count; n++) rest -= count, count *= 3;
            for (int i = 0; i < n; i++) text[i] = "abc"[rest % 3], rest /= 3;
            const bool wanted = slow_matches(e, NODES - 1, text, 0, n);
            any |= wanted;
            if (rx_matches(p, language, (span){text, (size_t)n}) != wanted)
                fail_msg("round %d, text %.*s", (int)round, n, text);
        }
        if (any && !rx_has_word(p, language)) fail_msg("round %d has words", (int)round);
        assert_int_equal(rx_status(p, NULL), QP_OK);
        rx_pool_free(p);
    }
}

static void limits_end_it(void **state) {
    const rx_limits limits = {.nodes = 500, .steps = 20000};
    static const char *const patterns[] = {"(((a{1,500}b){1,500}c){1,500}d){1,500}x.*y", "(a|b|ab)*(.{0,90}a){30}",
                                           "\\p{L}\\p{Lu}\\p{Nd}\\p{Han}"};
    for (size_t i = 0; i < 3; i++) {
        rx_pool *p;
        rx language;
        qp_error err;
        assert_int_equal(rx_pool_new(&p, &limits, NULL), QP_OK);
        qp_status status = pattern_parse(p, &language, span_of(patterns[i]), NULL, &err);
        for (int k = 0; status == QP_OK && k < 3000; k++) {
            language = rx_derive(p, language, (uint8_t)("ab"[k % 2]));
            status = rx_status(p, &err);
        }
        assert_true(status == QP_OK || status == QP_TOO_LARGE);
        rx_pool_free(p);
    }
}

static qp_status use_all(void) {
    rx_pool *p;
    rx language;
    qp_status status = rx_pool_new(&p, NULL, NULL);
    if (status != QP_OK) return status;
    status = pattern_parse(p, &language, SPAN("(ab|[^x]{2,9})*\\p{Greek}(?i:z)"), NULL, NULL);
    const span words[] = {SPAN("one"), SPAN("two")};
    language = rx_minus(p, rx_concat(p, language, RX_ALL), rx_words(p, words, 2));
    rx_has_word(p, language);
    rx_matches(p, language, SPAN("abab"));
    if (status == QP_OK) status = rx_status(p, NULL);
    rx_pool_free(p);
    return status;
}

static void every_failing_allocation_is_reported(void **state) {
    for (int64_t n = 0;; n++) {
        mem_fail_after(n);
        const qp_status status = use_all();
        mem_fail_after(-1);
        if (status == QP_OK) return;
        assert_int_equal(status, QP_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_languages_are_one_node),
        cmocka_unit_test(patterns_match_whole_texts),
        cmocka_unit_test(what_cannot_be_kept_is_refused_with_its_place),
        cmocka_unit_test(nothing_behind_the_end_is_read),
        cmocka_unit_test(words_are_exactly_the_words),
        cmocka_unit_test(a_lazy_end_is_the_first),
        cmocka_unit_test(emptiness_is_found_behind_intersections),
        cmocka_unit_test(plain_text_is_proved_only_where_it_may_follow),
        cmocka_unit_test(derivatives_agree_with_a_slow_matcher),
        cmocka_unit_test(limits_end_it),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
