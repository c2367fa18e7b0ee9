/* state_test.c — what outlives a step: counts of the history and mirostat's mu, also when tokens are taken back, and
 * DRY, which keeps nothing. */
#include "chain.h"
#include "mirostat.h"
#include "num.h"
#include "penalties.h"
#include "room.h"
#include "base/mem.h"
#include "base/rng.h"
#include "harness.h"

enum { N = 40, LENGTH = 300 };

static void make_logits(float *logits, uint64_t row) {
    for (int i = 0; i < N; i++) logits[i] = (float)(6 * rng_uniform(1, row, (uint64_t)i));
}

static sampler *open_sampler(const qp_sampling *settings) {
    sampler *s;
    assert_int_equal(sampler_new(&s, &(sampler_setup){.settings = *settings, .n_vocabulary = N, .wants_p = true}, NULL),
                     QP_OK);
    return s;
}

/* One step of an answer after a prompt of n_prompt tokens: the chosen id is appended. */
static void step_on(sampler *s, sampler_room *room, int32_t *history, size_t *n, size_t n_prompt, float *p) {
    float logits[N];
    make_logits(logits, *n);
    sampler_choice choice = {0};
    const sampler_step step = {
        .logits = logits, .history = history, .n_history = *n, .n_prompt = n_prompt, .position = *n - n_prompt};
    sampler_choose(s, room, &step, &choice);
    assert_in_range(choice.id, 0, N - 1);
    *p = choice.p;
    history[(*n)++] = choice.id;
}

/* An answer with rewinds is the answer without, to the bit. */
static void taking_back_restores_the_state(void **state) {
    static const qp_sampling cases[] = {
        {.temperature = 1, .repetition_penalty = 1.2f, .frequency_penalty = 0.1f, .presence_penalty = 0.2f, .seed = 4},
        {.temperature = 1,
         .repetition_penalty = 1.2f,
         .frequency_penalty = 0.1f,
         .penalty_range = 9,
         .penalty_decay = 5},
        {.temperature = 1, .mirostat_tau = 2, .seed = 5},
        {.temperature = 1, .mirostat_tau = 2, .mirostat_eta = 0.7f, .temperature_last = true, .dry_multiplier = 1},
    };
    enum { PROMPT = 20 };
    sampler_room *room;
    assert_int_equal(sampler_room_new(&room, N, NULL), QP_OK);
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
        int32_t straight[LENGTH], winding[LENGTH];
        float p[LENGTH], q;
        for (int i = 0; i < PROMPT; i++) straight[i] = winding[i] = i % 7;
        sampler *s = open_sampler(&cases[c]);
        for (size_t n = PROMPT; n < LENGTH;) step_on(s, room, straight, &n, PROMPT, &p[n]);
        sampler_free(s);
        s = open_sampler(&cases[c]);
        uint64_t dice = 0;
        for (size_t n = PROMPT; n < LENGTH;) {
            step_on(s, room, winding, &n, PROMPT, &q);
            assert_true(q == p[n - 1]);
            if (rng_uniform(2, c, dice++) > 0.2 || dice > 5 * LENGTH) continue;
            n -= (size_t)(rng_uniform(3, c, dice) * (double)(n - PROMPT + 1));
            sampler_rewind(s, n - PROMPT);
        }
        assert_memory_equal(straight, winding, sizeof straight);
        sampler_free(s);
    }
    sampler_room_free(room);
}

/* ---- penalties ---- */

typedef struct overlay {
    sampler_room *room;
    float logits[N];
    uint32_t open[2];
} overlay;

static float penalised(overlay *o, const qp_sampling *s, const int32_t *history, size_t n, int32_t id) {
    penalty_counts counts;
    assert_int_equal(penalties_open(&counts, s, N, NULL), QP_OK);
    row_begin(&o->room->row, o->logits, N, o->open, NULL);
    penalties_apply(&counts, s, &(change_sink){.row = &o->room->row}, o->room->seen, history, n);
    penalties_close(&counts);
    return row_value(&o->room->row, id);
}

static void penalties_are_what_they_say(void **state) {
    static const int32_t history[] = {9, 3, 3, 1, 2, -5, 4000, 1}; /* from old to new */
    static const struct {
        qp_sampling settings;
        int32_t id;
        float wanted; /* of 2 where the id is even, of -2 where it is odd */
    } cases[] = {
        {{.repetition_penalty = 1.25f}, 2, 1.6f},
        {{.repetition_penalty = 1.25f}, 1, -2.5f}, /* once, however often */
        {{.repetition_penalty = 1.25f}, 4, 2},
        {{.repetition_penalty = 0.5f}, 2, 4},
        {{.frequency_penalty = 0.5f}, 3, -3},
        {{.presence_penalty = 0.5f}, 3, -2.5f},
        {{.repetition_penalty = 1.25f, .frequency_penalty = 0.5f, .presence_penalty = 0.25f}, 1, -3.75f},
        {{.frequency_penalty = -1}, 3, 0},
        {{.frequency_penalty = 1, .penalty_range = 1}, 1, -3}, /* the newest alone */
        {{.frequency_penalty = 1, .penalty_range = 5}, 1, -4},
        {{.frequency_penalty = 1, .penalty_range = 4}, 2, 1},
        {{.frequency_penalty = 1, .penalty_range = 3}, 2, 2},
        {{.repetition_penalty = 3, .penalty_range = 2, .penalty_decay = 4}, 2, 2 / 2.5f}, /* 3 back: 1 of 4 faded */
        {{.presence_penalty = 1, .penalty_range = 2, .penalty_decay = 4}, 3, -2.25f},     /* 5 back: 3 of 4 */
        {{.frequency_penalty = 1, .penalty_range = 3, .penalty_decay = 4}, 3, -2.75f},    /* 5 and 6 back: .5 + .25 */
        {{.frequency_penalty = 1, .penalty_range = 2, .penalty_decay = 4}, 9, -2},        /* 7 back: out */
        {{.frequency_penalty = 1, .penalty_decay = 4}, 9, -3}, /* no range: all, and no decay */
    };
    overlay o = {.open = {UINT32_MAX, (1u << (N - 32)) - 1}};
    assert_int_equal(sampler_room_new(&o.room, N, NULL), QP_OK);
    for (int i = 0; i < N; i++) o.logits[i] = i % 2 ? -2 : 2;
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_sampling s = cases[i].settings;
        if (s.repetition_penalty == 0) s.repetition_penalty = 1;
        const float got = penalised(&o, &s, history, HARNESS_COUNT(history), cases[i].id);
        if (!(fabsf(got - cases[i].wanted) < 1e-5f)) fail_msg("case %zu: %g, expected %g", i, got, cases[i].wanted);
        assert_true(penalised(&o, &s, history, 0, cases[i].id) == o.logits[cases[i].id]);
    }
    const qp_sampling wild = {.repetition_penalty = 1e-30f, .frequency_penalty = -1e6f};
    for (int i = 0; i < N; i++) o.logits[i] = 3e38f;
    o.logits[2] = -INFINITY;
    o.logits[3] = NAN;
    assert_true(penalised(&o, &wild, history, HARNESS_COUNT(history), 1) == FLT_MAX); /* finite stays finite */
    assert_true(penalised(&o, &wild, history, HARNESS_COUNT(history), 2) == -INFINITY);
    assert_true(isnan(penalised(&o, &wild, history, HARNESS_COUNT(history), 3)));
    sampler_room_free(o.room);
}

/* A history that was changed without a word is noticed where its length or its last known token shows it. */
static void counts_follow_the_history(void **state) {
    const qp_sampling s = {.repetition_penalty = 1, .frequency_penalty = 1};
    int32_t history[100];
    penalty_counts counts;
    overlay o = {.open = {UINT32_MAX, (1u << (N - 32)) - 1}};
    assert_int_equal(sampler_room_new(&o.room, N, NULL), QP_OK);
    assert_int_equal(penalties_open(&counts, &s, N, NULL), QP_OK);
    static const size_t lengths[] = {0, 1, 5, 50, 49, 51, 10, 100, 100, 0, 3};
    for (size_t k = 0; k < HARNESS_COUNT(lengths); k++) {
        for (size_t i = lengths[k] / 2; i < 100; i++) history[i] = (int32_t)(rng_uniform(7, k, i) * (N + 2)) - 1;
        penalties_forget(&counts);
        for (int again = 0; again < 2; again++) {
            row_begin(&o.room->row, o.logits, N, o.open, NULL);
            penalties_apply(&counts, &s, &(change_sink){.row = &o.room->row}, o.room->seen, history, lengths[k]);
            for (int id = 0; id < N; id++) {
                float count = 0;
                for (size_t i = 0; i < lengths[k]; i++) count += history[i] == id;
                assert_true(row_value(&o.room->row, id) == -count);
            }
        }
    }
    const int32_t shorter[] = {1, 1}, other[] = {1, 2}, longer[] = {1, 2, 3};
    const int32_t *const unannounced[] = {shorter, other, longer};
    for (size_t k = 0; k < 3; k++) {
        row_begin(&o.room->row, o.logits, N, o.open, NULL);
        penalties_apply(&counts, &s, &(change_sink){.row = &o.room->row}, o.room->seen, unannounced[k], k == 2 ? 3 : 2);
        assert_true(row_value(&o.room->row, 1) == (k == 0 ? -2 : -1));
    }
    penalties_close(&counts);
    sampler_room_free(o.room);
}

/* ---- mirostat ---- */

static void mu_follows_the_surprise(void **state) {
    const qp_sampling s = {.mirostat_tau = 3, .mirostat_eta = 0.5f};
    mirostat_state m;
    assert_int_equal(mirostat_open(&m, &s, NULL), QP_OK);
    assert_true(mirostat_mu(&m, &s, 0) == 6);
    mirostat_note(&m, &s, 0, 0.25);
    assert_true(fabsf(mirostat_mu(&m, &s, 1) - 6.5f) < 1e-6f); /* 6 + .5 * (3 - 2) */
    mirostat_note(&m, &s, 1, 1 / 32.);
    assert_true(fabsf(mirostat_mu(&m, &s, 2) - 5.5f) < 1e-6f);
    assert_true(fabsf(mirostat_mu(&m, &s, 1) - 6.5f) < 1e-6f);
    assert_true(mirostat_mu(&m, &s, 0) == 6);
    mirostat_rewind(&m, 1);
    assert_true(fabsf(mirostat_mu(&m, &s, 2) - 6.5f) < 1e-6f); /* the last one known */
    mirostat_note(&m, &s, 1, 0.25);
    assert_true(fabsf(mirostat_mu(&m, &s, 2) - 7) < 1e-6f);
    mirostat_close(&m);
}

static void mu_without_memory_forgets_the_oldest(void **state) {
    const qp_sampling s = {.mirostat_tau = 1, .mirostat_eta = 1};
    mirostat_state m;
    assert_int_equal(mirostat_open(&m, &s, NULL), QP_OK);
    mem_fail_after(0);
    for (uint64_t i = 0; i < 1000; i++) mirostat_note(&m, &s, i, i % 2 ? 0.25 : 1);
    mem_fail_after(-1);
    assert_true(m.capacity == 64);
    assert_true(fabsf(mirostat_mu(&m, &s, 1000) - 2) < 1e-4f);
    assert_true(fabsf(mirostat_mu(&m, &s, 999) - 3) < 1e-4f);
    mirostat_rewind(&m, 0); /* older than what is left: as at the beginning */
    assert_true(mirostat_mu(&m, &s, 0) == 2);
    mirostat_note(&m, &s, UINT64_MAX - 1, 0.5);
    assert_true(fabsf(mirostat_mu(&m, &s, UINT64_MAX) - 2) < 1e-6f);
    mirostat_close(&m);
}

/* ---- DRY ---- */

static void dry_penalises_what_would_repeat(void **state) {
    static const struct {
        int32_t history[40];
        size_t n;
        qp_sampling settings;
        const char *breakers; /* ids as characters */
        int32_t id;
        float wanted;
    } cases[] = {
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.seed = 0}, "", 4, 1.75f}, /* 1 2 3: length 3, allowed 2 */
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.dry_allowed_length = 3}, "", 4, 1},
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.dry_allowed_length = 4}, "", 4, 0},
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.dry_base = 2}, "", 4, 2},
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.dry_max_length = 2}, "", 4, 1},
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.dry_range = 6}, "", 4, 1}, /* the first 1 is out of range */
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.seed = 0}, "\1", 4, 1},    /* the match stops at a breaker */
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.seed = 0}, "\2", 4, 0},
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.seed = 0}, "\4", 4, 0}, /* what breaks is not penalised */
        {{1, 2, 3, 4, 1, 2, 3}, 7, {.seed = 0}, "", 1, 0},
        {{5, 1, 2, 4, 1, 2, 6, 3, 1, 2}, 10, {.seed = 0}, "", 4, 1}, /* two continuations */
        {{5, 1, 2, 4, 1, 2, 6, 3, 1, 2}, 10, {.seed = 0}, "", 6, 1},
        {{9, 1, 2, 4, 1, 2, 4, 9, 1, 2}, 10, {.seed = 0}, "", 4, 1.75f}, /* the longest counts: 9 1 2 */
        {{9, 1, 2, 4, 1, 2, 4, 9, 1, 2}, 10, {.dry_count = true}, "", 4, 1.75f},
        {{8, 1, 2, 4, 1, 2, 4, 9, 1, 2}, 10, {.dry_count = true}, "", 4, 2}, /* two of length 2 */
        {{7, 7, 7, 7, 7, 7}, 6, {.dry_base = 2}, "", 7, 8},                  /* five of five, overlapping */
        {{7, 7, 7, 7, 7, 7}, 6, {.dry_base = 2, .dry_max_length = 4, .dry_count = true}, "", 7, 8}, /* 4 * 2 places */
        {{1, 2, 99, 4, 1, 2, 99}, 7, {.seed = 0}, "", 4, 0}, /* no token: a breaker */
        {{1}, 1, {.seed = 0}, "", 1, 0},
        {{1}, 0, {.seed = 0}, "", 1, 0},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        sampler *s;
        sampler_room *room;
        float logits[N] = {0};
        uint32_t breakers[2] = {0};
        for (const char *c = cases[i].breakers; *c; c++) breakers[*c / 32] |= 1u << (*c % 32);
        sampler_setup setup = {.settings = cases[i].settings, .n_vocabulary = N, .dry_breakers = breakers};
        setup.settings.dry_multiplier = 1;
        setup.settings.temperature = 1;
        setup.n_top = N;
        assert_int_equal(sampler_new(&s, &setup, NULL), QP_OK);
        assert_int_equal(sampler_room_new(&room, N, NULL), QP_OK);
        qp_candidate top[N];
        float p[N];
        sampler_choice choice = {.top = top};
        const sampler_step step = {.logits = logits, .history = cases[i].history, .n_history = cases[i].n};
        sampler_choose(s, room, &step, &choice);
        for (int k = 0; k < choice.n_top; k++) p[top[k].id] = top[k].p;
        const float got = logf(p[N - 1] / p[cases[i].id]); /* the last one is in no history */
        if (!(fabsf(got - cases[i].wanted) < 1e-4f)) fail_msg("case %zu: %g, expected %g", i, got, cases[i].wanted);
        sampler_free(s);
        sampler_room_free(room);
    }
}

/* A loop of a hundred thousand tokens: found in one pass, and no penalty is infinite. */
static void dry_stands_long_loops(void **state) {
    enum { LONG = 100000 };
    int32_t *history = malloc(LONG * sizeof *history);
    float logits[N] = {0};
    sampler_room *room;
    for (int i = 0; i < LONG; i++) history[i] = i % 3;
    logits[(LONG - 1) % 3 == 2 ? 0 : (LONG - 1) % 3 + 1] = 5;
    sampler *s = open_sampler(
        &(qp_sampling){.dry_multiplier = 1e6f, .dry_base = 1e6f, .dry_max_length = 1024, .dry_count = true});
    assert_int_equal(sampler_room_new(&room, N, NULL), QP_OK);
    sampler_choice choice = {0};
    for (int i = 0; i < 20; i++)
        sampler_choose(s, room, &(sampler_step){.logits = logits, .history = history, .n_history = LONG}, &choice);
    assert_int_equal(choice.reason, SAMPLER_OK);
    assert_int_equal(choice.id, (LONG - 1) % 3 == 2 ? 1 : 0);
    sampler_free(s);
    sampler_room_free(room);
    free(history);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_back_restores_the_state),
        cmocka_unit_test(penalties_are_what_they_say),
        cmocka_unit_test(counts_follow_the_history),
        cmocka_unit_test(mu_follows_the_surprise),
        cmocka_unit_test(mu_without_memory_forgets_the_oldest),
        cmocka_unit_test(dry_penalises_what_would_repeat),
        cmocka_unit_test(dry_stands_long_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
