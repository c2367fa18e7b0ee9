/* chat_format_test.c — --mode offers what the library has; stop texts and special tokens of the demo model. */
#include "chat_format.h"
#include "base/mem.h"
#include "harness.h"

#define DEMO QUIPU_SOURCE "/models/demo"

static const option_row *mode_row(void) {
    for (const option_row *row = option_rows; row < option_rows + option_count; row++)
        if (!strcmp(row->name, "mode") && row->commands & FOR_CHAT) return row;
    return NULL;
}

static void count_choice(void *user, const char *choice) { ++*(int *)user; }

static void every_mode_is_offered(void **state) {
    const option_row *row = mode_row();
    int n_offered = 0, n = 0;
    assert_non_null(row);
    for (const char *name; (name = qp_template_builtin_name(n)); n++) {
        int n_stops = 0;
        if (!option_is_choice(row->choices, name)) fail_msg("--mode does not offer %s", name);
        while (qp_template_builtin_stop(name, n_stops)) n_stops++;
        assert_true(n_stops <= CHAT_STOPS_MAX);
    }
    option_each_choice(row->choices, count_choice, &n_offered);
    assert_int_equal(n_offered, n);
}

/* ---- with a model ---- */

static int open_demo(void **state) {
    qp_error err;
    qp_model *model = NULL;
    if (access(DEMO "/model.safetensors", R_OK) == 0 && qp_model_open(&model, DEMO, NULL, &err) != QP_OK)
        fail_msg("%s", err.text);
    *state = model;
    return 0;
}

static int close_demo(void **state) {
    qp_model_close(*state);
    return 0;
}

static qp_model *need(void **state) {
    if (!*state) HARNESS_SKIP("models/demo is missing");
    return *state;
}

static void open_mode(chat_format *f, void **state, const char *mode) {
    options o = {.model = DEMO};
    session s = {.o = &o, .command = command_find("chat")};
    qp_error err;
    if (chat_format_open(f, &s, need(state), mode, &err) != QP_OK) fail_msg("%s", err.text);
}

static const char messages[] = "[{\"role\": \"user\", \"content\": \"Hello!\"}]";

static void ids_of(const chat_format *f, input_ids *ids) {
    qp_error err;
    bool is_open, raised;
    if (chat_format_prompt(f, messages, sizeof messages - 1, ids, &is_open, &raised, &err) != QP_OK)
        fail_msg("%s", err.text);
    assert_true(!is_open && !raised);
}

static void special_tokens(void **state) {
    chat_format f;
    open_mode(&f, state, "llama3");
    assert_int_equal(f.n_stops, 2);
    assert_int_equal(f.n_stop_ids, 2); /* both are special tokens here */
    assert_int_equal(f.stop_ids[0], qp_token_id(qp_model_peek_tokenizer(*state), "<|eot_id|>"));
    assert_string_equal(json_string_value(json_object_get(f.tokens, "bos_token")), "<|begin_of_text|>");
    chat_format_close(&f);
    open_mode(&f, state, "chatml");
    assert_int_equal(f.n_stops, 2);
    assert_int_equal(f.n_stop_ids, 0); /* plain text for this model */
    chat_format_close(&f);
}

static void own_template_is_that_of_llama3(void **state) {
    chat_format own, mode;
    input_ids a = {NULL, 0, 0}, b = {NULL, 0, 0};
    open_mode(&own, state, NULL);
    open_mode(&mode, state, "llama3");
    ids_of(&own, &a);
    ids_of(&mode, &b);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.at, b.at, a.count * sizeof *a.at);
    assert_int_equal(own.n_stops, 0);
    assert_int_equal(own.n_stop_ids, 1); /* what the template writes behind an answer */
    assert_int_equal(own.stop_ids[0], mode.stop_ids[0]);
    input_free_ids(&a);
    input_free_ids(&b);
    chat_format_close(&own);
    chat_format_close(&mode);
}

/* Its tokens around the text are the tokenizer's. */
static void raw_is_the_text(void **state) {
    chat_format f;
    input_ids ids = {NULL, 0, 0};
    qp_error err;
    int32_t *plain;
    size_t count;
    open_mode(&f, state, "raw");
    ids_of(&f, &ids);
    assert_int_equal(qp_tokenize(qp_model_peek_tokenizer(*state), "Hello!", 6, 0, &plain, &count, &err), QP_OK);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.at, plain, count * sizeof *plain);
    qp_free(plain);
    input_free_ids(&ids);
    chat_format_close(&f);
}

static qp_status run_once(const qp_model *model, qp_error *err) {
    options o = {.model = DEMO};
    session s = {.o = &o, .command = command_find("chat")};
    chat_format f;
    input_ids ids = {NULL, 0, 0};
    bool is_open, raised;
    qp_status status = chat_format_open(&f, &s, model, "llama3", err);
    if (status == QP_OK) status = chat_format_prompt(&f, messages, sizeof messages - 1, &ids, &is_open, &raised, err);
    input_free_ids(&ids);
    chat_format_close(&f);
    return status;
}

static void memory_ends(void **state) {
    qp_model *model = need(state);
    qp_status status = QP_NO_MEMORY;
    int64_t n = 0;
    for (; status != QP_OK && n < 5000; n++) {
        qp_error err;
        mem_fail_after(n);
        status = run_once(model, &err);
        mem_fail_after(-1);
        if (status != QP_OK) assert_int_equal(status, QP_NO_MEMORY);
    }
    assert_true(status == QP_OK && n > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_is_offered),
        cmocka_unit_test_setup_teardown(special_tokens, open_demo, close_demo),
        cmocka_unit_test_setup_teardown(own_template_is_that_of_llama3, open_demo, close_demo),
        cmocka_unit_test_setup_teardown(raw_is_the_text, open_demo, close_demo),
        cmocka_unit_test_setup_teardown(memory_ends, open_demo, close_demo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
