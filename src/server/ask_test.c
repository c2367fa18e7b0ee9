/* ask_test.c — what requests ask for: every kind of member, its aliases, its limits, and what refusals name. */
#include "harness.h"
#include "ask.h"
#include "demand.h"
#include <math.h>

static json_t *parse(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value) fail_msg("not JSON: %s", text);
    return value;
}

/* ---- what is read ---- */

static void read_gen(gen_fields *out, arena *memory, const char *text, json_t **body) {
    refusal why = {.text = ""};
    *body = parse(text);
    if (!gen_fields_read(out, *body, memory, NULL, &why)) fail_msg("%s: %s", text, why.text);
}

static void test_values(void **state) {
    arena memory = {0};
    gen_fields f;
    json_t *body;
    read_gen(
        &f, &memory,
        "{\"temperature\":\"0.5\",\"top_k\":40.0,\"dynatemp_low\":0.5,\"max_temp\":2,\"tfs_z\":0.9,\"rep_pen\":1.1,"
        "\"repeat_last_n\":64,\"ignore_eos\":\"true\",\"stopping_strings\":[\"a\",7,\"b\"],\"logit_bias\":[[5,false],"
        "[6,1.5]],\"custom_token_bans\":\"1,2,3\",\"allowed_tokens\":[4],\"banned_strings\":\"x\","
        "\"dry_sequence_breakers\":\"[\\\"\\\\n\\\",\\\":\\\"]\",\"seed\":9007199254740993,\"n_predict\":9}",
        &body);
    assert_true(f.temperature == 0.5 && f.top_k == 40 && f.min_temp == 0.5 && f.max_temp == 2 && f.tfs == 0.9);
    assert_true(f.repetition_penalty == 1.1 && f.penalty_range == 64 && f.ban_eos_token && f.max_tokens == 9);
    assert_int_equal(f.stop_texts.count, 2);
    assert_int_equal(f.stop_ids.count, 1);
    assert_int_equal(f.stop_ids.at[0], 7);
    assert_int_equal(f.n_bias, 2);
    assert_true(isinf(f.bias[0].bias) && f.bias[0].bias < 0 && f.bias[0].id == 5 && f.bias[1].bias == 1.5f);
    assert_int_equal(f.banned_tokens.count, 3);
    assert_int_equal(f.banned_tokens.at[2], 3);
    assert_int_equal(f.allowed_tokens.at[0], 4);
    assert_string_equal(f.banned_strings.at[0], "x");
    assert_string_equal(f.dry_sequence_breakers.at[1], ":");
    assert_true(f.seed == 9007199254740993);
    json_decref(body);
    arena_free(&memory);
}

/* The first name wins; null is absent; all else has its standard value. */
static void test_standards(void **state) {
    arena memory = {0};
    gen_fields f;
    json_t *body;
    read_gen(&f, &memory, "{\"max_tokens\":5,\"max_completion_tokens\":6,\"temperature\":null,\"unknown\":[1]}", &body);
    assert_int_equal(f.max_tokens, 6);
    assert_true(f.temperature == 1 && f.top_p == 1 && f.typical == 1 && f.penalty_range == -1 && f.skip_special_tokens);
    assert_true(f.add_bos_token == -1 && f.seed == GEN_NO_SEED && !f.stop && !f.banned_strings.at);
    assert_int_not_equal(gen_fields_seed(&f), GEN_NO_SEED);
    json_decref(body);
    arena_free(&memory);
}

/* In the engine's words: neutral values are off, ranges of -1 are 0. */
static void test_sampling(void **state) {
    static const struct {
        const char *body;
        qp_sampling expected;
    } rows[] = {
        {"{\"temperature\":0}", {.temperature = 0}},
        {"{\"dynatemp_range\":0.5}", {.temperature = 1, .min_temperature = 0.5f, .max_temperature = 1.5f}},
        {"{\"mirostat_mode\":2,\"mirostat_tau\":3}", {.temperature = 1, .mirostat_tau = 3, .mirostat_eta = 0.3f}},
        {"{\"mirostat_mode\":1}", {.temperature = 1}},
        {"{\"top_k\":-1,\"min_p\":0.1}", {.temperature = 1, .min_p = 0.1f}},
        {"{\"cfg_scale\":1.5}", {.temperature = 1, .guidance = 1.5f}},
    };
    const qp_model_info info = {.vocabulary = 100, .n_eos = 1, .eos = {9}};
    const gen_model model = {NULL, &info};
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        arena memory = {0};
        gen_fields f;
        json_t *body;
        qp_job_options options;
        refusal why;
        read_gen(&f, &memory, rows[i].body, &body);
        assert_true(gen_fields_apply(&options, &f, &model, &memory, &why));
        const qp_sampling *a = &options.sampling, *b = &rows[i].expected;
        assert_true(a->temperature == b->temperature && a->min_temperature == b->min_temperature);
        assert_true(a->max_temperature == b->max_temperature && a->mirostat_tau == b->mirostat_tau);
        assert_true(a->top_k == b->top_k && a->min_p == b->min_p);
        assert_true(a->guidance == (b->guidance != 0 ? b->guidance : 1));
        assert_true(a->penalty_range == 0);
        assert_true(!options.negative_prompt == (b->guidance == 0));
        json_decref(body);
        arena_free(&memory);
    }
}

static void test_apply_lists(void **state) {
    arena memory = {0};
    gen_fields f;
    json_t *body;
    qp_job_options o;
    refusal why;
    const qp_model_info info = {.vocabulary = 100, .n_eos = 2, .eos = {9, 10}};
    const gen_model model = {NULL, &info};
    read_gen(&f, &memory,
             "{\"stop\":[3,\"x\"],\"stop_token_ids\":[4],\"banned_tokens\":[5],\"ban_eos_token\":true,"
             "\"top_p\":0,\"penalty_range\":0,\"rep_pen\":2}",
             &body);
    assert_true(gen_fields_apply(&o, &f, &model, &memory, &why));
    assert_true(o.n_stop == 1 && o.n_stop_ids == 2 && o.stop_ids[0] == 3 && o.stop_ids[1] == 4);
    assert_true(o.n_ban_ids == 3 && o.ban_ids[0] == 5 && o.ban_ids[2] == 10);
    assert_true(o.sampling.top_p > 0 && o.sampling.top_p < 1e-6f); /* zero keeps the best alone; the engine's is off */
    assert_true(o.sampling.repetition_penalty == 0);               /* no token is looked at */
    json_decref(body);
    arena_free(&memory);
}

static void test_report(void **state) {
    arena memory = {0};
    gen_fields f;
    field_report report;
    refusal why;
    json_t *body = parse("{\"smoothing_curve\":2,\"nsigma\":1,\"cache_prompt\":true,\"lora\":[]}");
    assert_true(gen_fields_read(&f, body, &memory, &report, &why));
    assert_string_equal(report.unbuilt, "smoothing_curve, nsigma");
    json_decref(body);
    arena_free(&memory);
}

/* ---- what is refused ---- */

static const struct {
    const char *body, *param, *text;
} refused[] = {
    {"{\"temperature\":10.5}", "temperature", "temperature: found 10.5, allowed is at least 0 and at most 10"},
    {"{\"temperature\":\"hot\"}", "temperature", "temperature: found a string, expected a number"},
    {"{\"typical_p\":0}", "typical_p", "typical_p: found 0, allowed is more than 0 and at most 1"},
    {"{\"top_k\":1.5}", "top_k", "top_k: found 1.5, expected an integer"},
    {"{\"top_k\":[]}", "top_k", "top_k: found an array, expected an integer"},
    {"{\"ban_eos_token\":2}", "ban_eos_token", "ban_eos_token: found an integer, expected true or false"},
    {"{\"stop\":{}}", "stop[0]", "stop[0]: found an object, expected a string or a token id"},
    {"{\"stop\":[\"a\",\"\"]}", "stop[1]", "stop[1]: the text is empty"},
    {"{\"stop\":\"a\\u0000b\"}", "stop[0]", "stop[0]: the text has a zero byte"},
    {"{\"stop\":[-1]}", "stop[0]", "stop[0]: -1 is no token id"},
    {"{\"banned_tokens\":\"1;2\"}", "banned_tokens", "banned_tokens: found \"1;2\", expected ids as [1,2] or \"1,2\""},
    {"{\"banned_tokens\":[1,2.5]}", "banned_tokens[1]", "banned_tokens[1]: found a real number, expected an integer"},
    {"{\"banned_strings\":[\"\"]}", "banned_strings[0]", "banned_strings[0]: the text is empty"},
    {"{\"logit_bias\":5}", "logit_bias", "logit_bias: found an integer, expected an object or an array of pairs"},
    {"{\"logit_bias\":{\"-1\":5}}", "logit_bias", "logit_bias: the key \"-1\" is no token id"},
    {"{\"logit_bias\":[[1]]}", "logit_bias", "logit_bias[0]: expected [token id, bias]"},
    {"{\"min_temp\":2,\"max_temp\":1}", "min_temp", "min_temp: found 2, over max_temp, 1"},
    {"{\"min_tokens\":3,\"max_tokens\":1}", "min_tokens", "min_tokens: found 3, over max_tokens, 1"},
};

static void test_refused(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(refused); i++) {
        arena memory = {0};
        gen_fields f;
        refusal why = {.text = ""};
        json_t *body = parse(refused[i].body);
        assert_false(gen_fields_read(&f, body, &memory, NULL, &why));
        assert_string_equal(why.text, refused[i].text);
        assert_string_equal(why.param, refused[i].param);
        assert_int_equal(why.fault, FAULT_BAD_REQUEST);
        json_decref(body);
        arena_free(&memory);
    }
}

/* ---- chats ---- */

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"web_search\"}]"

static const struct {
    const char *body, *param; /* NULL: good */
    int n_tools;
    tool_choice choice;
} chats[] = {
    {"{" CHAT "}", NULL, 0, CHOOSE_AUTO},
    {"{" CHAT "," TOOLS "}", NULL, 1, CHOOSE_AUTO},
    {"{" CHAT "," TOOLS ",\"tool_choice\":\"none\"}", NULL, 0, CHOOSE_NONE},
    {"{" CHAT "," TOOLS ",\"tool_choice\":\"required\"}", NULL, 1, CHOOSE_REQUIRED},
    {"{" CHAT "," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}", NULL, 1,
     CHOOSE_NAMED},
    {"{" CHAT "," TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{"
     "\"type\":\"function\",\"function\":{\"name\":\"g\"}}]}}}",
     NULL, 0, CHOOSE_AUTO},
    {"{" CHAT ",\"functions\":[{\"name\":\"f\"}],\"function_call\":{\"name\":\"f\"}}", NULL, 1, CHOOSE_NAMED},
    {"{" CHAT ",\"functions\":[{\"name\":\"f\"}],\"function_call\":\"auto\"}", NULL, 1, CHOOSE_AUTO},
    {"{" CHAT "," TOOLS ",\"tool_choice\":\"maybe\"}", "tool_choice", 0, 0},
    {"{" CHAT ",\"tool_choice\":\"required\"}", "tool_choice", 0, 0},
    {"{" CHAT "," TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}}", "tool_choice", 0, 0},
    {"{" CHAT ",\"tools\":[{\"type\":\"function\"}]}", "tools[0].function", 0, 0},
    {"{" CHAT ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":1}}]}",
     "tools[0].function.parameters", 0, 0},
    {"{" CHAT ",\"n\":3}", "n", 0, 0},
    {"{" CHAT ",\"logprobs\":\"x\"}", "logprobs", 0, 0},
    {"{" CHAT ",\"top_logprobs\":1}", "top_logprobs", 0, 0},
};

static void test_chats(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(chats); i++) {
        ask a;
        refusal why = {.text = ""};
        json_t *body = parse(chats[i].body);
        const bool is_good = ask_read_chat(&a, body, 2, &why);
        if (is_good != !chats[i].param) fail_msg("%s: %s", chats[i].body, why.text);
        if (chats[i].param) {
            assert_string_equal(why.param, chats[i].param);
        } else {
            assert_int_equal(json_array_size(a.tools), chats[i].n_tools);
            assert_int_equal(a.choice, chats[i].choice);
        }
        ask_free(&a);
        json_decref(body);
    }
}

static void test_logprobs(void **state) {
    static const struct {
        const char *fields;
        bool wants;
        int n_top;
    } rows[] = {{"", false, 0},
                {",\"logprobs\":true", true, 0},
                {",\"logprobs\":true,\"top_logprobs\":3", true, 3},
                {",\"logprobs\":5", true, 5},
                {",\"logprobs\":0", true, 0},
                {",\"logprobs\":false,\"top_logprobs\":0", false, 0}};
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        char text[200];
        ask a;
        refusal why;
        snprintf(text, sizeof text, "{\"prompt\":\"x\"%s}", rows[i].fields);
        json_t *body = parse(text);
        assert_true(ask_read_text(&a, body, 2, &why));
        assert_true(a.wants_logprobs == rows[i].wants && a.n_top == rows[i].n_top);
        ask_free(&a);
        json_decref(body);
    }
}

/* ---- demands on the form ---- */

static const struct {
    const char *fields;
    reply_fault fault; /* FAULT_COUNT: none */
    const char *param;
} demands[] = {
    {"", FAULT_COUNT, ""},
    {",\"response_format\":{\"type\":\"text\"}", FAULT_COUNT, ""},
    {",\"grammar_string\":\"\",\"json_schema\":null", FAULT_COUNT, ""},
    {"," TOOLS, FAULT_COUNT, ""},
    {",\"response_format\":{\"type\":\"json_object\"}", FAULT_COUNT, "response_format"},
    {",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":{}}}", FAULT_COUNT,
     "response_format.json_schema"},
    {",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a b\",\"schema\":{}}}",
     FAULT_BAD_REQUEST, "response_format.json_schema.name"},
    {",\"response_format\":{\"type\":\"json_schema\"}", FAULT_BAD_REQUEST, "response_format.json_schema"},
    {",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":5}}}", FAULT_SCHEMA,
     "response_format.json_schema"},
    {",\"response_format\":{\"type\":\"yaml\"}", FAULT_BAD_REQUEST, "response_format.type"},
    {",\"regex_pattern\":\"a\"", FAULT_COUNT, "regex_pattern"},
    {",\"regex_pattern\":5", FAULT_BAD_REQUEST, "regex_pattern"},
    {",\"regex_pattern\":\"a\",\"guided_json\":{}", FAULT_BAD_REQUEST, "guided_json"},
    {",\"guided_choice\":[\"a\"]", FAULT_COUNT, "guided_choice"},
    {",\"json_schema\":5", FAULT_SCHEMA, "json_schema"},
    {",\"guided_choice\":[]", FAULT_BAD_REQUEST, "guided_choice"},
    {",\"guided_choice\":[1]", FAULT_BAD_REQUEST, "guided_choice"},
    {",\"structured_outputs\":{\"choice\":[\"a\"]}", FAULT_COUNT, "structured_outputs.choice"},
    {",\"structured_outputs\":{\"json\":{},\"regex\":\"a\"}", FAULT_BAD_REQUEST, "structured_outputs.regex"},
    {",\"structured_outputs\":{\"json_object\":false}", FAULT_COUNT, ""},
    {",\"structured_outputs\":{\"whitespace_pattern\":1}", FAULT_BAD_REQUEST, "structured_outputs.whitespace_pattern"},
    {",\"structured_outputs\":5", FAULT_BAD_REQUEST, "structured_outputs"},
};

static void test_demands(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(demands); i++) {
        char text[1000];
        ask a;
        refusal why = {.fault = FAULT_COUNT};
        demand found;
        snprintf(text, sizeof text, "{" CHAT "%s}", demands[i].fields);
        json_t *body = parse(text);
        assert_true(ask_read_chat(&a, body, 2, &why));
        const bool is_good = demand_read(&found, &a, &why);
        assert_int_equal(is_good ? FAULT_COUNT : why.fault, demands[i].fault);
        assert_string_equal(is_good ? found.param ? found.param : "" : why.param, demands[i].param);
        ask_free(&a);
        json_decref(body);
    }
}

/* Every allocation of ours fails once. */
static void test_memory(void **state) {
    json_t *body = parse("{" CHAT "," TOOLS ",\"stop\":[\"a\"],\"logit_bias\":{\"1\":2},\"banned_tokens\":\"1,2\"}");
    for (int n = 0; n < 30; n++) {
        ask a;
        refusal why;
        mem_fail_after(n);
        const bool is_good = ask_read_chat(&a, body, 2, &why);
        mem_fail_after(-1);
        if (!is_good) assert_int_equal(why.fault, FAULT_INTERNAL);
        ask_free(&a);
    }
    json_decref(body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_standards), cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_apply_lists), cmocka_unit_test(test_report),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_chats),       cmocka_unit_test(test_logprobs),  cmocka_unit_test(test_demands),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
