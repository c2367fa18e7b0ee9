/* err_test.c — error texts: formatted, prefixed, cut between characters; NULL structs are fine. */
#include "err.h"
#include "harness.h"

static void sets_code_offset_and_text(void **state) {
    qp_error err;
    assert_int_equal(err_set(&err, QP_BAD_FORMAT, 17, "%s: found %d, allowed %d", "x", 3, 2), QP_BAD_FORMAT);
    assert_int_equal(err.code, QP_BAD_FORMAT);
    assert_int_equal(err.offset, 17);
    assert_string_equal(err.text, "x: found 3, allowed 2");
}

static void takes_null(void **state) {
    assert_int_equal(err_set(NULL, QP_IO, 0, "x"), QP_IO);
    assert_int_equal(err_prefix(NULL, QP_BUSY, "x"), QP_BUSY);
    assert_int_equal(err_no_memory(NULL, 5, "x"), QP_NO_MEMORY);
}

static void prefixes_travel_up(void **state) {
    qp_error err;
    err_set(&err, QP_NO_FILE, 5, "missing");
    assert_int_equal(err_prefix(&err, QP_IO, "layer %d", 3), QP_NO_FILE);
    assert_int_equal(err_prefix(&err, QP_IO, "model"), QP_NO_FILE);
    assert_string_equal(err.text, "model: layer 3: missing");
    assert_int_equal(err.offset, 5);
}

static void says_how_much_memory(void **state) {
    qp_error err;
    err_no_memory(&err, 4096, "the cache");
    assert_string_equal(err.text, "out of memory for the cache (4096 bytes)");
    err_no_memory(&err, 0, "the cache");
    assert_string_equal(err.text, "out of memory for the cache");
}

/* Whatever length the text has, the cut never leaves half of a three-byte character. */
static void cuts_between_characters(void **state) {
    qp_error err;
    char text[sizeof err.text + 16];
    for (size_t lead = sizeof err.text - 8; lead < sizeof err.text + 4; lead++) {
        memset(text, 'a', lead);
        strcpy(text + lead, "\xe2\x82\xac\xe2\x82\xac");
        err_set(&err, QP_IO, 0, "%s", text);
        const size_t room = sizeof err.text - 1;
        const size_t whole = lead >= room ? room : lead + (room - lead) / 3 * 3;
        assert_int_equal(strlen(err.text), whole < lead + 6 ? whole : lead + 6);
    }
}

static void long_prefix_leaves_a_valid_text(void **state) {
    qp_error err;
    char text[sizeof err.text * 2];
    memset(text, 'p', sizeof text - 1);
    text[sizeof text - 1] = 0;
    err_set(&err, QP_IO, 0, "cause");
    assert_int_equal(err_prefix(&err, QP_IO, "%s", text), QP_IO);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_code_offset_and_text), cmocka_unit_test(takes_null),
        cmocka_unit_test(prefixes_travel_up),        cmocka_unit_test(says_how_much_memory),
        cmocka_unit_test(cuts_between_characters),   cmocka_unit_test(long_prefix_leaves_a_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
