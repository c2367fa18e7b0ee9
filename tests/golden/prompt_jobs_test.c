/* prompt_jobs_test.c — a generator on a device that multiplies rows of prompts in another way than those of answers:
 * jobs get the tokens and logprobs that they get alone, whoever runs beside them, is cancelled or preempted, and
 * however prompts are cut. The device is the CPU's with AMX kernels on emulated tiles (tests/levels.h). */
#include "levels.h"
#include "api/handles.h"
#include "base/rng.h"

/* Most answers need a page more than their prompts: that is when others are preempted. */
static const size_t lengths[] = {1, 5, 247, 250, 253, 240, 420};
enum { KINDS = HARNESS_COUNT(lengths), MOST_NEW = 24, AT_ONCE = 9, ROUNDS = 2, MOST_IDS = 420 };

typedef struct kind {
    int32_t ids[MOST_IDS], tokens[MOST_NEW];
    float logprobs[MOST_NEW]; /* tell products apart that choose alike */
    size_t n_ids;
} kind;

static uint64_t preempted;

static qp_job *start(qp_generator *gen, const kind *k, size_t index) {
    const qp_job_options options = {.size = sizeof options,
                                    .ids = k->ids,
                                    .n_ids = k->n_ids,
                                    .max_new_tokens = MOST_NEW,
                                    .ignore_eos = true,
                                    .want_logprobs = true,
                                    .sampling = {.temperature = index % 2 ? 0.9F : 0, .seed = index}};
    qp_job *started;
    qp_error err;
    if (qp_job_new(&started, gen, &options, &err) != QP_OK) fail_msg("%s", err.text);
    return started;
}

static void read_job(qp_job *from, kind *k, bool is_first) {
    qp_event event;
    qp_error err;
    size_t n = 0;
    for (;;) {
        if (qp_job_next(from, &event, &err) != QP_OK) fail_msg("%s", err.text);
        if (event.kind == QP_EVENT_END) break;
        for (size_t i = 0; i < event.n_ids; i++, n++) {
            if (is_first) k->tokens[n] = event.ids[i], k->logprobs[n] = event.tokens[i].logprob;
            assert_int_equal(event.ids[i], k->tokens[n]);
            assert_true(event.tokens[i].logprob == k->logprobs[n]);
        }
    }
    if (event.finish != QP_FINISH_CANCELLED) assert_int_equal(n, MOST_NEW);
    preempted += (uint64_t)event.stats.preempted;
    qp_job_free(from);
}

static qp_generator *open_generator(const qp_model *m, uint64_t pages, int chunk) {
    const qp_generator_options g = {
        .size = sizeof g, .cache_tokens = pages * DEV_PAGE_TOKENS, .chunk_tokens = chunk, .no_reuse = true};
    qp_generator *gen;
    qp_error err;
    if (qp_generator_new(&gen, m, &g, &err) != QP_OK) fail_msg("%s", err.text);
    return gen;
}

static void run_many(const qp_model *m, kind *kinds, uint64_t pages, int chunk) {
    qp_generator *gen = open_generator(m, pages, chunk);
    for (int round = 0; round < ROUNDS; round++) {
        qp_job *jobs[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) jobs[i] = start(gen, &kinds[i % KINDS], i % KINDS);
        qp_job_cancel(jobs[3 * (size_t)round + 2]);
        for (size_t i = 0; i < AT_ONCE; i++) read_job(jobs[i], &kinds[i % KINDS], false);
    }
    qp_generator_free(gen);
}

/* The model as it was opened, with the kernels of emulated tiles on its device. */
static bool open_model(qp_model **out, const char *format) {
    const qp_model_options o = {.size = sizeof o, .device = "cpu", .cpu_level = "avx512", .threads = 2};
    qp_error err;
    if (!dev_cpu_level_available("avx512bf16")) return false;
    if (qp_model_synthesize(out, "tiny", format, 3, &o, &err) != QP_OK) fail_msg("%s", err.text);
    cpu_device *c = cpu_of((*out)->model->forward.dev);
    c->matmul.prompts = cpu_prompts_emulated.prompts;
    if (c->head.ops->reserve(&c->head, c->max_rows, c->max_in, &err) != QP_OK) fail_msg("%s", err.text);
    return true;
}

static void jobs_are_as_if_alone(void **state) {
    static const char *const formats[] = {"q4_0", "exl2-3.0"};
    static kind kinds[KINDS];
    for (size_t f = 0; f < HARNESS_COUNT(formats); f++) {
        qp_model *m;
        if (!open_model(&m, formats[f])) HARNESS_SKIP("this processor has no AVX-512 BF16");
        qp_generator *alone = open_generator(m, 16, 512);
        for (size_t i = 0; i < KINDS; i++) {
            kinds[i].n_ids = lengths[i];
            for (size_t k = 0; k < kinds[i].n_ids; k++) kinds[i].ids[k] = (int32_t)(rng_uniform(i, 1, k) * 500);
            read_job(start(alone, &kinds[i], i), &kinds[i], true);
        }
        qp_generator_free(alone);
        preempted = 0;
        run_many(m, kinds, 16, 512);
        run_many(m, kinds, 5, 64);
        assert_true(preempted > 0);
        qp_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_are_as_if_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
