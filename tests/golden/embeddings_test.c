/* embeddings_test.c — vectors of texts against the reference.
 *
 * The goldens hold the reference's logits at every position of a prompt. Logits are the head's matrix times the final
 * hidden state, and the matrix has more rows than columns, so that a vector points where the reference's hidden state
 * does exactly when the matrix times the vector points where the reference's logits do; the same goes for means of
 * both. Models whose logits are capped or have a bias are left out. */
#include "goldens.h"
#include "quant/quant.h"

static const char *const models[] = {"llama-mha", "qwen2", "qwen3", "mistral-swa", "llama-rope-llama3", "gpt-oss"};

static float weight_at(const ckpt_tensor *t, size_t i) {
    uint16_t half;
    float whole;
    if (t->type == DTYPE_F32) return memcpy(&whole, t->data + i * sizeof whole, sizeof whole), whole;
    memcpy(&half, t->data + i * sizeof half, sizeof half);
    return t->type == DTYPE_BF16 ? quant_bf16_to_f32(half) : quant_f16_to_f32(half);
}

/* Of the head's matrix times the vector, and the logits: 1 where they point the same way. */
static double cosine(const golden *g, const float *vector, size_t width, const double *logits) {
    char path[640];
    safetensors file;
    const ckpt_tensor *head = NULL, *table = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
    assert_int_equal(safetensors_open(&file, path, NULL), QP_OK);
    for (size_t i = 0; i < file.n_tensors; i++) {
        if (!strcmp(file.tensors[i].name, "lm_head.weight")) head = &file.tensors[i];
        if (!strcmp(file.tensors[i].name, "model.embed_tokens.weight")) table = &file.tensors[i];
    }
    if (!head) head = table;
    double product = 0, ours = 0, theirs = 0;
    for (size_t v = 0; v < g->vocabulary; v++) {
        double sum = 0;
        for (size_t i = 0; i < width; i++) sum += (double)weight_at(head, v * width + i) * (double)vector[i];
        product += sum * logits[v];
        ours += sum * sum;
        theirs += logits[v] * logits[v];
    }
    safetensors_close(&file);
    return product / sqrt(ours * theirs);
}

/* The last row, or the mean of all. */
static double *expected(const golden *g, qp_pooling pooling) {
    double *sum = mem_zarray(g->vocabulary, sizeof *sum);
    const size_t first = pooling == QP_POOL_LAST ? g->n_short - 1 : 0;
    for (size_t row = first; row < g->n_short; row++)
        for (size_t v = 0; v < g->vocabulary; v++) sum[v] += (double)g->short_logits[row * g->vocabulary + v];
    return sum;
}

static qp_job *submit(qp_generator *gen, const int32_t *ids, size_t n, qp_pooling pooling) {
    const qp_job_options o = {.size = sizeof o, .ids = ids, .n_ids = n, .pooling = pooling};
    qp_job *job;
    qp_error err;
    if (qp_job_new(&job, gen, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return job;
}

/* Waits for the vector; it lives as long as the job. */
static const float *vector_of(qp_job *job, size_t *width) {
    qp_event event;
    qp_error err;
    do
        if (qp_job_next(job, &event, &err) != QP_OK) fail_msg("%s", err.text);
    while (event.kind != QP_EVENT_END);
    assert_int_equal(event.finish, QP_FINISH_LENGTH);
    assert_int_equal(event.stats.new_tokens, 0);
    const float *vector = qp_job_peek_embedding(job, width);
    assert_non_null(vector);
    double square = 0;
    for (size_t i = 0; i < *width; i++) square += (double)vector[i] * (double)vector[i];
    assert_true(fabs(square - 1) < 1e-5);
    return vector;
}

static void check_model(const golden *g) {
    static const qp_pooling poolings[] = {QP_POOL_MEAN, QP_POOL_LAST};
    qp_generator *gen;
    qp_error err;
    const qp_generator_options go = {.size = sizeof go, .cache_tokens = 4096, .cache_type = QP_CACHE_FP32};
    qp_model *m = open_model(g, NULL, 2, QP_PRECISION_EXACT);
    assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
    for (size_t p = 0; p < 2; p++) {
        qp_job *job = submit(gen, g->short_ids, g->n_short, poolings[p]);
        size_t width;
        const float *vector = vector_of(job, &width);
        double *wanted = expected(g, poolings[p]);
        const double off = 1 - cosine(g, vector, width, wanted);
        if (!(fabs(off) < 1e-9)) fail_msg("%s %s: off by %g", g->name, p ? "last" : "mean", off);
        mem_free(wanted);
        qp_job_free(job);
    }
    qp_generator_free(gen);
    qp_model_close(m);
}

static void vectors_equal_the_reference(void **state) {
    json_t *cases;
    int n = 0;
    assert_int_equal(json_load_path(&cases, QUIPU_SOURCE "/tests/golden/models/cases.json", 1 << 20, NULL), QP_OK);
    const json_t *list = json_object_get(cases, "cases");
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < HARNESS_COUNT(models); k++) {
            golden g = {0};
            const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
            if (strcmp(name, models[k])) continue;
            read_golden(&g, QUIPU_SOURCE "/tests/golden/models", json_array_get(list, i));
            assert_int_equal(g.n_short_rows, g.n_short);
            check_model(&g);
            safetensors_close(&g.file);
            n++;
        }
    json_decref(cases);
    assert_int_equal(n, HARNESS_COUNT(models));
}

/* Beside answers and other vectors, in small chunks, out of a cache that holds the text already: the same numbers. */
static void vectors_do_not_hang_on_company(void **state) {
    enum { N = 700, COPIES = 6 };
    const qp_model_options o = {.size = sizeof o, .threads = 2, .precision = QP_PRECISION_EXACT};
    qp_generator_options go = {.size = sizeof go, .cache_tokens = 8192};
    int32_t ids[N];
    qp_model *m;
    qp_error err;
    float alone[2][256];
    for (int i = 0; i < N; i++) ids[i] = (i * 31 + 5) % 512;
    assert_int_equal(qp_model_synthesize(&m, "tiny", "f32", 3, &o, &err), QP_OK);
    for (int round = 0; round < 2; round++) {
        qp_generator *gen;
        qp_job *jobs[COPIES], *answer;
        const qp_job_options ao = {.size = sizeof ao, .ids = ids, .n_ids = N - 1, .max_new_tokens = 40};
        go.chunk_tokens = round ? 48 : 0;
        assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
        if (round) assert_int_equal(qp_job_new(&answer, gen, &ao, &err), QP_OK);
        for (int i = 0; i < COPIES; i++) jobs[i] = submit(gen, ids, N, i % 2 ? QP_POOL_LAST : QP_POOL_MEAN);
        for (int i = 0; i < COPIES; i++) {
            size_t width;
            const float *vector = vector_of(jobs[i], &width);
            assert_true(width <= 256);
            if (!round && i < 2) memcpy(alone[i], vector, width * sizeof *vector);
            assert_memory_equal(vector, alone[i % 2], width * sizeof *vector);
        }
        if (round) qp_job_free(answer);
        for (int i = 0; i < COPIES; i++) qp_job_free(jobs[i]);
        qp_generator_free(gen);
    }
    qp_model_close(m);
}

/* 256 tokens fill the cache to the brim; jobs that could make no vector are refused; one that is cancelled has none. */
static void what_fits_and_what_does_not(void **state) {
    const qp_generator_options go = {.size = sizeof go, .cache_tokens = 256};
    qp_model *m;
    qp_generator *gen;
    qp_job *job;
    qp_event event;
    qp_error err;
    size_t n;
    int32_t ids[257] = {0};
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf16", 0, NULL, &err), QP_OK);
    assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
    qp_job *full = submit(gen, ids, 256, QP_POOL_MEAN);
    vector_of(full, &n);
    qp_job_free(full);
    const qp_job_options large = {.size = sizeof large, .ids = ids, .n_ids = 257, .pooling = QP_POOL_MEAN};
    assert_int_equal(qp_job_new(&job, gen, &large, &err), QP_TOO_LARGE);
    const qp_job_options scored = {
        .size = sizeof scored, .ids = ids, .n_ids = 3, .pooling = QP_POOL_LAST, .score_prompt = true};
    assert_int_equal(qp_job_new(&job, gen, &scored, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "pooling"));
    const qp_job_options wrong = {.size = sizeof wrong, .ids = ids, .n_ids = 3, .pooling = (qp_pooling)9};
    assert_int_equal(qp_job_new(&job, gen, &wrong, &err), QP_BAD_ARGUMENT);
    job = submit(gen, ids, 200, QP_POOL_MEAN);
    qp_job_cancel(job);
    while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END) continue;
    if (event.finish == QP_FINISH_CANCELLED) assert_null(qp_job_peek_embedding(job, &n));
    qp_job_free(job);
    const qp_job_options plain = {.size = sizeof plain, .ids = ids, .n_ids = 3, .max_new_tokens = 1};
    assert_int_equal(qp_job_new(&job, gen, &plain, &err), QP_OK);
    while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END) continue;
    assert_null(qp_job_peek_embedding(job, &n));
    assert_int_equal(n, 0);
    qp_job_free(job);
    qp_generator_free(gen);
    qp_model_close(m);
}

/* no_reuse: finds nothing in the cache, and leaves nothing. */
static size_t cached_tokens(qp_generator *gen, const int32_t *ids, bool no_reuse) {
    const qp_job_options o = {
        .size = sizeof o, .ids = ids, .n_ids = 600, .max_new_tokens = 3, .ignore_eos = true, .no_reuse = no_reuse};
    qp_job *job;
    qp_event event;
    qp_error err;
    assert_int_equal(qp_job_new(&job, gen, &o, &err), QP_OK);
    while (qp_job_next(job, &event, &err) == QP_OK && event.kind != QP_EVENT_END) continue;
    qp_job_free(job);
    return event.stats.cached_tokens;
}

static void the_cache_can_be_left_alone(void **state) {
    qp_model *m;
    qp_generator *gen;
    qp_error err;
    int32_t ids[600];
    const qp_generator_options go = {.size = sizeof go, .cache_tokens = 4096};
    for (int i = 0; i < 600; i++) ids[i] = (i * 31 + 5) % 512;
    assert_int_equal(qp_model_synthesize(&m, "tiny", "bf16", 0, NULL, &err), QP_OK);
    assert_int_equal(qp_generator_new(&gen, m, &go, &err), QP_OK);
    assert_int_equal(cached_tokens(gen, ids, true), 0);
    assert_int_equal(cached_tokens(gen, ids, false), 0);
    assert_true(cached_tokens(gen, ids, false) >= 512);
    assert_int_equal(cached_tokens(gen, ids, true), 0);
    qp_generator_free(gen);
    qp_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_equal_the_reference),
        cmocka_unit_test(vectors_do_not_hang_on_company),
        cmocka_unit_test(what_fits_and_what_does_not),
        cmocka_unit_test(the_cache_can_be_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
