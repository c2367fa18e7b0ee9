/* generator.c — how the generator behaves under many clients: does it drift, do streams stay smooth, what does a batch
 * bring. Through include/quipu.h only, as any client; each question answers with one JSON object on standard output.
 *
 * usage: bench_generator [-m FOLDER | --shape NAME] soak [JOBS] | smooth [PROMPT_TOKENS] | batch [SEQUENCES]
 * The default is models/demo, 100,000 jobs, 8,192 tokens, 16 sequences. The goals: soak: last_over_first within 0.95 to
 * 1.05 where the machine is steady, used_over_fresh (a thousand jobs on it and on new generators, in turns) where it is
 * not; resident memory as after 5,000 jobs, no page in use; smooth: p99_over_median at most 2, delivery p99 under 100
 * us; batch: speedup at least 4, overhead at most 0.03 for the demo model and 0.01 for 1.1B. */
#include "figures.h"
#include <quipu.h>
#include "base/clock.h"
#include "base/rng.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS = 32,
    MOST_PROMPT = 12,
    WINDOW = 1000,
    SETTLED = 5000,
    TENTHS = 10,
    TURNS = 9,
    REPEATS = 3,
    MOST_BATCH = 256
};

static qp_model *model;
static qp_model_info info;

static void need(qp_status status, const qp_error *err) {
    if (status == QP_OK) return;
    fprintf(stderr, "generator: %s\n", err->text);
    exit(1);
}

static void *need_memory(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) exit(1);
    return memory;
}

static void wait_s(double seconds) {
    const struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&t, NULL);
}

static double resident_mb(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) exit(1);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* The counters once nothing runs: they are told after the step that ended the last job. */
static qp_generator_stats stats_at_rest(const qp_generator *gen) {
    qp_generator_stats s;
    for (qp_generator_get_stats(gen, &s); s.jobs_running || s.jobs_waiting; qp_generator_get_stats(gen, &s))
        wait_s(0.001);
    return s;
}

static void fill_prompt(int32_t *ids, size_t n, uint64_t seed) {
    const int few = info.vocabulary - 64; /* without the special ones at its end */
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(rng_uniform(seed, 0, i) * few);
}

/* ---- soak: very many short jobs, a third of them cancelled ---- */

typedef struct soak {
    qp_generator *gen;
    long n;
    atomic_long next, ended, n_finished, n_cancelled, n_dropped;
    double *latency; /* [n], NaN for those that were cancelled */
    _Atomic double settled_mb;
    qp_generator_stats marks[TENTHS + 1]; /* when each tenth of the jobs had ended */
} soak;

/* Reads until the end, or until `patience` seconds have gone; the end's finish, QP_FINISH_NONE when patience ended. */
static qp_finish read_for(qp_job *job, double patience, double *total_s) {
    const double until = clock_now() + patience;
    qp_event event;
    qp_error err;
    for (;;) {
        const double left = until - clock_now();
        const qp_status status = qp_job_poll(job, left > 0 ? left : 0, &event, &err);
        if (status == QP_BUSY) return QP_FINISH_NONE;
        need(status, &err);
        if (event.kind != QP_EVENT_END) continue;
        *total_s = event.stats.total_s;
        return event.finish;
    }
}

static void soak_one(soak *s, long i, double *usual_s) {
    const uint64_t seed = (uint64_t)i, kind = (uint64_t)(i % WINDOW); /* windows have the same kinds of jobs */
    const double chance = rng_uniform(kind, 1, 0), moment = rng_uniform(kind, 1, 1);
    int32_t ids[MOST_PROMPT];
    const size_t n_ids = 4 + (size_t)(rng_uniform(kind, 1, 2) * (MOST_PROMPT - 4));
    fill_prompt(ids, n_ids, seed);
    const qp_job_options options = {.size = sizeof options,
                                    .ids = ids,
                                    .n_ids = n_ids,
                                    .max_new_tokens = 4 + (size_t)(rng_uniform(kind, 1, 3) * 9),
                                    .sampling = {.temperature = 1, .top_p = 0.9F, .seed = seed}};
    qp_job *job;
    qp_error err;
    double total_s = 0;
    need(qp_job_new(&job, s->gen, &options, &err), &err);
    const bool is_cut = chance < 1.0 / 3;
    qp_finish finish = read_for(job, is_cut ? moment * *usual_s : 3600, &total_s);
    const bool is_dropped = finish == QP_FINISH_NONE && chance < 1.0 / 6;
    if (finish == QP_FINISH_NONE && !is_dropped) {
        qp_job_cancel(job);
        finish = read_for(job, 3600, &total_s);
    }
    qp_job_free(job);
    atomic_fetch_add(is_dropped ? &s->n_dropped : finish == QP_FINISH_CANCELLED ? &s->n_cancelled : &s->n_finished, 1);
    if (!is_cut) s->latency[i] = *usual_s = total_s;
}

static void *soak_client(void *argument) {
    soak *s = argument;
    double usual_s = 0.05;
    for (long i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) {
        soak_one(s, i, &usual_s);
        const long ended = atomic_fetch_add(&s->ended, 1) + 1;
        if (ended == SETTLED) s->settled_mb = resident_mb();
        if (ended % (s->n / TENTHS) == 0 && ended / (s->n / TENTHS) <= TENTHS)
            qp_generator_get_stats(s->gen, &s->marks[ended / (s->n / TENTHS)]);
    }
    return NULL;
}

/* Median of the jobs from `first` on that were not cancelled, in milliseconds. */
static double median_ms(const soak *s, long first, long n) {
    double *some = need_memory((size_t)n, sizeof *some);
    size_t n_some = 0;
    for (long i = first; i < first + n; i++)
        if (!isnan(s->latency[i])) some[n_some++] = s->latency[i];
    const double median = figures_quantile(some, n_some, 0.5);
    free(some);
    return median * 1e3;
}

/* Microseconds of a step of each tenth: what the engine itself takes, which must not grow whatever else the machine
 * does, and what the model takes. */
static void tell_steps(const soak *s) {
    printf("], \"engine_us_per_step\": [");
    for (int i = 1; i <= TENTHS; i++) {
        const qp_generator_stats *a = &s->marks[i - 1], *b = &s->marks[i];
        const double model_s = b->total_model_s - a->total_model_s, all_s = b->total_step_s - a->total_step_s;
        printf("%s%.1f", i > 1 ? ", " : "", (all_s - model_s) / (double)(b->steps - a->steps) * 1e6);
    }
    printf("], \"model_us_per_step\": [");
    for (int i = 1; i <= TENTHS; i++) {
        const qp_generator_stats *a = &s->marks[i - 1], *b = &s->marks[i];
        printf("%s%.1f", i > 1 ? ", " : "",
               (b->total_model_s - a->total_model_s) / (double)(b->steps - a->steps) * 1e6);
    }
}

static void soak_tell(const soak *s, double took) {
    const qp_generator_stats c = stats_at_rest(s->gen);
    const long window = s->n < 2 * WINDOW ? s->n / 2 : WINDOW;
    const double first = median_ms(s, 0, window), last = median_ms(s, s->n - window, window);
    printf("{\"question\": \"soak\", \"jobs\": %ld, \"clients\": %d, \"seconds\": %.1f, \"jobs_per_s\": %.1f, "
           "\"tokens_per_s\": %.1f, \"first_ms\": %.3f, \"last_ms\": %.3f, \"last_over_first\": %.3f, \"tenths_ms\": [",
           s->n, CLIENTS, took, (double)s->n / took, (double)c.new_tokens / took, first, last, last / first);
    for (long i = 0; i < TENTHS; i++) printf("%s%.3f", i ? ", " : "", median_ms(s, i * (s->n / TENTHS), s->n / TENTHS));
    tell_steps(s);
    if (s->n >= SETTLED) printf("], \"settled_mb\": %.2f", s->settled_mb);
    printf("%s, \"end_mb\": %.2f, \"pages_used\": %llu, \"submitted\": %llu, \"finished\": %llu, \"cancelled\": %llu, "
           "\"failed\": %llu, \"saw_finished\": %ld, \"saw_cancelled\": %ld, \"dropped\": %ld",
           s->n >= SETTLED ? "" : "]", resident_mb(), (unsigned long long)c.pages_used,
           (unsigned long long)c.jobs_submitted, (unsigned long long)c.jobs_finished,
           (unsigned long long)c.jobs_cancelled, (unsigned long long)c.jobs_failed, s->n_finished, s->n_cancelled,
           s->n_dropped);
}

/* Pages for all clients at once, and as many again that the cache keeps and gives up. */
static void soak_open(soak *s, long n) {
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = (uint64_t)2 * CLIENTS * 256};
    qp_error err;
    *s = (soak){.n = n, .latency = need_memory((size_t)n, sizeof(double))};
    for (long i = 0; i < n; i++) s->latency[i] = (double)NAN; /* all of it resident from the beginning */
    need(qp_generator_new(&s->gen, model, &options, &err), &err);
}

static void soak_close(soak *s) {
    qp_generator_free(s->gen);
    free(s->latency);
}

/* Runs the jobs; the seconds that took. */
static double soak_run(soak *s) {
    pthread_t clients[CLIENTS];
    const double start = clock_now();
    for (int i = 0; i < CLIENTS; i++)
        if (pthread_create(&clients[i], NULL, soak_client, s)) exit(1);
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i], NULL);
    return clock_now() - start;
}

/* Median of the first thousand jobs, on this generator or (NULL) on a new one. */
static double block_ms(qp_generator *gen) {
    soak s;
    soak_open(&s, WINDOW);
    qp_generator *own = s.gen;
    if (gen) s.gen = gen;
    soak_run(&s);
    s.gen = own;
    const double median = median_ms(&s, 0, s.n);
    soak_close(&s);
    return median;
}

/* A thousand jobs on the used generator over the same on a new one: in turns, so that whatever else the machine does
 * meets both. */
static double used_over_fresh(qp_generator *used) {
    double ratios[TURNS];
    for (int i = 0; i < TURNS; i++) {
        const bool is_used_first = i % 2;
        const double first = block_ms(is_used_first ? used : NULL), second = block_ms(is_used_first ? NULL : used);
        ratios[i] = is_used_first ? first / second : second / first;
    }
    return figures_quantile(ratios, TURNS, 0.5);
}

static void ask_soak(long n) {
    soak s;
    block_ms(NULL); /* the process is warm */
    soak_open(&s, n < TENTHS ? TENTHS : n);
    const double took = soak_run(&s);
    soak_tell(&s, took);
    printf(", \"used_over_fresh\": %.3f}\n", used_over_fresh(s.gen));
    soak_close(&s);
}

/* ---- smooth: what running streams feel of a long prompt and of a slow reader ---- */

enum { STREAM_TOKENS = 400, MOST_STREAM = 20000, WARM_TOKENS = 50 };

typedef struct stream {
    qp_job *job;
    pthread_t thread;
    bool is_slow;
    double *read_at, *delivery; /* [n] */
    size_t n;
} stream;

static atomic_int n_warm;

static void *read_stream(void *argument) {
    stream *s = argument;
    qp_event event;
    qp_error err;
    for (;;) {
        need(qp_job_next(s->job, &event, &err), &err);
        if (event.kind == QP_EVENT_END || s->n == MOST_STREAM) return NULL;
        s->delivery[s->n] = event.read_at - event.sampled_at;
        s->read_at[s->n++] = event.read_at;
        if (s->n == (s->is_slow ? 1 : WARM_TOKENS)) atomic_fetch_add(&n_warm, 1);
        if (s->is_slow) wait_s(1);
    }
}

static void start_stream(stream *s, qp_generator *gen, uint64_t seed, size_t tokens) {
    int32_t ids[MOST_PROMPT];
    qp_error err;
    fill_prompt(ids, MOST_PROMPT, seed);
    const qp_job_options options = {.size = sizeof options,
                                    .ids = ids,
                                    .n_ids = MOST_PROMPT,
                                    .max_new_tokens = tokens,
                                    .ignore_eos = true,
                                    .sampling = {.temperature = 1, .seed = seed}};
    s->read_at = need_memory(MOST_STREAM, sizeof(double));
    s->delivery = need_memory(MOST_STREAM, sizeof(double));
    need(qp_job_new(&s->job, gen, &options, &err), &err);
    if (pthread_create(&s->thread, NULL, read_stream, s)) exit(1);
}

/* Submits the prompt and waits for its first token. */
static void run_prompt(qp_generator *gen, size_t n) {
    int32_t *ids = need_memory(n, sizeof *ids);
    qp_job *job;
    qp_event event;
    qp_error err;
    fill_prompt(ids, n, 99);
    const qp_job_options options = {
        .size = sizeof options, .ids = ids, .n_ids = n, .max_new_tokens = 1, .ignore_eos = true};
    need(qp_job_new(&job, gen, &options, &err), &err);
    need(qp_job_next(job, &event, &err), &err);
    qp_job_free(job);
    free(ids);
}

typedef struct smoothness {
    double median_ms, p99_ms, worst_ms, p99_over_median, delivery_p50_us, delivery_p99_us, seconds;
    size_t n_gaps, most_tokens; /* most_tokens: of one stream */
} smoothness;

/* What a token takes depends on how many came before it: each gap is compared with the median gap of undisturbed
 * streams at the same place. */
enum { SAME_PLACE = 64, PLACES = MOST_STREAM / SAME_PLACE + 1 };

static bool is_within(const stream *s, size_t i, double from, double until) {
    return !s->is_slow && s->read_at[i] > from && s->read_at[i - 1] < until;
}

static double gap(const stream *s, size_t i) { return s->read_at[i] - s->read_at[i - 1]; }

/* Median gap at each place, NaN where no stream came. */
static void learn_usual(const stream *streams, double usual[PLACES]) {
    double *gaps = need_memory((size_t)CLIENTS * SAME_PLACE, sizeof *gaps);
    for (size_t place = 0; place < PLACES; place++) {
        size_t n = 0;
        for (const stream *s = streams; s < streams + CLIENTS; s++)
            for (size_t i = place * SAME_PLACE; i < (place + 1) * SAME_PLACE && i < s->n; i++)
                if (i) gaps[n++] = gap(s, i);
        usual[place] = figures_quantile(gaps, n, 0.5);
    }
    free(gaps);
}

/* Of the streams that read at once, within the time. */
static smoothness sum_up(const stream *streams, double from, double until, const double usual[PLACES]) {
    double *gaps = need_memory((size_t)3 * CLIENTS * MOST_STREAM, sizeof *gaps);
    double *late = gaps + CLIENTS * MOST_STREAM, *ratios = late + CLIENTS * MOST_STREAM;
    size_t n = 0, most = 0;
    for (const stream *s = streams; s < streams + CLIENTS; s++) {
        if (s->n > most) most = s->n;
        for (size_t i = 1; i < s->n; i++)
            if (is_within(s, i, from, until)) {
                gaps[n] = gap(s, i);
                ratios[n] = gaps[n] / usual[i / SAME_PLACE];
                late[n++] = s->delivery[i];
            }
    }
    const smoothness out = {.median_ms = figures_quantile(gaps, n, 0.5) * 1e3,
                            .p99_ms = figures_quantile(gaps, n, 0.99) * 1e3,
                            .worst_ms = figures_quantile(gaps, n, 1) * 1e3,
                            .p99_over_median = figures_quantile(ratios, n, 0.99),
                            .delivery_p50_us = figures_quantile(late, n, 0.5) * 1e6,
                            .delivery_p99_us = figures_quantile(late, n, 0.99) * 1e6,
                            .seconds = until - from,
                            .n_gaps = n,
                            .most_tokens = most};
    free(gaps);
    return out;
}

static void free_streams(stream *streams) {
    for (int i = 0; i < CLIENTS; i++) {
        qp_job_free(streams[i].job);
        free(streams[i].read_at);
        free(streams[i].delivery);
    }
}

/* What disturbs: a prompt of so many tokens in the midst (0: none), or one stream that reads once a second. Streams
 * of `tokens` end by themselves, where a prompt comes they end with its first token. */
typedef struct disturbance {
    size_t prompt, tokens;
    bool has_slow;
} disturbance;

/* *from: all streams are warm; *until: the prompt is done, or all streams are. */
static void run_streams(stream *streams, const disturbance *d, double *from, double *until) {
    const size_t each = (d->tokens + MOST_PROMPT + 255) / 256 * 256;
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = d->prompt + 256 + CLIENTS * each};
    qp_generator *gen;
    qp_error err;
    need(qp_generator_new(&gen, model, &options, &err), &err);
    atomic_store(&n_warm, 0);
    for (int i = 0; i < CLIENTS; i++) {
        streams[i].is_slow = d->has_slow && i == 0;
        start_stream(&streams[i], gen, (uint64_t)i, d->tokens);
    }
    while (atomic_load(&n_warm) < CLIENTS) wait_s(0.001);
    *from = clock_now();
    if (d->prompt) {
        run_prompt(gen, d->prompt);
        *until = clock_now();
        for (int i = 0; i < CLIENTS; i++) qp_job_cancel(streams[i].job);
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(streams[i].thread, NULL);
    if (!d->prompt) *until = clock_now();
    qp_generator_free(gen);
}

static void smooth_tell(const char *name, const smoothness *s) {
    printf(", \"%s\": {\"median_ms\": %.3f, \"p99_ms\": %.3f, \"worst_ms\": %.3f, \"p99_over_median\": %.3f, "
           "\"delivery_p50_us\": %.1f, \"delivery_p99_us\": %.1f, \"gaps\": %zu, \"tokens\": %zu, \"seconds\": %.2f}",
           name, s->median_ms, s->p99_ms, s->worst_ms, s->p99_over_median, s->delivery_p50_us, s->delivery_p99_us,
           s->n_gaps, s->most_tokens, s->seconds);
}

static size_t longest(const stream *streams) {
    size_t n = 0;
    for (int i = 0; i < CLIENTS; i++) n = streams[i].n > n ? streams[i].n : n;
    return n;
}

/* The disturbed run comes first: it says how long the undisturbed streams must be for the comparison. */
static void ask_smooth(long prompt) {
    static double usual[PLACES];
    stream disturbed[CLIENTS] = {0}, alone[CLIENTS] = {0}, beside_slow[CLIENTS] = {0};
    double from[3], until[3];
    run_streams(disturbed, &(disturbance){.prompt = (size_t)prompt, .tokens = MOST_STREAM / 4}, &from[0], &until[0]);
    const size_t n = longest(disturbed) + 1 > STREAM_TOKENS ? longest(disturbed) + 1 : STREAM_TOKENS;
    run_streams(alone, &(disturbance){.tokens = n}, &from[1], &until[1]);
    run_streams(beside_slow, &(disturbance){.tokens = STREAM_TOKENS, .has_slow = true}, &from[2], &until[2]);
    learn_usual(alone, usual);
    const smoothness sums[] = {sum_up(alone, from[1], until[1], usual), sum_up(disturbed, from[0], until[0], usual),
                               sum_up(beside_slow, from[2], until[2], usual)};
    printf("{\"question\": \"smooth\", \"streams\": %d, \"prompt_tokens\": %ld", CLIENTS, prompt);
    smooth_tell("undisturbed", &sums[0]);
    smooth_tell("with_prompt", &sums[1]);
    smooth_tell("with_slow_reader", &sums[2]);
    printf("}\n");
    free_streams(disturbed);
    free_streams(alone);
    free_streams(beside_slow);
}

/* ---- batch: what sequences gain from running together, and what the engine itself takes ---- */

enum { BATCH_TOKENS = 48 };

/* Tokens per second of `n` sequences after their first token; *overhead: share of the steps outside the model. */
static double decode_rate(qp_generator *gen, int n, double *overhead) {
    qp_job *jobs[MOST_BATCH];
    const qp_generator_stats before = stats_at_rest(gen);
    double slowest = 0;
    for (int i = 0; i < n; i++) {
        const int32_t ids[] = {1 + i, 2, 3, 4};
        const qp_job_options options = {
            .size = sizeof options, .ids = ids, .n_ids = 4, .max_new_tokens = BATCH_TOKENS, .ignore_eos = true};
        qp_error err;
        need(qp_job_new(&jobs[i], gen, &options, &err), &err);
    }
    for (int i = 0; i < n; i++) {
        qp_event event = {.kind = QP_EVENT_TEXT};
        qp_error err;
        while (event.kind != QP_EVENT_END) need(qp_job_next(jobs[i], &event, &err), &err);
        if (event.stats.decode_s > slowest) slowest = event.stats.decode_s;
        qp_job_free(jobs[i]);
    }
    const qp_generator_stats after = stats_at_rest(gen);
    const double step = after.total_step_s - before.total_step_s, inside = after.total_model_s - before.total_model_s;
    *overhead = (step - inside) / step;
    return n * (BATCH_TOKENS - 1) / slowest;
}

static void ask_batch(long n) {
    const qp_generator_options options = {.size = sizeof options, .cache_tokens = (uint64_t)n * 256, .no_reuse = true};
    double one[REPEATS], many[REPEATS], overhead[REPEATS], overhead_many[REPEATS], unused;
    qp_generator *gen;
    qp_error err;
    need(qp_generator_new(&gen, model, &options, &err), &err);
    decode_rate(gen, 1, &unused); /* warm */
    for (int i = 0; i < REPEATS; i++) {
        one[i] = decode_rate(gen, 1, &overhead[i]);
        many[i] = decode_rate(gen, (int)n, &overhead_many[i]);
    }
    const double rate_one = figures_quantile(one, REPEATS, 0.5), rate_many = figures_quantile(many, REPEATS, 0.5);
    printf("{\"question\": \"batch\", \"parameters\": %llu, \"sequences\": %ld, \"one_tokens_per_s\": %.2f, "
           "\"many_tokens_per_s\": %.2f, \"speedup\": %.2f, \"overhead_one\": %.4f, \"overhead_many\": %.4f}\n",
           (unsigned long long)info.n_parameters, n, rate_one, rate_many, rate_many / rate_one,
           figures_quantile(overhead, REPEATS, 0.5), figures_quantile(overhead_many, REPEATS, 0.5));
    qp_generator_free(gen);
}

/* ---- the program ---- */

static const struct {
    const char *name;
    void (*ask)(long n);
    long usual, most;
} questions[] = {
    {"soak", ask_soak, 100000, 100000000}, {"smooth", ask_smooth, 8192, 1000000}, {"batch", ask_batch, 16, MOST_BATCH}};

int main(int argc, char **argv) {
    const char *folder = "models/demo", *shape = NULL;
    qp_error err;
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) *(strcmp(argv[i], "-m") ? &shape : &folder) = argv[i + 1];
    for (size_t q = 0; i < argc && q < sizeof questions / sizeof *questions; q++) {
        if (strcmp(argv[i], questions[q].name)) continue;
        const long n = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : questions[q].usual;
        if (n < 1 || n > questions[q].most) break;
        need(shape ? qp_model_synthesize(&model, shape, "bf16", 1, NULL, &err)
                   : qp_model_open(&model, folder, NULL, &err),
             &err);
        qp_model_get_info(model, &info);
        questions[q].ask(n);
        qp_model_close(model);
        return 0;
    }
    fprintf(stderr, "usage: bench_generator [-m FOLDER | --shape NAME] soak [JOBS] | smooth [TOKENS] | batch [N]\n");
    return 2;
}
