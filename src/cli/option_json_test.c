/* option_json_test.c — every option of an answer goes to JSON and back; wrong kinds are refused by name. */
#include "option_json.h"
#include "harness.h"

static const struct {
    const char *name, *json, *back; /* back: NULL, the same */
} values[] = {
    {"temperature", "0.7", NULL},
    {"temperature", "\"0.7\"", "0.7"},
    {"top_k", "40", NULL},
    {"top-k", "40", NULL},
    {"ignore_eos", "true", NULL},
    {"ignore_eos", "false", NULL},
    {"stop", "[\"a\", \"\\n\"]", NULL},
    {"stop", "\"a\"", "[\"a\"]"},
    {"ban_token", "[1, 2]", NULL},
    {"dynatemp", "[0.5, 1.5]", NULL},
    {"dynatemp", "\"0.5,1.5,2\"", "[0.5, 1.5, 2.0]"},
    {"logit_bias", "{\"5\": 2.5, \"7\": \"-inf\"}", NULL},
    {"logit_bias", "\"5:2.5\"", "{\"5\": 2.5}"},
    {"negative_prompt", "\"no\"", NULL},
    {"seed", "9007199254740993", NULL},
};

static void there_and_back(void **state) {
    const command_row *c = command_find("generate");
    for (size_t i = 0; i < HARNESS_COUNT(values); i++) {
        options o = {.model = NULL};
        qp_error err;
        json_t *value = json_loads(values[i].json, JSON_DECODE_ANY, NULL);
        json_t *wanted = json_loads(values[i].back ? values[i].back : values[i].json, JSON_DECODE_ANY, NULL);
        assert_true(value && wanted);
        if (option_set_json(&o, c, values[i].name, values[i].name, value, &err) != QP_OK) fail_msg("%s", err.text);
        json_t *got = option_get_json(&o, option_find_own(c, values[i].name));
        if (!json_equal(got, wanted)) fail_msg("%s: %s", values[i].name, values[i].json);
        json_decref(value);
        json_decref(wanted);
        json_decref(got);
        options_free(&o);
    }
}

/* What has not been set has a value too, and taking it back changes nothing. */
static void all_rows(void **state) {
    const command_row *c = command_find("generate");
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        if (!(row->commands & c->bit) || option_find_own(c, row->name) != row) continue;
        if ((row->kind == OPTION_INT || row->kind == OPTION_REAL) && row->lowest > 0) continue; /* zero says: not set */
        options o = {.model = NULL};
        qp_error err;
        json_t *value = option_get_json(&o, row);
        assert_non_null(value);
        assert_int_equal(option_set_json(&o, c, row->name, row->name, value, &err), QP_OK);
        json_t *again = option_get_json(&o, row);
        assert_true(json_equal(value, again));
        json_decref(value);
        json_decref(again);
        options_free(&o);
    }
}

static const struct {
    const char *name, *json, *says;
} refusals[] = {
    {"tempratur", "1", "did you mean --temperature?"},
    {"threads", "1", "\"threads\" is no option of an answer"},
    {"temperature", "[]", "found an array"},
    {"temperature", "-1", "allowed are 0 to 100"},
    {"stop", "[5]", "expected a string"},
    {"negative_prompt", "5", "expected a string"},
    {"negative_prompt", "\"a\\u0000b\"", "expected a string"},
    {"ignore_eos", "5", "is not one of true, false"},
    {"logit_bias", "{\"x\": 1}", "is not a whole number"},
    {"dynatemp", "[1, {}]", "is not a number"},
};

static void refused(void **state) {
    const command_row *c = command_find("generate");
    for (size_t i = 0; i < HARNESS_COUNT(refusals); i++) {
        options o = {.model = NULL};
        qp_error err;
        json_t *value = json_loads(refusals[i].json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        assert_int_equal(option_set_json(&o, c, refusals[i].name, refusals[i].name, value, &err), QP_BAD_ARGUMENT);
        if (!strstr(err.text, refusals[i].says)) fail_msg("case %zu: %s", i, err.text);
        json_decref(value);
        options_free(&o);
    }
}

/* A list replaces the one before, null leaves it. */
static void lists(void **state) {
    const command_row *c = command_find("generate");
    options o = {.model = NULL};
    qp_error err;
    json_t *first = json_loads("[\"a\", \"b\"]", 0, NULL), *second = json_loads("[\"c\"]", 0, NULL);
    assert_int_equal(option_set_json(&o, c, "stop", "stop", first, &err), QP_OK);
    assert_int_equal(option_set_json(&o, c, "stop", "stop", second, &err), QP_OK);
    assert_int_equal(option_set_json(&o, c, "stop", "stop", json_null(), &err), QP_OK);
    assert_int_equal(o.stop.count, 1);
    assert_string_equal(o.stop.at[0], "c");
    options_free(&o);
    json_decref(first);
    json_decref(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back), cmocka_unit_test(all_rows),
                                       cmocka_unit_test(refused), cmocka_unit_test(lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
