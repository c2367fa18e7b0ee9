/* rope.h — rotary position embedding: how fast each pair of a head turns, and the cos/sin rows of a step.
 *
 * forward.c asks rope_frequencies() when the sequence's length class changes (dynamic, longrope) and rope_fill() each
 * step. Computed in float32 in the order the reference computes, so that logits agree to rounding. The tricky thing:
 * "dynamic" and "longrope" depend on the length of the whole sequence, not on the position of a row. */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "format/hfconfig.h"

/* inv_freq [rot_dims / 2] and what cos and sin are multiplied by. `sequence_length` counts all tokens of the sequence
 * after this step; it matters to dynamic and longrope alone. */
void rope_frequencies(const hf_rope *r, int rot_dims, uint64_t sequence_length, float *inv_freq,
                      float *attention_factor);
/* What the frequencies hang on: lengths of one class give the same. 0 is the class of all that are not stretched. */
uint64_t rope_class(const hf_rope *r, uint64_t length);
/* Whether two lengths give the same frequencies: lets the caller keep what it has. */
bool rope_same(const hf_rope *r, uint64_t length_a, uint64_t length_b);

/* cos, sin [n_rows][rot_dims / 2] of the given positions. */
void rope_fill(float *cos, float *sin, const int64_t *positions, int n_rows, int rot_dims, const float *inv_freq,
               float attention_factor);

/* The user's changes, 0 = none. scale: linear scaling by this factor instead of what r says. alpha: theta * alpha ^ (d
 * / (d - 2)). yarn: YaRN by this factor over the trained context instead. scale and yarn exclude each other. */
qp_status rope_override(hf_rope *r, int rot_dims, double scale, double alpha, double yarn, qp_error *err);

#endif
