/* row.h — the logits of one step as the settings see them, without copying them.
 *
 * The model's row stays as it is; on top lie a bit per id that says whether it may be chosen, and the values that
 * penalties and biases changed, a few thousand at most. The loops in sweep.c go through blocks of 32 ids: where all of
 * a block is as the model left it, they read the model's memory, else a small mixed copy. */
#ifndef SAMPLE_ROW_H
#define SAMPLE_ROW_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

enum { ROW_BLOCK = 32 };

typedef struct logit_row {
    const float *base;    /* [n] */
    int n, n_blocks;      /* ids that have a token; blocks of them, the last one may be short */
    uint32_t *open;       /* [n_blocks] bit per id: may be chosen; NULL: all, and none is changed */
    uint32_t *touched;    /* [n_blocks] bit per id: its value is in `changed` */
    float *changed;       /* [n], set where touched */
    int32_t *touched_ids; /* [n_touched] */
    int n_touched;
    float *peaks;  /* [n_blocks] greatest value that may be chosen; -INFINITY: none */
    float highest; /* of the peaks */
} logit_row;

static inline int row_blocks(int n) { return n / ROW_BLOCK + (n % ROW_BLOCK != 0); }
static inline bool row_bit(const uint32_t *bits, int32_t id) { return bits[id / 32] >> (id % 32) & 1; }

/* A block's values, -INFINITY where closed or past the end: the model's memory or `buffer`. */
void row_mix(const logit_row *r, int block, float *buffer);
static inline const float *row_block(const logit_row *r, int block, float *buffer) {
    const bool is_plain =
        r->open ? r->open[block] == UINT32_MAX && !r->touched[block] : (block + 1) * ROW_BLOCK <= r->n;
    if (is_plain) return r->base + (size_t)block * ROW_BLOCK;
    row_mix(r, block, buffer);
    return buffer;
}

/* Lays the row over other logits: nothing is changed yet, `open` [n_blocks] says what may be chosen. */
void row_begin(logit_row *r, const float *base, int n, const uint32_t *open);
void row_allow(logit_row *r, const uint32_t *mask); /* closes what has no bit in [n_blocks] */
void row_forbid(logit_row *r, int32_t id);          /* ids outside the row are nothing */
bool row_is_touched(const logit_row *r, int32_t id);
/* The value to change; finite ones must stay so (row_within). */
float *row_touch(logit_row *r, int32_t id);
float row_value(const logit_row *r, int32_t id); /* -INFINITY where closed */

/* A finite value stays finite, however far a penalty moves it. */
static inline float row_within(float before, float after) {
    if (!(fabsf(before) <= FLT_MAX)) return before;
    return after > FLT_MAX ? FLT_MAX : after < -FLT_MAX ? -FLT_MAX : after;
}

#endif
