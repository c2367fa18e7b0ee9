/* json_test.c — what each getter accepts and refuses, in one table; parse errors with their offsets. */
#include "json.h"
#include "mem.h"
#include "harness.h"

typedef enum kind { INT, REAL, BOOL, TEXT, OBJECT, ARRAY, NEED } kind;

static qp_status get(kind k, const json_t *object, qp_error *err) {
    int64_t integer;
    double real;
    bool truth;
    const char *text;
    json_t *value;
    switch (k) {
    case INT:
        return json_get_int(object, "k", -5, 10, &integer, "doc", err);
    case REAL:
        return json_get_real(object, "k", &real, "doc", err);
    case BOOL:
        return json_get_bool(object, "k", &truth, "doc", err);
    case TEXT:
        return json_get_text(object, "k", &text, "doc", err);
    case OBJECT:
        return json_get_object(object, "k", &value, "doc", err);
    case ARRAY:
        return json_get_array(object, "k", &value, "doc", err);
    case NEED:
        return json_need(object, "k", "doc", err);
    }
    return QP_INTERNAL;
}

static json_t *parsed(const char *text) {
    json_t *value;
    qp_error err;
    assert_int_equal(json_parse(&value, text, strlen(text), "doc", &err), QP_OK);
    return value;
}

static void getters_refuse_by_name(void **state) {
    static const struct {
        const char *json;
        kind kind;
        const char *says; /* NULL: accepted */
    } cases[] = {
        {"{\"k\":3}", INT, NULL},
        {"{\"k\":3.0}", INT, NULL},
        {"{\"k\":-5}", INT, NULL},
        {"{\"k\":10}", INT, NULL},
        {"{}", INT, NULL},
        {"{\"k\":null}", INT, NULL},
        {"[]", INT, NULL},
        {"{\"k\":11}", INT, "doc: \"k\" is 11, allowed are -5 to 10"},
        {"{\"k\":-6}", INT, "doc: \"k\" is -6, allowed are -5 to 10"},
        {"{\"k\":3.5}", INT, "doc: \"k\" is 3.5, expected an integer"},
        {"{\"k\":1e300}", INT, "doc: \"k\" is 1e+300, expected an integer"},
        {"{\"k\":-1e300}", INT, "doc: \"k\" is -1e+300, expected an integer"},
        {"{\"k\":9223372036854775807}", INT, "doc: \"k\" is 9223372036854775807, allowed are -5 to 10"},
        {"{\"k\":99999999999999999999}", INT, "doc: \"k\" is 1e+20, expected an integer"},
        {"{\"k\":\"3\"}", INT, "doc: \"k\" is a string, expected an integer"},
        {"{\"k\":true}", INT, "doc: \"k\" is true, expected an integer"},
        {"{\"k\":[3]}", INT, "doc: \"k\" is an array, expected an integer"},
        {"{\"k\":3}", REAL, NULL},
        {"{\"k\":1e-5}", REAL, NULL},
        {"{\"k\":1000000000000000019884624838656}", REAL, NULL},
        {"{\"k\":false}", REAL, "doc: \"k\" is false, expected a number"},
        {"{\"k\":false}", BOOL, NULL},
        {"{\"k\":0}", BOOL, "doc: \"k\" is an integer, expected true or false"},
        {"{\"k\":\"\"}", TEXT, NULL},
        {"{\"k\":{}}", TEXT, "doc: \"k\" is an object, expected a string"},
        {"{\"k\":{}}", OBJECT, NULL},
        {"{\"k\":null}", OBJECT, NULL},
        {"{\"k\":[]}", OBJECT, "doc: \"k\" is an array, expected an object"},
        {"{\"k\":[]}", ARRAY, NULL},
        {"{\"k\":1.5}", ARRAY, "doc: \"k\" is a real number, expected an array"},
        {"{\"k\":0}", NEED, NULL},
        {"{\"k\":null}", NEED, "doc: \"k\" is missing"},
        {"{}", NEED, "doc: \"k\" is missing"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_error err = {0};
        json_t *object = parsed(cases[i].json);
        assert_int_equal(get(cases[i].kind, object, &err), cases[i].says ? QP_BAD_FORMAT : QP_OK);
        assert_string_equal(err.text, cases[i].says ? cases[i].says : "");
        json_decref(object);
    }
}

static void getters_give_values_and_keep_defaults(void **state) {
    json_t *object = parsed("{\"i\":7,\"r\":2.5,\"b\":true,\"t\":\"x\",\"o\":{\"a\":1},\"a\":[1],\"n\":null,\"i\":8}");
    int64_t i = 1;
    double r = 1;
    bool b = false;
    const char *t = "old";
    json_t *o, *a;
    assert_int_equal(json_get_int(object, "i", 0, 100, &i, "doc", NULL), QP_OK);
    assert_int_equal(i, 8); /* the last of two wins */
    assert_int_equal(json_get_int(object, "n", 0, 100, &i, "doc", NULL), QP_OK);
    assert_int_equal(i, 8);
    assert_int_equal(json_get_real(object, "r", &r, "doc", NULL), QP_OK);
    assert_true(r == 2.5);
    assert_int_equal(json_get_real(object, "i", &r, "doc", NULL), QP_OK);
    assert_true(r == 8);
    assert_int_equal(json_get_bool(object, "b", &b, "doc", NULL), QP_OK);
    assert_true(b);
    assert_int_equal(json_get_text(object, "absent", &t, "doc", NULL), QP_OK);
    assert_string_equal(t, "old");
    assert_int_equal(json_get_text(object, "t", &t, "doc", NULL), QP_OK);
    assert_string_equal(t, "x");
    assert_int_equal(json_get_object(object, "o", &o, "doc", NULL), QP_OK);
    assert_int_equal(json_object_size(o), 1);
    assert_int_equal(json_get_array(object, "a", &a, "doc", NULL), QP_OK);
    assert_int_equal(json_array_size(a), 1);
    assert_int_equal(json_get_array(object, "n", &a, "doc", NULL), QP_OK);
    assert_null(a);
    json_decref(object);
}

static void parse_errors_have_offsets(void **state) {
    static const struct {
        const char *text;
        size_t bytes;
        uint64_t offset;
    } cases[] = {
        {"", 0, 0}, {"{", 1, 1}, {"[1,]", 4, 4}, {"{\"a\" 1}", 7, 6}, {"[1] 2", 5, 5}, {"\"\xff\"", 3, 1},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_error err;
        json_t *value = (json_t *)&err;
        assert_int_equal(json_parse(&value, cases[i].text, cases[i].bytes, "doc", &err), QP_BAD_FORMAT);
        assert_null(value);
        assert_int_equal(err.offset, cases[i].offset);
        assert_memory_equal(err.text, "doc: not valid JSON at line ", 28);
    }
}

/* Depth is bounded by the parser, so that a hostile document cannot exhaust the stack. */
static void refuses_a_deep_document(void **state) {
    enum { DEPTH = 1000000 };
    char *text = mem_array(DEPTH, 1);
    memset(text, '[', DEPTH);
    json_t *value;
    assert_int_equal(json_parse(&value, text, DEPTH, "doc", NULL), QP_BAD_FORMAT);
    mem_free(text);
}

/* Every cut of a valid document is refused. */
static void refuses_every_cut(void **state) {
    static const char text[] =
        "{\"a\": [1, -2.5e3, \"\\u20ac\xe2\x82\xac\"], \"b\": {\"c\": null}, \"d\": [true, false]}";
    json_t *value;
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        char *copy = mem_copy(text, bytes, 1); /* of its own, so that the sanitizer sees the end */
        assert_int_equal(json_parse(&value, copy, bytes, "doc", NULL), QP_BAD_FORMAT);
        mem_free(copy);
    }
    json_decref(parsed(text));
}

static void loads_from_a_path(void **state) {
    char folder[64], path[96];
    harness_folder(folder);
    harness_write(folder, "x.json", "{\"a\":1");
    snprintf(path, sizeof path, "%s/x.json", folder);
    json_t *value;
    qp_error err;
    assert_int_equal(json_load_path(&value, path, 100, &err), QP_BAD_FORMAT);
    assert_memory_equal(err.text, path, strlen(path));
    assert_int_equal(json_load_path(&value, path, 3, &err), QP_TOO_LARGE);
    harness_write(folder, "x.json", "{\"a\":1}");
    assert_int_equal(json_load_path(&value, path, 100, &err), QP_OK);
    assert_int_equal(json_object_size(value), 1);
    json_decref(value);
    harness_remove(folder);
    assert_int_equal(json_load_path(&value, path, 100, &err), QP_NO_FILE);
    assert_null(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getters_refuse_by_name),    cmocka_unit_test(getters_give_values_and_keep_defaults),
        cmocka_unit_test(parse_errors_have_offsets), cmocka_unit_test(refuses_a_deep_document),
        cmocka_unit_test(refuses_every_cut),         cmocka_unit_test(loads_from_a_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
