/* engine_test.c — what the engine does after a very long time: its numbers near their limits, its jobs as ever. */
#include "engine.h"
#include "harness.h"
#include "base/mem.h"
#include "base/rng.h"
#include <math.h>

enum { JOBS = HARNESS_TIMES(24), PROMPT = 300, SHARED = 260, MOST_NEW = 12, VOCABULARY_USED = 1000 };

typedef struct outcome {
    int32_t ids[JOBS][MOST_NEW];
    size_t n[JOBS];
    qp_finish finish[JOBS];
    double ended_at[JOBS];
    uint64_t preempted;
} outcome;

static model *open_demo(void) {
    model *m;
    qp_error err;
    const model_options options = {.device = {.kind = "cpu", .threads = 1}};
    if (model_open(&m, QUIPU_SOURCE "/models/demo", &options, &err)) fail_msg("%s", err.text);
    return m;
}

static job *make_job(const engine *e, int i) {
    int32_t ids[PROMPT];
    for (int k = 0; k < PROMPT; k++)
        ids[k] = (int32_t)(rng_uniform(k < SHARED ? 0 : (uint64_t)i, 7, (uint64_t)k) * VOCABULARY_USED);
    const int vocabulary = e->model->shape.vocabulary;
    const job_setup setup = {
        .vocabulary = vocabulary,
        .ids = ids,
        .n_ids = i % 3 ? PROMPT : 5 + (size_t)i,
        .max_new_tokens = 1 + (size_t)(i % MOST_NEW),
        .limited = true,
        .priority = i % 4 == 3,
        .max_queue_s = i % 2 ? 1e9 : 0, /* the farthest */
        .max_total_s = i % 5 ? 0 : 1e9,
        .sampling = {.settings = {.temperature = 1, .seed = (uint64_t)i}, .n_vocabulary = vocabulary}};
    job *j;
    qp_error err;
    if (job_new(&j, &setup, e->inbox, &err)) fail_msg("%s", err.text);
    return j;
}

static void read_job(job *j, outcome *out, int i) {
    qp_event event;
    qp_error err;
    for (;;) {
        if (mailbox_read(&j->mailbox, (double)INFINITY, &event, &err)) fail_msg("job %d: %s", i, err.text);
        if (event.kind == QP_EVENT_END) break;
        for (size_t k = 0; k < event.n_ids; k++) out->ids[i][out->n[i]++] = event.ids[k];
    }
    out->finish[i] = event.finish;
    out->ended_at[i] = j->t_submitted + event.stats.total_s;
    out->preempted += (uint64_t)event.stats.preempted;
}

static outcome run_jobs(model *m, uint64_t first_serial, int max_jobs) {
    const engine_options options = {.cache_tokens = 5 * DEV_PAGE_TOKENS,
                                    .kv_type = KV_F16,
                                    .chunk_tokens = 128,
                                    .max_jobs = max_jobs,
                                    .max_bypass = 0,
                                    .max_queue = JOBS,
                                    .max_stall = 0.5,
                                    .first_serial = first_serial};
    engine *e;
    qp_error err;
    if (engine_new(&e, m, &options, &err)) fail_msg("%s", err.text);
    job *jobs[JOBS];
    for (int i = 0; i < JOBS; i++) jobs[i] = make_job(e, i);
    assert_int_equal(inbox_submit(e->inbox, jobs, JOBS, &err), QP_OK);
    outcome out = {0};
    for (int i = 0; i < JOBS; i++) read_job(jobs[i], &out, i);
    for (int i = 0; i < JOBS; i++) job_let_go(jobs[i]);
    engine_free(e);
    return out;
}

static void assert_same(const outcome *a, const outcome *b) {
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(a->finish[i], QP_FINISH_LENGTH);
        assert_int_equal(b->finish[i], QP_FINISH_LENGTH);
        assert_int_equal(a->n[i], 1 + i % MOST_NEW);
        assert_int_equal(b->n[i], a->n[i]);
        assert_memory_equal(a->ids[i], b->ids[i], a->n[i] * sizeof a->ids[i][0]);
    }
}

/* One at a time: first those of high priority, then the others, each in the order of submission. */
static void assert_in_order(const outcome *o) {
    double last = 0;
    for (int high = 1; high >= 0; high--)
        for (int i = 0; i < JOBS; i++)
            if ((i % 4 == 3) == high) {
                assert_true(o->ended_at[i] > last);
                last = o->ended_at[i];
            }
}

static void numbers_wrap_unnoticed(void **state) {
    static const uint64_t firsts[] = {UINT64_MAX - JOBS / 2, UINT64_MAX, INT64_MAX - JOBS / 2, (uint64_t)INT64_MAX + 1};
    model *m = open_demo();
    const outcome usual = run_jobs(m, 1, 1);
    assert_in_order(&usual);
    for (size_t i = 0; i < HARNESS_COUNT(firsts); i++) {
        const outcome alone = run_jobs(m, firsts[i], 1), together = run_jobs(m, firsts[i], 8);
        assert_in_order(&alone);
        assert_same(&usual, &alone);
        assert_same(&usual, &together);
    }
    model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_wrap_unnoticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
