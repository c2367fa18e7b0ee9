/* digests.h — what is asked of a device about the logits of a step instead of all of them, and what it answers. */
#ifndef GEN_DIGESTS_H
#define GEN_DIGESTS_H

#include "model/model.h"
#include "sample/chain.h"

typedef struct digests {
    device *dev; /* of the head; NULL: it makes none, or had no room */
    int n_rows, width;
    uint8_t *asked; /* [DIGESTS_ASKED_BYTES]: orders [n_rows], then their changes and masks */
    size_t used;
    float *rows;                  /* device memory [step_digest_rows]: few rows take turns at both ends of it */
    bool is_second;               /* they are at the end */
    void *answers, *answers_here; /* heads of the rows of a step, then their bodies; device memory and host's */
    step_digest step;
} digests;

enum { DIGESTS_ASKED_BYTES = 2 << 20, DIGESTS_MOST_CHANGES = 4096 };

/* Of up to n_rows rows of `width` logits. A device without room for that is no failure: rows are then fetched whole. */
qp_status digests_open(digests *d, device *dev, int n_rows, int width, qp_error *err);
void digests_close(digests *d);

/* Where the rows of the step that comes go: few are not put over those of the step before. */
void digests_turn(digests *d, int n_rows);
/* Of all of the next step's rows, nothing is asked yet. */
void digests_begin(digests *d, int n_rows);
/* Asks for what the sampler needs of the row. False: it needs the whole row. */
bool digests_ask(digests *d, int row, sampler *s, sampler_room *room, const sampler_step *step);
/* The whole row comes with the step. */
void digests_ask_row(digests *d, int row);
/* Was the greatest asked for, and nothing else? */
bool digests_is_greedy(const digests *d, int row);
/* The choice, if what came with the step tells it. */
bool digests_choose(const digests *d, int row, sampler *s, sampler_room *room, const sampler_step *step,
                    sampler_choice *out);
/* A row of the last step that did not come with it. */
void digests_fetch(const digests *d, int row, float *out);

#endif
