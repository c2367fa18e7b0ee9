/* arch_jobs_test.c — jobs of every kind of layer beside one another: experts, latents, windows, chunks, sinks, learned
 * positions. What a job gives must not depend on who else runs, on how its prompt is cut, on being preempted, or on
 * what it found in the cache. */
#include "goldens.h"
#include "model/model.h"

enum { N_JOBS = 10, MOST_PROMPT = 500, MOST_NEW = 24 };

static const char *const names[] = {"qwen3-moe", "qwen2-moe",   "deepseek-v3", "mistral-swa", "gemma2",
                                    "cohere2",   "llama4-text", "gpt-oss",     "gpt2",        "minicpm3"};

typedef struct answer {
    int32_t ids[MOST_NEW];
    size_t n;
} answer;

typedef struct random_job {
    int32_t prompt[MOST_PROMPT];
    qp_job_options o;
} random_job;

static uint32_t next_random(uint32_t *s) { return *s = *s * 1664525u + 1013904223u, *s >> 8; }

/* Prompts that share beginnings of many lengths. */
static void make_random(random_job *r, uint32_t *s, int vocabulary, int most) {
    const size_t n = 1 + next_random(s) % (uint32_t)most, shared = next_random(s) % (uint32_t)(most + 1);
    for (size_t i = 0; i < n; i++)
        r->prompt[i] = (int32_t)((i < shared ? (uint32_t)i * 7 : next_random(s)) % (uint32_t)vocabulary);
    r->o = (qp_job_options){.size = sizeof r->o,
                            .ids = r->prompt,
                            .n_ids = n,
                            .max_new_tokens = 1 + next_random(s) % MOST_NEW,
                            .ignore_eos = true,
                            .sampling = {.temperature = next_random(s) % 2 ? 0.9f : 0, .seed = next_random(s)}};
}

static void read_answer(qp_job *j, answer *a) {
    qp_event event;
    qp_error err;
    a->n = 0;
    do {
        assert_int_equal(qp_job_next(j, &event, &err), QP_OK);
        for (size_t i = 0; i < event.n_ids; i++) a->ids[a->n++] = event.ids[i];
    } while (event.kind != QP_EVENT_END);
    assert_int_equal(event.finish, QP_FINISH_LENGTH);
    qp_job_free(j);
}

static qp_generator *open_generator(const qp_model *m, qp_generator_options o) {
    qp_generator *g;
    qp_error err;
    o.size = sizeof o;
    if (qp_generator_new(&g, m, &o, &err) != QP_OK) fail_msg("%s", err.text);
    return g;
}

static void run_together(const char *name, const qp_model *m, random_job *jobs, const answer *alone,
                         qp_generator_options room) {
    qp_generator *g = open_generator(m, room);
    qp_job *handles[N_JOBS];
    qp_error err;
    for (int i = 0; i < N_JOBS; i++)
        if (qp_job_new(&handles[i], g, &jobs[i].o, &err) != QP_OK) fail_msg("%s: %s", name, err.text);
    for (int i = 0; i < N_JOBS; i++) {
        answer got;
        read_answer(handles[i], &got);
        if (got.n != alone[i].n || memcmp(got.ids, alone[i].ids, got.n * sizeof *got.ids))
            fail_msg("%s: job %d answers otherwise beside the others (cache of %llu tokens)", name, i,
                     (unsigned long long)room.cache_tokens);
    }
    qp_generator_free(g);
}

static void try_model(const char *name) {
    static const qp_generator_options rooms[] = {
        {.cache_tokens = 768, .chunk_tokens = 50}, {.cache_tokens = 2048}, {.cache_tokens = 8192}};
    char folder[512];
    const qp_model_options o = {.size = sizeof o, .threads = 2};
    qp_model *m;
    qp_model_info info;
    qp_error err;
    uint32_t seed = 5;
    snprintf(folder, sizeof folder, "%s/models/%s", QUIPU_FIXTURES, name);
    if (qp_model_open(&m, folder, &o, &err) != QP_OK) fail_msg("%s", err.text);
    qp_model_get_info(m, &info);
    random_job *jobs = calloc(N_JOBS, sizeof *jobs);
    answer *alone = calloc(N_JOBS, sizeof *alone);
    const int most = info.trained_context < MOST_PROMPT ? info.trained_context - MOST_NEW : MOST_PROMPT;
    for (int i = 0; i < N_JOBS; i++) {
        make_random(&jobs[i], &seed, info.vocabulary, most);
        qp_generator *g = open_generator(m, (qp_generator_options){.cache_tokens = 1024, .no_reuse = true});
        qp_job *j;
        assert_int_equal(qp_job_new(&j, g, &jobs[i].o, &err), QP_OK);
        read_answer(j, &alone[i]);
        qp_generator_free(g);
    }
    for (size_t r = 0; r < HARNESS_COUNT(rooms); r++) run_together(name, m, jobs, alone, rooms[r]);
    free(alone);
    free(jobs);
    qp_model_close(m);
}

static void jobs_of_every_kind_are_alone(void **state) {
    struct stat is_there;
    if (stat(QUIPU_FIXTURES "/models", &is_there)) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    for (size_t i = 0; i < HARNESS_COUNT(names); i++) try_model(names[i]);
}

/* A table of positions ends somewhere: jobs are cut to it, sequences refused. */
static void learned_positions_end(void **state) {
    const char *folder = QUIPU_FIXTURES "/models/gpt2";
    int32_t ids[200] = {0};
    const int32_t *all = ids;
    const size_t n = 193, last = 1;
    float logits[128];
    qp_model *m;
    qp_sequence *s;
    qp_job *j;
    qp_error err;
    answer a;
    if (qp_model_open(&m, folder, NULL, &err) != QP_OK) HARNESS_SKIP("no models in " QUIPU_FIXTURES);
    assert_int_equal(qp_sequence_new(&s, m, 256, QP_CACHE_DEFAULT, &err), QP_OK);
    assert_int_equal(qp_forward(&s, &all, &n, &last, 1, logits, &err), QP_TOO_LARGE);
    assert_non_null(strstr(err.text, "token 193 of a sequence, this model has positions for 192"));
    assert_int_equal(qp_sequence_length(s), 0);
    qp_sequence_free(s);
    qp_generator *g = open_generator(m, (qp_generator_options){0});
    const qp_job_options o = {.size = sizeof o, .ids = ids, .n_ids = 185, .max_new_tokens = 20, .ignore_eos = true};
    assert_int_equal(qp_job_new(&j, g, &o, &err), QP_OK);
    read_answer(j, &a);
    assert_int_equal(a.n, 7);
    qp_generator_free(g);
    qp_model_close(m);
}

/* A device may round weights of all other products when they come. */
static void exact_products_tell_their_weights(void **state) {
    int n_exact = 0;
    for (size_t i = 0; i < HARNESS_COUNT(names); i++) {
        char folder[512];
        snprintf(folder, sizeof folder, QUIPU_SOURCE "/tests/golden/models/%s", names[i]);
        if (access(folder, R_OK)) continue;
        const model_options o = {.device.kind = "cpu"};
        model *m;
        qp_error err;
        if (model_open(&m, folder, &o, &err) != QP_OK) fail_msg("%s", err.text);
        for (const plan_op *op = m->plan.ops; op < m->plan.ops + m->plan.n_ops; op++)
            for (int part = 0; op->kind == PLAN_MATMUL && part < op->n_parts; part++) {
                assert_int_equal(op->parts[part].w->use == DEV_USE_EXACT, op->is_exact);
                n_exact += op->is_exact;
            }
        model_close(m);
    }
    assert_true(n_exact > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_products_tell_their_weights),
        cmocka_unit_test(jobs_of_every_kind_are_alone),
        cmocka_unit_test(learned_positions_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
