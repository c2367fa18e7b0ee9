/* hold_test.c — what may be shown of a text that is still being written, token by token. */
#include "hold.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static hold open_hold(const char *const *stops, size_t n_stops, const char *const *bans, size_t n_bans) {
    hold h;
    const hold_setup s = {stops, bans, n_stops, n_bans, 0, 0};
    assert_int_equal(hold_open(&h, &s, NULL), QP_OK);
    return h;
}

static void add(hold *h, int32_t id, const char *text, bool settled) {
    const mailbox_item item = {.id = id};
    assert_int_equal(hold_add(h, &item, span_of(text), settled, NULL), QP_OK);
}

static void expect_ready(const hold *h, size_t bytes, size_t n_tokens) {
    size_t b, n;
    hold_ready(h, false, &b, &n);
    assert_int_equal(b, bytes);
    assert_int_equal(n, n_tokens);
}

static void a_token_is_shown_when_all_its_text_is(void **state) {
    static const char *const stops[] = {"end"};
    hold h = open_hold(stops, 1, NULL, 0);
    add(&h, 1, "abc", true);
    expect_ready(&h, 3, 1);
    add(&h, 2, "de", true); /* "e" may become the stop text */
    expect_ready(&h, 4, 1);
    hold_drop(&h, 4, 1);
    expect_ready(&h, 0, 0);
    add(&h, 3, "x", true);
    expect_ready(&h, 2, 2);
    hold_close(&h);
}

static void half_characters_wait_for_the_other_half(void **state) {
    hold h = open_hold(NULL, 0, NULL, 0);
    add(&h, 1, "", false);
    add(&h, 2, "", false);
    expect_ready(&h, 0, 0);
    add(&h, 3, "\xe2\x82\xac", true);
    expect_ready(&h, 3, 3);
    hold_close(&h);
}

static void a_stop_text_is_found_where_it_begins(void **state) {
    static const char *const stops[] = {"stop"};
    hold h = open_hold(stops, 1, NULL, 0);
    size_t at;
    add(&h, 1, "please s", true);
    assert_int_equal(hold_find_stop(&h, &at), -1);
    hold_drop(&h, 7, 0);
    add(&h, 2, "top it", true);
    assert_int_equal(hold_find_stop(&h, &at), 0);
    assert_int_equal(at, 0);
    assert_int_equal(hold_tokens_within(&h, at), 0);
    hold_close(&h);
}

static void a_banned_text_names_the_token_that_began_it(void **state) {
    static const char *const bans[] = {"bad word"};
    hold h = open_hold(NULL, 0, bans, 1);
    add(&h, 1, "a ", true);
    add(&h, 2, "", false); /* shares its end with the next */
    add(&h, 3, "BA", true);
    assert_int_equal(hold_find_banned(&h), -1);
    expect_ready(&h, 2, 1);
    add(&h, 4, "d wo", true);
    add(&h, 5, "rds", true);
    assert_int_equal(hold_find_banned(&h), 1);
    hold_cut(&h, 1);
    assert_int_equal(h.n_tokens, 1);
    assert_string_equal(h.text.at, "a ");
    add(&h, 6, "bad wolf", true); /* begins like it and is not it */
    assert_int_equal(hold_find_banned(&h), -1);
    expect_ready(&h, 10, 2);
    hold_close(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_token_is_shown_when_all_its_text_is),
                                       cmocka_unit_test(half_characters_wait_for_the_other_half),
                                       cmocka_unit_test(a_stop_text_is_found_where_it_begins),
                                       cmocka_unit_test(a_banned_text_names_the_token_that_began_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
