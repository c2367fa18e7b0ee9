/* next_step.h — the step that is expected behind the one that computes. */
#ifndef MODEL_NEXT_STEP_H
#define MODEL_NEXT_STEP_H

#include "format/hfconfig.h"
#include "step.h"

enum { NEXT_STEP_ROWS = 256, NEXT_STEP_PAGES = 1 << 14 };

/* Arrays of `in` lie here. */
typedef struct next_step {
    step_input in; /* n_rows 0: none is expected */
    uint64_t name; /* the device's, of what it has written down */
    step_digest digest;
    int32_t ids[NEXT_STEP_ROWS], logit_rows[NEXT_STEP_ROWS], pages[NEXT_STEP_PAGES];
    row_span spans[NEXT_STEP_ROWS];
    uint64_t rope_lengths[NEXT_STEP_ROWS];
} next_step;

/* Each sequence goes on by a token; its id, which nobody knows, is -1. False, and no step: that cannot be said of this
 * one. */
bool next_step_predict(next_step *a, const step_input *in);
/* Whether `in` is what was expected, but for its ids. */
bool next_step_fits(const next_step *a, const step_input *in, const hf_rope *ropes, int n_ropes);

#endif
