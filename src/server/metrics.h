/* metrics.h — what the server counts, and /metrics as text.
 *
 * Counting is atomic additions from any thread; writing the text takes no lock of the engine beyond the moment in which
 * its figures are copied. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "http.h"

struct server;
typedef struct metrics metrics;

/* X(name, help, buckets) */
#define METRICS_HISTOGRAMS(X)                                                                                          \
    X(time_to_first_token_seconds, "From the request line to the first text", FIRST)                                   \
    X(inter_token_latency_seconds, "Between two events with text of one answer, per token", GAP)                       \
    X(e2e_request_latency_seconds, "From the request line to the end of the answer", TIME)                             \
    X(request_queue_time_seconds, "From submission to the first step", TIME)                                           \
    X(request_prefill_time_seconds, "From the first step to the first token", TIME)                                    \
    X(request_decode_time_seconds, "From the first to the last token", TIME)                                           \
    X(request_inference_time_seconds, "From the first step to the last token", TIME)                                   \
    X(request_prompt_tokens, "Tokens of a prompt, those found in the cache included", TOKENS)                          \
    X(request_generation_tokens, "New tokens of an answer", TOKENS)                                                    \
    X(request_params_n, "Choices that were asked for", TOKENS)                                                         \
    X(request_params_max_tokens, "max_tokens of requests that have one", TOKENS)                                       \
    X(grammar_compile_seconds, "Compiling what an answer must look like, or finding it compiled", GAP)                 \
    X(batch_size, "Jobs that were running, looked at while the engine worked", TOKENS)                                 \
    X(step_tokens, "Tokens of a step: the mean of the steps between two looks", TOKENS)
typedef enum metric_histogram {
#define X(name, help, buckets) METRIC_##name,
    METRICS_HISTOGRAMS(X)
#undef X
        METRIC_HISTOGRAMS
} metric_histogram;

#define METRICS_FINISHES(X) X(stop) X(length) X(tool_calls) X(cancelled) X(error)
typedef enum metric_finish {
#define X(name) METRIC_FINISH_##name,
    METRICS_FINISHES(X)
#undef X
        METRIC_FINISHES
} metric_finish;

qp_status metrics_new(metrics **out, qp_error *err);
void metrics_free(metrics *m);
void metrics_observe(metrics *m, metric_histogram h, double value, uint64_t times);
/* One job has ended; figures of the engine in seconds. */
void metrics_job(metrics *m, metric_finish finish, const qp_job_stats *stats);
/* One request that generated has been cancelled. */
void metrics_cancelled(metrics *m, http_cause cause);
/* One answer has left. */
void metrics_http(metrics *m, const struct route_row *route, http_method method, int status);
/* Mean seconds of a job, 0 before the first. */
double metrics_mean_job(metrics *m);
/* The engine's figures of a model that is unloaded: counters must not go back. */
void metrics_keep(metrics *m, const qp_generator_stats *stats);
/* Looks at the engine; a few times a second. */
void metrics_tick(metrics *m, const qp_generator_stats *stats);

/* All of /metrics. */
void metrics_write(strbuf *out, struct server *s);

#endif
