/* chain_test.c — the whole choice: which tokens survive each stage, how often each is drawn, what is told about them,
 * what happens with broken logits and where nothing is allowed. */
#include "chain.h"
#include "base/mem.h"
#include "harness.h"
#include <math.h>

enum { N = 6 };
/* probabilities .4 .3 .15 .1 .04 .01, shuffled */
static const float shares[N] = {.1f, .4f, .01f, .3f, .04f, .15f};

static void make_logits(float *logits) {
    for (int i = 0; i < N; i++) logits[i] = logf(shares[i]) + 3;
}

typedef struct chooser {
    sampler *sampler;
    sampler_room *room;
} chooser;

static chooser open_with(const sampler_setup *setup) {
    chooser c;
    qp_error err;
    if (sampler_new(&c.sampler, setup, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(sampler_room_new(&c.room, setup->n_vocabulary, NULL), QP_OK);
    return c;
}

static chooser open_chooser(const qp_sampling *settings, int n) {
    return open_with(&(sampler_setup){.settings = *settings, .n_vocabulary = n});
}

static void close_chooser(chooser *c) {
    sampler_free(c->sampler);
    sampler_room_free(c->room);
}

static int32_t choose(chooser *c, const float *logits, uint64_t position) {
    sampler_choice choice = {0};
    sampler_choose(c->sampler, c->room, &(sampler_step){.logits = logits, .position = position}, &choice);
    return choice.id;
}

/* Draws many times: counts per id. */
static void tally(const qp_sampling *settings, int draws, int counts[N]) {
    float logits[N];
    make_logits(logits);
    chooser c = open_chooser(settings, N);
    memset(counts, 0, N * sizeof *counts);
    for (int i = 0; i < draws; i++) {
        const int32_t id = choose(&c, logits, (uint64_t)i);
        assert_in_range(id, 0, N - 1);
        counts[id]++;
    }
    close_chooser(&c);
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
        {{.temperature = 1, .top_a = 1}, 1 << 1 | 1 << 3}, /* .16 */
        {{.temperature = 1, .top_a = 0.7f}, 1 << 1 | 1 << 3 | 1 << 5},
        {{.temperature = 1, .typical = 0.25f}, 1 << 3}, /* entropy 1.43; surprises 2.3 .92 4.6 1.2 3.2 1.9 */
        {{.temperature = 1, .typical = 0.35f}, 1 << 3 | 1 << 5},
        {{.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.05f}, 1 << 0 | 1 << 2 | 1 << 4},
        {{.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.35f}, 0x3F},  /* one alone is no choice */
        {{.temperature = 1, .mirostat_tau = 0.6f, .mirostat_eta = 1e-9f}, 1 << 1}, /* at least 2^-1.2 = .43 */
        {{.temperature = 1, .mirostat_tau = 1, .mirostat_eta = 1e-9f}, 1 << 1 | 1 << 3},
        /* top-p counts the mass that top-k left: .4 of .7 reaches .5 */
        {{.temperature = 1, .top_k = 2, .top_p = 0.5f}, 1 << 1},
        /* a high temperature first flattens what min-p sees; last it does not */
        {{.temperature = 5, .min_p = 0.3f}, 0x3F},
        {{.temperature = 5, .min_p = 0.3f, .temperature_last = true}, 1 << 1 | 1 << 3 | 1 << 5},
        {{.temperature = 0, .min_p = 0.3f, .temperature_last = true}, 1 << 1},
        {{.temperature = 1, .max_temperature = 0.001f}, 1 << 1}, /* as greedy as that */
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        int counts[N];
        unsigned seen = 0;
        tally(&cases[i].settings, 4000, counts);
        for (int id = 0; id < N; id++) seen |= (unsigned)(counts[id] > 0) << id;
        if (seen != cases[i].kept) fail_msg("case %zu: saw %#x, expected %#x", i, seen, cases[i].kept);
    }
}

/* Pearson's statistic of the counts against shares^(1/T); 5 degrees of freedom: 25.7 is passed once in 10,000. */
static void draws_follow_the_distribution(void **state) {
    static const qp_sampling cases[] = {
        {.temperature = 1, .seed = 7},
        {.temperature = 2, .seed = 8},
        {.temperature = 2, .temperature_last = true},
        {.temperature = 2, .top_k = 6, .seed = 9},
        {.temperature = 1, .top_p = 0.99999f, .seed = 10},
        {.temperature = 1, .skew = 1e-9f, .seed = 11}, /* drawn by rank */
    };
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
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
    float logits[N], before[N];
    make_logits(logits);
    memcpy(before, logits, sizeof logits);
    chooser a = open_chooser(&(qp_sampling){.temperature = 1, .seed = 1}, N);
    chooser b = open_chooser(&(qp_sampling){.temperature = 1, .seed = 2}, N);
    int differ = 0;
    for (uint64_t i = 0; i < 200; i++) {
        const int32_t first = choose(&a, logits, i);
        differ += first != choose(&b, logits, i);
        assert_int_equal(choose(&a, logits, i), first);
    }
    assert_true(differ > 50);
    assert_memory_equal(before, logits, sizeof logits);
    close_chooser(&a);
    close_chooser(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_keeps_the_right_tokens),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(the_same_seed_draws_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
