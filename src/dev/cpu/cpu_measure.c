/* cpu_measure.c — the machine's limits: how fast its threads read memory, how fast they multiply and add.
 *
 * Called by api/ for `bench bandwidth` and `bench compute`, so that a speed can be said as a share of what is
 * possible. The clock stops after the pool's barrier, when the last byte or sum has been used; figures are medians
 * over repeats. What a level may use is what its kernels may use. */
#include "cpu_measure.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cpu.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPEATS = 1024, LEAST_REPEATS = 3, READ_TASK = 4 << 20, MOST_BUFFER = 1 << 30 };

static const cpu_measure_ops *const tables[] = {
    &cpu_measure_ref,
#if defined(__x86_64__)
    &cpu_measure_avx2, &cpu_measure_avxvnni, &cpu_measure_avx512, &cpu_measure_avx512bf16, &cpu_measure_amx,
#elif defined(__aarch64__)
    &cpu_measure_neon,
    &cpu_measure_dotprod,
    &cpu_measure_i8mm,
#endif
};
enum { N_TABLES = sizeof tables / sizeof *tables };

/* ---- what both measurements share ---- */

typedef struct bench {
    cpu_features features;
    int level;
    double seconds;
    pool *pool;
    _Atomic uint64_t used; /* everything that was computed ends here */
} bench;

static qp_status bench_open(bench *b, const dev_measure_options *options, qp_error *err) {
    static const dev_measure_options defaults;
    if (!options) options = &defaults;
    *b = (bench){.seconds = options->seconds > 0 ? options->seconds : 1};
    cpu_detect(&b->features);
    ERR_TRY(cpu_level_find(&b->level, options->cpu_level, &b->features, err));
    return pool_new(&b->pool, options->threads, false, err);
}

/* True for tables of levels up to the bench's that this processor has. */
static bool may_use(const bench *b, const cpu_measure_ops *table) {
    for (int i = 0; i <= b->level; i++)
        if (!strcmp(cpu_level_at(i)->name, table->level)) return cpu_level_at(i)->usable(&b->features);
    return false;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Repeats a run of the pool for the bench's seconds; `work` is what one run does, in units of 1e-9 of `out`. */
static void repeat(qp_measure *out, bench *b, pool_fn *fn, void *context, int64_t n_tasks, double work) {
    double speeds[MOST_REPEATS];
    int n = 0;
    const double end = clock_now() + b->seconds;
    pool_run(b->pool, fn, context, n_tasks); /* wakes threads and clocks */
    do {
        const double start = clock_now();
        pool_run(b->pool, fn, context, n_tasks);
        speeds[n++] = work / (clock_now() - start) / 1e9;
    } while (n < MOST_REPEATS && (n < LEAST_REPEATS || clock_now() < end));
    qsort(speeds, (size_t)n, sizeof *speeds, by_value);
    out->lowest = speeds[0];
    out->highest = speeds[n - 1];
    out->median = n & 1 ? speeds[n / 2] : (speeds[n / 2 - 1] + speeds[n / 2]) / 2;
}

/* ---- reading ---- */

typedef struct reading {
    bench *bench;
    cpu_read_fn *read;
    uint8_t *buffer;
} reading;

static void fill_task(void *context, int64_t task, int worker) {
    const reading *r = context;
    memset(r->buffer + (size_t)task * READ_TASK, (int)task | 1, READ_TASK);
}

static void read_task(void *context, int64_t task, int worker) {
    const reading *r = context;
    atomic_fetch_add(&r->bench->used, r->read(r->buffer + (size_t)task * READ_TASK, READ_TASK));
}

/* 1 GiB, far beyond any cache, or a quarter of the memory where that is less. */
static size_t buffer_bytes(void) {
    const size_t quarter = cpu_memory_bytes() / 4;
    const size_t bytes = quarter && quarter < MOST_BUFFER ? quarter : MOST_BUFFER;
    return bytes < READ_TASK ? READ_TASK : bytes / READ_TASK * READ_TASK;
}

/* Tries each way to read of the levels that may be used. */
static cpu_read_fn *fastest_read(reading r, int64_t n_tasks) {
    cpu_read_fn *fastest = NULL;
    double least = 0;
    for (int i = 0; i < N_TABLES * CPU_READS; i++) {
        const cpu_measure_ops *table = tables[i / CPU_READS];
        r.read = table->reads[i % CPU_READS];
        if (!r.read || !may_use(r.bench, table)) continue;
        for (int trial = 0; trial < 2; trial++) {
            const double start = clock_now();
            pool_run(r.bench->pool, read_task, &r, n_tasks);
            const double took = clock_now() - start;
            if (fastest && took >= least) continue;
            least = took;
            fastest = r.read;
        }
    }
    return fastest;
}

static qp_status measure_reading(qp_measure *out, bench *b, qp_error *err) {
    const size_t bytes = buffer_bytes();
    const int64_t n_tasks = (int64_t)(bytes / READ_TASK);
    reading r = {.bench = b, .buffer = mem_big(bytes)};
    if (!r.buffer) return err_no_memory(err, bytes, "the memory to be read");
    pool_run(b->pool, fill_task, &r, n_tasks);
    r.read = fastest_read(r, n_tasks);
    repeat(out, b, read_task, &r, n_tasks, (double)bytes);
    mem_big_free(r.buffer, bytes);
    return QP_OK;
}

qp_status dev_measure_bandwidth(qp_measure *out, const dev_measure_options *options, qp_error *err) {
    bench b;
    *out = (qp_measure){.name = "read", .unit = "GB/s"};
    qp_status status = bench_open(&b, options, err);
    if (status == QP_OK) status = measure_reading(out, &b, err);
    pool_free(b.pool);
    return status;
}

/* ---- multiplying ---- */

typedef struct multiplying {
    bench *bench;
    const cpu_peak *peak;
    int64_t turns;
} multiplying;

static void multiply_task(void *context, int64_t task, int worker) {
    const multiplying *m = context;
    const float sum = m->peak->run(m->turns);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    atomic_fetch_add(&m->bench->used, bits);
}

/* A thread that wakes late or is interrupted takes fewer of the many small tasks. */
static void measure_peak(qp_measure *out, bench *b, const cpu_peak *peak) {
    static const double TASK_SECONDS = 0.5e-3;
    multiplying m = {.bench = b, .peak = peak, .turns = 256};
    for (double took = 0; took < TASK_SECONDS; m.turns *= 2) {
        const double start = clock_now();
        multiply_task(&m, 0, 0);
        took = clock_now() - start;
    }
    *out = (qp_measure){0};
    snprintf(out->name, sizeof out->name, "%s", peak->name);
    snprintf(out->unit, sizeof out->unit, "%s", peak->unit);
    const int64_t n_tasks = (int64_t)pool_threads(b->pool) * 32;
    repeat(out, b, multiply_task, &m, n_tasks, (double)n_tasks * (double)m.turns * peak->ops_per_turn);
}

qp_status dev_measure_compute(qp_measure *out, int capacity, int *count, const dev_measure_options *options,
                              qp_error *err) {
    bench b;
    *count = 0;
    const qp_status status = bench_open(&b, options, err);
    int best[CPU_PEAK_KINDS] = {-1, -1, -1};
    for (int i = 0; i < N_TABLES && status == QP_OK; i++)
        for (int j = 0; j < tables[i]->n_peaks && may_use(&b, tables[i]); j++) {
            const cpu_peak *peak = &tables[i]->peaks[j];
            if (*count == capacity || (peak->usable && !peak->usable(&b.features))) continue;
            measure_peak(&out[*count], &b, peak);
            int *fastest = &best[peak->is_for];
            if (*fastest < 0 || out[*count].median > out[*fastest].median) *fastest = *count;
            ++*count;
        }
    if (best[CPU_PEAK_FLOATS] >= 0) out[best[CPU_PEAK_FLOATS]].is_best = true;
    if (best[CPU_PEAK_WHOLE] >= 0) out[best[CPU_PEAK_WHOLE]].is_best_whole = true;
    pool_free(b.pool);
    return status;
}
