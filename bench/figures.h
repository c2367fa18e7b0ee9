/* figures.h — what the measuring programs do with their samples: sort them, take the one in the middle. */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include <math.h>
#include <stdlib.h>
#include <time.h>

static inline int figures_order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void figures_sort(double *values, size_t n) { qsort(values, n, sizeof *values, figures_order); }

/* Sorts; the value that q of them (0 to 1) do not exceed, NaN where there is none. */
static inline double figures_quantile(double *values, size_t n, double q) {
    if (!n) return (double)NAN;
    figures_sort(values, n);
    return values[(size_t)(q * (double)(n - 1))];
}

static inline double figures_median(double *values, size_t n) {
    figures_sort(values, n);
    return values[n / 2];
}

/* Seconds that this thread has computed: what a busy machine does not make longer. */
static inline double figures_thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
