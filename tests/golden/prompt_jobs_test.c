/* prompt_jobs_test.c — a generator on a device that multiplies rows of prompts in another way than those of answers:
 * jobs get the tokens and logprobs that they get alone, whoever runs beside them, is cancelled or preempted, and
 * however prompts are cut. The device is the CPU's with AMX kernels on emulated tiles (tests/levels.h). */
#include "levels.h"
#include "jobs_alone.h"
#include "api/handles.h"
#include "base/rng.h"

/* Most answers need a page more than their prompts: that is when others are preempted, which are there by then, for no
 * job gets far before it is read. */
static const size_t lengths[] = {1, 5, 247, 250, 253, 240, 420};
enum { KINDS = HARNESS_COUNT(lengths), MOST_NEW = ALONE_NEW, AT_ONCE = 9, ROUNDS = 2, MOST_UNREAD = 4 };

static uint64_t preempted;

static qp_job *start(qp_generator *gen, const alone *k, size_t index) {
    return alone_start(gen, k,
                       (qp_job_options){.max_new_tokens = MOST_NEW,
                                        .want_logprobs = true,
                                        .max_unread = MOST_UNREAD,
                                        .sampling = {.temperature = index % 2 ? 0.9F : 0, .seed = index}});
}

static void read_job(qp_job *from, alone *k, bool is_first) {
    preempted += alone_read(from, k, is_first);
    assert_int_equal(k->n_tokens, MOST_NEW);
}

static qp_generator *open_generator(const qp_model *m, uint64_t pages, int chunk) {
    const qp_generator_options g = {
        .size = sizeof g, .cache_tokens = pages * DEV_PAGE_TOKENS, .chunk_tokens = chunk, .no_reuse = true};
    qp_generator *gen;
    qp_error err;
    if (qp_generator_new(&gen, m, &g, &err) != QP_OK) fail_msg("%s", err.text);
    return gen;
}

static void run_many(const qp_model *m, alone *kinds, uint64_t pages, int chunk) {
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
    static alone kinds[KINDS];
    for (size_t f = 0; f < HARNESS_COUNT(formats); f++) {
        qp_model *m;
        if (!open_model(&m, formats[f])) HARNESS_SKIP("this processor has no AVX-512 BF16");
        qp_generator *gen = open_generator(m, 16, 512);
        for (size_t i = 0; i < KINDS; i++) {
            kinds[i].n_ids = lengths[i];
            for (size_t k = 0; k < kinds[i].n_ids; k++) kinds[i].ids[k] = (int32_t)(rng_uniform(i, 1, k) * 500);
            read_job(start(gen, &kinds[i], i), &kinds[i], true);
        }
        qp_generator_free(gen);
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
