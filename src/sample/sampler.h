/* sampler.h — what a job's sampling keeps between its steps. */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "chain.h"
#include "mirostat.h"
#include "penalties.h"

struct sampler {
    sampler_setup setup; /* its arrays of ids are not kept: what they say is in open and bias */
    int n_tokens;
    uint32_t *open; /* bit per id: neither settings nor the lack of a token forbid it */
    bool is_all_open;
    qp_bias *bias; /* [n_bias] finite ones */
    size_t n_bias;
    penalty_counts counts;
    mirostat_state mirostat;
};

#endif
