/* presets_test.c — what a preset does to a request, and presets that are refused. */
#include "harness.h"
#include "base/mem.h"
#include "config.h"
#include "presets.h"
#include "server.h"

static char folder[64];
static config settings;
static server bare;

static int set_up(void **state) {
    harness_folder(folder);
    settings = (config){.preset_dir = folder};
    return presets_new(&bare.presets, &settings, NULL) != QP_OK;
}

static int tear_down(void **state) {
    presets_free(bare.presets);
    harness_remove(folder);
    return 0;
}

static const struct {
    const char *overrides, *body, *wanted;
} cases[] = {
    {"{}", "{\"top_p\":0.5}", "{\"top_p\":0.5}"},
    {"{\"top_p\":{\"override\":0.9}}", "{}", "{\"top_p\":0.9}"},
    {"{\"top_p\":{\"override\":0.9}}", "{\"top_p\":null}", "{\"top_p\":0.9}"},
    {"{\"top_p\":{\"override\":0.9,\"force\":false}}", "{\"top_p\":0.5}", "{\"top_p\":0.5}"},
    {"{\"top_p\":{\"override\":0.9,\"force\":true}}", "{\"top_p\":0.5}", "{\"top_p\":0.9}"},
    {"{\"stop\":{\"override\":[\"b\"],\"additive\":true}}", "{\"stop\":[\"a\"]}", "{\"stop\":[\"a\",\"b\"]}"},
    {"{\"stop\":{\"override\":[\"b\"],\"additive\":true}}", "{\"stop\":\"a\"}", "{\"stop\":[\"a\",\"b\"]}"},
    {"{\"stop\":{\"override\":[\"b\"],\"additive\":true}}", "{}", "{\"stop\":[\"b\"]}"},
    {"{\"stop\":{\"override\":[\"b\"],\"additive\":true,\"force\":true}}", "{\"stop\":[\"a\"]}", "{\"stop\":[\"b\"]}"},
};

static void test_apply(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        json_t *overrides = json_loads(cases[i].overrides, 0, NULL), *body = json_loads(cases[i].body, 0, NULL),
               *wanted = json_loads(cases[i].wanted, 0, NULL);
        qp_error err = {0};
        for (int again = 0; again < 2; again++) { /* the preset itself must not change by being used */
            json_t *copy = json_deep_copy(body);
            if (presets_set(bare.presets, overrides, &err)) fail_msg("case %zu: %s", i, err.text);
            assert_int_equal(presets_apply(&bare, copy, NULL), QP_OK);
            if (!json_equal(copy, wanted)) fail_msg("case %zu: %s", i, json_dumps(copy, 0));
            json_decref(copy);
        }
        json_decref(overrides);
        json_decref(body);
        json_decref(wanted);
    }
    presets_clear(bare.presets);
    json_t *body = json_object();
    assert_int_equal(presets_apply(&bare, body, NULL), QP_OK);
    assert_int_equal(json_object_size(body), 0);
    json_decref(body);
}

static void test_refused(void **state) {
    static const char *const bad[] = {
        "[1]",
        "{\"model\":{\"override\":\"x\"}}",
        "{\"stream\":{\"override\":true}}",
        "{\"messages\":{\"override\":[]}}",
        "{\"top_p\":0.5}",
        "{\"top_p\":{}}",
        "{\"top_p\":{\"override\":1,\"forced\":true}}",
        "{\"top_p\":{\"override\":1,\"force\":\"yes\"}}",
        "{\"top_p\":{\"override\":1,\"additive\":true}}",
    };
    for (size_t i = 0; i < HARNESS_COUNT(bad); i++) {
        json_t *overrides = json_loads(bad[i], 0, NULL);
        qp_error err = {0};
        if (presets_set(bare.presets, overrides, &err) == QP_OK) fail_msg("%s", bad[i]);
        assert_true(*err.text);
        json_decref(overrides);
    }
}

static void test_files(void **state) {
    qp_error err;
    harness_write(folder, "mine.yml", "temperature: {override: 0.25, force: true}\nstop: {override: [x, 1]}\n");
    harness_write(folder, "broken.yml", "temperature: [\n");
    harness_write(folder, "notes.txt", "no preset");
    assert_int_equal(presets_select(bare.presets, "mine", &err), QP_OK);
    json_t *all = presets_describe(bare.presets), *names = json_object_get(all, "presets");
    assert_string_equal(json_string_value(json_object_get(all, "selected_preset")), "mine");
    assert_int_equal(json_array_size(names), 4); /* two of quipu's own, mine, broken */
    json_t *body = json_object();
    assert_int_equal(presets_apply(&bare, body, NULL), QP_OK);
    assert_true(json_real_value(json_object_get(body, "temperature")) == 0.25);
    json_decref(body);
    json_decref(all);
    static const char *const bad[] = {"broken", "nothing", "../presets", "", ".hidden", "a/b", "/etc/passwd"};
    for (size_t i = 0; i < HARNESS_COUNT(bad); i++)
        assert_int_not_equal(presets_select(bare.presets, bad[i], &err), QP_OK);
    assert_int_equal(presets_select(bare.presets, "safe_defaults", &err), QP_OK);
    assert_int_equal(presets_select(bare.presets, "sample_preset", &err), QP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
