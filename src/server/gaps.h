/* gaps.h — times between events of one answer: their median, 99th percentile and maximum, in little memory. */
#ifndef SERVER_GAPS_H
#define SERVER_GAPS_H

#include <stdint.h>

enum { GAPS_KEPT = 512 };

/* Zero-initialised is empty. Of many gaps every 2nd, 4th, ... is kept; the maximum is of all. */
typedef struct gaps {
    float kept[GAPS_KEPT];
    uint32_t n_kept, stride, n_skipped;
    double greatest;
} gaps;

void gaps_add(gaps *g, double seconds);
/* All 0 where there are none. Sorts what is kept: the last call. */
void gaps_summarise(gaps *g, double *median, double *p99, double *greatest);

#endif
