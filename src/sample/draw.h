/* draw.h — the last step: one token out of what the settings made of the row. */
#ifndef SAMPLE_DRAW_H
#define SAMPLE_DRAW_H

#include "room.h"
#include "sampler_table.h"

/* How a token was chosen, for draw_probability. */
typedef struct draw_result {
    int32_t id;
    double p;
    enum { DRAW_BEST, DRAW_FROM_ROW, DRAW_FROM_LIST, DRAW_UNPROVEN } kind; /* the last: the digest says too little */
    softmax_curve curve;
    double mass; /* of the row under the curve */
} draw_result;

/* The greatest logit of room->row, the lowest id of equal ones. */
draw_result draw_best(const sampler_room *room);
/* What a digest must have for the draw; false: there is none that would do. */
bool draw_order(const qp_sampling *s, double uniform, digest_order *out);
/* Softmax, the stages, and the token at `uniform` in [0, 1). */
draw_result draw_token(sampler_room *room, const stage_view *v, double uniform);
/* What chance an id had. */
float draw_probability(const sampler_room *room, const draw_result *d, int32_t id);

#endif
