/* gaps_test.c — medians and percentiles of few, of many, and of thinned samples. */
#include "harness.h"
#include "gaps.h"
#include <math.h>

static void test_few(void **state) {
    double median, p99, greatest;
    gaps g = {0};
    gaps_summarise(&g, &median, &p99, &greatest);
    assert_true(median == 0 && p99 == 0 && greatest == 0);
    gaps_add(&g, 2);
    gaps_add(&g, 1);
    gaps_summarise(&g, &median, &p99, &greatest);
    assert_true(median == 2 && p99 == 2 && greatest == 2);
}

static void test_many(void **state) {
    double median, p99, greatest;
    gaps g = {0};
    for (int i = 0; i < 100000; i++) gaps_add(&g, (double)((i * 7919) % 100000));
    gaps_add(&g, 1e6);
    gaps_summarise(&g, &median, &p99, &greatest);
    assert_true(g.n_kept <= GAPS_KEPT && g.n_kept >= GAPS_KEPT / 4);
    assert_true(fabs(median - 50000) < 7000);
    assert_true(fabs(p99 - 99000) < 2000);
    assert_true(greatest == 1e6); /* of all, not of what is kept */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
