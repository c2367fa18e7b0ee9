/* yaml_test.c — what YAML becomes, and what is refused with which line. */
#include "harness.h"
#include "base/mem.h"
#include "yaml.h"

static const struct {
    const char *yaml, *json;
    yaml_scalars scalars;
} good[] = {
    {"", "null", YAML_TYPED},
    {"# nothing\n", "null", YAML_TYPED},
    {"a: 1\nb: -2.5\nc: true\nd: null\ne:\nf: '1'\ng: yes\n",
     "{\"a\":1,\"b\":-2.5,\"c\":true,\"d\":null,\"e\":null,\"f\":\"1\",\"g\":\"yes\"}", YAML_TYPED},
    {"a: 1\nb: 0.50\nc: true\nd: ~\ne: \"\"\n", "{\"a\":\"1\",\"b\":\"0.50\",\"c\":\"true\",\"d\":null,\"e\":\"\"}",
     YAML_RAW},
    {"list: [1, x, {k: [2]}]\nother:\n  - \"\\n\"\n  - |\n    two\n    lines\n",
     "{\"list\":[1,\"x\",{\"k\":[2]}],\"other\":[\"\\n\",\"two\\nlines\\n\"]}", YAML_TYPED},
    {"big: 99999999999999999999\nhex: 0x10\ndate: 2026-01-02\ninf: .inf\nv: 1.2.3\n",
     "{\"big\":1e20,\"hex\":\"0x10\",\"date\":\"2026-01-02\",\"inf\":\".inf\",\"v\":\"1.2.3\"}", YAML_TYPED},
};

static void test_values(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(good); i++) {
        json_t *read, *wanted = json_loads(good[i].json, JSON_DECODE_ANY, NULL);
        qp_error err = {0};
        assert_non_null(wanted);
        if (yaml_read(&read, good[i].yaml, strlen(good[i].yaml), good[i].scalars, "test", &err))
            fail_msg("case %zu: %s", i, err.text);
        if (!json_equal(read, wanted)) fail_msg("case %zu: %s", i, json_dumps(read, JSON_ENCODE_ANY));
        json_decref(read);
        json_decref(wanted);
    }
}

static const struct {
    const char *yaml, *part;
} bad[] = {
    {"a: 1\na: 2\n", "line 2: a second time the key 'a'"},
    {"a: &x 1\nb: *x\n", "line 1: anchors"},
    {"a: *x\n", "line 1: anchors"},
    {"a: [1\n", "line "},
    {"a: 1\n b: 2\n", "line 2"},
    {"? [1]\n: 2\n", "line 1: a key must be a word"},
    {"--- 1\n--- 2\n", "line 2: a second document"},
    {"[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "nested too deep"},
    {"a: \xff\n", "line 1"},
    {"\t- x", "line 1"},
};

static void test_refused(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(bad); i++) {
        json_t *read;
        qp_error err = {0};
        assert_int_equal(yaml_read(&read, bad[i].yaml, strlen(bad[i].yaml), YAML_TYPED, "test", &err), QP_BAD_FORMAT);
        assert_null(read);
        if (!strstr(err.text, bad[i].part)) fail_msg("case %zu: %s", i, err.text);
    }
}

/* Cut anywhere, a file is read or refused, never more. */
static void test_truncated(void **state) {
    const char *whole = good[4].yaml;
    for (size_t bytes = 0; bytes < strlen(whole); bytes++) {
        json_t *read;
        char *cut = mem_copy(whole, bytes + 1, 1);
        if (yaml_read(&read, cut, bytes, YAML_TYPED, "test", NULL) == QP_OK) json_decref(read);
        mem_free(cut);
    }
}

static void test_path(void **state) {
    char folder[64], path[128];
    json_t *read;
    qp_error err;
    harness_folder(folder);
    harness_write(folder, "x.yml", "a: 1\n");
    snprintf(path, sizeof path, "%s/x.yml", folder);
    assert_int_equal(yaml_read_path(&read, path, 100, YAML_TYPED, &err), QP_OK);
    assert_int_equal(json_integer_value(json_object_get(read, "a")), 1);
    json_decref(read);
    assert_int_equal(yaml_read_path(&read, path, 3, YAML_TYPED, &err), QP_TOO_LARGE);
    assert_int_equal(yaml_read_path(&read, folder, 100, YAML_TYPED, &err), QP_BAD_ARGUMENT);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
