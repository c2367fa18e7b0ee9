/* nearest_test.c — what was meant is nearer than what was not. */
#include "command.h"
#include "nearest.h"
#include "harness.h"

static void costs(void **state) {
    assert_int_equal(nearest_cost("seed", "seed"), 0);
    assert_int_equal(nearest_cost("sede", "seed"), 10);  /* a swap */
    assert_int_equal(nearest_cost("see", "seek"), 5);    /* stops early */
    assert_int_equal(nearest_cost("seet", "seed"), 10);  /* a change */
    assert_int_equal(nearest_cost("seeed", "seed"), 10); /* one too many */
    assert_int_equal(nearest_cost("", "seed"), 40);
    assert_int_equal(nearest_cost("seed", ""), 40);
}

static void long_words_are_cut(void **state) {
    char typed[200];
    memset(typed, 'a', sizeof typed - 1);
    typed[sizeof typed - 1] = 0;
    assert_int_equal(nearest_cost(typed, "b"), 630);
    assert_int_equal(nearest_cost(typed, typed), 0);
}

static void commands(void **state) {
    static const char *const cases[][2] = {
        {"gen", "generate"},    {"tokenise", "tokenize"}, {"detokenise", "detokenize"}, {"benchmark", "bench"},
        {"vresion", "version"}, {"logit", "logits"},      {"device", "devices"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) assert_string_equal(command_nearest(cases[i][0]), cases[i][1]);
    assert_null(command_find("chatter"));
    assert_null(command_find(""));
    assert_null(command_find("gen"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
