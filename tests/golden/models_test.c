/* models_test.c — whole models against the reference's logits and greedy continuations.
 *
 * The folders beside this file (and, where QUIPU_FIXTURES has more of the same families, those too) hold tiny random
 * models with what transformers computed in float32. Each is run at every instruction level of the machine: exact
 * precision within the case's float32 bound, the same bits with 1, 2 and 4 threads and with the prompt cut anywhere;
 * fast precision within the 16-bit bound. */
#include "goldens.h"
#include "dev/dev.h"

static void exact_equals(const golden *g, const char *level) {
    static const int threads[] = {1, 2, 4};
    const size_t n = g->n_short_rows * g->vocabulary;
    float *first = NULL;
    for (size_t t = 0; t < 3; t++) {
        qp_model *m = open_model(g, level, threads[t], QP_PRECISION_EXACT);
        float *a = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 1 << 20, g->vocabulary);
        float *b = logits_of(m, g->long_ids, g->n_long, 1, 1 << 20, g->vocabulary);
        const double off = max_difference(a, g->short_logits, n);
        const double off_long = max_difference(b, g->long_last, g->vocabulary);
        if (!(off <= g->exact_bound) || !(off_long <= g->exact_bound))
            fail_msg("%s %s: off by %g (short) and %g (long), allowed %g", g->name, level, off, off_long,
                     g->exact_bound);
        if (!first) {
            first = a;
            greedy_equals(g, m, level);
            float *cut = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 7, g->vocabulary);
            assert_memory_equal(cut, first, n * sizeof *cut);
            mem_free(cut);
        } else {
            assert_memory_equal(a, first, n * sizeof *a);
            mem_free(a);
        }
        mem_free(b);
        qp_model_close(m);
    }
    mem_free(first);
}

static void fast_is_close(const golden *g, const char *level) {
    const size_t n = g->n_short_rows * g->vocabulary;
    qp_model *m = open_model(g, level, 2, QP_PRECISION_FAST);
    float *a = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 1 << 20, g->vocabulary);
    float *cut = logits_of(m, g->short_ids, g->n_short, g->n_short_rows, 1, g->vocabulary);
    const double off = relative_rmse(a, g->short_logits, n, g->logits_std);
    if (!(off <= g->fast_bound)) fail_msg("%s %s: relative error %g, allowed %g", g->name, level, off, g->fast_bound);
    assert_memory_equal(cut, a, n * sizeof *a);
    mem_free(cut);
    mem_free(a);
    qp_model_close(m);
}

/* ---- the cases ---- */

static void run_case(const char *root, const json_t *entry) {
    golden g = {0};
    read_golden(&g, root, entry);
    const char *level;
    for (int i = 0; (level = dev_cpu_level(i)); i++) {
        if (!dev_cpu_level_available(level)) continue;
        exact_equals(&g, level);
        fast_is_close(&g, level);
    }
    safetensors_close(&g.file);
}

static void models_equal_the_reference(void **state) {
    const char *root = QUIPU_SOURCE "/tests/golden/models";
    json_t *cases;
    assert_int_equal(json_load_path(&cases, QUIPU_SOURCE "/tests/golden/models/cases.json", 1 << 20, NULL), QP_OK);
    const json_t *list = json_object_get(cases, "cases");
    assert_true(json_array_size(list) >= 10);
    for (size_t i = 0; i < json_array_size(list); i++) run_case(root, json_array_get(list, i));
    json_decref(cases);
}

/* ---- sequences in one step, and jobs beside one another ---- */

static void a_batch_gives_what_each_gives_alone(void **state) {
    enum { N = 5, VOCABULARY = 512 };
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    qp_model *m;
    qp_sequence *all[N];
    qp_error err;
    int32_t ids[N][700];
    const int32_t *parts[N];
    static const size_t counts[N] = {1, 700, 3, 256, 33};
    size_t lasts[N];
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf16", 3, &o, &err), QP_OK);
    assert_int_equal(qp_sequences_new(all, N, m, 1024, QP_CACHE_DEFAULT, &err), QP_OK);
    float *together = mem_array(N * VOCABULARY, sizeof(float)), *alone;
    for (int i = 0; i < N; i++) {
        for (size_t k = 0; k < counts[i]; k++) ids[i][k] = (int32_t)((k * 31 + (size_t)i * 97) % VOCABULARY);
        parts[i] = ids[i];
        lasts[i] = 1;
    }
    assert_int_equal(qp_forward(all, parts, counts, lasts, N, together, &err), QP_OK);
    for (int i = 0; i < N; i++) {
        alone = logits_of(m, ids[i], counts[i], 1, 1 << 20, VOCABULARY);
        assert_memory_equal(alone, together + (size_t)i * VOCABULARY, VOCABULARY * sizeof(float));
        mem_free(alone);
        assert_int_equal(qp_sequence_length(all[i]), counts[i]);
        qp_sequence_free(all[i]);
    }
    mem_free(together);
    qp_model_close(m);
}

/* Greedy steps of several sequences give the ids of the highest logits; a step that fails leaves all as it was. */
static void best_steps_take_the_highest(void **state) {
    enum { N = 3, STEPS = 9, VOCABULARY = 512 };
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    qp_model *m;
    qp_sequence *all[N], *judge;
    qp_error err;
    int32_t ids[N], before[N];
    float logits[VOCABULARY];
    const size_t one = 1;
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf16", 3, &o, &err), QP_OK);
    assert_int_equal(qp_sequences_new(all, N, m, STEPS, QP_CACHE_DEFAULT, &err), QP_OK);
    assert_int_equal(qp_sequence_new(&judge, m, STEPS, QP_CACHE_DEFAULT, &err), QP_OK);
    for (int i = 0; i < N; i++) ids[i] = 11 + i;
    for (int k = 0; k < STEPS; k++) {
        memcpy(before, ids, sizeof ids);
        assert_int_equal(qp_forward_best(all, ids, 1 + k % N, &err), QP_OK);
        for (int i = 0; i < N; i++) {
            if (i > k % N) {
                assert_int_equal(ids[i], before[i]);
            } else if (i == 0) {
                const int32_t *const fed = before;
                int best = 0;
                assert_int_equal(qp_forward(&judge, &fed, &one, &one, 1, logits, &err), QP_OK);
                for (int v = 1; v < VOCABULARY; v++) best = logits[v] > logits[best] ? v : best;
                assert_int_equal(ids[0], best);
            }
        }
    }
    memcpy(before, ids, sizeof ids);
    ids[1] = before[1] = VOCABULARY;
    assert_int_equal(qp_forward_best(all, ids, N, &err), QP_BAD_ARGUMENT);
    assert_memory_equal(ids, before, sizeof ids);
    assert_int_equal(qp_sequence_length(all[0]), STEPS);
    assert_int_equal(qp_sequence_length(all[1]), STEPS / N * 2);
    assert_int_equal(qp_forward_best(all, ids, 0, &err), QP_BAD_ARGUMENT);
    qp_sequence *const twice[] = {all[0], all[1], all[0]};
    assert_int_equal(qp_forward_best(twice, ids, N, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "sequence 3 is given twice"));
    qp_sequence_free(judge);
    for (int i = 0; i < N; i++) qp_sequence_free(all[i]);
    qp_model_close(m);
}

static void take_answer(qp_job *job, int32_t *ids) {
    qp_event event;
    qp_error err;
    size_t n = 0;
    do {
        assert_int_equal(qp_job_next(job, &event, &err), QP_OK);
        for (size_t i = 0; i < event.n_ids; i++) ids[n++] = event.ids[i];
    } while (event.kind != QP_EVENT_END);
    assert_int_equal(event.finish, QP_FINISH_LENGTH);
    assert_int_equal(n, 20);
}

/* Two jobs of one generator give what each gives alone; pages come back. */
static void jobs_do_not_mix(void **state) {
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    const qp_generator_options go = {.size = sizeof go, .cache_tokens = 1024};
    qp_model *m;
    qp_generator *gen;
    qp_job *jobs[2];
    qp_error err;
    int32_t prompt[2][300], out[2][2][20];
    assert_int_equal(qp_model_synthesize(&m, "tiny", "f32", 5, &o, &err), QP_OK);
    assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 300; i++) prompt[j][i] = (i * 7 + j * 13) % 512;
    for (int round = 0; round < 8; round++) { /* several: lost pages would run out */
        const bool one_by_one = round % 2 == 0;
        for (int j = 0; j < 2; j++) {
            const qp_job_options jo = {.size = sizeof jo,
                                       .ids = prompt[j],
                                       .n_ids = 300,
                                       .max_new_tokens = 20,
                                       .sampling = {.temperature = 1, .seed = (uint64_t)j}};
            assert_int_equal(qp_job_new(&jobs[j], gen, &jo, &err), QP_OK);
            if (one_by_one) take_answer(jobs[j], out[0][j]);
        }
        for (int j = 0; !one_by_one && j < 2; j++) take_answer(jobs[j], out[1][j]);
        for (int j = 0; j < 2; j++) qp_job_free(jobs[j]);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    qp_generator_free(gen);
    qp_model_close(m);
}

static void wrong_requests_are_refused(void **state) {
    qp_model *m;
    qp_generator *gen;
    qp_job *job;
    qp_error err;
    const qp_generator_options go = {.size = sizeof go, .cache_tokens = 256};
    int32_t ids[256] = {0};
    assert_int_equal(qp_model_open(&m, "/nowhere/at/all", NULL, &err), QP_NO_FILE);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_int_equal(qp_model_synthesize(&m, "huge", "bf16", 0, NULL, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "tinyllama-1.1b"));
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf17", 0, NULL, &err), QP_BAD_ARGUMENT);
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf16", 0, NULL, &err), QP_OK);
    assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
    const struct {
        qp_job_options o;
        qp_status status;
        const char *text;
    } cases[] = {
        {{.size = sizeof(qp_job_options)}, QP_BAD_ARGUMENT, "exactly one"},
        {{.size = sizeof(qp_job_options), .prompt = "hi"}, QP_BAD_ARGUMENT, "tokenizer"},
        {{.size = sizeof(qp_job_options), .ids = ids, .n_ids = 0}, QP_BAD_ARGUMENT, "empty"},
        {{.size = sizeof(qp_job_options), .ids = ids, .n_ids = 256}, QP_TOO_LARGE, "256"},
        {{.size = sizeof(qp_job_options), .ids = (const int32_t[]){1, 512}, .n_ids = 2}, QP_BAD_ARGUMENT, "512"},
        {{.size = sizeof(qp_job_options), .ids = (const int32_t[]){-1}, .n_ids = 1}, QP_BAD_ARGUMENT, "-1"},
        {{.size = sizeof(qp_job_options), .ids = ids, .n_ids = 1, .sampling = {.top_p = NAN}},
         QP_BAD_ARGUMENT,
         "top_p"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(qp_job_new(&job, gen, &cases[i].o, &err), cases[i].status);
        assert_null(job);
        if (!strstr(err.text, cases[i].text)) fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
    qp_generator_free(gen);
    qp_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_equal_the_reference),  cmocka_unit_test(a_batch_gives_what_each_gives_alone),
        cmocka_unit_test(best_steps_take_the_highest), cmocka_unit_test(jobs_do_not_mix),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
