/* sampling.c — how long does the choice of one token take on one core? One line per vocabulary, kind of logits and
 * settings: median and the tenths below and above in microseconds, and a hash of the chosen ids.
 *
 * usage: bench_sampling [ROUNDS]. Built by `ninja bench_sampling`. Rows change from token to token and are more than
 * the innermost caches hold, as behind a model. "peaked" logits are like a model's: a broad bell and a few favourites;
 * "flat" ones are the bell alone, under which tens of thousands of tokens are all but equally probable. */
#include "figures.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "sample/chain.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGE = 128256, SMALL = 6144, ROWS = 8, HISTORY = 4096, FAVOURITES = 60, TOKENS = 64 };

typedef struct question {
    const char *name;
    qp_sampling settings;
    bool wants_p, has_filter;
} question;

static const question questions[] = {
    {.name = "greedy"},
    {.name = "greedy, penalty", .settings = {.repetition_penalty = 1.1f}},
    {.name = "temperature", .settings = {.temperature = 1}},
    {.name = "usual",
     .settings = {.temperature = 0.8f, .top_k = 50, .top_p = 0.8f, .min_p = 0.05f, .repetition_penalty = 1.1f}},
    {.name = "usual, logprobs",
     .settings = {.temperature = 0.8f, .top_k = 50, .top_p = 0.8f, .min_p = 0.05f, .repetition_penalty = 1.1f},
     .wants_p = true},
    {.name = "usual, filter",
     .settings = {.temperature = 0.8f, .top_k = 50, .top_p = 0.8f, .min_p = 0.05f, .repetition_penalty = 1.1f},
     .has_filter = true},
    {.name = "top-p", .settings = {.temperature = 0.8f, .top_p = 0.8f}},
    {.name = "min-p", .settings = {.temperature = 1, .min_p = 0.05f}},
    {.name = "typical", .settings = {.temperature = 1, .typical = 0.9f}},
    {.name = "tail free", .settings = {.temperature = 1, .tfs = 0.9f}},
    {.name = "mirostat", .settings = {.temperature = 1, .mirostat_tau = 5}},
    {.name = "DRY", .settings = {.temperature = 1, .min_p = 0.05f, .dry_multiplier = 0.8f}},
    {.name = "XTC, min-p", .settings = {.temperature = 1, .min_p = 0.02f, .xtc_probability = 0.5f}},
    {.name = "XTC alone", .settings = {.temperature = 1, .xtc_probability = 0.5f}},
};

static double normal(uint64_t i) {
    const double u = rng_uniform(1, 0, i), v = rng_uniform(2, 0, i);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static void fill(float *logits, int n, uint64_t row, bool is_peaked) {
    for (int i = 0; i < n; i++) logits[i] = (float)((is_peaked ? 2.5 : 1) * normal(row * (uint64_t)n + (uint64_t)i));
    for (int k = 0; is_peaked && k < FAVOURITES; k++)
        logits[(int)(rng_uniform(3, row, (uint64_t)k) * n)] = (float)(16 - 1.5 * log(1 + k));
}

typedef struct bench {
    float *rows;
    int32_t history[HISTORY + TOKENS];
    uint32_t *filter;
    int n, rounds;
    bool is_peaked;
    double *us;
} bench;

/* An answer of TOKENS tokens; the first is not timed: it counts the history. Each call is a sample of its own, so that
 * a neighbour's slice of the processor spoils few of them. */
static void answer(const bench *b, const question *q, sampler *s, sampler_room *room, int32_t *ids, double *us) {
    for (int i = 0; i < TOKENS; i++) {
        const sampler_step step = {.logits = b->rows + (size_t)(i % ROWS) * (size_t)b->n,
                                   .history = b->history,
                                   .n_history = HISTORY + (size_t)i,
                                   .position = (uint64_t)i,
                                   .allow_mask = q->has_filter ? b->filter : NULL};
        sampler_choice choice = {0};
        const double begin = clock_now();
        sampler_choose(s, room, &step, &choice);
        if (i > 0) us[i - 1] = (clock_now() - begin) * 1e6;
        ids[i] = choice.id;
    }
}

static void ask(bench *b, const question *q) {
    sampler *s;
    sampler_room *room;
    int32_t ids[TOKENS];
    const sampler_setup setup = {.settings = q->settings, .n_vocabulary = b->n, .wants_p = q->wants_p};
    if (sampler_room_new(&room, b->n, NULL) != QP_OK) exit(1);
    for (int r = 0; r < b->rounds; r++) {
        if (sampler_new(&s, &setup, NULL) != QP_OK) exit(1);
        answer(b, q, s, room, ids, b->us + (size_t)r * (TOKENS - 1));
        sampler_free(s);
    }
    sampler_room_free(room);
    const size_t n = (size_t)b->rounds * (TOKENS - 1);
    figures_sort(b->us, n);
    printf("%-7d %-7s %-18s %8.1f us  [%.1f, %.1f]  %016llx\n", b->n, b->is_peaked ? "peaked" : "flat", q->name,
           b->us[n / 2], b->us[n / 10], b->us[n * 9 / 10], (unsigned long long)hash_bytes(ids, sizeof ids, 0));
}

static void ask_all(int n, bool is_peaked, int rounds) {
    bench b = {.n = n, .is_peaked = is_peaked, .rounds = rounds};
    const size_t words = ((size_t)n + 31) / 32;
    b.rows = malloc((size_t)n * ROWS * sizeof *b.rows);
    b.filter = malloc(words * sizeof *b.filter);
    b.us = malloc((size_t)rounds * (TOKENS - 1) * sizeof *b.us);
    if (!b.rows || !b.filter || !b.us) exit(1);
    for (int r = 0; r < ROWS; r++) fill(b.rows + (size_t)r * (size_t)n, n, (uint64_t)r, is_peaked);
    for (size_t i = 0; i < words; i++) b.filter[i] = (uint32_t)(rng_uniform(4, 0, i) * 4294967296.0);
    for (int i = 0; i < HISTORY + TOKENS; i++) /* as in texts: few ids often, many rarely */
        b.history[i] = (int32_t)(pow(rng_uniform(5, 0, (uint64_t)i), 6) * n);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) ask(&b, &questions[i]);
    free(b.rows);
    free(b.filter);
    free(b.us);
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 21;
    if (rounds < 1) return fprintf(stderr, "usage: bench_sampling [ROUNDS]\n"), 2;
    ask_all(LARGE, true, rounds);
    ask_all(LARGE, false, rounds);
    ask_all(SMALL, true, rounds);
    return 0;
}
