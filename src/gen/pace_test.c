/* pace_test.c — prompts get as much of a step as running answers can bear, on a machine whose times are made up. */
#include "pace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const model_shape shape = {
    .n_layers = 2, .hidden = 64, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .ffn = 128};

/* Steps as the scheduler makes them; the longest of those with answers, once the pace has settled. */
static double longest_step(double row_s, double decode_s, int decode_rows, double max_stall, double *rows) {
    pace p;
    double longest = 0;
    int64_t depth = 0;
    pace_open(&p, &shape);
    *rows = 0;
    for (int step = 0; step < 400; step++) {
        const double units = pace_budget(&p, decode_rows, max_stall);
        const int n = units >= 1 ? pace_rows(&p, depth, units, 512) : 0;
        const double cost = n ? pace_units(&p, depth, n) : 0, seconds = decode_s + cost * row_s;
        pace_observe(&p, decode_rows, cost, seconds);
        depth += n;
        if (step < 50) continue;
        *rows += n;
        longest = seconds > longest ? seconds : longest;
    }
    return longest;
}

static void prompts_take_no_more_than_their_share(void **state) {
    static const struct {
        double row_s, decode_s, max_stall;
    } machines[] = {{1e-4, 20e-3, 0.5}, {1e-5, 5e-3, 0.5}, {1e-3, 100e-3, 0.25}, {1e-6, 10e-3, 1}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        double rows;
        const double longest = longest_step(machines[i].row_s, machines[i].decode_s, 8, machines[i].max_stall, &rows);
        assert_true(longest <= machines[i].decode_s * (1 + machines[i].max_stall) * 1.05);
        assert_true(rows > 0);
    }
}

static void deep_rows_cost_more(void **state) {
    pace p;
    pace_open(&p, &shape);
    assert_true(pace_units(&p, 4096, 10) > 2 * pace_units(&p, 0, 10));
    assert_true(pace_rows(&p, 4096, 100, 512) < pace_rows(&p, 0, 100, 512));
    assert_int_equal(pace_rows(&p, 1 << 20, 0.5, 512), 1);
    for (int n = 2; n < 500; n += 7) {
        const int rows = pace_rows(&p, 100, n, 512);
        assert_true(rows == 1 || pace_units(&p, 100, rows) <= n);
        assert_true(rows == 512 || pace_units(&p, 100, rows + 1) > n);
    }
}

static void a_new_number_of_answers_is_measured_first(void **state) {
    pace p;
    pace_open(&p, &shape);
    assert_true(pace_budget(&p, 4, 0.5) == 0);
    pace_observe(&p, 4, 0, 0.01);
    assert_true(pace_budget(&p, 4, 0.5) > 0);
    assert_true(pace_budget(&p, 40, 0.5) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(prompts_take_no_more_than_their_share),
                                       cmocka_unit_test(deep_rows_cost_more),
                                       cmocka_unit_test(a_new_number_of_answers_is_measured_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
