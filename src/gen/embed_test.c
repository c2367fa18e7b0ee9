/* embed_test.c — pooling of hidden states: against sums by hand, in pieces as in one, and what is asked for. */
#include "embed.h"
#include "base/mem.h"
#include "harness.h"
#include <math.h>

static const float states[4][2] = {{1, 0}, {0, 2}, {3, 3}, {-1, 5}};

static void is_close(const embed *e, double x, double y) {
    const double length = sqrt(x * x + y * y);
    assert_true(fabs((double)e->vector[0] - x / length) < 1e-7);
    assert_true(fabs((double)e->vector[1] - y / length) < 1e-7);
}

static void test_mean(void **state) {
    for (int first = 0; first <= 4; first++) {
        embed e = {.n = 0};
        assert_false(embed_is_on(&e));
        assert_int_equal(embed_open(&e, QP_POOL_MEAN, 4, 2, NULL), QP_OK);
        assert_true(embed_needs_all(&e) && embed_wants(&e, 0) && embed_wants(&e, 3) && !embed_wants(&e, 4));
        e.n_rows = first;
        embed_take(&e, states[0]);
        assert_int_equal(embed_is_complete(&e), first == 4);
        assert_false(embed_wants(&e, (size_t)first - 1)); /* computed again after a preemption: not counted twice */
        e.row = first;
        e.n_rows = 4 - first;
        embed_take(&e, states[0]);
        assert_true(embed_is_complete(&e) && !embed_needs_all(&e));
        is_close(&e, 3, 10);
        embed_close(&e);
    }
}

static void test_last(void **state) {
    embed e = {.n = 0};
    assert_int_equal(embed_open(&e, QP_POOL_LAST, 3, 2, NULL), QP_OK);
    assert_true(!embed_needs_all(&e) && !embed_wants(&e, 0) && !embed_wants(&e, 1) && embed_wants(&e, 2));
    embed_take(&e, NULL); /* a step without its last row */
    assert_false(embed_is_complete(&e));
    e.row = 3;
    e.n_rows = 1;
    embed_take(&e, states[0]);
    assert_true(embed_is_complete(&e));
    is_close(&e, -1, 5);
    embed_close(&e);
}

static void test_nothing_and_wrong(void **state) {
    static const float zeros[2] = {0, 0};
    embed e = {.n = 0};
    qp_error err;
    assert_int_equal(embed_open(&e, QP_POOL_NONE, 3, 2, &err), QP_OK);
    assert_false(embed_is_on(&e) || embed_is_complete(&e) || embed_wants(&e, 2));
    assert_int_equal(embed_open(&e, (qp_pooling)7, 3, 2, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "7"));
    assert_int_equal(embed_open(&e, QP_POOL_LAST, 1, 2, &err), QP_OK);
    e.n_rows = 1;
    embed_take(&e, zeros);
    assert_true(e.vector[0] == 0 && e.vector[1] == 0);
    embed_close(&e);
}

static void test_memory(void **state) {
    for (int n = 0; n < 2; n++) {
        embed e = {.n = 0};
        mem_fail_after(n);
        assert_int_equal(embed_open(&e, QP_POOL_MEAN, 3, 2, NULL), QP_NO_MEMORY);
        mem_fail_after(-1);
        embed_close(&e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_nothing_and_wrong),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
