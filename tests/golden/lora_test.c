/* lora_test.c — adapters against the reference's logits and greedy continuations; beside jobs without; and refused
 * where they would be applied wrongly. */
#include "goldens.h"

typedef struct adapted {
    golden g;
    char folder[512];
    qp_model *model;
    qp_adapter *adapter;
} adapted;

static void open_case(adapted *a, const json_t *entry, qp_precision precision) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    qp_error err;
    read_golden(&a->g, QUIPU_FIXTURES "/models", entry);
    snprintf(a->folder, sizeof a->folder, "%s/models/%s", QUIPU_FIXTURES, name);
    snprintf(a->g.folder, sizeof a->g.folder, "%s/models/%s", QUIPU_FIXTURES,
             json_string_value(json_object_get(entry, "base_model")));
    a->model = open_model(&a->g, NULL, 2, precision);
    if (qp_adapter_open(&a->adapter, a->model, a->folder, &err) != QP_OK) fail_msg("%s", err.text);
}

static void close_case(adapted *a) {
    qp_adapter_close(a->adapter);
    qp_model_close(a->model);
    safetensors_close(&a->g.file);
}

/* The short prompt in pieces, with `n` times the adapter. */
static float *adapted_logits(const adapted *a, const int32_t *ids, size_t n_ids, size_t last, size_t piece, int n,
                             float scale) {
    qp_sequence *s;
    qp_error err;
    qp_adapter_use uses[2] = {{a->adapter, scale}, {a->adapter, scale}};
    float *out = mem_zarray(last * a->g.vocabulary, sizeof *out), *at = out;
    assert_int_equal(qp_sequence_new(&s, a->model, n_ids, QP_CACHE_DEFAULT, &err), QP_OK);
    assert_int_equal(qp_sequence_set_adapters(s, uses, (size_t)n, &err), QP_OK);
    for (size_t done = 0; done < n_ids;) {
        const size_t count = n_ids - done < piece ? n_ids - done : piece, end = done + count;
        const size_t wanted = end > n_ids - last ? (end - (n_ids - last) < count ? end - (n_ids - last) : count) : 0;
        const int32_t *part = ids + done;
        if (qp_forward(&s, &part, &count, &wanted, 1, at, &err) != QP_OK) fail_msg("%s", err.text);
        at += wanted * a->g.vocabulary;
        done = end;
    }
    qp_sequence_free(s);
    return out;
}

static void logits_equal(const adapted *a, bool is_exact) {
    const golden *g = &a->g;
    const size_t n = g->n_short_rows * g->vocabulary;
    float *one = adapted_logits(a, g->short_ids, g->n_short, g->n_short_rows, 1 << 20, 1, 1);
    float *cut = adapted_logits(a, g->short_ids, g->n_short, g->n_short_rows, 7, 1, 1);
    float *twice = adapted_logits(a, g->short_ids, g->n_short, g->n_short_rows, 1, 2, 0.5f);
    float *none = adapted_logits(a, g->short_ids, g->n_short, g->n_short_rows, 64, 1, 0);
    float *base = logits_of(a->model, g->short_ids, g->n_short, g->n_short_rows, 1 << 20, g->vocabulary);
    float *end = adapted_logits(a, g->long_ids, g->n_long, 1, 1 << 20, 1, 1);
    assert_memory_equal(cut, one, n * sizeof *one);
    assert_true(max_difference(one, base, n) > 0.1); /* it does something */
    assert_memory_equal(none, base, n * sizeof *base);
    if (is_exact) {
        const double off = max_difference(one, g->short_logits, n), half = max_difference(twice, g->short_logits, n);
        const double off_long = max_difference(end, g->long_last, g->vocabulary);
        printf("%-24s exact: off by %.2g and %.2g, allowed %.2g\n", g->name, off, off_long, g->exact_bound);
        assert_true(off <= g->exact_bound && off_long <= g->exact_bound && half <= g->exact_bound);
    } else {
        const double off = relative_rmse(one, g->short_logits, n, g->logits_std);
        printf("%-24s fast: %.2g, allowed %.2g\n", g->name, off, g->fast_bound);
        assert_true(off <= g->fast_bound);
    }
    void *all[] = {one, cut, twice, none, base, end};
    for (size_t i = 0; i < HARNESS_COUNT(all); i++) mem_free(all[i]);
}

static void take_ids(qp_job *job, int32_t *ids, size_t n) {
    qp_event event;
    qp_error err;
    size_t got = 0;
    do {
        assert_int_equal(qp_job_next(job, &event, &err), QP_OK);
        for (size_t i = 0; i < event.n_ids && got < n; i++) ids[got++] = event.ids[i];
    } while (event.kind != QP_EVENT_END);
    assert_int_equal(got, n);
    qp_job_free(job);
}

/* With and without the adapter side by side, twice, so that the second pair could find the first one's pages. */
static void jobs_keep_apart(const adapted *a) {
    enum { N = 4 };
    const golden *g = &a->g;
    qp_generator *gen;
    qp_job *jobs[N];
    qp_error err;
    int32_t ids[N][64];
    const qp_adapter_use use = {a->adapter, 1};
    assert_int_equal(qp_generator_new(&gen, a->model, NULL, &err), QP_OK);
    for (int i = 0; i < N; i++) {
        const qp_job_options o = {.size = sizeof o,
                                  .ids = g->short_ids,
                                  .n_ids = g->n_short,
                                  .max_new_tokens = g->n_greedy,
                                  .ignore_eos = true,
                                  .adapters = &use,
                                  .n_adapters = i % 2};
        assert_int_equal(qp_job_new(&jobs[i], gen, &o, &err), QP_OK);
    }
    for (int i = 0; i < N; i++) take_ids(jobs[i], ids[i], g->n_greedy);
    for (size_t k = 0; k < g->n_greedy; k++) {
        assert_int_equal(ids[1][k], g->greedy[k]);
        if (g->gaps[k] < 1e-3) break;
    }
    assert_memory_equal(ids[0], ids[2], g->n_greedy * sizeof **ids);
    assert_memory_equal(ids[1], ids[3], g->n_greedy * sizeof **ids);
    assert_memory_not_equal(ids[0], ids[1], g->n_greedy * sizeof **ids);
    qp_generator_free(gen);
}

static void adapters_equal_the_reference(void **state) {
    json_t *cases;
    int n = 0;
    if (json_load_path(&cases, QUIPU_FIXTURES "/models/cases.json", 1 << 20, NULL) != QP_OK)
        HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    const json_t *list = json_object_get(cases, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (strncmp(json_string_value(json_object_get(entry, "name")), "lora-", 5)) continue;
        for (int exact = 0; exact < 2; exact++) {
            adapted a = {0};
            open_case(&a, entry, exact ? QP_PRECISION_EXACT : QP_PRECISION_FAST);
            logits_equal(&a, exact);
            if (exact) jobs_keep_apart(&a);
            close_case(&a);
        }
        n++;
    }
    assert_int_equal(n, 2);
    json_decref(cases);
}

/* ---- refusals ---- */

static const struct {
    const char *key, *value, *says;
} changes[] = {
    {"use_dora", "true", "\"use_dora\" is set"},
    {"modules_to_save", "[\"lm_head\"]", "\"modules_to_save\" is set"},
    {"bias", "\"all\"", "\"bias\" is \"all\", allowed is none"},
    {"peft_type", "\"IA3\"", "\"peft_type\" is \"IA3\", allowed is LORA"},
    {"r", "4", "rank 2, [8, 64], expected [4, 64]"},
    {"r", "100000", "\"r\" is 100000, allowed are 1 to 512"},
    {"rank_pattern", "{\"v_proj\": 3}", "v_proj.lora_A.weight: rank 2, [8, 64], expected [3, 64]"},
    {"rank_pattern", "{\".*v_proj\": 3}", "allowed are names of modules"},
    {"alpha_pattern", "{\"v_proj\": \"x\"}", "allowed are names of modules with a number"},
};

static void wrong_adapters_are_refused(void **state) {
    const char *from = QUIPU_FIXTURES "/models/lora-llama-qv-rslora", *base = QUIPU_FIXTURES "/models/llama-mha";
    qp_model *m;
    qp_adapter *a;
    qp_error err;
    char path[600], folder[64], command[2048];
    snprintf(path, sizeof path, "%s/adapter_config.json", from);
    json_t *config;
    if (json_load_path(&config, path, 1 << 20, NULL) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    assert_int_equal(qp_model_open(&m, base, NULL, &err), QP_OK);
    for (size_t i = 0; i < HARNESS_COUNT(changes); i++) {
        json_t *changed = json_deep_copy(config);
        json_object_set_new(changed, changes[i].key, json_loads(changes[i].value, JSON_DECODE_ANY, NULL));
        char *text = json_dumps(changed, 0);
        harness_folder(folder);
        harness_write(folder, "adapter_config.json", text);
        snprintf(command, sizeof command, "ln -s '%s/adapter_model.safetensors' '%s'", from, folder);
        assert_int_equal(system(command), 0);
        assert_int_not_equal(qp_adapter_open(&a, m, folder, &err), QP_OK);
        assert_null(a);
        if (!strstr(err.text, changes[i].says)) fail_msg("says \"%s\", expected \"%s\"", err.text, changes[i].says);
        harness_remove(folder);
        free(text);
        json_decref(changed);
    }
    json_decref(config);
    assert_int_equal(qp_adapter_open(&a, m, QUIPU_FIXTURES "/models/lora-llama-attn-mlp", &err), QP_BAD_FORMAT);
    assert_int_equal(qp_adapter_open(&a, m, "/nowhere", &err), QP_NO_FILE);
    assert_int_equal(qp_adapter_open(&a, m, base, &err), QP_NO_FILE);
    qp_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_equal_the_reference),
        cmocka_unit_test(wrong_adapters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
