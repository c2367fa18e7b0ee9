/* reference_test.c — the whole chain against its definition, written down slowly and in double precision: thousands of
 * random settings, logits, histories and masks; every token's final chance must agree.
 *
 * The reference below follows the order and the formulas of the settings' description line by line, sorts where it
 * says sorted and walks where it says walk. */
#include "chain.h"
#include "base/rng.h"
#include "harness.h"
#include <math.h>

enum { SMALL = 400, MOST = 131072, WORDS = MOST / 32, MOST_HISTORY = 200 };

typedef struct problem {
    int n, n_tokens;
    float *logits, *negative; /* [n] */
    int32_t history[MOST_HISTORY];
    size_t n_history;
    uint32_t *mask, *breakers, *keep;
    bool has_mask, has_negative, has_breakers, has_keep;
    qp_bias bias[4];
    size_t n_bias;
    int32_t ban[3];
    size_t n_ban;
    qp_sampling settings;
} problem;

/* ---- the reference ---- */

static bool bit(const uint32_t *bits, int id) { return bits[id / 32] >> (id % 32) & 1; }

static double log_sum(const float *logits, int n) {
    double highest = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > highest) highest = logits[i];
    for (int i = 0; i < n; i++)
        if (!isnan(logits[i])) sum += exp(logits[i] - highest);
    return highest + log(sum);
}

static void ref_guidance(const problem *t, double *l) {
    const double s = t->settings.guidance, own = log_sum(t->logits, t->n), other = log_sum(t->negative, t->n);
    for (int i = 0; i < t->n; i++) l[i] = s * (t->logits[i] - own) + (1 - s) * (t->negative[i] - other);
}

static void ref_penalties(const problem *t, double *l) {
    const qp_sampling *s = &t->settings;
    static bool seen[MOST];
    memset(seen, 0, sizeof *seen * (size_t)t->n);
    const double r0 = s->repetition_penalty ? s->repetition_penalty : 1;
    double r = r0, f = s->frequency_penalty, p = s->presence_penalty;
    size_t full = s->penalty_range ? (size_t)s->penalty_range : t->n_history;
    const size_t decay = s->penalty_range ? (size_t)s->penalty_decay : 0;
    for (size_t i = 0; i < t->n_history && i < full + decay; i++) {
        if (i > full) {
            r += (1 - r0) / (double)decay;
            f -= s->frequency_penalty / (double)decay;
            p -= s->presence_penalty / (double)decay;
        }
        const int id = t->history[t->n_history - 1 - i];
        if (id < 0 || id >= t->n_tokens) continue;
        if (!seen[id]) l[id] = (l[id] > 0 ? l[id] / r : l[id] * r) - p;
        seen[id] = true;
        l[id] -= f;
    }
}

static bool is_breaker(const problem *t, int id) {
    return id < 0 || id >= t->n_tokens || (t->has_breakers && bit(t->breakers, id));
}

static void ref_dry(const problem *t, double *l) {
    const qp_sampling *s = &t->settings;
    const int allowed = s->dry_allowed_length ? s->dry_allowed_length : 2;
    const int most = s->dry_max_length ? s->dry_max_length : 20;
    const double base = s->dry_base ? s->dry_base : 1.75;
    const int n = s->dry_range && (size_t)s->dry_range < t->n_history ? s->dry_range : (int)t->n_history;
    const int32_t *h = t->history + t->n_history - n;
    static int longest[MOST], count[MOST];
    memset(longest, 0, sizeof *longest * (size_t)t->n);
    memset(count, 0, sizeof *count * (size_t)t->n);
    for (int i = 0; i + 1 < n; i++) {
        int length = 0;
        while (length < most && length <= i && h[i - length] == h[n - 1 - length] && !is_breaker(t, h[i - length]))
            length++;
        if (length < allowed || is_breaker(t, h[i + 1])) continue;
        if (length > longest[h[i + 1]]) longest[h[i + 1]] = length, count[h[i + 1]] = 0;
        count[h[i + 1]] += length == longest[h[i + 1]];
    }
    for (int id = 0; id < t->n_tokens; id++)
        if (longest[id]) l[id] -= s->dry_multiplier * pow(base, longest[id] - allowed) * (s->dry_count ? count[id] : 1);
}

typedef struct entry {
    int id;
    double p, key;
} entry;

static int by_p(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : x->id - y->id;
}

static int by_key(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->id - y->id;
}

/* The list is sorted by falling p, but for typical. */
typedef struct list {
    entry at[MOST];
    int n;
} list;

static void cut(list *c, int n) {
    double sum = 0;
    c->n = n;
    for (int i = 0; i < n; i++) sum += c->at[i].p;
    for (int i = 0; i < n; i++) c->at[i].p /= sum;
}

static void drop_below(list *c, double least) {
    int n = 1;
    while (n < c->n && c->at[n].p >= least) n++;
    cut(c, n);
}

static void ref_top_k(list *c, const problem *t) {
    int n = t->settings.top_k;
    if (n >= c->n) return;
    while (n < c->n && c->at[n].p == c->at[n - 1].p) n++;
    cut(c, n);
}

static void ref_top_p(list *c, const problem *t) {
    double sum = 0;
    int n = 0;
    while (n < c->n && sum < t->settings.top_p && (n == 0 || c->at[n].p >= 1e-6)) sum += c->at[n++].p;
    cut(c, n);
}

static void ref_tfs(list *c, const problem *t) {
    drop_below(c, 1e-8);
    if (c->n < 3) return;
    static double d[MOST];
    double sum = 0, so_far = 0;
    for (int i = 0; i + 2 < c->n; i++) sum += d[i] = fabs(-c->at[i].p + 2 * c->at[i + 1].p - c->at[i + 2].p);
    if (sum == 0) return;
    int n = 0;
    for (; n + 2 < c->n; n++)
        if ((so_far += d[n] / sum) > t->settings.tfs) break;
    cut(c, n + 1);
}

static void ref_typical(list *c, const problem *t) {
    drop_below(c, 1e-8);
    double entropy = 0, sum = 0;
    for (int i = 0; i < c->n; i++) entropy -= c->at[i].p * log(c->at[i].p);
    for (int i = 0; i < c->n; i++) c->at[i].key = fabs(-log(c->at[i].p) - entropy);
    qsort(c->at, (size_t)c->n, sizeof *c->at, by_key);
    int n = 0;
    while (n < c->n && sum < t->settings.typical) sum += c->at[n++].p;
    cut(c, n);
    qsort(c->at, (size_t)c->n, sizeof *c->at, by_p);
}

static void ref_power(list *c, double temperature) {
    const double greatest = c->at[0].p;
    for (int i = 0; i < c->n; i++) c->at[i].p = pow(c->at[i].p / greatest, 1 / temperature);
    cut(c, temperature < 0.01 ? 1 : c->n);
}

static void ref_temperature_last(list *c, const problem *t) {
    const qp_sampling *s = &t->settings;
    double temperature = s->temperature_last ? s->temperature : 1;
    if (s->max_temperature > s->min_temperature) {
        double entropy = 0;
        for (int i = 0; i < c->n; i++) entropy -= c->at[i].p * log(c->at[i].p);
        const double share = c->n > 1 ? entropy / log(c->n) : 0, power = s->temperature_exponent;
        temperature = s->min_temperature + (s->max_temperature - s->min_temperature) * pow(share, power ? power : 1);
    }
    ref_power(c, temperature);
}

static void ref_xtc(list *c, const problem *t) {
    const double least = t->settings.xtc_threshold ? t->settings.xtc_threshold : 0.1;
    const double chance = t->settings.xtc_probability;
    static int tops[MOST];
    int n = 0;
    double mass = 0;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].p >= least && !(t->has_keep && bit(t->keep, c->at[i].id))) tops[n++] = i;
    if (n < 2) return;
    for (int i = 0; i + 1 < n; i++) mass += c->at[tops[i]].p;
    for (int i = 0, k = 0; i < c->n; i++) {
        const bool is_excludable = k + 1 < n && tops[k] == i;
        k += is_excludable;
        c->at[i].p *= is_excludable ? 1 - chance : 1 + chance * mass / (1 - mass);
    }
}

static void ref_change(const problem *t, double *l) {
    const qp_sampling *s = &t->settings;
    for (int i = 0; i < t->n; i++) l[i] = t->logits[i];
    if (t->has_negative && s->guidance != 0 && s->guidance != 1) ref_guidance(t, l);
    ref_penalties(t, l);
    for (size_t i = 0; i < t->n_bias; i++) l[t->bias[i].id] += t->bias[i].bias;
    if (s->dry_multiplier > 0) ref_dry(t, l);
    for (size_t i = 0; i < t->n_ban; i++) l[t->ban[i]] = -INFINITY;
    for (int i = 0; i < t->n; i++)
        if (isnan(l[i]) || i >= t->n_tokens || (t->has_mask && !bit(t->mask, i))) l[i] = -INFINITY;
}

static void ref_softmax(list *c, const double *l, const problem *t) {
    const qp_sampling *s = &t->settings;
    const double temperature = s->temperature_last || s->temperature < 0.01f ? 1 : s->temperature;
    double highest = -INFINITY;
    for (int i = 0; i < t->n_tokens; i++) highest = fmax(highest, l[i]);
    c->n = 0;
    for (int i = 0; i < t->n_tokens; i++) {
        const double d = l[i] - highest;
        const double x = s->smoothing_factor > 0 ? -d * d * s->smoothing_factor / temperature : d / temperature;
        if (x > -125 * log(2)) c->at[c->n++] = (entry){i, exp(x), 0}; /* what single precision can tell from nothing */
    }
    qsort(c->at, (size_t)c->n, sizeof *c->at, by_p);
    if (c->n) cut(c, c->n);
}

/* Final chances by id; all zero: nothing can be chosen. */
static void reference(double *p, const problem *t) {
    const qp_sampling *s = &t->settings;
    static double l[MOST];
    static list c;
    memset(p, 0, (size_t)t->n * sizeof *p);
    ref_change(t, l);
    ref_softmax(&c, l, t);
    if (!c.n) return;
    if (s->temperature < 0.01f || s->top_k == 1) c.n = 1, c.at[0].p = 1;
    if (s->top_k > 0) ref_top_k(&c, t);
    if (s->top_p > 0 && s->top_p < 1) ref_top_p(&c, t);
    if (s->top_a > 0) drop_below(&c, s->top_a * c.at[0].p * c.at[0].p);
    if (s->min_p > 0 && s->min_p < 1) drop_below(&c, s->min_p * c.at[0].p);
    if (s->tfs > 0 && s->tfs < 1) ref_tfs(&c, t);
    if (s->typical > 0 && s->typical < 1) ref_typical(&c, t);
    if (s->mirostat_tau > 0) drop_below(&c, exp2(-2 * s->mirostat_tau));
    ref_temperature_last(&c, t);
    if (s->xtc_probability > 0) ref_xtc(&c, t);
    for (int i = 0; i < c.n; i++) p[c.at[i].id] = c.at[i].p;
}

/* ---- random problems ---- */

static double uniform(uint64_t *state) { return rng_uniform(99, 0, (*state)++); }
static int below(uint64_t *state, int n) { return (int)(uniform(state) * n); }

static void make_logits(float *logits, const problem *t, uint64_t *state) {
    const int kind = below(state, 6);
    const double scale = kind == 0 ? 0.05 : kind == 1 ? 12 : 3;
    for (int i = 0; i < t->n; i++) {
        const double v = (uniform(state) + uniform(state) + uniform(state) - 1.5) * 2 * scale;
        logits[i] = (float)(kind == 2 ? floor(v) : kind == 3 ? v + 40 : v); /* ties; far from zero */
        if (kind == 4 && uniform(state) < 0.3) logits[i] = -INFINITY;
        if (kind == 5 && uniform(state) < 0.1) logits[i] = NAN;
    }
}

static void make_bits(uint32_t *bits, int n, double share, uint64_t *state) {
    memset(bits, 0, ((size_t)n / 32 + 1) * sizeof *bits);
    for (int i = 0; i < n; i++) bits[i / 32] |= (uint32_t)(uniform(state) < share) << (i % 32);
}

static void make_settings(qp_sampling *s, uint64_t *state) {
    const double dice = uniform(state);
    s->temperature = dice < 0.1 ? 0 : (float)(0.2 + 2 * uniform(state));
    s->seed = *state;
    s->temperature_last = uniform(state) < 0.3;
    const bool all = uniform(state) < 0.1; /* else about two stages at a time */
    const double chance = all ? 0.7 : 0.12;
    if (uniform(state) < chance) s->top_k = 2 + below(state, 60);
    if (uniform(state) < chance) s->top_p = (float)uniform(state);
    if (uniform(state) < chance) s->min_p = (float)(0.5 * uniform(state));
    if (uniform(state) < chance) s->top_a = (float)uniform(state);
    if (uniform(state) < chance) s->tfs = (float)uniform(state);
    if (uniform(state) < chance) s->typical = (float)uniform(state);
    if (uniform(state) < chance) s->mirostat_tau = (float)(3 * uniform(state));
    if (uniform(state) < chance) s->smoothing_factor = (float)(2 * uniform(state));
    if (uniform(state) < chance) s->max_temperature = (float)(3 * uniform(state));
    if (uniform(state) < 0.5) s->temperature_exponent = (float)(2 * uniform(state));
    if (uniform(state) < chance) s->xtc_probability = (float)uniform(state);
    if (uniform(state) < 0.5) s->xtc_threshold = (float)(0.2 * uniform(state));
    if (uniform(state) < chance) s->repetition_penalty = (float)(0.5 + uniform(state));
    if (uniform(state) < chance) s->frequency_penalty = (float)(uniform(state) - 0.5);
    if (uniform(state) < chance) s->presence_penalty = (float)(uniform(state) - 0.5);
    if (uniform(state) < 0.5) s->penalty_range = 1 + below(state, 60), s->penalty_decay = below(state, 60);
    if (uniform(state) < chance) s->dry_multiplier = (float)uniform(state);
    if (uniform(state) < 0.5) s->dry_allowed_length = 1 + below(state, 4), s->dry_range = below(state, 100);
    if (uniform(state) < 0.5) s->dry_max_length = 1 + below(state, 12);
    s->dry_count = uniform(state) < 0.3;
    if (uniform(state) < chance) s->guidance = (float)(2 * uniform(state));
}

static void make_problem(problem *t, int n, uint64_t *state) {
    static float logits[MOST], negative[MOST];
    static uint32_t mask[WORDS + 1], breakers[WORDS + 1], keep[WORDS + 1];
    *t = (problem){.n = n, .logits = logits, .negative = negative, .mask = mask, .breakers = breakers, .keep = keep};
    t->n_tokens = uniform(state) < 0.3 ? 1 + below(state, t->n) : t->n;
    make_settings(&t->settings, state);
    make_logits(t->logits, t, state);
    t->has_negative = t->settings.guidance != 0;
    for (int i = 0; i < t->n; i++) t->negative[i] = isfinite(t->logits[i]) ? t->logits[i] / 2 : -3;
    t->n_history = (size_t)below(state, MOST_HISTORY);
    const int variety = 1 + below(state, 12); /* few ids: repetitions */
    for (size_t i = 0; i < t->n_history; i++)
        t->history[i] = uniform(state) < 0.02 ? t->n + 7 : below(state, variety < t->n ? variety : t->n);
    if ((t->has_mask = uniform(state) < 0.2)) make_bits(t->mask, t->n, 0.5, state);
    if ((t->has_breakers = uniform(state) < 0.5)) make_bits(t->breakers, t->n, 0.1, state);
    if ((t->has_keep = uniform(state) < 0.5)) make_bits(t->keep, t->n, 0.1, state);
    if (uniform(state) < 0.3)
        for (; t->n_bias < 4; t->n_bias++)
            t->bias[t->n_bias] = (qp_bias){below(state, t->n), (float)(6 * uniform(state) - 3)};
    if (uniform(state) < 0.3)
        for (; t->n_ban < 3; t->n_ban++) t->ban[t->n_ban] = below(state, t->n);
}

/* The settings of a problem that went wrong, those that are on. */
static void describe(const problem *t) {
    static const struct {
        const char *name;
        size_t offset;
    } reals[] = {
#define REAL(name) {#name, offsetof(qp_sampling, name)}
        REAL(temperature),
        REAL(top_p),
        REAL(min_p),
        REAL(repetition_penalty),
        REAL(frequency_penalty),
        REAL(presence_penalty),
        REAL(top_a),
        REAL(tfs),
        REAL(typical),
        REAL(smoothing_factor),
        REAL(max_temperature),
        REAL(temperature_exponent),
        REAL(mirostat_tau),
        REAL(xtc_probability),
        REAL(xtc_threshold),
        REAL(dry_multiplier),
        REAL(guidance),
#undef REAL
    };
    for (size_t i = 0; i < HARNESS_COUNT(reals); i++) {
        const float value = *(const float *)((const char *)&t->settings + reals[i].offset);
        if (value != 0) print_message("%s %g ", reals[i].name, (double)value);
    }
    print_message("top_k %d, last %d, range %d + %d, DRY %d %d %d %d\n", t->settings.top_k,
                  t->settings.temperature_last, t->settings.penalty_range, t->settings.penalty_decay,
                  t->settings.dry_allowed_length, t->settings.dry_range, t->settings.dry_max_length,
                  t->settings.dry_count);
}

static int choose(const problem *t, qp_candidate *top, sampler_choice *choice) {
    sampler *s;
    sampler_room *room;
    const sampler_setup setup = {.settings = t->settings,
                                 .n_vocabulary = t->n,
                                 .n_tokens = t->n_tokens,
                                 .bias = t->bias,
                                 .n_bias = t->n_bias,
                                 .dry_breakers = t->has_breakers ? t->breakers : NULL,
                                 .xtc_keep = t->has_keep ? t->keep : NULL,
                                 .wants_p = true,
                                 .n_top = t->n};
    const sampler_step step = {.logits = t->logits,
                               .negative_logits = t->has_negative ? t->negative : NULL,
                               .history = t->history,
                               .n_history = t->n_history,
                               .ban = t->ban,
                               .n_ban = t->n_ban,
                               .allow_mask = t->has_mask ? t->mask : NULL};
    qp_error err;
    if (sampler_new(&s, &setup, &err) != QP_OK) fail_msg("%s", err.text);
    assert_int_equal(sampler_room_new(&room, t->n, NULL), QP_OK);
    *choice = (sampler_choice){.top = top};
    sampler_choose(s, room, &step, choice);
    sampler_free(s);
    sampler_room_free(room);
    return choice->n_top;
}

/* False: nothing can be chosen. */
static bool compare(const problem *t, int trial) {
    static double wanted[MOST], got[MOST];
    static qp_candidate top[MOST];
    sampler_choice choice;
    double sum = 0;
    reference(wanted, t);
    memset(got, 0, (size_t)t->n * sizeof *got);
    const int n = choose(t, top, &choice);
    for (int i = 0; i < t->n; i++) sum += wanted[i];
    if (sum == 0) {
        assert_int_equal(choice.id, -1);
        assert_int_not_equal(choice.reason, SAMPLER_OK);
        return false;
    }
    assert_in_range(choice.id, 0, t->n_tokens - 1);
    for (int i = 0; i < n; i++) got[top[i].id] = top[i].p;
    for (int i = 0; i < t->n; i++) {
        if (fabs(got[i] - wanted[i]) <= 1e-4 * (wanted[i] + 0.001)) continue;
        describe(t);
        fail_msg("trial %d: token %d of %d has %.9g, expected %.9g", trial, i, t->n, got[i], wanted[i]);
    }
    if (!(fabs(choice.p - wanted[choice.id]) <= 2e-5)) fail_msg("trial %d: p of the chosen", trial);
    assert_true(wanted[choice.id] > 0);
    assert_true(fabs(choice.logprob - (t->logits[choice.id] - log_sum(t->logits, t->n))) < 1e-4);
    return true;
}

static void every_chance_agrees_with_the_definition(void **state) {
    enum { TRIALS = 20000 };
    uint64_t random = 0;
    int n_chosen = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        problem t;
        make_problem(&t, 1 + below(&random, uniform(&random) < 0.3 ? 8 : SMALL - 1), &random);
        n_chosen += compare(&t, trial);
    }
    assert_true(n_chosen > TRIALS * 9 / 10);
}

/* Whole vocabularies: floors, groups of blocks, long lists. Kept sets are compared by their chances: each kept token
 * must have its share of what is kept. */
static void large_vocabularies_too(void **state) {
    static const qp_sampling cases[] = {
        {.temperature = 1},
        {.temperature = 0.8f, .top_k = 50, .top_p = 0.8f, .min_p = 0.05f},
        {.temperature = 0.8f, .top_k = 3000},
        {.temperature = 0.8f, .top_p = 0.8f},
        {.temperature = 1, .top_p = 0.3f},
        {.temperature = 0.5f, .min_p = 0.01f},
        {.temperature = 1, .top_a = 0.1f},
        {.temperature = 1, .mirostat_tau = 4},
        {.temperature = 1, .xtc_probability = 0.5f, .xtc_threshold = 1e-3f},
        {.temperature = 2, .smoothing_factor = 0.2f, .top_p = 0.9f},
        {.temperature = 1, .min_p = 0.001f, .max_temperature = 2},
    };
    uint64_t random = 1u << 30;
    for (size_t c = 0; c < HARNESS_COUNT(cases); c++) {
        for (int kind = 0; kind < 2; kind++) {
            problem t;
            make_problem(&t, kind ? 32768 + 7 : 128256, &random);
            t.settings = cases[c];
            t.has_negative = false;
            for (int i = 0; i < t.n; i++) /* a bell, and a few favourites */
                t.logits[i] = (float)(8 * (uniform(&random) + uniform(&random) + uniform(&random) - 1.5));
            for (int i = 0; i < 40; i++) t.logits[below(&random, t.n)] = (float)(17 - 0.2 * i);
            compare(&t, (int)c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_chance_agrees_with_the_definition),
                                       cmocka_unit_test(large_vocabularies_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
