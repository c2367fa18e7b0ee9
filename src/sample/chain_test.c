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

/* ---- what cannot be chosen ---- */

static void broken_logits_are_no_choice(void **state) {
    static const struct {
        float logits[3];
        int32_t greedy, hot; /* -2: any */
        sampler_reason reason;
    } cases[] = {
        {{NAN, NAN, NAN}, -1, -1, SAMPLER_BROKEN_LOGITS},
        {{-INFINITY, -INFINITY, -INFINITY}, -1, -1, SAMPLER_BROKEN_LOGITS},
        {{NAN, -INFINITY, NAN}, -1, -1, SAMPLER_BROKEN_LOGITS},
        {{NAN, 2, -INFINITY}, 1, 1, SAMPLER_OK},
        {{INFINITY, 0, 0}, -1, -1, SAMPLER_BROKEN_LOGITS},
        {{5, 5, 5}, 0, -2, SAMPLER_OK}, /* equal ones: the lowest id */
        {{-INFINITY, -1e30f, NAN}, 1, 1, SAMPLER_OK},
        {{-3e38f, 3e38f, 0}, 1, 1, SAMPLER_OK},
    };
    static const qp_sampling hot[] = {
        {.temperature = 1},
        {.temperature = 1, .top_k = 2},
        {.temperature = 1, .top_p = 0.9f, .typical = 0.9f, .tfs = 0.9f, .mirostat_tau = 3},
        {.temperature = 1, .temperature_last = true, .max_temperature = 2, .xtc_probability = 0.5f, .skew = 1},
        {.temperature = 1, .smoothing_factor = 1, .repetition_penalty = 1.5f, .dry_multiplier = 1},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        chooser g = open_chooser(&(qp_sampling){0}, 3);
        assert_int_equal(choose(&g, cases[i].logits, 0), cases[i].greedy);
        close_chooser(&g);
        for (size_t k = 0; k < HARNESS_COUNT(hot); k++) {
            chooser c = open_chooser(&hot[k], 3);
            sampler_choice choice = {0};
            sampler_choose(c.sampler, c.room, &(sampler_step){.logits = cases[i].logits}, &choice);
            if (cases[i].hot != -2) assert_int_equal(choice.id, cases[i].hot);
            assert_int_equal(choice.reason, cases[i].reason);
            close_chooser(&c);
        }
    }
}

static void what_is_forbidden_is_never_chosen(void **state) {
    enum { IDS = 70 };
    float logits[IDS];
    const int32_t allow[] = {3, 40, 69}, ban[] = {3, 4}, step_ban[] = {40, -1, 1000};
    const qp_bias bias[] = {{5, -INFINITY}, {6, 3}};
    const uint32_t mask[3] = {1u << 3 | 1u << 6, 1u << 8, 1u << 5}, none[3] = {0};
    for (int i = 0; i < IDS; i++) logits[i] = (float)(i == 3 ? 9 : i == 69 ? INFINITY : i % 7);
    const struct {
        sampler_setup setup;
        const int32_t *ban;
        const uint32_t *mask;
        int32_t id;
        sampler_reason reason;
    } cases[] = {
        {{.n_tokens = 69}, NULL, NULL, 3, SAMPLER_OK},
        {{.n_tokens = 3}, NULL, NULL, 2, SAMPLER_OK},
        {{.n_tokens = 0}, NULL, NULL, -1, SAMPLER_BROKEN_LOGITS},
        {{.n_tokens = 69, .allow = allow, .n_allow = 3}, NULL, NULL, 3, SAMPLER_OK},
        {{.n_tokens = 69, .allow = allow, .n_allow = 3, .ban = ban, .n_ban = 2}, NULL, NULL, 40, SAMPLER_OK},
        {{.n_tokens = 69, .allow = allow, .n_allow = 3, .ban = ban, .n_ban = 2},
         step_ban,
         NULL,
         -1,
         SAMPLER_ALL_FORBIDDEN},
        {{.n_tokens = 69, .ban = ban, .n_ban = 2}, NULL, NULL, 6, SAMPLER_OK},
        {{.n_tokens = 69, .bias = bias, .n_bias = 2, .ban = ban, .n_ban = 1}, NULL, NULL, 6, SAMPLER_OK},
        {{.n_tokens = 69, .bias = bias, .n_bias = 1, .allow = (const int32_t[]){5}, .n_allow = 1},
         NULL,
         NULL,
         -1,
         SAMPLER_ALL_FORBIDDEN},
        {{.n_tokens = 69}, NULL, mask, 3, SAMPLER_OK},
        {{.n_tokens = 69, .ban = ban, .n_ban = 1}, NULL, mask, 6, SAMPLER_OK},
        {{.n_tokens = 69, .allow = allow, .n_allow = 3}, (const int32_t[]){3, 3, 3}, mask, 40, SAMPLER_OK},
        {{.n_tokens = 69}, NULL, none, -1, SAMPLER_ALL_FORBIDDEN},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        for (int hot = 0; hot < 2; hot++) {
            sampler_setup setup = cases[i].setup;
            setup.n_vocabulary = IDS;
            setup.settings = (qp_sampling){.temperature = hot ? 0.02f : 0}; /* the greatest by far is certain */
            chooser c = open_with(&setup);
            sampler_choice choice = {0};
            const sampler_step step = {
                .logits = logits, .ban = cases[i].ban, .n_ban = cases[i].ban ? 3 : 0, .allow_mask = cases[i].mask};
            sampler_choose(c.sampler, c.room, &step, &choice);
            if (choice.reason != cases[i].reason || (!hot && choice.id != cases[i].id) ||
                (choice.id < 0) != (cases[i].id < 0))
                fail_msg("case %zu: id %d, reason %d", i, choice.id, (int)choice.reason);
            close_chooser(&c);
        }
    }
}

static void one_candidate_is_certain(void **state) {
    static const qp_sampling all = {.temperature = 0.8f,
                                    .top_k = 50,
                                    .top_p = 0.5f,
                                    .min_p = 0.5f,
                                    .top_a = 0.5f,
                                    .tfs = 0.5f,
                                    .typical = 0.5f,
                                    .skew = 1,
                                    .max_temperature = 2,
                                    .mirostat_tau = 1,
                                    .xtc_probability = 1,
                                    .dry_multiplier = 1,
                                    .guidance = 2};
    const float logit = -7, other = 3;
    const int32_t history[] = {0, 0, 0, 0};
    chooser c = open_with(&(sampler_setup){.settings = all, .n_vocabulary = 1, .wants_p = true, .n_top = 5});
    qp_candidate top[5];
    sampler_choice choice = {.top = top};
    const sampler_step step = {.logits = &logit, .negative_logits = &other, .history = history, .n_history = 4};
    sampler_choose(c.sampler, c.room, &step, &choice);
    assert_int_equal(choice.id, 0);
    assert_int_equal(choice.n_top, 1);
    assert_true(choice.p == 1 && choice.logprob == 0 && top[0].p == 1 && top[0].logprob == 0);
    close_chooser(&c);
}

/* ---- what is told ---- */

static void greedy_tells_the_model_s_own_chances(void **state) {
    float logits[N];
    make_logits(logits);
    logits[2] = NAN;
    qp_candidate top[4];
    chooser c = open_with(&(sampler_setup){.n_vocabulary = N, .n_tokens = 5, .wants_p = true, .n_top = 4});
    sampler_choice choice = {.top = top};
    sampler_choose(c.sampler, c.room, &(sampler_step){.logits = logits}, &choice);
    assert_int_equal(choice.id, 1);
    assert_true(choice.p == 1);
    assert_true(fabs(choice.logprob - log(0.4 / 0.99)) < 1e-6);
    static const int32_t ids[] = {1, 3, 0, 4}; /* 5 has no token, 2 is no number */
    assert_int_equal(choice.n_top, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(top[i].id, ids[i]);
        assert_true(top[i].p == (i == 0));
        assert_true(fabs(top[i].logprob - log(shares[ids[i]] / 0.99)) < 1e-6);
    }
    close_chooser(&c);
}

/* Whether more is told must not change what is said. */
static void telling_changes_nothing(void **state) {
    static const qp_sampling cases[] = {
        {.temperature = 1, .seed = 3}, {.temperature = 1, .top_k = 4}, {.temperature = 1, .top_p = 0.9f, .skew = 0.5f}};
    float logits[N];
    make_logits(logits);
    for (size_t k = 0; k < HARNESS_COUNT(cases); k++) {
        qp_candidate top[N];
        chooser a = open_chooser(&cases[k], N);
        chooser b = open_with(&(sampler_setup){.settings = cases[k], .n_vocabulary = N, .wants_p = true, .n_top = N});
        for (uint64_t i = 0; i < 300; i++) {
            sampler_choice choice = {.top = top};
            sampler_choose(b.sampler, b.room, &(sampler_step){.logits = logits, .position = i}, &choice);
            assert_int_equal(choose(&a, logits, i), choice.id);
            float sum = 0;
            for (int t = 0; t < choice.n_top; t++) sum += top[t].p;
            assert_true(fabsf(sum - 1) < 1e-5f);
        }
        close_chooser(&a);
        close_chooser(&b);
    }
}

/* ---- skew: the random number to a power, ranks instead of ids ---- */

static void skew_shifts_towards_improbable_or_probable(void **state) {
    for (int sign = -1; sign <= 1; sign += 2) {
        const qp_sampling s = {.temperature = 1, .skew = 0.7f * (float)sign, .seed = 5};
        static const int by_rank[N] = {1, 3, 5, 0, 4, 2};
        enum { DRAWS = 100000 };
        int counts[N];
        double statistic = 0, before = 0, sum = 0;
        tally(&s, DRAWS, counts);
        for (int i = 0; i < N; i++) { /* u^(e^-skew) < sum: u < sum^(e^skew) */
            sum += shares[by_rank[i]];
            const double up_to = pow(sum > 1 ? 1 : sum, exp(s.skew)), expected = DRAWS * (up_to - before);
            statistic += (counts[by_rank[i]] - expected) * (counts[by_rank[i]] - expected) / expected;
            before = up_to;
        }
        assert_true(statistic < 25.7);
    }
}

static void xtc_draws_as_if_it_had_excluded_at_random(void **state) {
    const qp_sampling s = {.temperature = 1, .xtc_probability = 0.6f, .xtc_threshold = 0.12f, .seed = 6};
    enum { DRAWS = 100000 };
    int counts[N];
    double statistic = 0;
    tally(&s, DRAWS, counts);
    for (int i = 0; i < N; i++) { /* .4 and .3 go with chance .6, the rest shares what they had */
        const bool is_top = i == 1 || i == 3;
        const double expected = DRAWS * shares[i] * (is_top ? 0.4 : 0.4 + 0.6 / 0.3);
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    assert_true(statistic < 25.7);
}

/* ---- guidance ---- */

static void guidance_survives_infinities(void **state) {
    const float own[4] = {1, 2, -INFINITY, 1.5f}, negative[4] = {-INFINITY, 3, 1, NAN};
    for (int hot = 0; hot < 2; hot++) {
        chooser c = open_chooser(&(qp_sampling){.guidance = 3, .temperature = hot ? 0.01f : 0}, 4);
        sampler_choice choice = {0};
        sampler_choose(c.sampler, c.room, &(sampler_step){.logits = own, .negative_logits = negative}, &choice);
        assert_int_equal(choice.id, 3); /* -1.1 of its own; 1: 3 * -.6 + 2 * .13 */
        close_chooser(&c);
    }
    const float broken[4] = {NAN, NAN, NAN, INFINITY};
    chooser c = open_chooser(&(qp_sampling){.guidance = 3}, 4);
    sampler_choice choice = {0};
    sampler_choose(c.sampler, c.room, &(sampler_step){.logits = broken, .negative_logits = own}, &choice);
    assert_int_equal(choice.reason, SAMPLER_BROKEN_LOGITS);
    sampler_choose(c.sampler, c.room, &(sampler_step){.logits = own, .negative_logits = broken}, &choice);
    assert_int_equal(choice.id, 1);
    close_chooser(&c);
}

/* ---- making ---- */

static void senseless_settings_are_refused_by_name(void **state) {
#define BAD(name, value)                                                                                               \
    { {.name = value}, #name " is " }
    static const struct {
        qp_sampling settings;
        const char *text;
    } cases[] = {
        BAD(temperature, NAN),
        BAD(temperature, -1),
        BAD(temperature, INFINITY),
        BAD(top_p, -0.1f),
        BAD(min_p, NAN),
        BAD(top_k, -3),
        BAD(repetition_penalty, -1),
        BAD(frequency_penalty, NAN),
        BAD(presence_penalty, INFINITY),
        BAD(penalty_range, -1),
        BAD(penalty_decay, -1),
        BAD(top_a, -1),
        BAD(tfs, NAN),
        BAD(typical, -0.5f),
        BAD(smoothing_factor, -1),
        BAD(skew, 1000),
        BAD(min_temperature, -1),
        BAD(max_temperature, NAN),
        BAD(temperature_exponent, -1),
        BAD(mirostat_tau, -1),
        BAD(mirostat_eta, NAN),
        BAD(xtc_probability, 1.5f),
        BAD(xtc_threshold, -0.1f),
        BAD(dry_multiplier, -1),
        BAD(dry_base, NAN),
        BAD(dry_allowed_length, -1),
        BAD(dry_range, -1),
        BAD(dry_max_length, 1 << 20),
        BAD(guidance, NAN),
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_error err;
        sampler *s;
        assert_int_equal(sampling_check(&cases[i].settings, &err), QP_BAD_ARGUMENT);
        if (!strstr(err.text, cases[i].text) || !strstr(err.text, "allowed are")) fail_msg("%s", err.text);
        const sampler_setup setup = {.settings = cases[i].settings, .n_vocabulary = N};
        assert_int_equal(sampler_new(&s, &setup, NULL), QP_BAD_ARGUMENT);
        assert_null(s);
    }
    qp_error err;
    assert_int_equal(sampling_check(&(qp_sampling){.top_k = -3}, &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "sampling: top_k is -3, allowed are 0 to 2147483647");
    assert_int_equal(sampling_check(&(qp_sampling){.temperature = 1, .top_k = 40, .top_p = 0.9f}, NULL), QP_OK);
}

static void senseless_ids_are_refused_by_name(void **state) {
    static const int32_t beyond[] = {1, N}, negative[] = {-1};
    static const qp_bias far[] = {{N, 1}}, odd[] = {{1, NAN}}, forced[] = {{1, INFINITY}};
    static const struct {
        sampler_setup setup;
        const char *text;
    } cases[] = {
        {{.n_vocabulary = N, .allow = beyond, .n_allow = 2}, "allowed token 2 is of id 6"},
        {{.n_vocabulary = N, .ban = negative, .n_ban = 1}, "banned token 1 is of id -1"},
        {{.n_vocabulary = N, .bias = far, .n_bias = 1}, "bias 1 is of id 6"},
        {{.n_vocabulary = N, .bias = odd, .n_bias = 1}, "the bias of id 1 is nan"},
        {{.n_vocabulary = N, .bias = forced, .n_bias = 1}, "the bias of id 1 is inf"},
        {{.n_vocabulary = 0}, "the vocabulary is 0"},
        {{.n_vocabulary = N, .n_tokens = N + 1}, "7 of the ids"},
        {{.n_vocabulary = N, .n_top = -1}, "-1 alternatives"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_error err;
        sampler *s;
        assert_int_equal(sampler_new(&s, &cases[i].setup, &err), QP_BAD_ARGUMENT);
        if (!strstr(err.text, cases[i].text)) fail_msg("%s", err.text);
    }
    sampler_room *room;
    assert_int_equal(sampler_room_new(&room, 0, NULL), QP_BAD_ARGUMENT);
    assert_null(room);
}

static void every_failed_allocation_is_reported(void **state) {
    static const qp_bias bias[] = {{1, 1}};
    const sampler_setup setup = {
        .settings = {.repetition_penalty = 1.1f, .mirostat_tau = 1}, .n_vocabulary = N, .bias = bias, .n_bias = 1};
    sampler *s;
    sampler_room *room;
    int64_t n = 0;
    for (;; n++) {
        mem_fail_after(n);
        const qp_status status = sampler_new(&s, &setup, NULL);
        mem_fail_after(-1);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_null(s);
    }
    assert_int_equal(n, 6);
    sampler_free(s);
    for (n = 0;; n++) {
        mem_fail_after(n);
        const qp_status status = sampler_room_new(&room, N, NULL);
        mem_fail_after(-1);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_null(room);
    }
    assert_true(n > 10);
    sampler_room_free(room);
    sampler_free(NULL);
    sampler_room_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_keeps_the_right_tokens),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(the_same_seed_draws_the_same),
        cmocka_unit_test(broken_logits_are_no_choice),
        cmocka_unit_test(what_is_forbidden_is_never_chosen),
        cmocka_unit_test(one_candidate_is_certain),
        cmocka_unit_test(greedy_tells_the_model_s_own_chances),
        cmocka_unit_test(telling_changes_nothing),
        cmocka_unit_test(skew_shifts_towards_improbable_or_probable),
        cmocka_unit_test(xtc_draws_as_if_it_had_excluded_at_random),
        cmocka_unit_test(guidance_survives_infinities),
        cmocka_unit_test(senseless_settings_are_refused_by_name),
        cmocka_unit_test(senseless_ids_are_refused_by_name),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
