/* row.h — the logits of one step as the settings see them, without copying them all.
 *
 * The row is seen in blocks of 32 ids. Where a block is as the model left it, the model's memory is read; a block in
 * which a value is changed or forbidden is copied first, and one that is forbidden as a whole is never looked at. So
 * what a filter, a ban or a penalty costs depends on how much of the vocabulary it concerns. */
#ifndef SAMPLE_ROW_H
#define SAMPLE_ROW_H

#include "base/digest.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROW_BLOCK = DIGEST_BLOCK, ROW_MOST_GROUPS = DIGEST_MOST_GROUPS };

typedef enum row_home { ROW_MODEL, ROW_COPY, ROW_CLOSED } row_home;

/* What stands for a row that lies elsewhere. */
typedef struct row_digest {
    const digest_order *order;
    const digest_head *head;
    const digest_body *body; /* filled as far as the order wants it */
} row_digest;

typedef struct logit_row {
    const float *base;     /* [n] */
    row_digest digest;     /* head NULL: the row is here */
    int n, n_blocks;       /* ids that have a token; the last block may be short */
    uint8_t *homes;        /* [n_blocks] row_home of each block; NULL: all are the model's */
    float *copies;         /* [n_blocks][ROW_BLOCK] set where the home is ROW_COPY; -INFINITY: cannot be chosen */
    float tail[ROW_BLOCK]; /* without homes: a short last block, filled up with -INFINITY */
    int group, n_groups;   /* blocks that are summed up by one number, so that these stay few */
    float *peaks;          /* [n_groups] greatest value; -INFINITY: none is a number */
    float highest;         /* of the peaks */
} logit_row;

static inline int row_blocks(int n) { return n / ROW_BLOCK + (n % ROW_BLOCK != 0); }
static inline bool row_bit(const uint32_t *bits, int32_t id) { return bits[id / 32] >> (id % 32) & 1; }

static inline bool row_is_closed(const logit_row *r, int block) { return r->homes && r->homes[block] == ROW_CLOSED; }

/* The values of a block that is not closed. */
static inline const float *row_block(const logit_row *r, int block) {
    const size_t first = (size_t)block * ROW_BLOCK;
    if (r->homes) return (r->homes[block] == ROW_COPY ? r->copies : r->base) + first;
    return first + ROW_BLOCK > (size_t)r->n ? r->tail : r->base + first;
}

/* How a row of n ids is divided. */
void row_divide(logit_row *r, int n);
/* Lays the row over other logits; `open` [n_blocks] has a bit for each id that may be chosen, as does `mask` unless it
 * is NULL. */
void row_begin(logit_row *r, const float *base, int n, const uint32_t *open, const uint32_t *mask);
/* A row of the model as it is: peaks has ROW_MOST_GROUPS places. */
logit_row row_plain(const float *base, int n, float *peaks);
/* The row is what a digest says of it; `homes`, `copies` and the place of its peaks stay. */
void row_begin_digest(logit_row *r, const row_digest *digest);
void row_copy(logit_row *r, int block); /* makes the block one that can be changed */
/* The place of a value that is to be changed; finite ones must stay so (row_within). NULL where the whole block is
 * closed. */
static inline float *row_touch(logit_row *r, int32_t id) {
    const uint32_t block = (uint32_t)id / ROW_BLOCK;
    if (r->homes[block] == ROW_CLOSED) return NULL;
    if (r->homes[block] == ROW_MODEL) row_copy(r, (int)block);
    return &r->copies[id];
}
void row_forbid(logit_row *r, int32_t id); /* ids outside the row are nothing */
/* Of a digest: an id of the list, which has no gaps. */
float row_value(const logit_row *r, int32_t id);

/* A finite value stays finite, however far a penalty moves it; what is none stays as it is. */
static inline float row_within(float before, float after) {
    const float most = after > FLT_MAX ? FLT_MAX : after, bounded = most < -FLT_MAX ? -FLT_MAX : most;
    return fabsf(before) <= FLT_MAX ? bounded : before;
}

#endif
