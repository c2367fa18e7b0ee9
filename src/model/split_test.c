/* split_test.c — what was asked for is understood or refused; layers go where the largest cache fits beside them. */
#include "split.h"
#include "harness.h"

static const uint64_t GIB = (uint64_t)1 << 30;

static void wishes_are_read(void **state) {
    split_wish w;
    assert_int_equal(split_read(&w, NULL, NULL), QP_OK);
    assert_true(w.n == 1 && !w.counts_layers && !w.bytes[0]);
    assert_int_equal(split_read(&w, "auto", NULL), QP_OK);
    assert_true(w.n == 0);
    assert_int_equal(split_read(&w, "20,0.5,24", NULL), QP_OK);
    assert_true(w.n == 3 && !w.counts_layers);
    assert_true(w.bytes[0] == 20 * GIB && w.bytes[1] == GIB / 2 && w.bytes[2] == 24 * GIB);
    assert_int_equal(split_read(&w, "16L,1L", NULL), QP_OK);
    assert_true(w.n == 2 && w.counts_layers && w.layers[0] == 16 && w.layers[1] == 1);
}

static void what_is_no_split_is_refused(void **state) {
    static const char *const texts[] = {"",
                                        ",",
                                        "20,",
                                        ",20",
                                        "20;24",
                                        "20 24",
                                        "-1,2",
                                        "0,4",
                                        "1e9,2",
                                        "nan",
                                        "1.5L,1",
                                        "1L,2",
                                        "20,auto",
                                        "1LL",
                                        "x",
                                        "0L",
                                        "0.5L",
                                        "inf",
                                        "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < HARNESS_COUNT(texts); i++) {
        split_wish w;
        qp_error err;
        if (split_read(&w, texts[i], &err) != QP_BAD_ARGUMENT) fail_msg("'%s' is taken", texts[i]);
        assert_non_null(strstr(err.text, "allowed are auto, gibibytes"));
    }
}

static void layers_are_balanced(void **state) {
    static const uint64_t eight[] = {10, 10, 10, 10, 10, 10, 10, 10}, mixed[] = {5, 50, 5, 50, 5, 50};
    static const struct {
        split_sizes sizes;
        int n, first[4];
        bool fits;
    } cases[] = {
        {{eight, 8, 0, 0, {100, 100}}, 2, {0, 4, 8}, true},
        {{eight, 8, 0, 0, {300, 100}}, 2, {0, 6, 8}, true},
        {{eight, 8, 0, 60, {100, 100}}, 2, {0, 6, 8}, true}, /* the head takes the place of layers */
        {{eight, 8, 60, 0, {100, 100}}, 2, {0, 2, 8}, true},
        {{eight, 8, 0, 0, {100, 5, 100}}, 3, {0, 4, 4, 8}, true}, /* nothing fits in the middle */
        {{eight, 8, 0, 0, {40, 40}}, 2, {0, 4, 8}, true},
        {{eight, 8, 0, 0, {39, 40}}, 2, {0, 3, 8}, false},
        {{eight, 8, 0, 1, {40, 40}}, 2, {0, 4, 8}, false},
        {{eight, 8, 50, 0, {40, 400}}, 2, {0, 0, 8}, false},
        {{mixed, 6, 0, 0, {60, 60, 60}}, 3, {0, 2, 4, 6}, true},
        {{mixed, 6, 0, 0, {115, 115}}, 2, {0, 3, 6}, true},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        int first[DEV_MOST_SHARES + 1];
        if (split_balance(first, cases[i].n, &cases[i].sizes) != cases[i].fits) fail_msg("case %zu", i);
        for (int k = 0; k <= cases[i].n; k++)
            if (first[k] != cases[i].first[k])
                fail_msg("case %zu: share %d from layer %d, not %d", i, k, first[k], cases[i].first[k]);
    }
}

static void counted_layers_must_be_all(void **state) {
    const split_wish two = {.n = 2, .counts_layers = true, .layers = {3, 5}};
    int first[DEV_MOST_SHARES + 1];
    qp_error err;
    assert_int_equal(split_count(first, &two, 8, &err), QP_OK);
    assert_true(first[0] == 0 && first[1] == 3 && first[2] == 8);
    assert_int_equal(split_count(first, &two, 9, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "split: 8 layers in all, the model has 9");
    assert_int_equal(split_count(first, &two, 2, &err), QP_BAD_ARGUMENT);
}

static void a_cpu_cannot_be_cut(void **state) {
    const split_wish two = {.n = 2, .bytes = {GIB, GIB}};
    dev_split s;
    qp_error err;
    assert_int_equal(split_open(&s, &two, &(dev_options){.kind = "cpu"}, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "split: a model can be cut among GPUs, the device is 'cpu'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wishes_are_read),     cmocka_unit_test(what_is_no_split_is_refused),
        cmocka_unit_test(layers_are_balanced), cmocka_unit_test(counted_layers_must_be_all),
        cmocka_unit_test(a_cpu_cannot_be_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
