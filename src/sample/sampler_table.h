/* sampler_table.h — the stages between softmax and the pick, in the order in which they are applied. */
#ifndef SAMPLE_SAMPLER_TABLE_H
#define SAMPLE_SAMPLER_TABLE_H

#include "candidates.h"
#include "base/err.h"

/* What a stage may look at. */
typedef struct stage_view {
    const qp_sampling *settings;
    float mu;                 /* of mirostat */
    const uint32_t *xtc_keep; /* bit per id, or NULL */
} stage_view;

/* A sampler is a row: skipped unless is_on; never called with fewer than two candidates; leaves at least one. */
typedef struct sampler_row {
    const char *name;
    bool (*is_on)(const qp_sampling *settings);
    void (*apply)(candidate_list *c, const stage_view *v);
    /* An exponent below which this stage, where it is the first, drops everything, so that it need not be listed;
     * log_mass is the logarithm (base 2) of the sum of all candidates' 2^x. NULL: it wants all of them. */
    float (*floor)(const stage_view *v, double log_mass);
    bool wants_mass; /* the floor or the stage depends on it */
} sampler_row;

extern const sampler_row *const sampler_rows[];
extern const int sampler_n_rows;

bool temperature_is_greedy(const qp_sampling *settings);
/* What the softmax divides by: 1 when temperature comes last. */
float temperature_first(const qp_sampling *settings);
bool dynatemp_is_on(const qp_sampling *settings);
/* p^(1 / temperature), as greedy as that is. */
void temperature_apply(candidate_list *c, double temperature);

extern const sampler_row sampler_top_k, sampler_top_p, sampler_top_a, sampler_min_p, sampler_tfs, sampler_typical,
    sampler_mirostat, sampler_temperature_last, sampler_dynatemp, sampler_xtc;

#endif
