/* bench.h — what `quipu bench` measures, between the part that runs and the part that prints. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "command.h"

enum { BENCH_MEASURES_MAX = 32, BENCH_ROWS_MAX = 1024 };

/* What the machine can do at best with some number of threads, measured in this run; zeros for a GPU, whose limits are
 * not known. */
typedef struct bench_limit {
    qp_measure read, floats, whole; /* whole: zeros where the processor has no instruction for it */
} bench_limit;

typedef struct bench_row {
    bool is_decode;
    int threads;
    int64_t tokens, sequences, depth;
    double median, lowest, highest; /* tokens of all sequences per second */
    double rate;                    /* decode: GB/s that a step reads; prefill: GFLOP/s */
    int limit;                      /* index in bench_report.before and .after */
    uint64_t hash;                  /* of the last logits of every repeat */
} bench_row;

typedef struct bench_report {
    qp_model_info info;
    const char *name; /* shape or path */
    bench_limit before[OPTION_LIST_MAX], after[OPTION_LIST_MAX];
    int threads[OPTION_LIST_MAX], n_threads;
    bench_row rows[BENCH_ROWS_MAX];
    int n_rows, n_planned, n_done;
    uint64_t peak_bytes; /* of memory, while models were open */
    double load_s;       /* of a model out of files, the last time; 0: random weights */
} bench_report;

/* Runs every combination that the options ask for with one open model; `limit` is its number of threads' index. */
qp_status bench_run(bench_report *out, session *s, const qp_model *model, int limit, qp_error *err);
/* How many rows that will be. */
int bench_plan(const options *o);

qp_status bench_print(const bench_report *r, const session *s, qp_error *err);
/* `bench bandwidth` and `bench compute`: threads[i] belongs to rows[i]. */
qp_status bench_print_measures(const qp_measure *rows, const int *threads, int count, const session *s, qp_error *err);

#endif
