/* chat_forms_test.c — what clients send as a conversation, in three dialects, and what templates are given. */
#include "harness.h"
#include "anthropic.h"
#include "oai_messages.h"
#include "responses.h"
#include "json_out.h"

static json_t *parse(const char *text) {
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value) fail_msg("not JSON: %s", text);
    return value;
}

/* `found` has all members of `expected`, and those are equal. */
static void check_json(const char *what, const json_t *found, const char *expected) {
    json_t *wanted = parse(expected);
    if (!json_equal(wanted, found)) {
        strbuf text = {0};
        json_out_value(&text, found);
        fail_msg("%s\n found    %s\n expected %s", what, text.at, expected);
    }
    json_decref(wanted);
}

/* ---- messages ---- */

static const struct {
    const char *messages, *expected; /* NULL: refused ... */
    const char *param;               /* ... naming this */
} rows[] = {
    {"[{\"role\":\"developer\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\",\"name\":\"n\"}]",
     "[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\",\"name\":\"n\"}]", NULL},
    {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]",
     "[{\"role\":\"user\",\"content\":\"ab\"}]", NULL},
    {"[{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}],\"reasoning\":\"r\"}]",
     "[{\"role\":\"assistant\",\"content\":\"no\",\"reasoning\":\"r\",\"reasoning_content\":\"r\"}]", NULL},
    {"[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
     "\"name\":"
     "\"f\",\"arguments\":\"{\\\"a\\\":1}\"}},{\"function\":{\"name\":\"g\",\"arguments\":\"no json\"}}]}]",
     "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
     "\"name\":"
     "\"f\",\"arguments\":{\"a\":1}}},{\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"no "
     "json\"}}]}]",
     NULL},
    {"[{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\",\"arguments\":\"\"}},{\"role\":\"function\",\"name\":"
     "\"f\","
     "\"content\":\"1\"}]",
     "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":{}}}]},{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":\"f\",\"content\":\"1\"}]",
     NULL},
    /* results in the order of their calls, those of nobody behind them */
    {"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\"}},{\"id\":\"2\",\"function\":"
     "{"
     "\"name\":\"g\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"9\",\"content\":\"z\"},{\"role\":\"tool\",\"tool_call_"
     "id\":"
     "\"2\",\"content\":\"b\"},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"a\"}]",
     "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
     "\"name\":"
     "\"f\",\"arguments\":{}}},{\"id\":\"2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}}]},"
     "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"a\"},{\"role\":\"tool\",\"tool_call_id\":\"2\","
     "\"content\":"
     "\"b\"},{\"role\":\"tool\",\"tool_call_id\":\"9\",\"content\":\"z\"}]",
     NULL},
    {"[]", NULL, "m"},
    {"{}", NULL, "m"},
    {"[5]", NULL, "m[0]"},
    {"[{\"content\":\"x\"}]", NULL, "m[0].role"},
    {"[{\"role\":\"user\"}]", NULL, "m[0].content"},
    {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", NULL, "m[0].content[0]"},
    {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", NULL, "m[0].content[0].text"},
    {"[{\"role\":\"user\",\"content\":[{\"type\":\"x\"}]}]", NULL, "m[0].content[0].type"},
    {"[{\"role\":\"assistant\",\"tool_calls\":{}}]", NULL, "m[0].tool_calls"},
    {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}]", NULL, "m[0].tool_calls[0].function"},
    {"[{\"role\":\"tool\",\"content\":\"x\"}]", NULL, "m[0].tool_call_id"},
};

static void test_messages(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        json_t *messages = parse(rows[i].messages), *made;
        refusal why = {.text = ""};
        const bool is_good = oai_messages_read(&made, messages, "m", &why);
        if (is_good != (rows[i].expected != NULL)) fail_msg("%s: %s", rows[i].messages, why.text);
        if (is_good) check_json(rows[i].messages, made, rows[i].expected);
        if (!is_good) assert_string_equal(why.param, rows[i].param);
        if (is_good) json_decref(made);
        json_decref(messages);
    }
}

/* ---- the other dialects ---- */

typedef bool translator(json_t **out, const json_t *body, refusal *why);

typedef struct form_row {
    const char *body, *expected, *param;
} form_row;

static const form_row responses_rows[] = {
    {"{\"model\":\"m\",\"input\":\"hi\",\"instructions\":\"be kind\",\"max_output_tokens\":5,\"top_logprobs\":2}",
     "{\"model\":\"m\",\"max_completion_tokens\":5,\"logprobs\":true,\"top_logprobs\":2,\"messages\":[{\"role\":"
     "\"system\","
     "\"content\":\"be kind\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
     NULL},
    {"{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":"
     "\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
     "\"{}\"},{\"type\":\"function_call\",\"call_id\":\"d\",\"name\":\"g\",\"arguments\":\"{}\"},{\"type\":"
     "\"function_call_output\",\"call_id\":\"c\",\"output\":\"1\"}]}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null,\"reasoning_"
     "content\":"
     "\"hm\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{"
     "\"id\":"
     "\"d\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_"
     "id\":"
     "\"c\",\"content\":\"1\"}]}",
     NULL},
    {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}},{\"type\":\"web_search\"}],"
     "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{}},\"verbosity\":\"low\"}}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
     "\"f\","
     "\"parameters\":{}}},{\"type\":\"web_search\"}],\"verbosity\":\"low\",\"response_format\":{\"type\":\"json_"
     "schema\","
     "\"json_schema\":{\"name\":\"n\",\"schema\":{}}}}",
     NULL},
    {"{\"input\":\"x\",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}}",
     NULL},
    {"{}", NULL, "input"},
    {"{\"input\":5}", NULL, "input"},
    {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", NULL, "input[0]"},
    {"{\"input\":\"x\",\"previous_response_id\":\"r\"}", NULL, "previous_response_id"},
    {"{\"input\":\"x\",\"background\":true}", NULL, "background"},
    {"{\"input\":\"x\",\"tools\":5}", NULL, "tools"},
};

static const form_row anthropic_rows[] = {
    {"{\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],"
     "\"messages\":[{"
     "\"role\":\"user\",\"content\":\"hi\"}],\"stop_sequences\":[\"x\"]}",
     "{\"max_tokens\":5,\"tools\":[],\"stop\":[\"x\"],\"messages\":[{\"role\":\"system\",\"content\":\"ab\"},{\"role\":"
     "\"user\",\"content\":\"hi\"}]}",
     NULL},
    {"{\"max_tokens\":5,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
     "\"signature\":\"s\"},{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":\"t\"},{"
     "\"type\":"
     "\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{\"a\":1}}]},{\"role\":\"user\",\"content\":[{\"type\":"
     "\"tool_result\",\"tool_use_id\":\"c\",\"content\":[{\"type\":\"text\",\"text\":\"1\"}]},{\"type\":\"text\","
     "\"text\":"
     "\"go\"}]}]}",
     "{\"max_tokens\":5,\"tools\":[],\"messages\":[{\"role\":\"assistant\",\"content\":\"t\",\"reasoning_content\":"
     "\"hm\","
     "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},{"
     "\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[{\"type\":\"text\",\"text\":\"1\"}]},{\"role\":\"user\","
     "\"content\":\"go\"}]}",
     NULL},
    {"{\"max_tokens\":1,\"messages\":[],\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{}},{"
     "\"type\":"
     "\"web_search\",\"name\":\"w\"}],\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true},"
     "\"thinking\":{"
     "\"type\":\"enabled\",\"budget_tokens\":9}}",
     "{\"max_tokens\":1,\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":"
     "\"d\",\"parameters\":{}}}],\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"enable_thinking\":true,"
     "\"reasoning_budget_tokens\":9}",
     NULL},
    {"{\"messages\":[]}", NULL, "max_tokens"},
    {"{\"max_tokens\":0,\"messages\":[]}", NULL, "max_tokens"},
    {"{\"max_tokens\":1}", NULL, "messages"},
    {"{\"max_tokens\":1,\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", NULL, "messages[0].role"},
    {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":5}]}", NULL, "messages[0].content"},
    {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", NULL,
     "messages[0].content[0]"},
    {"{\"max_tokens\":1,\"messages\":[],\"tool_choice\":{\"type\":\"x\"}}", NULL, "tool_choice.type"},
};

static void check_forms(const form_row *list, size_t n, translator *translate) {
    for (size_t i = 0; i < n; i++) {
        json_t *body = parse(list[i].body), *made = NULL;
        refusal why = {.text = ""};
        const bool is_good = translate(&made, body, &why);
        if (is_good != (list[i].expected != NULL)) fail_msg("%s: %s", list[i].body, why.text);
        if (is_good) check_json(list[i].body, made, list[i].expected);
        if (!is_good) assert_string_equal(why.param, list[i].param);
        json_decref(made);
        json_decref(body);
    }
}

static void test_responses(void **state) {
    check_forms(responses_rows, HARNESS_COUNT(responses_rows), responses_translate);
}

static void test_anthropic(void **state) {
    check_forms(anthropic_rows, HARNESS_COUNT(anthropic_rows), anthropic_translate);
}

/* A translated body is one of ours: its messages are read without a complaint. */
static void test_chain(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(responses_rows); i++) {
        json_t *body = parse(responses_rows[i].body), *made = NULL, *messages = NULL;
        refusal why;
        if (responses_rows[i].expected && responses_translate(&made, body, &why)) {
            assert_true(oai_messages_read(&messages, json_object_get(made, "messages"), "messages", &why));
            json_decref(messages);
        }
        json_decref(made);
        json_decref(body);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages), cmocka_unit_test(test_responses),
                                       cmocka_unit_test(test_anthropic), cmocka_unit_test(test_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
