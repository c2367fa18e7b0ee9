/* constrained_batch.c — what constraints cost a full batch: the step of 32 jobs with 32 different schemas beside the
 * same step without, and what forced tokens give back. Through include/quipu.h only.
 *
 * usage: bench_constrained_batch TOKENIZER [--shape NAME | -m FOLDER] [TOKENS [ROUNDS]]
 * The default is the shape "tinyllama-1.1b" with random weights, 16 tokens a job, 5 rounds. The tokenizer's vocabulary
 * is what masks are made of; take one of the model's size. The goal: longer at most 0.03. Sampling is hot, so that all
 * that a schema allows is met. Prints one JSON object.
 *
 * A round is a free run and a constrained one, each in turn first; `longer` is the median of the rounds' ratios,
 * `longer_least` the ratio of the least steps, which a busy machine disturbs less. What happens outside of the model
 * (masks, sampling, taking tokens) is told apart, because the model's share of a step varies by more than that:
 * `longer_outside` is what constraints add there, as a share of the free step. It is all that they add where the model
 * has all cores, since masks are then made when they are asked for. `cold` is the first constrained run of all, when no
 * mask is remembered. */
#include "figures.h"
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOBS = 32, MOST_ROUNDS = 64, PROMPT = 4 };

static void need(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "constrained_batch: %s\n", err->text);
    exit(1);
}

/* Different in names, types and bounds, and without an end. */
static void write_schema(char *out, size_t room, int i) {
    static const char *const types[] = {
        "{\"type\":\"integer\",\"minimum\":-%d}", "{\"type\":\"string\",\"maxLength\":%d}",
        "{\"type\":\"number\",\"maximum\":%d}", "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,%d}$\"}"};
    char one[80], two[80];
    snprintf(one, sizeof one, types[i % 4], 20 + i);
    snprintf(two, sizeof two, types[(i / 4 + 1) % 4], 10 + i);
    snprintf(
        out, room,
        "{\"type\":\"array\",\"minItems\":100000,\"items\":{\"type\":\"object\",\"properties\":{\"field_%d\":%s,"
        "\"other_%d\":%s,\"kind\":{\"enum\":[\"first of %d\",\"second\",%d,null]}},\"required\":[\"field_%d\"]%s}}",
        i, one, i * 7, two, i, i, i, i % 3 ? ",\"additionalProperties\":false" : "");
}

typedef struct round_result {
    double step_ms, outside_ms, tokens_per_s;
    size_t n_forced;
} round_result;

/* All jobs at once, to their limits. grammars NULL: free. */
static round_result run(qp_generator *gen, qp_grammar **grammars, bool forces, size_t n_tokens) {
    qp_job *jobs[JOBS];
    qp_generator_stats before, after;
    qp_error err;
    round_result r = {0};
    double slowest = 0;
    qp_generator_get_stats(gen, &before);
    for (int i = 0; i < JOBS; i++) {
        const int32_t ids[PROMPT] = {3 + i, 4, 5, 6};
        qp_filter filter;
        qp_job_options o = {
            .size = sizeof o, .ids = ids, .n_ids = PROMPT, .max_new_tokens = n_tokens, .ignore_eos = true};
        o.sampling = (qp_sampling){.temperature = 1, .top_k = 50, .seed = (uint64_t)i};
        if (grammars) {
            need(qp_filter_new(&filter, grammars[i], &err), &err);
            if (!forces) filter.forced = NULL;
            o.filters = &filter;
            o.n_filters = 1;
        }
        need(qp_job_new(&jobs[i], gen, &o, &err), &err);
    }
    for (int i = 0; i < JOBS; i++) {
        qp_event event = {.kind = QP_EVENT_TEXT};
        while (event.kind != QP_EVENT_END) need(qp_job_next(jobs[i], &event, &err), &err);
        if (event.stats.decode_s > slowest) slowest = event.stats.decode_s;
        r.n_forced += event.stats.forced;
        qp_job_free(jobs[i]);
    }
    do qp_generator_get_stats(gen, &after);
    while (after.jobs_running);
    const double steps = (double)(after.steps - before.steps);
    r.step_ms = (after.total_step_s - before.total_step_s) / steps * 1e3;
    r.outside_ms = r.step_ms - (after.total_model_s - before.total_model_s) / steps * 1e3;
    r.tokens_per_s = (double)JOBS * (double)(n_tokens - 1) / slowest;
    return r;
}

static double percentile(const double *all, int n, double share) {
    double sorted[MOST_ROUNDS];
    memcpy(sorted, all, (size_t)n * sizeof *all);
    figures_sort(sorted, (size_t)n);
    return sorted[(int)(share * (n - 1))];
}

/* By rounds: 0 free, 1 constrained. */
typedef struct measured {
    double step[2][MOST_ROUNDS], outside[2][MOST_ROUNDS], ratio[MOST_ROUNDS];
    double cold_outside_ms, rates[3];
    size_t n_forced;
} measured;

static void run_rounds(measured *m, qp_generator *gen, qp_grammar **grammars, size_t n_tokens, int n_rounds) {
    run(gen, NULL, false, n_tokens); /* warm */
    m->cold_outside_ms = run(gen, grammars, false, n_tokens).outside_ms;
    for (int i = 0; i < n_rounds; i++) {
        for (int turn = 0; turn < 2; turn++) {
            const int k = (i + turn) % 2;
            const round_result r = run(gen, k ? grammars : NULL, false, n_tokens);
            m->step[k][i] = r.step_ms;
            m->outside[k][i] = r.outside_ms;
            m->rates[k] = r.tokens_per_s;
        }
        m->ratio[i] = m->step[1][i] / m->step[0][i];
    }
    const round_result forced = run(gen, grammars, true, n_tokens);
    m->rates[2] = forced.tokens_per_s;
    m->n_forced = forced.n_forced;
}

static void print(const measured *m, const char *name, int vocabulary, size_t n_tokens, int n) {
    double step[2][3], outside[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++) step[k][i] = percentile(m->step[k], n, 0.5 * i);
        outside[k] = percentile(m->outside[k], n, 0.5);
    }
    printf("{\"model\": \"%s\", \"vocabulary\": %d, \"jobs\": %d, \"tokens\": %zu, \"rounds\": %d, \"longer\": %.4f, "
           "\"longer_least\": %.4f, \"longer_outside\": %.4f, \"cold_longer_outside\": %.4f, ",
           name, vocabulary, JOBS, n_tokens, n, percentile(m->ratio, n, 0.5) - 1, step[1][0] / step[0][0] - 1,
           (outside[1] - outside[0]) / step[0][1], (m->cold_outside_ms - outside[0]) / step[0][1]);
    for (int k = 0; k < 2; k++)
        printf("\"%s_ms\": {\"least\": %.3f, \"p50\": %.3f, \"most\": %.3f, \"outside\": %.3f}, ",
               k ? "constrained" : "free", step[k][0], step[k][1], step[k][2], outside[k]);
    printf("\"free_tokens_per_s\": %.1f, \"constrained_tokens_per_s\": %.1f, \"with_forced_tokens_per_s\": %.1f, "
           "\"forced\": %zu}\n",
           m->rates[0], m->rates[1], m->rates[2], m->n_forced);
}

static void measure(const qp_model *model, const qp_tokenizer *tokenizer, const char *name, size_t n_tokens,
                    int n_rounds) {
    static measured m;
    qp_grammar *grammars[JOBS];
    qp_generator *gen;
    qp_error err;
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = JOBS * 512, .no_reuse = true};
    for (int i = 0; i < JOBS; i++) {
        char schema[600];
        write_schema(schema, sizeof schema, i);
        need(qp_grammar_new(&grammars[i], tokenizer, "json_schema", schema, strlen(schema), NULL, NULL, &err), &err);
    }
    need(qp_generator_new(&gen, model, &options, &err), &err);
    run_rounds(&m, gen, grammars, n_tokens, n_rounds);
    print(&m, name, qp_tokenizer_size(tokenizer), n_tokens, n_rounds);
    qp_generator_free(gen);
    for (int i = 0; i < JOBS; i++) qp_grammar_free(grammars[i]);
}

int main(int argc, char **argv) {
    const char *shape = "tinyllama-1.1b", *folder = NULL;
    qp_tokenizer *tokenizer;
    qp_model *model;
    qp_error err;
    int i = 2;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) *(strcmp(argv[i], "-m") ? &shape : &folder) = argv[i + 1];
    if (argc < 2)
        return fprintf(stderr,
                       "usage: bench_constrained_batch TOKENIZER [--shape NAME | -m FOLDER] [TOKENS [ROUNDS]]\n"),
               2;
    const size_t n_tokens = i < argc ? strtoul(argv[i], NULL, 10) : 16;
    const int rounds = i + 1 < argc ? atoi(argv[i + 1]) : 5;
    need(qp_tokenizer_open(&tokenizer, argv[1], &err), &err);
    need(folder ? qp_model_open(&model, folder, NULL, &err) : qp_model_synthesize(&model, shape, "bf16", 1, NULL, &err),
         &err);
    measure(model, tokenizer, folder ? folder : shape, n_tokens,
            rounds < 1             ? 1
            : rounds > MOST_ROUNDS ? MOST_ROUNDS
                                   : rounds);
    qp_model_close(model);
    qp_tokenizer_close(tokenizer);
    return 0;
}
