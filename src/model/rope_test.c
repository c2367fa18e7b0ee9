/* rope_test.c — frequencies, attention factors and cos/sin rows against the reference's; the user's changes. */
#include "rope.h"
#include "harness.h"
#include "base/json.h"
#include "base/mem.h"
#include <math.h>

enum { MAX_HALF = 64 };

/* Distance in last places between two positive floats. */
static int64_t ulps(float a, float b) {
    int32_t x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    return llabs((long long)x - y);
}

static double number_at(const json_t *item, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(item, key), i));
}

static void rope_of(const json_t *item, hf_rope *r) {
    hfconfig *c;
    qp_error err;
    char *text = json_dumps(json_object_get(item, "config"), 0);
    assert_non_null(text);
    if (hfconfig_new(&c, text, strlen(text), "config.json", &err) != QP_OK ||
        hfconfig_rope(c, NULL, 10000, 2048, r, &err) != QP_OK)
        fail_msg("%s: %s", json_string_value(json_object_get(item, "name")), err.text);
    hfconfig_close(c);
    free(text);
}

static int check_frequencies(const json_t *item, const hf_rope *r, int rot_dims, float *inv_freq, float *attention) {
    const char *name = json_string_value(json_object_get(item, "name"));
    int n_exact = 0;
    rope_frequencies(r, rot_dims, (uint64_t)json_integer_value(json_object_get(item, "length")), inv_freq, attention);
    assert_int_equal(json_array_size(json_object_get(item, "inv_freq")), rot_dims / 2);
    for (int i = 0; i < rot_dims / 2; i++) {
        const float expected = (float)number_at(item, "inv_freq", (size_t)i);
        if (ulps(inv_freq[i], expected) > 2)
            fail_msg("%s: [%d] is %.9g, expected %.9g", name, i, (double)inv_freq[i], (double)expected);
        n_exact += inv_freq[i] == expected;
    }
    const float expected = (float)json_number_value(json_object_get(item, "attention_factor"));
    if (ulps(*attention, expected) > 0)
        fail_msg("%s: attention factor %.9g, expected %.9g", name, (double)*attention, (double)expected);
    return n_exact;
}

/* An angle differs by its own rounding and that of the frequency: some 2^-23 of itself. */
static void check_rows(const json_t *item, int rot_dims, const float *inv_freq, float attention) {
    const json_t *list = json_object_get(item, "positions");
    const int half = rot_dims / 2;
    for (size_t row = 0; row < json_array_size(list); row++) {
        const int64_t position = json_integer_value(json_array_get(list, row));
        float cos[MAX_HALF], sin[MAX_HALF];
        rope_fill(cos, sin, &position, 1, rot_dims, inv_freq, attention);
        for (int i = 0; i < half; i++) {
            const double bound = 3e-7 + 3e-7 * (double)position * (double)inv_freq[i];
            assert_true(fabs(cos[i] - number_at(item, "cos", row * (size_t)half + (size_t)i)) <= bound);
            assert_true(fabs(sin[i] - number_at(item, "sin", row * (size_t)half + (size_t)i)) <= bound);
        }
    }
}

static void test_equals_reference(void **state) {
    json_t *root;
    qp_error err;
    int n_exact = 0, n_all = 0;
    assert_int_equal(json_load_path(&root, QUIPU_SOURCE "/tests/golden/rope.json", 1 << 20, &err), QP_OK);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) > 30);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i);
        const int rot_dims = (int)json_integer_value(json_object_get(item, "rot_dims"));
        float inv_freq[MAX_HALF], attention;
        hf_rope r;
        assert_in_range(rot_dims, 2, 2 * MAX_HALF);
        rope_of(item, &r);
        n_exact += check_frequencies(item, &r, rot_dims, inv_freq, &attention);
        check_rows(item, rot_dims, inv_freq, attention);
        n_all += rot_dims / 2;
    }
    print_message("%d of %d frequencies equal the reference's bit for bit\n", n_exact, n_all);
    assert_true(n_exact >= n_all * 97 / 100);
    json_decref(root);
}

static void test_rows_are_independent(void **state) {
    const hf_rope r = {.kind = HF_ROPE_DEFAULT, .theta = 10000};
    const int64_t positions[3] = {5, 1000000, 0};
    float inv_freq[4], attention, cos[12], sin[12], one_cos[4], one_sin[4];
    rope_frequencies(&r, 8, 3, inv_freq, &attention);
    rope_fill(cos, sin, positions, 3, 8, inv_freq, 2);
    for (int row = 0; row < 3; row++) {
        rope_fill(one_cos, one_sin, &positions[row], 1, 8, inv_freq, 2);
        assert_memory_equal(cos + 4 * row, one_cos, sizeof one_cos);
        assert_memory_equal(sin + 4 * row, one_sin, sizeof one_sin);
    }
    for (int i = 0; i < 4; i++) assert_true(cos[8 + i] == 2 && sin[8 + i] == 0);
}

static void test_same(void **state) {
    const hf_rope plain = {.kind = HF_ROPE_YARN, .max_positions = 64, .original_max = 16};
    const hf_rope dynamic = {.kind = HF_ROPE_DYNAMIC, .max_positions = 64, .original_max = 64};
    const hf_rope longrope = {.kind = HF_ROPE_LONGROPE, .max_positions = 64, .original_max = 16};
    assert_true(rope_same(&plain, 1, 1000));
    assert_true(rope_same(&dynamic, 1, 64));
    assert_false(rope_same(&dynamic, 64, 65));
    assert_false(rope_same(&dynamic, 65, 66));
    assert_true(rope_same(&dynamic, 66, 66));
    assert_true(rope_same(&longrope, 1, 16));
    assert_false(rope_same(&longrope, 16, 17));
    assert_true(rope_same(&longrope, 17, 1000));
}

static hf_rope trained(void) {
    return (hf_rope){.kind = HF_ROPE_LLAMA3,
                     .theta = 10000,
                     .factor = 8,
                     .partial = 1,
                     .max_positions = 4096,
                     .original_max = 512,
                     .low_freq_factor = 1,
                     .high_freq_factor = 4};
}

static void test_override(void **state) {
    hf_rope r = trained(), same = trained();
    assert_int_equal(rope_override(&r, 64, 0, 0, 0, NULL), QP_OK);
    assert_memory_equal(&r, &same, sizeof r);
    assert_int_equal(rope_override(&r, 64, 4, 0, 0, NULL), QP_OK);
    assert_true(r.kind == HF_ROPE_LINEAR && r.factor == 4 && r.theta == 10000);
    r = trained();
    assert_int_equal(rope_override(&r, 64, 0, 2, 0, NULL), QP_OK);
    assert_true(r.kind == HF_ROPE_LLAMA3 && fabs(r.theta - 10000 * pow(2, 64.0 / 62)) < 1e-9);
    r = trained();
    assert_int_equal(rope_override(&r, 64, 0, 0, 3, NULL), QP_OK);
    assert_true(r.kind == HF_ROPE_YARN && r.factor == 3 && r.original_max == 4096 && r.beta_fast == 32 && r.truncate);
    r.original_max = 512;
    assert_int_equal(rope_override(&r, 64, 0, 0, 5, NULL), QP_OK);
    assert_true(r.factor == 5 && r.original_max == 512);
}

static void test_override_refuses(void **state) {
    static const struct {
        int rot_dims;
        double scale, alpha, yarn;
        const char *says;
    } cases[] = {
        {64, -1, 0, 0, "rope_scale: -1, allowed are 0 (none) and 0.01 to 10000"},
        {64, NAN, 0, 0, "rope_scale: "},
        {64, 0, INFINITY, 0, "rope_alpha: inf, allowed are 0 (none) and 0.01 to 10000"},
        {64, 0, 0, 0.5, "rope_yarn: 0.5, allowed are 0 (none) and 1 to 10000"},
        {64, 2, 0, 2, "rope_scale 2 and rope_yarn 2: allowed is one of them"},
        {2, 0, 2, 0, "rope_alpha: 2 elements of a head turn, at least 4 are needed"},
        {4, 0, 0.01, 0, "rope_alpha: 0.01 makes the base 1, allowed is more than 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_rope r = trained(), same = trained();
        qp_error err;
        assert_int_equal(rope_override(&r, cases[i].rot_dims, cases[i].scale, cases[i].alpha, cases[i].yarn, &err),
                         QP_BAD_ARGUMENT);
        assert_memory_equal(err.text, cases[i].says, strlen(cases[i].says));
        assert_memory_equal(&r, &same, sizeof r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_reference),
        cmocka_unit_test(test_rows_are_independent),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_override),
        cmocka_unit_test(test_override_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
