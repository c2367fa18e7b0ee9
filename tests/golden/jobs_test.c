/* jobs_test.c — many jobs on one generator: each gives what it gives alone, whatever else runs, is cancelled or takes
 * its pages; and every option of a job does what it says. Through the public interface alone. */
#include "quipu.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static qp_model *demo, *tiny;

static int open_models(void **state) {
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    qp_error err;
    if (qp_model_open(&demo, QUIPU_SOURCE "/models/demo", &o, &err)) return fprintf(stderr, "%s\n", err.text), 1;
    return qp_model_synthesize(&tiny, "tiny", "bf16", 7, &o, &err);
}

static int close_models(void **state) {
    qp_model_close(demo);
    qp_model_close(tiny);
    return 0;
}

static qp_generator *new_generator(const qp_model *m, qp_generator_options o) {
    qp_generator *g;
    qp_error err;
    o.size = sizeof o;
    if (qp_generator_new(&g, m, &o, &err)) fail_msg("%s", err.text);
    return g;
}

/* All that a job said. */
typedef struct answer {
    char text[8192];
    int32_t ids[2048];
    size_t bytes, n, n_events;
    qp_event end;
    qp_status status;
    qp_error err;
} answer;

static void add_event(answer *a, const qp_event *e) {
    assert_true(a->bytes + e->text_bytes < sizeof a->text && a->n + e->n_ids <= 2048);
    memcpy(a->text + a->bytes, e->text, e->text_bytes + 1);
    a->bytes += e->text_bytes;
    if (e->n_ids) memcpy(a->ids + a->n, e->ids, e->n_ids * sizeof *e->ids);
    a->n += e->n_ids;
    a->n_events++;
}

static void read_answer(qp_job *j, answer *a) {
    memset(a, 0, sizeof *a);
    do {
        a->status = qp_job_next(j, &a->end, &a->err);
        if (a->end.kind == QP_EVENT_TEXT) add_event(a, &a->end);
    } while (a->end.kind != QP_EVENT_END);
}

static qp_job *submit(qp_generator *g, qp_job_options o) {
    qp_job *j;
    qp_error err;
    o.size = sizeof o;
    if (qp_job_new(&j, g, &o, &err)) fail_msg("%s", err.text);
    return j;
}

static void run(qp_generator *g, qp_job_options o, answer *a) {
    qp_job *j = submit(g, o);
    read_answer(j, a);
    qp_job_free(j);
}

static void refuse(qp_generator *g, qp_job_options o, qp_status status, const char *text) {
    qp_job *j;
    qp_error err;
    o.size = sizeof o;
    assert_int_equal(qp_job_new(&j, g, &o, &err), status);
    assert_null(j);
    if (!strstr(err.text, text)) fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

/* Waits until nothing runs; all pages must then be nobody's. */
static void check_idle(qp_generator *g) {
    qp_generator_stats s;
    for (int i = 0; i < 2000; i++) {
        qp_generator_get_stats(g, &s);
        if (!s.jobs_running && !s.jobs_waiting &&
            s.jobs_submitted == s.jobs_finished + s.jobs_cancelled + s.jobs_failed)
            break;
        usleep(1000);
    }
    assert_int_equal(s.jobs_running + s.jobs_waiting, 0);
    assert_int_equal(s.pages_used, 0);
    assert_int_equal(s.jobs_submitted, s.jobs_finished + s.jobs_cancelled + s.jobs_failed);
}

/* ---- isolation ---- */

enum { N_JOBS = 24, MOST_PROMPT = 900 };

typedef struct random_job {
    int32_t prompt[MOST_PROMPT];
    qp_job_options o;
} random_job;

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

/* Prompts that share beginnings of many lengths. */
static void make_random(random_job *r, uint32_t *s) {
    const size_t n = 1 + next_random(s) % MOST_PROMPT, shared = next_random(s) % (MOST_PROMPT + 1);
    for (size_t i = 0; i < n; i++) r->prompt[i] = i < shared ? (int32_t)(i * 7 % 512) : (int32_t)(next_random(s) % 512);
    r->o = (qp_job_options){.ids = r->prompt,
                            .n_ids = n,
                            .max_new_tokens = 1 + next_random(s) % 40,
                            .sampling = {.temperature = next_random(s) % 3 ? 0.9f : 0,
                                         .top_k = (int)(next_random(s) % 2 * 40),
                                         .seed = next_random(s)}};
    if (next_random(s) % 3 == 0) r->o.sampling.repetition_penalty = 1.2f;
    if (next_random(s) % 4 == 0) r->o.sampling.mirostat_tau = 4;
    if (next_random(s) % 4 == 0) r->o.sampling.dry_multiplier = 0.8f;
}

static void each_job_is_alone_in(qp_cache_type type) {
    random_job *jobs = calloc(N_JOBS, sizeof *jobs);
    answer *alone = calloc(N_JOBS, sizeof *alone), *got = calloc(1, sizeof *got);
    qp_job *handles[N_JOBS];
    uint32_t seed = 11;
    const int n_rounds = type == QP_CACHE_DEFAULT ? 3 : 2;
    for (int i = 0; i < N_JOBS; i++) make_random(&jobs[i], &seed);
    for (int i = 0; i < N_JOBS; i++) {
        qp_generator *g =
            new_generator(tiny, (qp_generator_options){.cache_tokens = 1024, .cache_type = type, .no_reuse = true});
        run(g, jobs[i].o, &alone[i]);
        qp_generator_free(g);
    }
    /* caches of 4 pages (everybody is preempted or waits) to plenty, with and without host memory behind them */
    static const qp_generator_options rooms[] = {{.cache_tokens = 1024},
                                                 {.cache_tokens = 2048, .chunk_tokens = 33},
                                                 {.cache_tokens = 1536, .spill_bytes = 1 << 20, .max_jobs = 5},
                                                 {.cache_tokens = 65536, .max_stall = 10}};
    const size_t n_rooms = type == QP_CACHE_DEFAULT ? sizeof rooms / sizeof *rooms : 3;
    for (size_t r = n_rooms == 3 ? 2 : 0; r < n_rooms; r++) { /* the other types: where pages are spilled */
        qp_generator_options room = rooms[r];
        room.cache_type = type;
        qp_generator *g = new_generator(tiny, room);
        for (int round = 0; round < n_rounds; round++) {
            for (int i = 0; i < N_JOBS; i++) handles[i] = submit(g, jobs[(i * 5 + round) % N_JOBS].o);
            for (int i = 0; i < N_JOBS; i++)
                if (round && (i + round) % 3 == 0) qp_job_cancel(handles[i]);
            for (int i = 0; i < N_JOBS; i++) {
                const answer *a = &alone[(i * 5 + round) % N_JOBS];
                read_answer(handles[i], got);
                if (got->end.finish != QP_FINISH_CANCELLED) assert_int_equal(got->n, a->n);
                assert_memory_equal(got->ids, a->ids, got->n * sizeof(int32_t));
                qp_job_free(handles[i]);
            }
        }
        check_idle(g);
        qp_generator_free(g);
    }
    free(jobs);
    free(alone);
    free(got);
}

static void each_job_is_alone(void **state) {
    for (qp_cache_type type = QP_CACHE_DEFAULT; type <= QP_CACHE_Q4; type++)
        if (type == QP_CACHE_DEFAULT || type >= QP_CACHE_Q8) each_job_is_alone_in(type);
}

static void preempted_jobs_go_on_as_if_nothing_was(void **state) {
    answer a, b;
    int32_t prompt[400];
    for (int i = 0; i < 400; i++) prompt[i] = i % 512;
    qp_generator *g = new_generator(tiny, (qp_generator_options){.cache_tokens = 1024});
    const qp_job_options o = {
        .ids = prompt, .n_ids = 400, .max_new_tokens = 500, .sampling = {.temperature = 1, .seed = 5}};
    run(g, o, &a);
    qp_job_options other = o;
    other.ids = prompt + 1;
    other.n_ids = 399;
    bool has_met = false; /* where this thread had to wait between the two, the first is done before they meet */
    for (int attempt = 0; attempt < 20 && !has_met; attempt++) {
        qp_job *first = submit(g, other), *second = submit(g, o); /* 2 + 2 pages, both grow to 4 of 4 */
        read_answer(second, &b);
        has_met = b.end.stats.preempted > 0;
        assert_int_equal(b.n, a.n);
        assert_memory_equal(a.ids, b.ids, a.n * sizeof(int32_t));
        qp_job_free(first);
        qp_job_free(second);
        check_idle(g);
    }
    assert_true(has_met);
    qp_generator_free(g);
}

/* ---- reuse ---- */

static void the_beginning_of_a_prompt_is_found_again(void **state) {
    answer a, b;
    int32_t prompt[700];
    for (int i = 0; i < 700; i++) prompt[i] = i * 3 % 512;
    qp_generator *g = new_generator(tiny, (qp_generator_options){.cache_tokens = 8192});
    qp_job_options o = {.ids = prompt, .n_ids = 700, .max_new_tokens = 8};
    run(g, o, &a);
    assert_int_equal(a.end.stats.cached_tokens, 0);
    run(g, o, &b);
    assert_int_equal(b.end.stats.cached_tokens, 699);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof(int32_t));
    prompt[600]++;
    run(g, o, &b);
    assert_int_equal(b.end.stats.cached_tokens, 600);

    qp_job *jobs[6];
    qp_error err;
    qp_generator_stats before, after;
    for (int i = 0; i < 700; i++) prompt[i] = 511 - i * 5 % 512;
    qp_generator_get_stats(g, &before);
    o.size = sizeof o;
    o.sampling = (qp_sampling){.temperature = 1, .seed = 40};
    assert_int_equal(qp_jobs_new(jobs, 6, g, &o, &err), QP_OK);
    for (int i = 0; i < 6; i++) {
        read_answer(jobs[i], &a);
        qp_job_free(jobs[i]);
        o.sampling.seed = 40 + (uint64_t)i;
        run(g, o, &b);
        assert_memory_equal(a.ids, b.ids, 8 * sizeof(int32_t));
    }
    qp_generator_get_stats(g, &after);
    assert_true(after.prompt_tokens - before.prompt_tokens < 700 + 12 * 10); /* read once */
    qp_generator_free(g);
}

static void prefixes_go_to_files_and_come_back(void **state) {
    char path[] = "/tmp/quipu-prefix-XXXXXX";
    answer a, b;
    qp_error err;
    size_t n;
    int32_t prompt[600];
    for (int i = 0; i < 600; i++) prompt[i] = i * 11 % 512;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    const qp_job_options o = {.ids = prompt, .n_ids = 600, .max_new_tokens = 8};
    qp_generator *g = new_generator(tiny, (qp_generator_options){.cache_tokens = 2048});
    run(g, o, &a);
    assert_int_equal(qp_prefix_save(g, path, prompt, 600, &n, &err), QP_OK);
    assert_int_equal(n, 512);
    qp_generator_free(g);
    g = new_generator(tiny, (qp_generator_options){.cache_tokens = 2048});
    assert_int_equal(qp_prefix_load(g, path, &n, &err), QP_OK);
    assert_int_equal(n, 512);
    run(g, o, &b);
    assert_int_equal(b.end.stats.cached_tokens, 512);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof(int32_t));
    qp_generator_free(g);
    g = new_generator(demo, (qp_generator_options){.cache_tokens = 2048});
    assert_true(qp_prefix_load(g, path, &n, &err) != QP_OK);
    qp_generator_free(g);
    unlink(path);
}

/* ---- ends ---- */

static void jobs_can_be_cancelled_in_every_state(void **state) {
    answer a;
    qp_generator *g = new_generator(demo, (qp_generator_options){.max_jobs = 2});
    const qp_job_options o = {.prompt = "Once upon a time", .ignore_eos = true};
    qp_job *running = submit(g, o), *second = submit(g, o), *waiting = submit(g, o);
    qp_event e;
    assert_int_equal(qp_job_next(running, &e, NULL), QP_OK);
    qp_job_progress p;
    qp_job_get_progress(waiting, &p);
    assert_int_equal(p.state, QP_JOB_WAITING);
    qp_job *const all[] = {waiting, running, second};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) qp_job_cancel(all[i]);
        read_answer(all[i], &a);
        assert_int_equal(a.end.finish, QP_FINISH_CANCELLED);
        assert_int_equal(qp_job_next(all[i], &e, NULL), QP_OK); /* and again */
        assert_int_equal(e.kind, QP_EVENT_END);
        qp_job_cancel(all[i]);
        qp_job_get_progress(all[i], &p);
        assert_int_equal(p.state, QP_JOB_ENDED);
        assert_int_equal(p.pages, 0);
        qp_job_free(all[i]);
    }
    qp_job_free(submit(g, o)); /* letting go cancels */
    check_idle(g);
    qp_job *left = submit(g, o);
    qp_generator_free(g); /* the handle outlives it */
    read_answer(left, &a);
    assert_int_equal(a.end.finish, QP_FINISH_CANCELLED);
    qp_job_cancel(left);
    qp_job_free(left);
}

static void limits_are_kept(void **state) {
    answer a;
    qp_generator *g = new_generator(demo, (qp_generator_options){.max_jobs = 1, .max_queue = 2, .max_length = 64});
    qp_job_options o = {.prompt = "Once upon a time", .ignore_eos = true};
    qp_generator *busy = new_generator(demo, (qp_generator_options){.max_jobs = 1, .max_queue = 1});
    qp_job *first = submit(busy, o);
    qp_event e;
    qp_job_next(first, &e, NULL);
    qp_job_options hurried = o;
    hurried.max_queue_s = 0.02;
    qp_job *second = submit(busy, hurried);
    refuse(busy, o, QP_BUSY, "waiting");
    read_answer(second, &a);
    assert_int_equal(a.end.finish, QP_FINISH_TIMEOUT);
    assert_int_equal(a.n, 0);
    qp_job_free(second);
    qp_job_free(first);
    qp_generator_free(busy);

    run(g, o, &a);
    assert_int_equal(a.end.finish, QP_FINISH_LENGTH);
    assert_int_equal(a.end.stats.prompt_tokens + a.n, 64);
    o.max_total_s = 0.01;
    qp_generator *endless = new_generator(demo, (qp_generator_options){.cache_tokens = 1 << 16});
    run(endless, o, &a);
    assert_int_equal(a.end.finish, QP_FINISH_TIMEOUT);
    qp_generator_free(endless);
    int32_t ids[64] = {0};
    refuse(g, (qp_job_options){.ids = ids, .n_ids = 64}, QP_TOO_LARGE, "64");
    refuse(g, (qp_job_options){.ids = ids, .n_ids = 4, .max_total_s = -1}, QP_BAD_ARGUMENT, "max_total_s");
    refuse(g, (qp_job_options){.ids = ids, .n_ids = 4, .loop_repeats = 1}, QP_BAD_ARGUMENT, "loop_repeats");
    refuse(g, (qp_job_options){.ids = ids, .n_ids = 4, .sampling = {.top_p = -1}}, QP_BAD_ARGUMENT, "top_p");
    refuse(g, (qp_job_options){.ids = ids, .n_ids = 4, .sampling = {.guidance = 2}}, QP_BAD_ARGUMENT, "negative");
    check_idle(g);
    qp_generator_free(g);
}

static void stops_and_lengths(void **state) {
    answer a, b;
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 40};
    run(g, o, &a);
    const char *stop = a.text + 20; /* all of what comes after 20 bytes is a stop text */
    o.stop = &stop;
    o.n_stop = 1;
    qp_job *stopped = submit(g, o);
    read_answer(stopped, &b);
    assert_int_equal(b.end.finish, QP_FINISH_STOP);
    assert_int_equal(b.bytes, 20);
    assert_memory_equal(a.text, b.text, 20);
    assert_string_equal(b.end.stop_text, stop);
    assert_string_equal(b.end.held_text, stop);
    qp_job_free(stopped);
    o.n_stop = 0;
    o.stop_ids = &a.ids[7];
    o.n_stop_ids = 1;
    run(g, o, &b);
    assert_int_equal(b.end.finish, QP_FINISH_EOS);
    assert_int_equal(b.end.stop_id, a.ids[7]);
    size_t first = 0;
    while (a.ids[first] != a.ids[7]) first++;
    assert_int_equal(b.n, first);
    o.min_new_tokens = 30;
    run(g, o, &b);
    assert_true(b.n >= 30);
    for (int i = 0; i < 30; i++) assert_int_not_equal(b.ids[i], a.ids[7]);
    o.min_new_tokens = 0;
    o.n_stop_ids = 0;
    o.sampling.repetition_penalty = 0;
    o.loop_repeats = 2;
    o.allow_ids = &a.ids[3];
    o.n_allow_ids = 1;
    o.ignore_eos = true;
    o.max_new_tokens = 200;
    run(g, o, &b);
    assert_int_equal(b.end.finish, QP_FINISH_LOOP);
    assert_int_equal(b.end.stats.loop_period, 1);
    assert_int_equal(b.n, 64);
    qp_generator_free(g);
}

/* ---- text that is taken back ---- */

static void banned_texts_never_appear(void **state) {
    static const char *const bans[] = {" THERE was", "man", "the ", "said"};
    answer a, b, c;
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    for (uint64_t seed = 1; seed < 6; seed++) {
        qp_job_options o = {
            .prompt = "Once upon a time",
            .max_new_tokens = 120,
            .ban = bans,
            .n_ban = 4,
            .sampling = {.temperature = 0.9f, .top_k = 40, .seed = seed, .mirostat_tau = seed % 2 * 5.0f}};
        run(g, o, &a);
        for (int i = 0; i < 4; i++) assert_null(strcasestr(a.text, bans[i]));
        assert_true(a.end.stats.suppressed > 0);
        /* what is shown is what the ids say, and the same beside others */
        char *text;
        size_t bytes;
        qp_error err;
        assert_int_equal(
            qp_detokenize(qp_model_peek_tokenizer(demo), a.ids, a.n, QP_DETOKENIZE_SKIP_SPECIAL, &text, &bytes, &err),
            QP_OK);
        assert_string_equal(text, a.text);
        qp_free(text);
        qp_job *other = submit(g, (qp_job_options){.prompt = "Once upon a", .max_new_tokens = 100});
        run(g, o, &b);
        assert_string_equal(a.text, b.text);
        read_answer(other, &c);
        qp_job_free(other);
    }
    check_idle(g);
    qp_generator_free(g);
}

/* The first new token begins with the prompt's last, and only what is more of it is shown. */
static void the_last_token_is_healed(void **state) {
    static const char *const prompts[] = {"Once upon a ti", "The little gi", "They went to the gar"};
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    const qp_tokenizer *t = qp_model_peek_tokenizer(demo);
    for (int i = 0; i < 3; i++) {
        answer a;
        size_t n;
        char last[64] = "", first[64] = ""; /* pieces come without a zero byte */
        qp_job *j = submit(g, (qp_job_options){.prompt = prompts[i], .max_new_tokens = 12, .heal = true});
        const int32_t *ids = qp_job_peek_prompt(j, &n);
        qp_token_piece(t, ids[n - 1], last, sizeof last, NULL);
        read_answer(j, &a);
        assert_int_equal(a.end.stats.prompt_tokens, n);
        qp_token_piece(t, a.ids[0], first, sizeof first, NULL);
        assert_memory_equal(first, last, strlen(last));
        assert_memory_equal(a.text, first + strlen(last), strlen(first) - strlen(last));
        qp_job_free(j);
    }
    qp_generator_free(g);
}

/* ---- sampling through jobs ---- */

static void guidance_pulls_away_from_the_negative_prompt(void **state) {
    answer a, b;
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job_options o = {.prompt = "The king was very", .max_new_tokens = 24};
    run(g, o, &a);
    o.negative_prompt = o.prompt;
    o.sampling.guidance = 3; /* away from itself: nothing changes */
    run(g, o, &b);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof(int32_t));
    o.negative_prompt = "She found a little bird in the garden, and it";
    run(g, o, &b);
    assert_string_not_equal(a.text, b.text);
    check_idle(g);
    qp_generator_free(g);
}

static void tokens_come_with_their_chances(void **state) {
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job *j = submit(g, (qp_job_options){.prompt = "Once upon a time",
                                           .max_new_tokens = 10,
                                           .n_top = 3,
                                           .want_logits = true,
                                           .sampling = {.temperature = 1, .seed = 9}});
    qp_event e;
    size_t n = 0;
    for (;;) {
        assert_int_equal(qp_job_next(j, &e, NULL), QP_OK);
        if (e.kind == QP_EVENT_END) break;
        for (size_t i = 0; i < e.n_ids; i++, n++) {
            const qp_token *t = &e.tokens[i];
            assert_int_equal(t->id, e.ids[i]);
            assert_int_equal(t->n_top, 3);
            assert_true(t->logprob <= 0 && t->p > 0 && t->p <= 1);
            assert_true(t->top[0].logprob >= t->top[1].logprob && t->top[1].logprob >= t->top[2].logprob);
            assert_true(t->logits[t->top[0].id] >= t->logits[t->id]);
            const float gap = t->logits[t->top[0].id] - t->logits[t->id];
            assert_true(gap - (t->top[0].logprob - t->logprob) < 1e-3f &&
                        gap - (t->top[0].logprob - t->logprob) > -1e-3f);
        }
    }
    assert_int_equal(n, 10);
    qp_job_free(j);
    qp_generator_free(g);
}

/* A filter that allows the ids 100 to 119, then is complete after `left` tokens. */
typedef struct counting {
    int left, n_freed, fails_at;
} counting;

static qp_status count_mask(void *user, uint32_t *mask, int vocabulary, bool *may_end, qp_error *err) {
    counting *c = user;
    if (c->fails_at == c->left) {
        if (err) snprintf(err->text, sizeof err->text, "the filter gave up");
        return QP_BAD_FORMAT;
    }
    for (int i = 0; i < (vocabulary + 31) / 32; i++) mask[i] = 0;
    for (int id = 100; c->left && id < 120; id++) mask[id / 32] |= 1u << (id % 32);
    *may_end = !c->left;
    return QP_OK;
}

static qp_status count_accept(void *user, int32_t id, qp_error *err) {
    assert_in_range(id, 100, 119);
    ((counting *)user)->left--;
    return QP_OK;
}

static void count_free(void *user) { ((counting *)user)->n_freed++; }

static void filters_bind_their_job_alone(void **state) {
    counting c = {.left = 9, .fails_at = -1}, broken = {.left = 9, .fails_at = 4}, refused = {.left = 1};
    const qp_filter filter = {.user = &c, .mask = count_mask, .accept = count_accept, .free = count_free};
    const qp_filter bad = {.user = &broken, .mask = count_mask, .accept = count_accept, .free = count_free};
    const qp_filter never = {.user = &refused, .mask = count_mask, .accept = count_accept, .free = count_free};
    answer a, b, free_one, again;
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 20};
    run(g, o, &free_one);
    qp_job *plain = submit(g, o);
    o.n_filters = 1;
    o.filters = &filter;
    qp_job *bound = submit(g, o);
    o.filters = &bad;
    qp_job *failing = submit(g, o);
    read_answer(plain, &again);
    read_answer(bound, &a);
    read_answer(failing, &b);
    assert_string_equal(free_one.text, again.text);
    assert_true(a.end.finish == QP_FINISH_FILTER || a.end.finish == QP_FINISH_EOS);
    assert_int_equal(a.n, 9);
    assert_int_equal(b.end.finish, QP_FINISH_ERROR);
    assert_int_equal(b.status, QP_BAD_FORMAT);
    assert_string_equal(b.err.text, "the filter gave up");
    assert_int_equal(c.n_freed, 1);
    assert_int_equal(broken.n_freed, 1);
    qp_job_free(plain);
    qp_job_free(bound);
    qp_job_free(failing);
    static const char *const ban = "x";
    o.filters = &never;
    o.ban = &ban;
    o.n_ban = 1;
    refuse(g, o, QP_BAD_ARGUMENT, "rewind");
    assert_int_equal(refused.n_freed, 1);
    qp_generator_free(g);
}

/* ---- readers ---- */

static void a_slow_reader_loses_nothing(void **state) {
    answer a, b;
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    const qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 100, .ignore_eos = true};
    run(g, o, &a);
    qp_job *j = submit(g, o);
    qp_job_progress p;
    do {
        usleep(1000);
        qp_job_get_progress(j, &p);
    } while (p.state != QP_JOB_ENDED);
    read_answer(j, &b);
    assert_int_equal(b.n_events, 1);
    assert_string_equal(a.text, b.text);
    qp_event e;
    qp_job_free(j);
    j = submit(g, o);
    qp_job_cancel(j);
    while (qp_job_poll(j, 0, &e, NULL) != QP_OK || e.kind != QP_EVENT_END) usleep(100);
    qp_job_free(j);
    qp_generator_free(g);
}

static void a_watch_tells_of_every_job(void **state) {
    enum { N = 12 };
    qp_watch *w;
    qp_error err;
    qp_event e;
    answer alone, *answers = calloc(N, sizeof *answers);
    int n_ended = 0;
    assert_int_equal(qp_watch_new(&w, &err), QP_OK);
    assert_null(qp_watch_next(w, 0, NULL));
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job *jobs[N];
    qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 30, .watch = w, .sampling = {.temperature = 1}};
    for (int i = 0; i < N; i++) {
        o.sampling.seed = (uint64_t)i;
        o.user = &answers[i];
        jobs[i] = submit(g, o);
    }
    while (n_ended < N) {
        void *user;
        qp_job *j = qp_watch_next(w, 10, &user);
        assert_non_null(j);
        while (qp_job_poll(j, 0, &e, &err) == QP_OK) {
            if (e.kind == QP_EVENT_TEXT) add_event(user, &e);
            if (e.kind != QP_EVENT_END) continue;
            n_ended++;
            break;
        }
    }
    o.watch = NULL;
    for (int i = 0; i < N; i++) {
        o.sampling.seed = (uint64_t)i;
        run(g, o, &alone);
        assert_string_equal(alone.text, answers[i].text);
        qp_job_free(jobs[i]);
    }
    o.watch = w;
    qp_job_free(submit(g, o)); /* whatever it still says is for nobody */
    check_idle(g);
    qp_generator_free(g);
    qp_watch_free(w);
    free(answers);
}

/* As an event loop does that gets a job from elsewhere, at some moment of its life. */
static void a_watch_may_come_later(void **state) {
    qp_watch *w, *other;
    qp_error err;
    qp_event e;
    assert_int_equal(qp_watch_new(&w, &err), QP_OK);
    assert_int_equal(qp_watch_new(&other, &err), QP_OK);
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    const qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 30};
    answer alone, watched;
    run(g, o, &alone);
    for (int i = 0; i < 20; i++) {
        void *user = NULL;
        qp_job *j = submit(g, o);
        usleep(i % 2 ? 0 : 1000u * (unsigned)i);
        memset(&watched, 0, sizeof watched);
        assert_int_equal(qp_job_watch(j, w, &watched, &err), QP_OK);
        assert_int_equal(qp_job_watch(j, other, NULL, &err), QP_BUSY);
        for (e.kind = QP_EVENT_TEXT; e.kind != QP_EVENT_END;) {
            assert_ptr_equal(qp_watch_next(w, 10, &user), j);
            assert_ptr_equal(user, &watched);
            while (e.kind != QP_EVENT_END && qp_job_poll(j, 0, &e, &err) == QP_OK)
                if (e.kind == QP_EVENT_TEXT) add_event(user, &e);
        }
        assert_string_equal(watched.text, alone.text);
        qp_job_free(j);
    }
    assert_null(qp_watch_next(w, 0, NULL));
    qp_generator_free(g);
    qp_watch_free(w);
    qp_watch_free(other);
}

static size_t new_tokens_of(const qp_job *j) {
    qp_job_progress p;
    qp_job_get_progress(j, &p);
    return p.new_tokens;
}

/* The answer stands still while its reader does, others go on, and nothing of it is other than without the pause. */
static void a_job_waits_for_its_reader(void **state) {
    qp_error err;
    qp_event e = {0};
    qp_generator *g = new_generator(demo, (qp_generator_options){0});
    qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 40, .ignore_eos = true};
    answer alone, other, paused = {0};
    run(g, o, &alone);
    o.max_unread = 3;
    qp_job *j = submit(g, o);
    for (int i = 0; i < 5000 && new_tokens_of(j) < 3; i++) usleep(1000);
    o.max_unread = 0;
    run(g, o, &other);
    assert_string_equal(other.text, alone.text);
    assert_in_range(new_tokens_of(j), 3, 4);
    while (qp_job_next(j, &e, &err) == QP_OK && e.kind != QP_EVENT_END) {
        assert_in_range(e.n_ids, 1, 4);
        add_event(&paused, &e);
    }
    assert_string_equal(paused.text, alone.text);
    qp_job_free(j);
    o.max_unread = 1;
    o.max_total_s = 0.2; /* runs out while the reader is away */
    j = submit(g, o);
    usleep(400000);
    while (qp_job_next(j, &e, &err) == QP_OK && e.kind != QP_EVENT_END) continue;
    assert_int_equal(e.finish, QP_FINISH_TIMEOUT);
    qp_job_free(j);
    o.max_total_s = 0;
    qp_job_free(submit(g, o)); /* one that nobody reads can be cancelled */
    check_idle(g);
    qp_generator_free(g);
}

static void higher_priority_goes_first(void **state) {
    answer a;
    qp_generator *g = new_generator(demo, (qp_generator_options){.max_jobs = 1});
    qp_job_options o = {.prompt = "Once upon a time", .max_new_tokens = 60, .ignore_eos = true};
    qp_job *first = submit(g, o), *low = submit(g, o);
    o.priority = 1;
    qp_job *high = submit(g, o);
    read_answer(high, &a);
    const double waited = a.end.stats.queue_s;
    read_answer(low, &a);
    assert_true(waited < a.end.stats.queue_s);
    qp_job_free(first);
    qp_job_free(low);
    qp_job_free(high);
    qp_generator_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_job_is_alone),
        cmocka_unit_test(preempted_jobs_go_on_as_if_nothing_was),
        cmocka_unit_test(the_beginning_of_a_prompt_is_found_again),
        cmocka_unit_test(prefixes_go_to_files_and_come_back),
        cmocka_unit_test(jobs_can_be_cancelled_in_every_state),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(stops_and_lengths),
        cmocka_unit_test(banned_texts_never_appear),
        cmocka_unit_test(the_last_token_is_healed),
        cmocka_unit_test(guidance_pulls_away_from_the_negative_prompt),
        cmocka_unit_test(tokens_come_with_their_chances),
        cmocka_unit_test(filters_bind_their_job_alone),
        cmocka_unit_test(a_slow_reader_loses_nothing),
        cmocka_unit_test(a_watch_tells_of_every_job),
        cmocka_unit_test(a_watch_may_come_later),
        cmocka_unit_test(a_job_waits_for_its_reader),
        cmocka_unit_test(higher_priority_goes_first),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
