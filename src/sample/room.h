/* room.h — the scratch of one step, sized for one vocabulary; used by one thread at a time. */
#ifndef SAMPLE_ROOM_H
#define SAMPLE_ROOM_H

#include "candidates.h"
#include "chain.h"
#include "sweep.h"

struct sampler_room {
    int n_vocabulary;
    const sweep_ops *sweep;
    logit_row row;                   /* what the settings make of the step's logits */
    float *masses;                   /* [groups] of that row */
    candidate_list list;             /* [vocabulary + a block] */
    float *guided;                   /* [vocabulary] guidance: the mixed logits */
    float *raw_peaks, *raw_masses;   /* [groups] of the model's own row */
    int32_t *dry_length, *dry_count; /* [vocabulary] zero between steps */
    int32_t *dry_ids;                /* [vocabulary] which are not zero */
    uint32_t *seen;                  /* [blocks] bit per id, zero between steps */
};

/* ln of the sum of e^logit over a whole row of the model; -INFINITY where there is no number. */
double room_log_mass(sampler_room *room, const float *logits, int n);

#endif
