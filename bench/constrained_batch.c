/* constrained_batch.c — what constraints cost a full batch: the step of 32 jobs with 32 different schemas beside the
 * same step without, and what forced tokens give back. Through include/quipu.h only.
 *
 * usage: bench_constrained_batch TOKENIZER [--shape NAME | -m FOLDER] [TOKENS]
 * The default is the shape "tinyllama-1.1b" with random weights, 16 tokens a job. The tokenizer's vocabulary is what
 * masks are made of; take one of the model's size. The goal: longer at most 0.03. Sampling is hot, so that all that a
 * schema allows is met. Prints one JSON object; milliseconds are medians over the steps' means of some rounds. */
#include <quipu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { JOBS = 32, ROUNDS = 3, PROMPT = 4 };

static void need(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "constrained_batch: %s\n", err->text);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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

static round_result median(round_result *all) {
    double steps[ROUNDS], outside[ROUNDS], rates[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        steps[i] = all[i].step_ms, outside[i] = all[i].outside_ms, rates[i] = all[i].tokens_per_s;
    qsort(steps, ROUNDS, sizeof *steps, by_size);
    qsort(outside, ROUNDS, sizeof *outside, by_size);
    qsort(rates, ROUNDS, sizeof *rates, by_size);
    return (round_result){steps[ROUNDS / 2], outside[ROUNDS / 2], rates[ROUNDS / 2], all[0].n_forced};
}

static void measure(const qp_model *model, const qp_tokenizer *tokenizer, const char *name, size_t n_tokens) {
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
    round_result all[3][ROUNDS];
    run(gen, NULL, false, 3); /* warm */
    for (int i = 0; i < ROUNDS; i++) {
        all[0][i] = run(gen, NULL, false, n_tokens);
        all[1][i] = run(gen, grammars, false, n_tokens);
        all[2][i] = run(gen, grammars, true, n_tokens);
    }
    const round_result none = median(all[0]), bound = median(all[1]), forced = median(all[2]);
    printf("{\"model\": \"%s\", \"vocabulary\": %d, \"jobs\": %d, \"tokens\": %zu, \"free_ms\": %.3f, "
           "\"constrained_ms\": %.3f, \"longer\": %.4f, \"outside_free_ms\": %.3f, \"outside_constrained_ms\": %.3f, "
           "\"first_round_ms\": %.3f, \"free_tokens_per_s\": %.1f, \"constrained_tokens_per_s\": %.1f, "
           "\"with_forced_tokens_per_s\": %.1f, \"forced\": %zu}\n",
           name, qp_tokenizer_size(tokenizer), JOBS, n_tokens, none.step_ms, bound.step_ms,
           bound.step_ms / none.step_ms - 1, none.outside_ms, bound.outside_ms, all[1][0].step_ms, none.tokens_per_s,
           bound.tokens_per_s, forced.tokens_per_s, forced.n_forced);
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
        return fprintf(stderr, "usage: bench_constrained_batch TOKENIZER [--shape NAME | -m FOLDER] [TOKENS]\n"), 2;
    need(qp_tokenizer_open(&tokenizer, argv[1], &err), &err);
    need(folder ? qp_model_open(&model, folder, NULL, &err) : qp_model_synthesize(&model, shape, "bf16", 1, NULL, &err),
         &err);
    measure(model, tokenizer, folder ? folder : shape, i < argc ? strtoul(argv[i], NULL, 10) : 16);
    qp_model_close(model);
    qp_tokenizer_close(tokenizer);
    return 0;
}
