/* speech_test.c — every notation of calls and thoughts, cut at every byte. (T54) */
#include "harness.h"
#include "speech.h"
#include "base/mem.h"

typedef struct heard {
    strbuf log;
    int kind, call;
} heard;

/* "T:text", "R:thought", "C0:name", "A0:arguments", "E0+" (complete) or "E0-"; pieces of one kind are joined. */
static void hear(void *user, const speech_part *p) {
    heard *h = user;
    const bool goes_on = h->log.bytes && h->kind == (int)p->kind && h->call == p->call && p->kind != SAY_CALL;
    if (!goes_on && h->log.bytes) strbuf_char(&h->log, '|');
    if (p->kind == SAY_CALL_END) {
        strbuf_format(&h->log, "E%d%c", p->call, p->is_complete ? '+' : '-');
    } else {
        if (!goes_on && p->kind <= SAY_THOUGHT) strbuf_format(&h->log, "%c:", "TR"[p->kind]);
        if (!goes_on && p->kind > SAY_THOUGHT) strbuf_format(&h->log, "%c%d:", "CA"[p->kind - SAY_CALL], p -> call);
        strbuf_add(&h->log, p->text.at, p->text.bytes);
    }
    assert_true(p->from <= p->to);
    h->kind = p->kind;
    h->call = p->call;
}

static const char tool_list[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"a\":{\"type\":\"integer\"},\"s\":{\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"g\"}"
    "}]";

static const thought_format think = {"<think>", "</think>"};

typedef struct test_row {
    const char *format; /* NULL: none */
    const char *how;    /* t: thoughts; o: the prompt opened one; 1: one call; s: "STOP" is a stop text */
    const char *input, *expected;
} test_row;

static const test_row rows[] = {
    {NULL, "", "Hello <think> there", "T:Hello <think> there"},
    {NULL, "t", "  Hello\n", "T:  Hello\n"},
    {NULL, "t", "<think>\nhm, <b>\n</think>\n\nHi\n", "R:hm, <b>|T:Hi\n"},
    {NULL, "to", "hm\n</think>\n\nHi", "R:hm|T:Hi"},
    {NULL, "to", "never ends </thin", "R:never ends </thin"},
    {NULL, "t", "<think></think>Hi", "T:Hi"},
    {NULL, "t", "<thin", "T:<thin"},
    {NULL, "t", "Hi <think>no</think>", "T:Hi <think>no</think>"},
    {NULL, "s", "one two STOP three", "T:one two "},
    {NULL, "ts", "<think>a STOP b</think>one STOP", "R:a STOP b|T:one "},
    {NULL, "s", "ends in STO", "T:ends in STO"},
    {"hermes", "", "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"s\": \"}\\\"\"}}\n</tool_call>",
     "T:Sure.|C0:f|A0:{\"a\": 1, \"s\": \"}\\\"\"}|E0+"},
    {"hermes", "",
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"arguments\":{\"a\":2},\"name\":\"g\"}"
     "</tool_call>",
     "C0:f|A0:{}|E0+|C1:g|A1:{\"a\":2}|E1+"},
    {"hermes", "1",
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>",
     "C0:f|A0:{\"a\":1}|E0+"},
    {"hermes", "", "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call> done",
     "C0:f|A0:{\"a\":1}|E0+|T:done"},
    {"hermes", "", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "C0:f|A0:{\"a\":|E0-"},
    {"hermes", "", "<tool_call>{\"name\":\"f\"}", "C0:f|A0:{}|E0+"},
    {"hermes", "", "<tool_call>not json</tool_call>", "T:<tool_call>not json</tool_call>"},
    {"hermes", "", "<tool_call>{\"a\":1}</tool_call> x", "T:<tool_call>{\"a\":1}</tool_call> x"},
    {"hermes", "t", "<think>call <tool_call></think><tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>",
     "R:call <tool_call>|C0:f|A0:{\"a\":1}|E0+"},
    {"hermes", "", "a < b and <tool_cal", "T:a < b and <tool_cal"},
    {"hermes", "s",
     "<tool_call>[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"s\":\"STOP\"}}}]</tool_call>",
     "C0:f|A0:{\"s\":\"STOP\"}|E0+"},
    {"llama3", "", "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "C0:f|A0:{\"a\": 1}|E0+"},
    {"llama3", "",
     "{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"a\":1}}; {\"name\":\"g\",\"parameters\":{}}",
     "C0:f|A0:{\"a\":1}|E0+|C1:g|A1:{}|E1+"},
    {"llama3", "", "<|python_tag|>{\"name\": \"g\", \"parameters\": {}}", "C0:g|A0:{}|E0+"},
    {"llama3", "", "{\"parameters\": {\"a\": 1}, \"name\": \"f\"}", "C0:f|A0:{\"a\": 1}|E0+"},
    {"llama3", "", "{\"city\": \"Rome\"}", "T:{\"city\": \"Rome\"}"},
    {"llama3", "", "{\"name\": \"Anna\"}", "T:{\"name\": \"Anna\"}"},
    {"llama3", "", "{ not json", "T:{ not json"},
    {"llama3", "", "{\"name\": \"f", "T:{\"name\": \"f"},
    {"mistral", "", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
     "C0:f|A0:{\"a\": 1}|E0+|C1:g|A1:{}|E1+"},
    {"mistral-args", "", "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x[ARGS]{}",
     "C0:f|A0:{\"a\": 1}|E0+|C1:g|A1:{}|E1+"},
    {"functionary", "", "<function=f>{\"a\": 1}</function><function=g>{}</function>",
     "C0:f|A0:{\"a\": 1}|E0+|C1:g|A1:{}|E1+"},
    {"deepseek-r1", "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "C0:f|A0:{\"a\":1}|E0+|C1:g|A1:{}|E1+"},
    {"deepseek-v3", "",
     "Let me look.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "T:Let me look.|C0:f|A0:{\"a\":1}|E0+"},
    {"kimi", "",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "C0:f|A0:{\"a\":1}|E0+"},
    {"qwen-coder", "",
     "<tool_call>\n<function=f>\n<parameter=a>\n3\n</parameter>\n<parameter=s>\nline \"1\"\nline 2\n</parameter>\n"
     "</function>\n</tool_call>",
     "C0:f|A0:{\"a\":3,\"s\":\"line \\\"1\\\"\\nline 2\"}|E0+"},
    {"qwen-coder", "",
     "<tool_call>\n<function=g>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=x>\nTrue\n"
     "</parameter>\n<parameter=y>\nfree text\n</parameter>\n</function>\n</tool_call>",
     "C0:g|A0:{}|E0+|C1:f|A1:{\"x\":true,\"y\":\"free text\"}|E1+"},
    {"qwen-coder", "", "<tool_call>\n<function=f>\n<parameter=s>\nhal", "C0:f|A0:{\"s\":\"hal|E0-"},
    {"glm", "",
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>s</arg_key>\n<arg_value>x y</arg_value>\n"
     "</tool_call>",
     "C0:f|A0:{\"a\":1,\"s\":\"x y\"}|E0+"},
    {"glm", "", "<tool_call>f<arg_key>s</arg_key><arg_value>1</arg_value></tool_call><tool_call>g</tool_call>",
     "C0:f|A0:{\"s\":\"1\"}|E0+|C1:g|A1:{}|E1+"},
    {"deepseek-dsml", "",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" string=\"true\">12"
     "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"a\" "
     "string=\"false\">[1,2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
     "</｜DSML｜function_calls>",
     "C0:f|A0:{\"s\":\"12\",\"a\":[1,2]}|E0+"},
    {"atem", "",
     "<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"s\"> x\n</atem:parameter>\n"
     "</atem:invoke>\n</atem:function_calls>",
     "C0:f|A0:{\"s\":\" x\\n\"}|E0+"},
    {"apertus", "", "<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>",
     "C0:f|A0:{\"a\": 1}|E0+|C1:g|A1:{}|E1+"},
    {"command-r", "",
     "Action:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"a\": 1}\n    }\n]```",
     "C0:f|A0:{\"a\": 1}|E0+"},
    {"lfm2", "", "<|tool_call_start|>[f(a=1, s=\"it's\"), g(x=[1, {'k': None}], y=True)]<|tool_call_end|>Checking.",
     "C0:f|A0:{\"a\":1,\"s\":\"it's\"}|E0+|C1:g|A1:{\"x\":[1,{\"k\":null}],\"y\":true}|E1+|T:Checking."},
    {"lfm2", "", "<|tool_call_start|>[f(a=open())]<|tool_call_end|>",
     "T:<|tool_call_start|>[f(a=open())]<|tool_call_end|>"},
    {"llama4", "", "[f(a=1)]", "C0:f|A0:{\"a\":1}|E0+"},
    {"llama4", "", "[1, 2]", "T:[1, 2]"},
    {"harmony", "",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
     "<|message|>{\"a\":1}",
     "R:hm|C0:f|A0:{\"a\":1}|E0+"},
    {"harmony", "s", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi STOP",
     "R:hm|T:Hi "},
    {"harmony", "", " to=functions.g<|channel|>commentary json<|message|>{}<|call|>", "C0:g|A0:{}|E0+"},
    {"harmony", "", "plain words", "T:plain words"},
    {"generic", "", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>", "C0:f|A0:{\"a\": 1}|E0+"},
    {"gigachat", "", "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
     "C0:f|A0:{\"a\": 1}|E0+"},
};

static const char *const stops[] = {"STOP"};

static speech *open_row(const test_row *row, heard *h, const json_t *tools) {
    const speech_setup setup = {.tools = row->format ? tool_format_find(row->format) : NULL,
                                .thoughts = strchr(row->how, 't') ? &think : NULL,
                                .starts_in_thought = strchr(row->how, 'o') != NULL,
                                .is_single = strchr(row->how, '1') != NULL,
                                .tool_list = tools,
                                .stops = stops,
                                .n_stops = strchr(row->how, 's') != NULL,
                                .say = hear,
                                .user = h};
    return speech_new(&setup);
}

/* Cuts after `first` bytes, or after each `every`. */
static void check_row(const test_row *row, const json_t *tools, size_t first, size_t every) {
    heard h = {{0}, -1, -1};
    const size_t n = strlen(row->input);
    assert_true(!row->format || tool_format_find(row->format));
    speech *s = open_row(row, &h, tools);
    assert_non_null(s);
    for (size_t at = 0, step = first; at < n; at += step, step = every)
        speech_feed(s, row->input + at, step < n - at ? step : n - at, false);
    speech_feed(s, "", 0, true);
    assert_false(speech_failed(s));
    if (strcmp(h.log.at ? h.log.at : "", row->expected))
        fail_msg("%s: \"%s\" cut at %zu, %zu\n found    %s\n expected %s", row->format ? row->format : "-", row->input,
                 first, every, h.log.at ? h.log.at : "", row->expected);
    const bool is_stopped =
        strchr(row->how, 's') && strstr(row->input, "STOP") && !strstr(row->expected, "{\"s\":\"STOP");
    assert_int_equal(speech_stop(s), is_stopped ? 0 : -1);
    speech_free(s);
    strbuf_free(&h.log);
}

static void test_rows(void **state) {
    json_t *tools = json_loads(tool_list, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        const size_t n = strlen(rows[i].input);
        for (size_t every = 1; every <= 3; every++) check_row(&rows[i], tools, every, every);
        for (size_t first = 1; first <= n; first++) check_row(&rows[i], tools, first, n);
    }
    json_decref(tools);
}

/* Arguments are told while they are written, names before their arguments. */
static void test_fragments(void **state) {
    heard h = {{0}, -1, -1};
    const test_row row = {"hermes", "", "", ""};
    speech *s = open_row(&row, &h, NULL);
    const char input[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"abc";
    speech_feed(s, input, sizeof input - 1, false);
    assert_string_equal(h.log.at, "C0:f|A0:{\"text\": \"abc");
    speech_free(s);
    strbuf_free(&h.log);
}

static void test_memory(void **state) {
    json_t *tools = json_loads(tool_list, 0, NULL);
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++)
        for (int n = 0; n < 12; n++) {
            heard h = {{0}, -1, -1};
            mem_fail_after(n);
            speech *s = open_row(&rows[i], &h, tools);
            mem_fail_after(-1);
            if (!s) continue;
            mem_fail_after(n);
            speech_feed(s, rows[i].input, strlen(rows[i].input), true);
            mem_fail_after(-1);
            speech_free(s);
            strbuf_free(&h.log);
        }
    json_decref(tools);
}

/* Any row may meet any input: nothing is lost but tags, blanks and the form of calls; it always ends. */
static void test_mixed(void **state) {
    json_t *tools = json_loads(tool_list, 0, NULL);
    for (int f = 0; tool_format_row(f); f++)
        for (size_t i = 0; i < HARNESS_COUNT(rows); i++)
            for (size_t cut = 0; cut <= strlen(rows[i].input); cut++) {
                heard h = {{0}, -1, -1};
                const test_row row = {tool_format_row(f)->name, "t", rows[i].input, ""};
                speech *s = open_row(&row, &h, tools);
                speech_feed(s, row.input, cut, false);
                speech_feed(s, row.input + cut, strlen(row.input) - cut, true);
                speech_free(s);
                strbuf_free(&h.log);
            }
    json_decref(tools);
}

static void test_open_thought(void **state) {
    assert_true(thought_is_open(&think, SPAN("<|assistant|>\n<think>\n")));
    assert_true(thought_is_open(&think, SPAN("<think>")));
    assert_false(thought_is_open(&think, SPAN("<think>\n\n</think>\n\n")));
    assert_false(thought_is_open(&think, SPAN("k>")));
}

/* Which row is a template's. */
static void test_detect(void **state) {
    static const char *const templates[][3] = {
        {"Qwen-Qwen2.5-7B-Instruct", "hermes", NULL},
        {"Qwen-Qwen3-0.6B", "hermes", "<think>"},
        {"Qwen3-Coder", "qwen-coder", NULL},
        {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen-coder", "<think>"},
        {"StepFun3.5-Flash", "qwen-coder", "<think>"},
        {"ByteDance-Seed-OSS", "seed", "<seed:think>"},
        {"GLM-4.6", "glm", "<think>"},
        {"GLM-5.2", "glm", "<think>"},
        {"laguna_v2_chat_template", "glm", "<think>"},
        {"Kimi-K2-Instruct", "kimi", NULL},
        {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-r1", "<think>"},
        {"deepseek-ai-DeepSeek-V3.2", "deepseek-dsml", "<think>"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", NULL},
        {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-args", NULL},
        {"meetkai-functionary-medium-v3.1", "functionary", NULL},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3", NULL},
        {"openai-gpt-oss-120b", "harmony", NULL},
        {"Apertus-8B-Instruct", "apertus", "<|inner_prefix|>"},
        {"unsloth-Apriel-1.5", "apriel", "<thinking>"},
        {"LFM2-8B-A1B", "lfm2", NULL},
        {"glimmer_chat_template", "atem", NULL},
        {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r", NULL},
        {"GigaChat3-10B-A1.8B", "gigachat", NULL},
        {"google-gemma-2-2b-it", NULL, NULL},
    };
    if (access(QUIPU_FIXTURES "/templates/Qwen3-Coder.jinja", R_OK))
        HARNESS_SKIP("the published templates are missing");
    for (size_t i = 0; i < HARNESS_COUNT(templates); i++) {
        char path[512], text[40000];
        snprintf(path, sizeof path, QUIPU_FIXTURES "/templates/%s.jinja", templates[i][0]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        const size_t n = fread(text, 1, sizeof text, file);
        fclose(file);
        const tool_format *f = tool_format_detect((span){text, n}, NULL);
        const thought_format *t = thought_format_detect((span){text, n}, NULL);
        if (strcmp(f ? f->name : "", templates[i][1] ? templates[i][1] : "") ||
            strcmp(t ? t->open : "", templates[i][2] ? templates[i][2] : ""))
            fail_msg("%s: found %s and %s", templates[i][0], f ? f->name : "nothing", t ? t->open : "nothing");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_fragments),    cmocka_unit_test(test_memory),
        cmocka_unit_test(test_mixed), cmocka_unit_test(test_open_thought), cmocka_unit_test(test_detect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
