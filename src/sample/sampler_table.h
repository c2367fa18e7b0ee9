/* sampler_table.h — the stages between softmax and the pick, in the order in which they are applied. */
#ifndef SAMPLE_SAMPLER_TABLE_H
#define SAMPLE_SAMPLER_TABLE_H

#include "chain.h"

/* A sampler is a row: skipped unless is_on; never called with fewer than two candidates. */
typedef struct sampler_row {
    const char *name;
    bool (*is_on)(const qp_sampling *settings);
    void (*apply)(candidate_list *c, const qp_sampling *settings);
} sampler_row;

extern const sampler_row *const sampler_rows[];
extern const int sampler_n_rows;

bool temperature_is_greedy(const qp_sampling *settings);
/* What the softmax divides by: 1 when temperature comes last. */
float temperature_first(const qp_sampling *settings);

extern const sampler_row sampler_top_k, sampler_top_p, sampler_min_p, sampler_temperature_last;

#endif
