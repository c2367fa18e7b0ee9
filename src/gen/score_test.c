/* score_test.c — probabilities of given tokens: against sums by hand, in pieces as in one. */
#include "harness.h"
#include "score.h"
#include "base/mem.h"
#include <math.h>

static const float logits[3][4] = {{0, 1, 2, 3}, {5, 5, 5, 5}, {-1000, 1000, 0, 0}};
static const int32_t ids[] = {0, 3, 1, 1};

static double expected(int row, int32_t id) {
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += exp((double)logits[row][i] - (double)logits[row][id]);
    return -log(sum);
}

static void test_rows(void **state) {
    for (int first = 0; first <= 3; first++) {
        score s = {.n = 0};
        assert_int_equal(score_open(&s, 4, 2, NULL), QP_OK);
        assert_true(score_is_open(&s));
        s.n_rows = first;
        score_take(&s, logits[0], 4, ids);
        assert_int_equal(s.n_done, first);
        s.row = first;
        s.n_rows = 3 - first;
        score_take(&s, logits[0], 4, ids);
        assert_false(score_is_open(&s));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(s.tokens[i].id, ids[i + 1]);
            assert_true(fabs((double)s.tokens[i].logprob - expected(i, ids[i + 1])) < 1e-6);
            assert_int_equal(s.tokens[i].n_top, 2);
        }
        assert_int_equal(s.tokens[0].top[0].id, 3);
        assert_int_equal(s.tokens[0].top[1].id, 2);
        assert_int_equal(s.tokens[1].top[0].id, 0); /* equals: the lower id first */
        assert_int_equal(s.tokens[1].top[1].id, 1);
        score_close(&s);
    }
}

/* One token follows nothing; zero rows and a closed score do nothing. */
static void test_edges(void **state) {
    score s = {.n = 0};
    assert_false(score_is_open(&s));
    assert_int_equal(score_open(&s, 1, 0, NULL), QP_OK);
    assert_false(score_is_open(&s));
    score_close(&s);
    assert_true(score_most_rows(1 << 30) >= 16);
    assert_true(score_most_rows(2) <= 4096);
}

static void test_memory(void **state) {
    for (int n = 0; n < 2; n++) {
        score s = {.n = 0};
        qp_error err;
        mem_fail_after(n);
        assert_int_equal(score_open(&s, 4, 2, &err), QP_NO_MEMORY);
        mem_fail_after(-1);
        score_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_edges),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
