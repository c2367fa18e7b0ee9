/* soak_test.c — many short jobs from several threads (pthread), a third of them cancelled at random moments: nothing
 * is lost, nothing stays behind. The short form of bench/generator.c, which asks for times as well.
 *
 * Runs on models/demo through the public interface, in a cache with fewer pages than there are clients, so that jobs
 * wait, share pages and evict. Under the sanitizers fewer jobs run: they look for races and lost memory. */
#include "harness.h"
#include <quipu.h>
#include "base/rng.h"
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

enum { CLIENTS = 8, PAGES = 6, PAGE = 256, PREFIXES = 3, PREFIX = 24, LEAST_TAIL = 2, MOST_TAIL = 8 };
enum { MOST_GROWTH = 1 << 18 }; /* of the heap in bytes: under 300 for each job */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SOAK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SOAK_SANITIZED 1
#endif
#endif
#ifdef SOAK_SANITIZED
enum { JOBS = 150, IS_SANITIZED = true };
#else
enum { JOBS = 750, IS_SANITIZED = false }; /* of one round of two */
#endif

typedef struct soak {
    qp_generator *gen;
    uint64_t seed;
    atomic_int next, n_finished, n_cancelled, n_dropped, n_wrong;
    atomic_bool is_over;
} soak;

static qp_model *model;

/* ---- one job ---- */

/* Polls until the end or until `polls` pieces of half a millisecond are over; true at the end. */
static bool read_for(qp_job *job, int polls, qp_event *event, size_t *n_tokens) {
    for (; polls != 0; polls -= polls > 0) {
        const qp_status status = qp_job_poll(job, 0.0005, event, NULL);
        if (status == QP_BUSY) continue;
        if (event->kind == QP_EVENT_END) return true;
        *n_tokens += event->n_ids;
    }
    return false;
}

/* An end stays the end, and tells as many tokens as were read. */
static bool is_right_end(qp_job *job, const qp_event *end, size_t n_tokens, bool was_cancelled) {
    qp_event again;
    qp_job_progress progress;
    const qp_finish finish = end->finish;
    const bool is_known = finish == QP_FINISH_LENGTH || finish == QP_FINISH_EOS || finish == QP_FINISH_CANCELLED;
    if (!is_known || (finish == QP_FINISH_CANCELLED && !was_cancelled)) return false;
    if (end->stats.new_tokens != n_tokens) return false; /* an end token is none of them */
    qp_job_cancel(job);
    if (qp_job_poll(job, 0, &again, NULL) != QP_OK || again.kind != QP_EVENT_END || again.finish != finish)
        return false;
    qp_job_get_progress(job, &progress);
    return progress.state == QP_JOB_ENDED && progress.pages == 0;
}

static size_t fill_prompt(int32_t *ids, uint64_t seed) {
    const uint64_t prefix = (uint64_t)(rng_uniform(seed, 1, 0) * PREFIXES);
    const size_t n = PREFIX + LEAST_TAIL + (size_t)(rng_uniform(seed, 1, 1) * (MOST_TAIL - LEAST_TAIL));
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_uniform(i < PREFIX ? prefix : seed, 0, i) * 6000);
    return n;
}

static void run_job(soak *s, uint64_t seed) {
    int32_t ids[PREFIX + MOST_TAIL];
    const double chance = rng_uniform(seed, 1, 2);
    const bool is_cut = chance < 1.0 / 3, is_dropped = chance < 1.0 / 6;
    const qp_job_options options = {.size = sizeof options,
                                    .ids = ids,
                                    .n_ids = fill_prompt(ids, seed),
                                    .max_new_tokens = 1 + (size_t)(rng_uniform(seed, 1, 3) * 6),
                                    .sampling = {.temperature = 1, .seed = seed}};
    qp_job *job;
    qp_event event;
    size_t n_tokens = 0;
    if (qp_job_new(&job, s->gen, &options, NULL) != QP_OK) {
        atomic_fetch_add(&s->n_wrong, 1);
        return;
    }
    bool has_ended = read_for(job, is_cut ? (int)(rng_uniform(seed, 1, 4) * 60) : -1, &event, &n_tokens);
    if (!has_ended && !is_dropped) {
        qp_job_cancel(job);
        has_ended = read_for(job, -1, &event, &n_tokens);
    }
    if (has_ended && !is_right_end(job, &event, n_tokens, is_cut)) atomic_fetch_add(&s->n_wrong, 1);
    const bool is_cancelled = has_ended && event.finish == QP_FINISH_CANCELLED;
    qp_job_free(job);
    atomic_fetch_add(!has_ended ? &s->n_dropped : is_cancelled ? &s->n_cancelled : &s->n_finished, 1);
}

/* ---- all of them ---- */

static void *run_client(void *argument) {
    soak *s = argument;
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < JOBS;) run_job(s, s->seed + (uint64_t)i);
    return NULL;
}

/* What the counters say is true at every moment. */
static void *look_at_counters(void *argument) {
    soak *s = argument;
    qp_generator_stats before = {0}, now;
    while (!atomic_load(&s->is_over)) {
        qp_generator_get_stats(s->gen, &now);
        const uint64_t ended = now.jobs_finished + now.jobs_cancelled + now.jobs_failed;
        if (now.jobs_submitted < before.jobs_submitted || now.new_tokens < before.new_tokens ||
            ended > now.jobs_submitted || now.pages_used > now.pages || now.jobs_running > PAGES)
            atomic_fetch_add(&s->n_wrong, 1);
        before = now;
        usleep(2000);
    }
    return NULL;
}

static qp_generator_stats stats_at_rest(const qp_generator *gen) {
    qp_generator_stats s;
    int tries = 0;
    for (qp_generator_get_stats(gen, &s); s.jobs_running || s.jobs_waiting; qp_generator_get_stats(gen, &s)) {
        assert_true(tries++ < 60000);
        usleep(1000);
    }
    return s;
}

static void run_round(soak *s, uint64_t seed) {
    pthread_t clients[CLIENTS], looker;
    s->seed = seed;
    atomic_store(&s->next, 0);
    atomic_store(&s->is_over, false);
    assert_int_equal(pthread_create(&looker, NULL, look_at_counters, s), 0);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&clients[i], NULL, run_client, s), 0);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_join(clients[i], NULL), 0);
    atomic_store(&s->is_over, true);
    assert_int_equal(pthread_join(looker, NULL), 0);
}

static void check_counters(const soak *s, uint64_t jobs) {
    const qp_generator_stats c = stats_at_rest(s->gen);
    assert_int_equal(s->n_wrong, 0);
    assert_int_equal(c.jobs_submitted, jobs);
    assert_int_equal(c.jobs_finished + c.jobs_cancelled + c.jobs_failed, jobs);
    assert_int_equal(c.jobs_failed, 0);
    assert_int_equal(c.jobs_refused, 0);
    assert_int_equal(s->n_finished + s->n_cancelled + s->n_dropped, jobs);
    /* A job that was dropped may have ended by itself, unseen. */
    assert_in_range(c.jobs_cancelled, s->n_cancelled, s->n_cancelled + s->n_dropped);
    assert_true(c.jobs_cancelled > 0 && s->n_dropped > 0 && s->n_finished > (int)jobs / 2);
    assert_int_equal(c.pages, PAGES);
    assert_int_equal(c.pages_used, 0);
    assert_int_equal(c.pages_shared, 0);
    assert_in_range(c.cached_tokens, 1, SIZE_MAX);
    assert_in_range(c.pages_evicted, 1, SIZE_MAX);
}

static void nothing_is_lost_and_nothing_stays(void **state) {
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = PAGES * PAGE};
    soak s = {0};
    assert_int_equal(qp_generator_new(&s.gen, model, &options, NULL), QP_OK);
    run_round(&s, 1000);
    check_counters(&s, JOBS);
    const size_t before = mallinfo2().uordblks; /* nothing while a sanitizer owns the heap; ASan counts by itself */
    run_round(&s, 1000 + JOBS);
    check_counters(&s, 2 * JOBS);
    const size_t after = mallinfo2().uordblks;
    assert_true(IS_SANITIZED || before > 0);
    assert_true(after < before + MOST_GROWTH);
    qp_generator_free(s.gen);
}

/* Handles that outlive their generator have ended, each with its end to read. */
static void a_generator_that_goes_ends_all_jobs(void **state) {
    enum { LEFT = 24 };
    static const int32_t ids[] = {5, 6, 7};
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = PAGES * PAGE};
    const qp_job_options job = {.size = sizeof job, .ids = ids, .n_ids = 3, .max_new_tokens = 1000, .ignore_eos = true};
    qp_generator *gen;
    qp_job *jobs[LEFT];
    assert_int_equal(qp_generator_new(&gen, model, &options, NULL), QP_OK);
    for (int i = 0; i < LEFT; i++) assert_int_equal(qp_job_new(&jobs[i], gen, &job, NULL), QP_OK);
    qp_event event;
    assert_int_equal(qp_job_next(jobs[0], &event, NULL), QP_OK);
    qp_generator_free(gen);
    for (int i = 0; i < LEFT; i++) {
        size_t n_tokens = 0;
        assert_true(read_for(jobs[i], -1, &event, &n_tokens));
        assert_int_equal(event.finish, QP_FINISH_CANCELLED);
        qp_job_free(jobs[i]);
    }
}

static int open_model(void **state) {
    return qp_model_open(&model, QUIPU_SOURCE "/models/demo", &(qp_model_options){.size = sizeof(qp_model_options)},
                         NULL);
}

static int close_model(void **state) {
    qp_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_and_nothing_stays),
                                       cmocka_unit_test(a_generator_that_goes_ends_all_jobs)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
