/* rank.h — where to cut a list by rank or by mass, without sorting it. */
#ifndef SAMPLE_RANK_H
#define SAMPLE_RANK_H

#include <stdint.h>

/* The list in the order of its keys, equal ones in the order in which they stand: kept are all below `key` and the
 * first `n_equal` of those with it. */
typedef struct rank_cut {
    uint32_t key;
    int n_equal;
} rank_cut;

/* The shortest beginning, at least one, whose masses (none is negative, not all are 0) sum to at least `wanted`;
 * `masses` NULL: each counts 1. `scratch` has n places. */
rank_cut rank_by_mass(const uint32_t *keys, const float *masses, int n, double wanted, int32_t *scratch);
/* Sorts ascending; `scratch` has n places. */
void rank_sort(uint32_t *keys, int n, uint32_t *scratch);

#endif
