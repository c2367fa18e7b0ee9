/* metrics_impl.h — the counters themselves, for metrics.c which fills them and metrics_text.c which writes them. */
#ifndef SERVER_METRICS_IMPL_H
#define SERVER_METRICS_IMPL_H

#include "metrics.h"
#include <pthread.h>

enum { METRIC_BUCKETS = 32, METRIC_ROUTES = 160, METRIC_STATUSES = 24 };

typedef struct metric_cells {
    const double *edges;
    int n_edges;
    _Atomic uint64_t counts[METRIC_BUCKETS]; /* not summed up; the last is beyond all edges */
    _Atomic uint64_t micros;                 /* the sum, in millionths */
} metric_cells;

struct metrics {
    metric_cells histograms[METRIC_HISTOGRAMS];
    _Atomic uint64_t finished[METRIC_FINISHES], cancelled[CAUSE_COUNT];
    _Atomic uint64_t http[METRIC_ROUTES][METRIC_STATUSES];
    _Atomic uint64_t prompt_micros, generation_micros, job_micros, n_jobs;
    pthread_mutex_t lock;
    qp_generator_stats past; /* of models that were unloaded; by the lock */
    uint64_t seen_steps, seen_tokens;
};

/* Statuses that are counted apart; the last place is for all others. */
extern const int metric_statuses[METRIC_STATUSES];
extern const char *const metric_names[METRIC_HISTOGRAMS], *const metric_helps[METRIC_HISTOGRAMS];
extern const char *const metric_finish_words[METRIC_FINISHES];

#endif
