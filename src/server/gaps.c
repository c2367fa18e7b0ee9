/* gaps.c — a thinned sample of the times between events; pump.c fills one for each request. */
#include "gaps.h"
#include <stdlib.h>

void gaps_add(gaps *g, double seconds) {
    if (seconds > g->greatest) g->greatest = seconds;
    if (!g->stride) g->stride = 1;
    if (++g->n_skipped < g->stride) return;
    g->n_skipped = 0;
    if (g->n_kept == GAPS_KEPT) {
        for (uint32_t i = 0; i < GAPS_KEPT / 2; i++) g->kept[i] = g->kept[2 * i];
        g->n_kept = GAPS_KEPT / 2;
        g->stride *= 2;
    }
    g->kept[g->n_kept++] = (float)seconds;
}

static int compare(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void gaps_summarise(gaps *g, double *median, double *p99, double *greatest) {
    *greatest = g->greatest;
    *median = *p99 = 0;
    if (!g->n_kept) return;
    qsort(g->kept, g->n_kept, sizeof *g->kept, compare);
    *median = (double)g->kept[g->n_kept / 2];
    *p99 = (double)g->kept[(g->n_kept * 99 + 99) / 100 - 1];
}
