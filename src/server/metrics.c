/* metrics.c — counts: jobs and requests as they end, histograms, and the engine's own figures across models.
 *
 * Called by pump.c (jobs), http.c (answers), conns.c's tick. Sums are kept in millionths as integers, because an atomic
 * addition of those is one instruction. */
#include "metrics_impl.h"
#include "base/mem.h"
#include "route.h"

static const double first_edges[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                     1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double gap_edges[] = {.001, .0025, .005, .01, .025, .05, .075, .1, .15,
                                   .2,   .3,    .4,   .5,  .75,  1,   2.5,  5,  10};
static const double time_edges[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                    30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_edges[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                     1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

typedef struct edge_list {
    const double *at;
    int count;
} edge_list;
#define EDGES(array)                                                                                                   \
    { array, (int)(sizeof array / sizeof *array) }
enum { FIRST, GAP, TIME, TOKENS };
static const edge_list edge_lists[] = {EDGES(first_edges), EDGES(gap_edges), EDGES(time_edges), EDGES(token_edges)};
static const int histogram_edges[] = {
#define X(name, help, buckets) buckets,
    METRICS_HISTOGRAMS(X)
#undef X
};

const char *const metric_names[] = {
#define X(name, help, buckets) #name,
    METRICS_HISTOGRAMS(X)
#undef X
};
const char *const metric_helps[] = {
#define X(name, help, buckets) help,
    METRICS_HISTOGRAMS(X)
#undef X
};
const char *const metric_finish_words[] = {
#define X(name) #name,
    METRICS_FINISHES(X)
#undef X
};
const int metric_statuses[METRIC_STATUSES] = {200, 400, 401, 403, 404, 405, 408, 409, 413, 414, 429, 431,
                                              499, 500, 501, 503, 504, 529, 0,   0,   0,   0,   0,   0};

qp_status metrics_new(metrics **out, qp_error *err) {
    *out = MEM_NEW(metrics);
    if (!*out) return err_no_memory(err, sizeof **out, "the metrics");
    pthread_mutex_init(&(*out)->lock, NULL);
    for (int i = 0; i < METRIC_HISTOGRAMS; i++) {
        const edge_list *edges = &edge_lists[histogram_edges[i]];
        (*out)->histograms[i].edges = edges->at;
        (*out)->histograms[i].n_edges = edges->count;
    }
    return QP_OK;
}

void metrics_free(metrics *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

static uint64_t micros_of(double seconds) { return seconds > 0 ? (uint64_t)(seconds * 1e6 + 0.5) : 0; }

void metrics_observe(metrics *m, metric_histogram h, double value, uint64_t times) {
    metric_cells *cells = &m->histograms[h];
    int i = 0;
    while (i < cells->n_edges && value > cells->edges[i]) i++;
    atomic_fetch_add_explicit(&cells->counts[i], times, memory_order_relaxed);
    atomic_fetch_add_explicit(&cells->micros, micros_of(value) * times, memory_order_relaxed);
}

void metrics_job(metrics *m, metric_finish finish, const qp_job_stats *s) {
    atomic_fetch_add(&m->finished[finish], 1);
    atomic_fetch_add(&m->prompt_micros, micros_of(s->prefill_s));
    atomic_fetch_add(&m->generation_micros, micros_of(s->decode_s));
    atomic_fetch_add(&m->job_micros, micros_of(s->total_s));
    atomic_fetch_add(&m->n_jobs, 1);
    metrics_observe(m, METRIC_request_queue_time_seconds, s->queue_s, 1);
    metrics_observe(m, METRIC_request_prompt_tokens, (double)s->prompt_tokens, 1);
    metrics_observe(m, METRIC_request_generation_tokens, (double)s->new_tokens, 1);
    if (!s->new_tokens) return;
    metrics_observe(m, METRIC_request_prefill_time_seconds, s->prefill_s, 1);
    metrics_observe(m, METRIC_request_decode_time_seconds, s->decode_s, 1);
    metrics_observe(m, METRIC_request_inference_time_seconds, s->prefill_s + s->decode_s, 1);
}

void metrics_cancelled(metrics *m, http_cause cause) { atomic_fetch_add(&m->cancelled[cause], 1); }

void metrics_http(metrics *m, const route_row *route, http_method method, int status) {
    const size_t row = route ? (size_t)(route - route_rows) : route_count;
    int place = 0;
    while (place < METRIC_STATUSES - 1 && metric_statuses[place] != status) place++;
    if (row < METRIC_ROUTES) atomic_fetch_add_explicit(&m->http[row][place], 1, memory_order_relaxed);
}

double metrics_mean_job(metrics *m) {
    const uint64_t n = atomic_load(&m->n_jobs);
    return n ? (double)atomic_load(&m->job_micros) / 1e6 / (double)n : 0;
}

void metrics_keep(metrics *m, const qp_generator_stats *s) {
    pthread_mutex_lock(&m->lock);
    m->past.steps += s->steps;
    m->past.prompt_tokens += s->prompt_tokens;
    m->past.cached_tokens += s->cached_tokens;
    m->past.new_tokens += s->new_tokens;
    m->past.jobs_preempted += s->jobs_preempted;
    m->past.jobs_refused += s->jobs_refused;
    m->seen_steps = m->seen_tokens = 0;
    pthread_mutex_unlock(&m->lock);
}

void metrics_tick(metrics *m, const qp_generator_stats *s) {
    const uint64_t tokens = s->prompt_tokens + s->new_tokens;
    pthread_mutex_lock(&m->lock);
    const uint64_t steps = s->steps - m->seen_steps, more = tokens - m->seen_tokens;
    const bool is_sane = s->steps >= m->seen_steps && tokens >= m->seen_tokens;
    m->seen_steps = s->steps;
    m->seen_tokens = tokens;
    pthread_mutex_unlock(&m->lock);
    if (!steps || !is_sane) return;
    metrics_observe(m, METRIC_step_tokens, (double)more / (double)steps, steps);
    if (s->jobs_running) metrics_observe(m, METRIC_batch_size, (double)s->jobs_running, steps);
}
