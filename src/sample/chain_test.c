/* chain_test.c — the sampling chain: which tokens survive each stage, how often each is drawn, what is refused. */
#include "chain.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { N = 6 };
/* probabilities .4 .3 .15 .1 .04 .01, shuffled */
static const float shares[N] = {.1f, .4f, .01f, .3f, .04f, .15f};

static void make_logits(float *logits) {
    for (int i = 0; i < N; i++) logits[i] = logf(shares[i]) + 3;
}

/* Draws many times: counts per id. */
static void tally(const qp_sampling *settings, int draws, int counts[N]) {
    sampler s;
    float logits[N];
    make_logits(logits);
    assert_int_equal(sampler_open(&s, N, NULL), QP_OK);
    memset(counts, 0, N * sizeof *counts);
    for (int i = 0; i < draws; i++) {
        const int32_t id = sampler_pick(&s, logits, settings, (uint64_t)i, NULL, 0);
        assert_in_range(id, 0, N - 1);
        counts[id]++;
    }
    sampler_close(&s);
}

static void each_stage_keeps_the_right_tokens(void **state) {
    static const struct {
        qp_sampling settings;
        unsigned kept; /* bit per id */
    } cases[] = {
        {{.temperature = 0}, 1 << 1},
        {{.temperature = 1, .top_k = 1}, 1 << 1},
        {{.temperature = 1}, 0x3F},
        {{.temperature = 1, .top_k = 2}, 1 << 1 | 1 << 3},
        {{.temperature = 1, .top_k = 60}, 0x3F},
        {{.temperature = 1, .top_p = 0.7f - 1e-4f}, 1 << 1 | 1 << 3},
        {{.temperature = 1, .top_p = 0.7f + 1e-4f}, 1 << 1 | 1 << 3 | 1 << 5}, /* the crossing token stays */
        {{.temperature = 1, .top_p = 1e-9f}, 1 << 1},
        {{.temperature = 1, .top_p = 1}, 0x3F},
        {{.temperature = 1, .min_p = 0.3f}, 1 << 1 | 1 << 3 | 1 << 5},
        {{.temperature = 1, .min_p = 0.09f}, 0x3F & ~(1 << 2)},
        {{.temperature = 1, .min_p = 1}, 0x3F},
        /* top-p counts the mass that top-k left: .4 of .7 reaches .5 */
        {{.temperature = 1, .top_k = 2, .top_p = 0.5f}, 1 << 1},
        /* a high temperature first flattens what min-p sees; last it does not */
        {{.temperature = 5, .min_p = 0.3f}, 0x3F},
        {{.temperature = 5, .min_p = 0.3f, .temperature_last = true}, 1 << 1 | 1 << 3 | 1 << 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int counts[N];
        unsigned seen = 0;
        tally(&cases[i].settings, 4000, counts);
        for (int id = 0; id < N; id++) seen |= (counts[id] > 0) << id;
        assert_int_equal(seen, cases[i].kept);
    }
}

/* Pearson's statistic of the counts against shares^(1/T); 5 degrees of freedom: 25.7 is passed once in 10,000. */
static void draws_follow_the_distribution(void **state) {
    static const qp_sampling cases[] = {
        {.temperature = 1, .seed = 7}, {.temperature = 2, .seed = 8}, {.temperature = 2, .temperature_last = true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        enum { DRAWS = 100000 };
        int counts[N];
        double sum = 0, statistic = 0;
        tally(&cases[c], DRAWS, counts);
        for (int i = 0; i < N; i++) sum += pow(shares[i], 1 / cases[c].temperature);
        for (int i = 0; i < N; i++) {
            const double expected = DRAWS * pow(shares[i], 1 / cases[c].temperature) / sum;
            statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
        }
        assert_true(statistic < 25.7);
    }
}

static void the_same_seed_draws_the_same(void **state) {
    sampler s;
    float logits[N], before[N];
    make_logits(logits);
    memcpy(before, logits, sizeof logits);
    assert_int_equal(sampler_open(&s, N, NULL), QP_OK);
    int differ = 0;
    for (uint64_t i = 0; i < 200; i++) {
        const qp_sampling a = {.temperature = 1, .seed = 1}, b = {.temperature = 1, .seed = 2};
        const int32_t first = sampler_pick(&s, logits, &a, i, NULL, 0);
        differ += first != sampler_pick(&s, logits, &b, i, NULL, 0);
        assert_int_equal(sampler_pick(&s, logits, &a, i, NULL, 0), first);
    }
    assert_true(differ > 50);
    assert_memory_equal(before, logits, sizeof logits);
    sampler_close(&s);
}

static void broken_logits_are_no_choice(void **state) {
    sampler s;
    const qp_sampling hot = {.temperature = 1}, greedy = {0};
    assert_int_equal(sampler_open(&s, 3, NULL), QP_OK);
    static const struct {
        float logits[3];
        int32_t greedy, hot;
    } cases[] = {
        {{NAN, NAN, NAN}, -1, -1},
        {{-INFINITY, -INFINITY, -INFINITY}, -1, -1},
        {{NAN, 2, -INFINITY}, 1, 1},
        {{INFINITY, 0, 0}, -1, -1},
        {{5, 5, 5}, 0, -2}, /* equal ones: the lowest id */
        {{-INFINITY, -1e30f, NAN}, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(sampler_pick(&s, cases[i].logits, &greedy, 0, NULL, 0), cases[i].greedy);
        if (cases[i].hot != -2) assert_int_equal(sampler_pick(&s, cases[i].logits, &hot, 0, NULL, 0), cases[i].hot);
    }
    sampler_close(&s);
}

static void senseless_settings_are_refused_by_name(void **state) {
    static const struct {
        qp_sampling settings;
        const char *name;
    } cases[] = {{{.temperature = NAN}, "temperature"},
                 {{.temperature = -1}, "temperature"},
                 {{.top_p = -0.1f}, "top_p"},
                 {{.min_p = NAN}, "min_p"},
                 {{.top_k = -3}, "top_k"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qp_error err;
        assert_int_equal(sampling_check(&cases[i].settings, &err), QP_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, cases[i].name));
    }
    assert_int_equal(sampling_check(&(qp_sampling){.temperature = 1, .top_k = 40, .top_p = 0.9f}, NULL), QP_OK);
}

static void repeated_ids_are_penalised_once(void **state) {
    sampler s;
    const float logits[4] = {2.0f, 1.9f, -1.0f, -1.2f}, before[4] = {2.0f, 1.9f, -1.0f, -1.2f};
    const int32_t history[] = {0, 0, 0, 7, -1}, both[] = {1, 0};
    const qp_sampling on = {.repetition_penalty = 1.5f}, slight = {.repetition_penalty = 1.04f}, off = {0};
    assert_int_equal(sampler_open(&s, 4, NULL), QP_OK);
    assert_int_equal(sampler_pick(&s, logits, &off, 0, history, 5), 0);
    assert_int_equal(sampler_pick(&s, logits, &on, 0, history, 5), 1);
    assert_int_equal(sampler_pick(&s, logits, &on, 0, both, 2), 0);
    assert_int_equal(sampler_pick(&s, logits, &slight, 0, history, 5), 0); /* once: 2 / 1.04 stays above 1.9 */
    const float negative[2] = {-1.0f, -1.2f};
    assert_int_equal(sampler_pick(&(sampler){s.room, s.penalised, 2}, negative, &on, 0, history, 1), 1);
    assert_memory_equal(logits, before, sizeof logits);
    sampler_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_keeps_the_right_tokens),      cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(the_same_seed_draws_the_same),           cmocka_unit_test(broken_logits_are_no_choice),
        cmocka_unit_test(senseless_settings_are_refused_by_name), cmocka_unit_test(repeated_ids_are_penalised_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
