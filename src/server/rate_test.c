/* rate_test.c — requests in a minute: bursts, refilling, keys apart, more keys than there is room for. */
#include "rate.h"
#include "base/mem.h"
#include "harness.h"
#include <stdio.h>

static void test_burst_and_refill(void **state) {
    rate_limit *r;
    assert_int_equal(rate_new(&r, 6, NULL), QP_OK);
    for (int i = 0; i < 6; i++) assert_int_equal(rate_take(r, "a", 100), 0);
    assert_int_equal(rate_take(r, "a", 100), 10);
    assert_int_equal(rate_take(r, "b", 100), 0); /* another key has its own */
    assert_int_equal(rate_take(r, "a", 104), 6); /* asking costs nothing */
    assert_int_equal(rate_take(r, "a", 110.01), 0);
    assert_int_equal(rate_take(r, "a", 110.01), 10);
    for (int i = 0; i < 6; i++) assert_int_equal(rate_take(r, "a", 1e6), 0); /* no more than a minute's */
    assert_true(rate_take(r, "a", 1e6) > 0);
    rate_free(r);
}

static void test_none_and_slow(void **state) {
    rate_limit *r;
    assert_int_equal(rate_new(&r, 0, NULL), QP_OK);
    assert_null(r);
    for (int i = 0; i < 1000; i++) assert_int_equal(rate_take(r, "a", 1), 0);
    rate_free(r);
    assert_int_equal(rate_new(&r, 1, NULL), QP_OK);
    assert_int_equal(rate_take(r, "a", 5), 0);
    assert_int_equal(rate_take(r, "a", 5), 60);
    rate_free(r);
    assert_int_equal(rate_new(&r, 100000, NULL), QP_OK);
    for (int i = 0; i < 100000; i++) assert_int_equal(rate_take(r, "a", 5), 0);
    assert_int_equal(rate_take(r, "a", 5), 1);
    rate_free(r);
}

static void test_many_keys(void **state) {
    rate_limit *r;
    assert_int_equal(rate_new(&r, 1, NULL), QP_OK);
    for (int i = 0; i < 3000; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(rate_take(r, key, i), 0);
    }
    assert_int_equal(rate_take(r, "key2999", 2999), 60); /* the newest are known still */
    rate_free(r);
}

static void test_memory(void **state) {
    rate_limit *r;
    mem_fail_after(0);
    assert_int_equal(rate_new(&r, 1, NULL), QP_NO_MEMORY);
    mem_fail_after(-1);
    assert_null(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_and_refill),
        cmocka_unit_test(test_none_and_slow),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
