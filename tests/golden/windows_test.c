/* windows_test.c — jobs of a model whose every layer has a window: under pressure they give up the pages that are older
 * than it, instead of their places; what they answer stays the same.
 *
 * The model is the demo's first layer with a window that it was not trained with: its text is odd, but that does not
 * matter here. */
#include "goldens.h"

enum { N_JOBS = 3, WINDOW = 60, PROMPT = 740, MOST_NEW = 300 };

static qp_model *model;

typedef struct answer {
    char *text;
    int32_t ids[MOST_NEW];
    size_t n, bytes;
    qp_job_stats stats;
} answer;

static qp_job *submit(qp_generator *g, qp_job_options o) {
    qp_job *j;
    qp_error err;
    o.size = sizeof o;
    o.ignore_eos = true;
    if (qp_job_new(&j, g, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return j;
}

static void read_answer(qp_job *j, answer *a) {
    qp_event event;
    qp_error err;
    a->n = a->bytes = 0;
    a->text = NULL;
    do {
        if (qp_job_next(j, &event, &err) != QP_OK) fail_msg("%s", err.text);
        for (size_t i = 0; i < event.n_ids; i++) a->ids[a->n++] = event.ids[i];
        a->text = realloc(a->text, a->bytes + event.text_bytes + 1);
        assert_non_null(a->text);
        memcpy(a->text + a->bytes, event.text, event.text_bytes);
        a->text[a->bytes += event.text_bytes] = 0;
    } while (event.kind != QP_EVENT_END);
    assert_int_equal(event.finish, QP_FINISH_LENGTH);
    a->stats = event.stats;
    qp_job_free(j);
}

static qp_generator *open_generator(uint64_t tokens, bool no_reuse) {
    const qp_generator_options o = {.size = sizeof o, .cache_tokens = tokens, .no_reuse = no_reuse};
    qp_generator *g;
    qp_error err;
    if (qp_generator_new(&g, model, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return g;
}

static int32_t prompts[N_JOBS][PROMPT];

static qp_job_options nth(int i, size_t n_new) {
    return (qp_job_options){.ids = prompts[i],
                            .n_ids = PROMPT,
                            .max_new_tokens = n_new,
                            .sampling = {.temperature = 1, .seed = (uint64_t)i + 1}};
}

static void check_same(const answer *a, const answer *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
    assert_string_equal(a->text, b->text);
}

static void check_idle(qp_generator *g, uint64_t preempted) {
    qp_generator_stats s;
    do {
        usleep(1000);
        qp_generator_get_stats(g, &s);
    } while (s.pages_used);
    assert_int_equal(s.jobs_preempted, preempted);
}

/* Three jobs of 840 tokens are twelve pages; with their windows they share nine, and nobody is preempted. */
static void old_pages_are_given_up(void **state) {
    answer alone[N_JOBS], got;
    for (int i = 0; i < N_JOBS; i++) {
        qp_generator *g = open_generator(2048, true);
        read_answer(submit(g, nth(i, 100)), &alone[i]);
        qp_generator_free(g);
    }
    qp_generator *g = open_generator(9 * 256, false);
    qp_job *jobs[N_JOBS];
    for (int i = 0; i < N_JOBS; i++) jobs[i] = submit(g, nth(i, 100));
    for (int i = 0; i < N_JOBS; i++) {
        read_answer(jobs[i], &got);
        check_same(&got, &alone[i]);
        free(got.text);
        free(alone[i].text);
    }
    check_idle(g, 0);
    qp_generator_free(g);
}

/* A long text is banned, of which the beginning was given up meanwhile: the job goes back and computes it anew. */
static void going_back_behind_the_window(void **state) {
    answer plain, alone, got, other;
    char long_text[4096];
    qp_generator *g = open_generator(2048, true);
    read_answer(submit(g, nth(0, MOST_NEW)), &plain);
    snprintf(long_text, sizeof long_text, "%.*s", (int)(plain.bytes * 97 / 100), plain.text + plain.bytes / 100);
    const char *ban = long_text;
    qp_job_options o = nth(0, MOST_NEW);
    o.ban = &ban;
    o.n_ban = 1;
    read_answer(submit(g, o), &alone);
    assert_in_range(alone.stats.suppressed, 256, MOST_NEW); /* see chain_least */
    qp_generator_free(g);
    g = open_generator(6 * 256, false);
    qp_job *first = submit(g, o), *second = submit(g, nth(1, MOST_NEW));
    read_answer(first, &got);
    read_answer(second, &other);
    check_same(&got, &alone);
    assert_int_equal(got.stats.suppressed, alone.stats.suppressed);
    qp_generator_free(g);
    free(plain.text);
    free(alone.text);
    free(got.text);
    free(other.text);
}

static int open_windowed(void **state) {
    char folder[64], command[1024];
    const char *const from = QUIPU_SOURCE "/models/demo";
    json_t *config;
    qp_error err;
    for (int i = 0; i < N_JOBS; i++)
        for (int k = 0; k < PROMPT; k++) prompts[i][k] = 300 + (k * (7 + i) + i * 31) % 5000;
    harness_folder(folder);
    snprintf(command, sizeof command, "ln -s '%s'/* '%s' && rm '%s/config.json'", from, folder, folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(json_load_path(&config, QUIPU_SOURCE "/models/demo/config.json", 1 << 20, NULL), QP_OK);
    json_object_set_new(config, "architectures", json_pack("[s]", "MistralForCausalLM"));
    json_object_set_new(config, "model_type", json_string("mistral"));
    json_object_set_new(config, "num_hidden_layers", json_integer(1));
    json_object_set_new(config, "sliding_window", json_integer(WINDOW));
    char *text = json_dumps(config, 0);
    harness_write(folder, "config.json", text);
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    if (qp_model_open(&model, folder, &o, &err) != QP_OK) fail_msg("%s", err.text);
    free(text);
    json_decref(config);
    harness_remove(folder);
    return 0;
}

static int close_windowed(void **state) {
    qp_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_pages_are_given_up),
        cmocka_unit_test(going_back_behind_the_window),
    };
    return cmocka_run_group_tests(tests, open_windowed, close_windowed);
}
