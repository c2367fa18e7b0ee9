/* chat_test.c — chats: the fixtures' real templates and conversations, what a model folder may hold, our own formats.
 */
#include "harness.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/chat.h"
#include "text/chat_time.h"

#define TEMPLATES QUIPU_FIXTURES "/templates/"

static json_t *must_parse(const char *text) {
    json_t *value;
    qp_error err;
    if (json_parse(&value, text, strlen(text), "test", &err) != QP_OK) fail_msg("%s: %s", text, err.text);
    return value;
}

/* Renders `input`; the text (or the error's) is the caller's to mem_free. */
static qp_status render(const chat *c, const char *input, char **text, bool *raised) {
    strbuf out = {0};
    qp_error err = {0};
    json_t *parsed = must_parse(input);
    const qp_status status = chat_render(c, parsed, &out, raised, &err);
    json_decref(parsed);
    *text = status == QP_OK ? strbuf_move(&out, NULL) : mem_copy_text(err.text, strlen(err.text));
    strbuf_free(&out);
    return status;
}

static void expect(const chat *c, const char *input, qp_status status, const char *wanted) {
    char *text;
    bool raised;
    const qp_status got = render(c, input, &text, &raised);
    if (got != status || (status == QP_OK ? strcmp(text, wanted) != 0 : !strstr(text, wanted)))
        print_error("%s\n  gave %d: %s\n  not %d: %s\n", input, got, text, status, wanted);
    assert_int_equal(got, status);
    if (status == QP_OK)
        assert_string_equal(text, wanted);
    else
        assert_non_null(strstr(text, wanted));
    mem_free(text);
}

static void expect_template(const char *source, const char *input, qp_status status, const char *wanted) {
    chat *c;
    qp_error err;
    if (chat_new(&c, span_of(source), &err) != QP_OK) fail_msg("%s", err.text);
    expect(c, input, status, wanted);
    chat_free(c);
}

/* ---- fixtures ---- */

static json_t *load_packed(const char *path) {
    char command[4096];
    strbuf text = {0};
    char buffer[65536];
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *pipe = popen(command, "r");
    if (!pipe) return NULL;
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe));) strbuf_add(&text, buffer, n);
    json_t *value = pclose(pipe) == 0 && text.at ? must_parse(text.at) : NULL;
    strbuf_free(&text);
    return value;
}

static bool agrees(const chat *c, json_t *input, const json_t *wanted, const char *name, const char *key) {
    strbuf out = {0};
    qp_error err = {0};
    bool raised;
    const json_t *text = json_object_get(wanted, "text");
    const char *error = json_string_value(json_object_get(wanted, "error"));
    const qp_status status = chat_render(c, input, &out, &raised, &err);
    bool is_right = text ? status == QP_OK && !strcmp(out.at ? out.at : "", json_string_value(text)) : status != QP_OK;
    if (!text && !strcmp(error, "raise_exception"))
        is_right = raised && !strcmp(out.at ? out.at : "", json_string_value(json_object_get(wanted, "message")));
    else if (!text)
        is_right &= !raised;
    if (!is_right) print_error("%s, %s: %s\n", name, key, status == QP_OK ? out.at : err.text);
    strbuf_free(&out);
    return is_right;
}

static size_t check_template(const char *name, json_t *conversations, size_t *n_wrong) {
    char path[4096];
    char *source;
    size_t bytes, count = 0;
    chat *c;
    qp_error err;
    const char *key;
    json_t *wanted, *one, *clock = json_object_get(conversations, "frozen_clock");
    snprintf(path, sizeof path, TEMPLATES "%s.jinja", name);
    if (file_read(&source, &bytes, path, 8 << 20, &err) != QP_OK) fail_msg("%s", err.text);
    if (chat_new(&c, (span){source, bytes}, &err) != QP_OK) fail_msg("%s: %s", name, err.text);
    snprintf(path, sizeof path, TEMPLATES "%s.expected.json.xz", name);
    json_t *expected = load_packed(path);
    if (!expected) HARNESS_SKIP("cannot unpack %s (is xz there?)", path);
    json_object_foreach(expected, key, wanted) {
        one = json_copy(json_object_get(json_object_get(conversations, "conversations"), key));
        assert_non_null(one);
        json_object_set(one, "tokens", json_object_get(conversations, "tokens"));
        json_object_set(one, "now", clock);
        *n_wrong += !agrees(c, one, wanted, name, key);
        json_decref(one);
        count++;
    }
    json_decref(expected);
    chat_free(c);
    mem_free(source);
    return count;
}

static void test_fixtures(void **state) {
    json_t *cases, *conversations, *one;
    qp_error err;
    size_t i, count = 0, n_wrong = 0;
    if (access(TEMPLATES "cases.json", R_OK) != 0) HARNESS_SKIP("%s is not there", TEMPLATES);
    assert_int_equal(json_load_path(&cases, TEMPLATES "cases.json", 1 << 20, &err), QP_OK);
    assert_int_equal(json_load_path(&conversations, TEMPLATES "conversations.json", 1 << 24, &err), QP_OK);
    json_array_foreach(json_object_get(cases, "cases"), i, one) count +=
        check_template(json_string_value(json_object_get(one, "name")), conversations, &n_wrong);
    printf("%zu real templates, %zu renderings, %zu wrong\n", i, count, n_wrong);
    assert_true(count > 0);
    assert_int_equal(n_wrong, 0);
    json_decref(cases);
    json_decref(conversations);
}

/* ---- what the template sees ---- */

static void test_context(void **state) {
    static const struct {
        const char *source, *input;
        qp_status status;
        const char *wanted;
    } rows[] = {
        {"{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ x }} {{ bos_token }}",
         "{\"messages\": [], \"x\": 5}", QP_OK, "None None False 5 "},
        {"{{ tools }} {{ bos_token }}", "{\"messages\": [], \"tools\": [], \"tokens\": {\"bos_token\": \"<s>\"}}",
         QP_OK, "[] <s>"},
        {"{{ tokens is defined }}{{ now is defined }}{{ continue_final_message is defined }}",
         "{\"messages\": [], \"now\": 0, \"tokens\": {}}", QP_OK, "FalseFalseFalse"},
        {"{{ bos_token }}", "{\"messages\": [], \"tokens\": {\"bos_token\": \"a\"}, \"bos_token\": \"b\"}", QP_OK, "b"},
        {"{{ messages[0] }}", "{\"messages\": [{\"role\": \"a\", \"reasoning\": \"r\"}]}", QP_OK,
         "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}"},
        {"{{ messages[0] }}", "{\"messages\": [{\"role\": \"a\", \"thinking\": null, \"reasoning_content\": \"r\"}]}",
         QP_OK, "{'thinking': None, 'role': 'a', 'reasoning_content': 'r'}"},
        {"{{ messages[0].content }}", "{\"messages\": [{\"content\": [{\"type\": \"text\", \"text\": \"x\"}]}]}", QP_OK,
         "[{'type': 'text', 'text': 'x'}]"},
        {"{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", "{\"messages\": [], \"now\": \"2024-07-26T12:34:56\"}", QP_OK,
         "2024-07-26 12:34:56"},
        {"x", "[]", QP_BAD_ARGUMENT, "chat input is an array, expected an object"},
        {"x", "{}", QP_BAD_FORMAT, "messages"},
        {"x", "{\"messages\": {}}", QP_BAD_FORMAT, "\"messages\" is an object"},
        {"x", "{\"messages\": [1]}", QP_BAD_ARGUMENT, "messages: element 0 is an integer, expected an object"},
        {"x", "{\"messages\": [], \"tools\": [1]}", QP_BAD_ARGUMENT, "tools: element 0 is an integer"},
        {"x", "{\"messages\": [], \"documents\": 5}", QP_BAD_FORMAT, "documents"},
        {"x", "{\"messages\": [], \"now\": []}", QP_BAD_ARGUMENT, "\"now\" is an array"},
        {"x", "{\"messages\": [], \"now\": \"today\"}", QP_BAD_ARGUMENT,
         "\"now\" is \"today\", expected seconds since 1970"},
        {"{{ raise_exception('no ' ~ 1) }}", "{\"messages\": []}", QP_BAD_ARGUMENT, "no 1"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++)
        expect_template(rows[i].source, rows[i].input, rows[i].status, rows[i].wanted);
}

static void test_times(void **state) {
    static const struct {
        const char *text;
        bool is_right;
        double seconds; /* where the text names its zone */
    } rows[] = {
        {"1970-01-01T00:00:00Z", true, 0},
        {"1970-01-02 00:00Z", true, 86400},
        {"1970-01-01T01:00:00+01:00", true, 0},
        {"1970-01-01T00:00:00.25Z", true, 0.25},
        {"1969-12-31T23:30:00-0030", true, 0},
        {"1970-01-01T02+02", false, 0},
        {"2024-02-30x", false, 0},
        {"2024-13-01T00:00:00Z", false, 0},
        {"", false, 0},
        {"2024-07-26T12:34:56+1", false, 0},
        {"2024-07-26T25:00:00Z", false, 0},
        {"2024-7-26", false, 0},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        json_t *text = json_string(rows[i].text);
        double seconds = -1;
        const qp_status status = chat_time_read(text, &seconds, NULL);
        if ((status == QP_OK) != rows[i].is_right) print_error("%s\n", rows[i].text);
        assert_int_equal(status == QP_OK, rows[i].is_right);
        if (rows[i].is_right) assert_true(seconds == rows[i].seconds);
        json_decref(text);
    }
}

/* ---- continue_final_message ---- */

static void test_continue(void **state) {
    static const char plain[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}";
    static const char trims[] = "{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}</s>{% endfor %}";
    static const char drops[] = "{% for m in messages %}{{ m.role }}{% endfor %}{# content #}";
    static const char thinks[] =
        "{% for m in messages %}<think>{{ m.reasoning_content }}</think>{{ m.content }}{% endfor %}";
    static const struct {
        const char *source, *input;
        qp_status status;
        const char *wanted;
    } rows[] = {
        {plain,
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"Once "
         "\"}], \"continue_final_message\": true}",
         QP_OK, "[user]q</s>[assistant]Once "},
        {trims,
         "{\"messages\": [{\"role\": \"assistant\", \"content\": \" Once  \"}], \"continue_final_message\": true}",
         QP_OK, "[assistant]Once"},
        {"{% for m in messages %}{{ m.content[0].text }}|{{ m.content[1].text }}!{% endfor %}",
         "{\"messages\": [{\"content\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}], \"continue_final_message\": true}",
         QP_OK, "a|b"},
        {thinks,
         "{\"messages\": [{\"reasoning\": \"hm\", \"content\": \"x\"}], \"continue_final_message\": "
         "\"reasoning_content\"}",
         QP_OK, "<think>hm"},
        {thinks,
         "{\"messages\": [{\"reasoning\": \"hm\", \"content\": \"x\"}], \"continue_final_message\": \"reasoning\"}",
         QP_OK, "<think>hm"},
        {plain, "{\"messages\": [{\"role\": \"a\", \"content\": \"x\"}], \"continue_final_message\": false}", QP_OK,
         "[a]x</s>"},
        {plain, "{\"messages\": [], \"continue_final_message\": true}", QP_BAD_ARGUMENT, "the conversation is empty"},
        {plain, "{\"messages\": [{\"role\": \"a\"}], \"continue_final_message\": true}", QP_BAD_ARGUMENT,
         "no \"content\" to continue"},
        {plain, "{\"messages\": [{\"role\": \"a\", \"content\": 5}], \"continue_final_message\": true}",
         QP_BAD_ARGUMENT, "\"content\" is an integer"},
        {plain, "{\"messages\": [{\"role\": \"a\", \"content\": [{\"x\": 1}]}], \"continue_final_message\": true}",
         QP_BAD_ARGUMENT, "no text to continue"},
        {plain, "{\"messages\": [{\"role\": \"a\", \"other\": \"x\"}], \"continue_final_message\": \"other\"}",
         QP_BAD_ARGUMENT, "does not read \"other\""},
        {plain,
         "{\"messages\": [{\"content\": \"x\"}], \"continue_final_message\": true, \"add_generation_prompt\": true}",
         QP_BAD_ARGUMENT, "exclude each other"},
        {plain, "{\"messages\": [{\"content\": \"x\"}], \"continue_final_message\": 5}", QP_BAD_ARGUMENT,
         "expected a boolean"},
        {drops, "{\"messages\": [{\"role\": \"a\", \"content\": \"x\"}], \"continue_final_message\": true}",
         QP_BAD_ARGUMENT, "does not appear in the rendered text"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++)
        expect_template(rows[i].source, rows[i].input, rows[i].status, rows[i].wanted);
}

/* What was in the buffer before stays there. */
static void test_appends(void **state) {
    chat *c;
    qp_error err;
    strbuf out = {0};
    json_t *input = must_parse("{\"messages\": [{\"content\": \"x\"}], \"continue_final_message\": true}");
    assert_int_equal(chat_new(&c, SPAN("{{ messages[0].content }}!"), &err), QP_OK);
    strbuf_text(&out, "CONTINUE_FINAL_MESSAGE_TAG ");
    assert_int_equal(chat_render(c, input, &out, NULL, &err), QP_OK);
    assert_string_equal(out.at, "CONTINUE_FINAL_MESSAGE_TAG x");
    strbuf_free(&out);
    json_decref(input);
    chat_free(c);
}

/* ---- model folders ---- */

static void expect_open(const char *folder, const char *name, const char *wanted) {
    chat *c;
    qp_error err;
    if (chat_open(&c, folder, name, &err) != QP_OK) fail_msg("%s", err.text);
    expect(c, "{\"messages\": []}", QP_OK, wanted);
    chat_free(c);
}

static void expect_refused(const char *folder, const char *name, qp_status status, const char *wanted) {
    chat *c;
    qp_error err = {0};
    assert_int_equal(chat_open(&c, folder, name, &err), status);
    assert_null(c);
    if (!strstr(err.text, wanted)) fail_msg("%s", err.text);
}

static void test_folders(void **state) {
    char folder[64];
    harness_folder(folder);
    expect_refused(folder, NULL, QP_NO_FILE, "the model has no chat template");
    harness_write(folder, "tokenizer_config.json",
                  "{\"chat_template\": \"config {{ bos_token }}{{ eos_token }}\", \"bos_token\": \"<s>\", "
                  "\"eos_token\": {\"content\": \"</s>\", \"lstrip\": false}}");
    expect_open(folder, NULL, "config <s></s>");
    expect_open(folder, "default", "config <s></s>");
    expect_refused(folder, "rag", QP_BAD_ARGUMENT, "no chat template named \"rag\"; there are: default");
    harness_write(
        folder, "special_tokens_map.json",
        "{\"bos_token\": \"other\", \"pad_token\": {\"content\": \"<pad>\"}, \"additional_special_tokens\": [\"x\"]}");
    harness_write(folder, "tokenizer_config.json",
                  "{\"chat_template\": [{\"name\": \"default\", \"template\": \"list {{ bos_token }}{{ pad_token "
                  "}}\"}, {\"name\": \"rag\", \"template\": \"rag\"}, "
                  "{\"name\": \"tool_use\", \"template\": \"use {{ tools|length }}\"}], \"bos_token\": \"<s>\"}");
    expect_open(folder, NULL, "list <s><pad>");
    expect_open(folder, "rag", "rag");
    chat *c;
    assert_int_equal(chat_open(&c, folder, NULL, NULL), QP_OK);
    expect(c, "{\"messages\": [], \"tools\": [{}]}", QP_OK, "use 1");
    assert_true(chat_mentions(c, "tools"));
    assert_true(chat_mentions(c, "bos_token"));
    assert_false(chat_mentions(c, "messages"));
    assert_true(span_is(chat_source(c), "list {{ bos_token }}{{ pad_token }}"));
    chat_free(c);
    assert_int_equal(chat_open(&c, folder, "default", NULL), QP_OK);
    expect(c, "{\"messages\": [], \"tools\": [{}]}", QP_OK, "list <s><pad>");
    chat_free(c);
    harness_write(folder, "chat_template.json", "{\"chat_template\": \"json\"}");
    expect_open(folder, NULL, "json");
    harness_write(folder, "chat_template.jinja", "jinja\n");
    expect_open(folder, NULL, "jinja");
    expect_refused(folder, "rag", QP_BAD_ARGUMENT, "there are: default");
    harness_write(folder, "additional_chat_templates/rag.jinja", "more");
    harness_write(folder, "additional_chat_templates/note.txt", "{{");
    expect_open(folder, "rag", "more");
    expect_open(folder, NULL, "jinja");
    harness_write(folder, "chat_template.jinja", "a\n{% if %}");
    expect_refused(folder, NULL, QP_BAD_FORMAT, "template line 2, column 7");
    harness_remove(folder);
}

static void test_bad_folders(void **state) {
    static const struct {
        const char *file, *text;
        const char *wanted;
    } rows[] = {
        {"tokenizer_config.json", "[]", "is an array, expected an object"},
        {"tokenizer_config.json", "{", "not valid JSON"},
        {"tokenizer_config.json", "{\"chat_template\": 5}",
         "\"chat_template\" is an integer, expected a text or a list"},
        {"tokenizer_config.json", "{\"chat_template\": [{\"name\": \"x\"}]}",
         "chat_template[0] is not an object with the texts"},
        {"chat_template.json", "{\"chat_template\": {\"default\": 1}}", "chat template \"default\" is an integer"},
        {"chat_template.jinja", "\xff", "not UTF-8"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        char folder[64];
        chat *c;
        qp_error err = {0};
        harness_folder(folder);
        harness_write(folder, rows[i].file, rows[i].text);
        assert_int_equal(chat_open(&c, folder, NULL, &err), QP_BAD_FORMAT);
        if (!strstr(err.text, rows[i].wanted)) fail_msg("%s", err.text);
        harness_remove(folder);
    }
}

/* ---- our own formats ---- */

#define TALK                                                                                                           \
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"a\"}, "           \
    "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}], "                       \
    "\"add_generation_prompt\": true, \"tokens\": {\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}}"

static void test_builtin(void **state) {
    static const struct {
        const char *name, *wanted;
    } rows[] = {
        {"raw", "Sabc"},
        {"script", "<s>S\n\nUser: a\nAssistant: b\nUser: c\nAssistant:"},
        {"chatml", "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>"
                   "\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"},
        {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\na [/INST] b </s><s>[INST] c [/INST]"},
        {"llama3",
         "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|"
         "eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nb<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\nc<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"mistral", "<s>[INST] S\n\na [/INST] b</s>[INST] c [/INST]"},
        {"gemma", "<s><start_of_turn>user\nS\n\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n<start_of_turn>"
                  "user\nc<end_of_turn>\n<start_of_turn>model\n"},
        {"phi3",
         "<|system|>\nS<|end|>\n<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n<|user|>\nc<|end|>\n<|assistant|>\n"},
        {"zephyr", "<|system|>\nS</s>\n<|user|>\na</s>\n<|assistant|>\nb</s>\n<|user|>\nc</s>\n<|assistant|>\n"},
        {"deepseek", "<s>S<\xef\xbd\x9cUser\xef\xbd\x9c>a<\xef\xbd\x9c"
                     "Assistant\xef\xbd\x9c>b</s><\xef\xbd\x9cUser\xef\xbd\x9c>c<\xef\xbd\x9c"
                     "Assistant\xef\xbd\x9c>"},
        {"command-r", "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_"
                      "TOKEN|>a<|END_OF_TURN_TOKEN|>"
                      "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>b<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_"
                      "TOKEN|>c<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
        {"vicuna", "<s>S\n\nUSER: a\nASSISTANT: b</s>\nUSER: c\nASSISTANT:"},
        {"alpaca", "<s>S\n\n### Instruction:\na\n\n### Response:\nb</s>\n\n### Instruction:\nc\n\n### Response:\n"},
    };
    chat *c;
    qp_error err;
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        assert_string_equal(chat_builtin_name((int)i), rows[i].name);
        assert_int_equal(chat_builtin(&c, rows[i].name, &err), QP_OK);
        expect(c, TALK, QP_OK, rows[i].wanted);
        const char *stop; /* is the beginning of what would follow an answer: found after the last one, or a token */
        for (int k = 0; (stop = chat_builtin_stop(rows[i].name, k)); k++)
            assert_true(strstr(rows[i].wanted, stop) || (stop[0] == '<' && stop[strlen(stop) - 1] == '>'));
        assert_true(strcmp(rows[i].name, "raw") ? chat_builtin_stop(rows[i].name, 0) != NULL
                                                : !chat_builtin_stop("raw", 0));
        assert_null(chat_builtin_stop(rows[i].name, -1));
        assert_null(chat_builtin_stop(rows[i].name, 99));
        expect(c, "{\"messages\": []}", QP_OK, ""); /* nothing comes of nothing, not even an error */
        chat_free(c);
    }
    assert_null(chat_builtin_name(HARNESS_COUNT(rows)));
    assert_null(chat_builtin_name(-1));
    assert_null(chat_builtin_stop("nosuch", 0));
    assert_int_equal(chat_builtin(&c, "nosuch", &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "no prompt format named \"nosuch\"; there are: raw, script, chatml, llama2"));
}

/* ---- flat content ---- */

static void test_flat(void **state) {
    static const struct {
        const char *source;
        bool is_flat;
    } rows[] = {
        {"{% for m in messages %}{{ m.role + m.content }}{% endfor %}", true},
        {"{% for m in messages %}{{ m.content }}{% endfor %}", true},
        {"{% for m in messages %}{{ m.content|tojson }}{% endfor %}", true},
        {"{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ "
         "p.text }}{% endfor %}{% endif %}{% endfor %}",
         false},
        {"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", false},
        {"nothing", false},
        {"{{ raise_exception('always') }}", false},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        chat *c;
        assert_int_equal(chat_new(&c, span_of(rows[i].source), NULL), QP_OK);
        if (chat_wants_flat_content(c) != rows[i].is_flat) print_error("%s\n", rows[i].source);
        assert_int_equal(chat_wants_flat_content(c), rows[i].is_flat);
        chat_free(c);
    }
    qp_error err;
    json_t *flat, *messages = must_parse("[{\"role\": \"u\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
                                         "{\"type\": \"text\", \"text\": \"b\"}]}, {\"content\": \"c\"}, {\"x\": 1}]");
    json_t *wanted = must_parse("[{\"role\": \"u\", \"content\": \"ab\"}, {\"content\": \"c\"}, {\"x\": 1}]");
    assert_int_equal(chat_flatten(&flat, messages, &err), QP_OK);
    assert_true(json_equal(flat, wanted));
    json_decref(flat);
    json_decref(messages);
    json_decref(wanted);
    messages = must_parse("[{\"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]");
    assert_int_equal(chat_flatten(&flat, messages, &err), QP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "part 0 of message 0 is not a text"));
    json_decref(messages);
}

static void test_no_memory(void **state) {
    json_t *input = must_parse(TALK);
    qp_status status = QP_NO_MEMORY;
    for (int64_t n = 0; status != QP_OK && n < 5000; n++) {
        chat *c = NULL;
        qp_error err = {0};
        strbuf out = {0};
        mem_fail_after(n);
        status = chat_builtin(&c, "llama2", &err);
        if (status == QP_OK) status = chat_render(c, input, &out, NULL, &err);
        mem_fail_after(-1);
        if (status != QP_OK && status != QP_NO_MEMORY) fail_msg("after %lld: %s", (long long)n, err.text);
        chat_free(c);
        strbuf_free(&out);
    }
    assert_int_equal(status, QP_OK);
    json_decref(input);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),    cmocka_unit_test(test_context), cmocka_unit_test(test_times),
        cmocka_unit_test(test_continue),    cmocka_unit_test(test_appends), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_bad_folders), cmocka_unit_test(test_builtin), cmocka_unit_test(test_flat),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
