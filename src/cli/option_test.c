/* option_test.c — the table of options is consistent; values come in from every side; refusals name the nearest. */
#include "command.h"
#include "base/mem.h"
#include "harness.h"

enum { ARGS_MAX = 8 };

static qp_status parse(options *o, const char *name, const char *const *words, qp_error *err) {
    char *argv[ARGS_MAX + 1] = {NULL};
    int argc = 0;
    for (; argc < ARGS_MAX && words[argc]; argc++) argv[argc] = (char *)(uintptr_t)words[argc];
    const command_row *c = command_find(name);
    assert_non_null(c);
    return option_parse(o, c, argc, argv, err);
}

static void no_name_twice(void **state) {
    for (size_t i = 0; i < option_count; i++)
        for (size_t k = 0; k < i; k++) {
            if (!(option_rows[i].commands & option_rows[k].commands)) continue;
            assert_string_not_equal(option_rows[i].name, option_rows[k].name);
            if (option_rows[i].letter) assert_int_not_equal(option_rows[i].letter, option_rows[k].letter);
        }
}

static void rows_are_whole(void **state) {
    unsigned all = 0;
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) all |= c->bit;
    for (const option_row *row = option_rows; row < option_rows + option_count; row++) {
        assert_true(row->commands && !(row->commands & ~all));
        assert_true(row->kind == OPTION_FLAG ? !row->value : row->value != NULL);
        assert_true((row->kind == OPTION_CHOICE) == (row->choices != NULL));
        assert_true(strlen(row->help) > 5 && row->help[strlen(row->help) - 1] != '.');
        assert_true(row->field < sizeof(options));
    }
}

/* Every option that excludes others exists where it does. */
static void rivals_exist(void **state) {
    for (size_t i = 0; i < option_rival_count; i++) {
        size_t found = 0;
        for (const option_row *row = option_rows; row < option_rows + option_count; row++)
            found += row->commands & option_rival_rows[i].commands &&
                     option_is_choice(option_rival_rows[i].names, row->name);
        assert_true(found >= 2);
    }
}

static void defaults_are_allowed(void **state) {
    for (const command_row *c = command_rows; c < command_rows + command_count; c++) {
        options o;
        qp_error err;
        assert_int_equal(option_parse(&o, c, 0, NULL, &err), QP_OK);
        for (size_t i = 0; i < option_count; i++) assert_false(o.given[i]);
        assert_string_equal(o.color, "auto");
        options_free(&o);
    }
}

static void forms_of_values(void **state) {
    static const char *const forms[][3] = {{"--new-tokens", "12"}, {"--new-tokens=12"}, {"-n", "12"}, {"-n=12"}};
    for (size_t i = 0; i < HARNESS_COUNT(forms); i++) {
        options o;
        assert_int_equal(parse(&o, "generate", forms[i], NULL), QP_OK);
        assert_int_equal(o.new_tokens, 12);
        assert_true(option_given(&o, command_find("generate"), &o.new_tokens));
        assert_false(option_given(&o, command_find("generate"), &o.top_k));
        options_free(&o);
    }
}

static void all_kinds(void **state) {
    options o;
    const char *const words[] = {"--stop", "a", "--stop=", "-p", "--x", "--temperature=1e-3", "--chat", NULL};
    assert_int_equal(parse(&o, "generate", words, NULL), QP_OK);
    assert_int_equal(o.stop.count, 2);
    assert_string_equal(o.stop.at[0], "a");
    assert_string_equal(o.stop.at[1], "");
    assert_string_equal(o.prompt, "--x");
    assert_true(o.temperature == 1e-3 && o.chat);
    options_free(&o);
    const char *const lists[] = {
        "--dynatemp=0.5,1.5,2", "--logit-bias=7:-1.5", "--logit-bias=9:-inf", "--ban-token=3", "--ban=x", NULL};
    assert_int_equal(parse(&o, "generate", lists, NULL), QP_OK);
    assert_true(o.dynatemp.count == 3 && o.dynatemp.at[1] == 1.5);
    assert_true(o.logit_bias.count == 2 && o.logit_bias.at[0].id == 7 && o.logit_bias.at[0].bias == -1.5f);
    assert_true(o.logit_bias.at[1].bias < -1e30f);
    assert_true(o.ban_token.count == 1 && o.ban_token.at[0] == 3 && o.ban.count == 1);
    options_free(&o);
    const char *const bench[] = {"-p", "512,0,7", "compute", "-b=1,4,16", NULL};
    assert_int_equal(parse(&o, "bench", bench, NULL), QP_OK);
    assert_int_equal(o.prompt_list.count, 3);
    assert_int_equal(o.prompt_list.at[2], 7);
    assert_int_equal(o.sequences.at[2], 16);
    assert_string_equal(o.word, "compute");
    assert_string_equal(o.format, "bf16");
    options_free(&o);
}

static const struct {
    const char *command, *words[4], *found;
} wrong[] = {
    {"generate", {"--temprature", "1"}, "unknown option '--temprature'; did you mean --temperature?"},
    {"generate", {"--temp=1"}, "did you mean --temperature?"},
    {"generate", {"--sede", "1"}, "did you mean --seed?"},
    {"tokenize", {"--lora", "x"}, "--lora"},
    {"generate", {"--mirostat-tau", "x"}, "--mirostat-tau: 'x' is not a number"},
    {"generate", {"--mirostat-eta", "-1"}, "allowed are 0 to"},
    {"generate", {"--dynatemp", "1,"}, "--dynatemp: '' is not a number"},
    {"generate", {"--dynatemp", "1,x"}, "--dynatemp: 'x' is not a number"},
    {"generate", {"--logit-bias", "7"}, "--logit-bias: '7' is not ID:VALUE"},
    {"generate", {"--logit-bias", "x:1"}, "--logit-bias: 'x' is not a whole number"},
    {"generate", {"--logit-bias", "7:"}, "--logit-bias: '' is not a number"},
    {"generate", {"--logit-bias", "7:nan"}, "--logit-bias: 'nan' is not a number"},
    {"generate", {"--ban-token", "-1"}, "--ban-token: found -1, allowed are 0 to"},
    {"generate", {"--num-choices", "0"}, "allowed are 1 to"},
    {"generate", {"-n5"}, "'-n 5'"},
    {"generate", {"-z"}, "unknown option '-z'"},
    {"generate", {"-model", "x"}, "unknown option '-model'; did you mean --model?"},
    {"generate", {"-n"}, "-n needs a value: N"},
    {"generate", {"-n", "x"}, "-n: 'x' is not a whole number"},
    {"generate", {"-n", ""}, "-n: '' is not a whole number"},
    {"generate", {"-n", " 5"}, "is not a whole number"},
    {"generate", {"-n", "5 "}, "is not a whole number"},
    {"generate", {"-n", "0x10"}, "is not a whole number"},
    {"generate", {"-n", "-5"}, "-n: found -5, allowed are 1 to"},
    {"generate", {"-n", "99999999999999999999"}, "allowed are"},
    {"generate", {"-n", "11111111111111111111111111111111111111111"}, "is not a whole number"},
    {"generate", {"--top-p", "1.5"}, "--top-p: found 1.5, allowed are 0 to 1"},
    {"generate", {"--top-p", "nan"}, "is not a number"},
    {"generate", {"--temperature", "inf"}, "is not a number"},
    {"generate", {"--temperature", "1,5"}, "is not a number"},
    {"generate", {"--greedy=1"}, "--greedy takes no value"},
    {"generate", {"--greedy", "--temperature", "1"}, "--greedy or --temperature, not both"},
    {"generate", {"-p", "a", "--ids=b"}, "--prompt or --ids, not both"},
    {"generate",
     {"--cpu", "sse"},
     "--cpu: found 'sse', allowed are ref|avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx|amxint8|neon|dotprod|i8mm"},
    {"generate", {"--cpu", "avx"}, "allowed are ref|avx2"},
    {"generate", {"--cache=q5"}, "allowed are fp16|fp32|q8|q6|q4"},
    {"generate", {"word"}, "takes options only, found 'word'; a text is given with -p"},
    {"logits", {"--", "-n"}, "takes options only, found '-n'"},
    {"tokenize", {"--greedy"}, "--greedy is not an option of 'tokenize' but of generate"},
    {"tokenize", {"--jsonl", "-p", "x"}, "--prompt or --jsonl, not both"},
    {"template", {"-f", "x", "-m", "y"}, "--model or --file, not both"},
    {"bench", {"bandwith"}, "found 'bandwith', allowed are bandwidth|compute"},
    {"bench", {"compute", "compute"}, "is too much"},
    {"bench", {"-p", "1,,2"}, "'' is not a whole number"},
    {"bench", {"-p", "1,2,"}, "is not a whole number"},
    {"bench", {"-p", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}, "more than 16 numbers"},
    {"help", {"--completion", "csh"}, "allowed are bash|zsh|fish"},
    {"version", {"-q", "-v"}, "--quiet or --verbose, not both"},
};

static void refusals(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(wrong); i++) {
        options o;
        qp_error err = {.text = ""};
        const char *const words[] = {wrong[i].words[0], wrong[i].words[1], wrong[i].words[2], wrong[i].words[3], NULL};
        assert_int_equal(parse(&o, wrong[i].command, words, &err), QP_BAD_ARGUMENT);
        if (!strstr(err.text, wrong[i].found)) fail_msg("%s: expected \"%s\"", err.text, wrong[i].found);
        assert_int_equal(parse(&o, wrong[i].command, words, NULL), QP_BAD_ARGUMENT);
        options_free(&o);
    }
}

/* A copy takes values of its own; the last of two that exclude each other holds. */
static void one_value_after_the_other(void **state) {
    options o, copy;
    qp_error err;
    const command_row *c = command_find("generate");
    const char *const words[] = {"--stop", "a", "--logit-bias", "1:2", "--greedy", NULL};
    assert_int_equal(parse(&o, "generate", words, NULL), QP_OK);
    assert_int_equal(options_copy(&copy, &o, &err), QP_OK);
    const option_row *temperature = option_find_own(c, "temperature"), *stop = option_find_own(c, "stop");
    assert_int_equal(option_set(&copy, temperature, "temperature", "x", &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "temperature: 'x' is not a number");
    assert_true(copy.greedy);
    assert_int_equal(option_set(&copy, temperature, "temperature", "1.5", &err), QP_OK);
    assert_true(copy.temperature == 1.5 && !copy.greedy && o.greedy);
    assert_int_equal(option_set(&copy, stop, "stop", "b", &err), QP_OK);
    assert_int_equal(copy.stop.count, 2);
    option_unset(&copy, stop);
    assert_int_equal(copy.stop.count, 0);
    assert_int_equal(o.stop.count, 1);
    assert_non_null(option_find_own(c, "dry_allowed_length"));
    assert_null(option_find_own(c, "model"));
    assert_null(option_find_own(c, "prompt"));
    options_free(&copy);
    mem_fail_after(1);
    const qp_status status = options_copy(&copy, &o, &err);
    mem_fail_after(-1);
    assert_int_equal(status, QP_NO_MEMORY);
    options_free(&copy);
    options_free(&o);
}

/* parse() with one environment variable set. */
static qp_status parse_with(options *o, const char *command_name, const char *name, const char *value,
                            const char *const *words, qp_error *err) {
    setenv(name, value, 1);
    const qp_status status = parse(o, command_name, words, err);
    unsetenv(name);
    return status;
}

static void environment(void **state) {
    options o;
    qp_error err;
    const char *const none[] = {NULL}, *const seven[] = {"--top-k", "7", NULL}, *const ids[] = {"--ids", "x", NULL};
    const char *const help[] = {"--help", NULL};
    assert_int_equal(parse_with(&o, "generate", "QUIPU_TOP_K", "5", none, &err), QP_OK);
    assert_int_equal(o.top_k, 5);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_TOP_K", "5", seven, &err), QP_OK);
    assert_int_equal(o.top_k, 7);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_TOP_K", "", none, &err), QP_OK);
    assert_int_equal(o.top_k, 0);
    assert_int_equal(parse_with(&o, "tokenize", "QUIPU_TOP_K", "x", none, &err), QP_OK); /* not its option */
    assert_int_equal(parse_with(&o, "generate", "QUIPU_TOP_K", "x", none, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "QUIPU_TOP_K: 'x' is not a whole number");
    assert_int_equal(parse_with(&o, "generate", "QUIPU_TOP_K", "x", help, &err), QP_OK);
    assert_true(o.help);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_GREEDY", "yes", none, &err), QP_OK);
    assert_true(o.greedy);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_GREEDY", "0", none, &err), QP_OK);
    assert_false(o.greedy);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_GREEDY", "maybe", none, &err), QP_BAD_ARGUMENT);
    assert_int_equal(parse_with(&o, "generate", "QUIPU_PROMPT", "p", ids, &err), QP_OK); /* what is typed wins */
    assert_null(o.prompt);
    assert_string_equal(o.ids, "x");
    assert_int_equal(parse_with(&o, "template", "QUIPU_MODEL", "m", none, &err), QP_OK);
    assert_string_equal(o.model, "m");
}

static void memory_runs_out(void **state) {
    const char *const words[] = {"--stop", "a", NULL};
    options o;
    qp_error err;
    mem_fail_after(0);
    const qp_status status = parse(&o, "generate", words, &err);
    mem_fail_after(-1);
    assert_int_equal(status, QP_NO_MEMORY);
    options_free(&o);
}

static void environment_names(void **state) {
    char name[64];
    option_environment(name, sizeof name, "no-parse-special");
    assert_string_equal(name, "QUIPU_NO_PARSE_SPECIAL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_name_twice),
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(rivals_exist),
        cmocka_unit_test(forms_of_values),
        cmocka_unit_test(all_kinds),
        cmocka_unit_test(refusals),
        cmocka_unit_test(environment),
        cmocka_unit_test(environment_names),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(defaults_are_allowed),
        cmocka_unit_test(one_value_after_the_other),
    };
    for (size_t i = 0; i < option_count; i++) { /* the tester's own settings must not matter */
        char name[64];
        option_environment(name, sizeof name, option_rows[i].name);
        unsetenv(name);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
