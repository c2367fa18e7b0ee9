/* digest.h — what a device tells about a row of logits, so that a sampler need not see the row.
 *
 * The contract of dev/ (which makes digests) and sample/ (which orders and reads them); seen by nvcc too, so types of
 * fixed size without holes. A row is cut into blocks of 32 ids, blocks into groups, as the samplers do. The numbers are
 * those that the samplers would have found in the row itself, to the bit; what a digest does not prove, it leaves open
 * by its floor, and the row must be fetched. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdint.h>

enum {
    DIGEST_BLOCK = 32,
    DIGEST_MOST_GROUPS = 1024,
    DIGEST_MOST_LISTED = 1024,
    DIGEST_LANES = 16 /* sums of a group, combined in a tree: value i of a block goes to sum i % 16 */
};

/* 2^f = 1 + f * (C1 + C2 f + ...) for |f| <= 1/2, fitted at Chebyshev's points. */
#define EXP2_LEAST (-125.0f)
#define EXP2_SHIFTER 12582912.0f /* 1.5 * 2^23: a sum with it ends in a whole number */
#define EXP2_C1 0.693147181f
#define EXP2_C2 0.240223478f
#define EXP2_C3 0.0555038089f
#define EXP2_C4 0.00966646525f
#define EXP2_C5 0.00133813982f

typedef enum digest_want {
    DIGEST_BEST, /* the greatest alone */
    DIGEST_DRAW, /* all values of the group in which the draw lies */
    DIGEST_LIST, /* as many of the greatest as there is room for */
} digest_want;

/* A finite logit becomes (logit / divisor - minus) - then_minus, a negative one (logit * divisor ...); within what is
 * finite. Those of one id in this order. */
typedef struct digest_change {
    int32_t id;
    float divisor, minus, then_minus;
} digest_change;

typedef struct digest_order {
    int32_t want;     /* digest_want */
    int32_t n;        /* ids from here on have no token */
    int32_t group;    /* blocks */
    int32_t n_groups; /* at most DIGEST_MOST_GROUPS */
    int32_t least;    /* DIGEST_LIST: that many of the greatest peaks must be listed, if there is room */
    int32_t n_changes;
    int32_t is_masked;     /* a bit per id that may be chosen */
    int32_t has_many;      /* ids may have more than one change each */
    int32_t changes, mask; /* where they lie, in bytes behind the first order */
    float slope, bend;     /* exponent to base 2: with d = logit - highest, d * (slope + d * bend) */
    double uniform;        /* DIGEST_DRAW: in [0, 1) */
} digest_order;

typedef struct digest_head {
    float highest; /* -INFINITY: nothing is left */
    float floor;   /* DIGEST_LIST: all that is at least this is listed */
    int32_t best;  /* the lowest id that has the highest; -1: that is not finite */
    int32_t n_listed;
} digest_head;

typedef struct digest_body {
    float peaks[DIGEST_MOST_GROUPS];  /* the greatest of each group; -INFINITY: none is a number */
    float masses[DIGEST_MOST_GROUPS]; /* sum of 2^exponent of each */
    float values[DIGEST_MOST_LISTED];
    int32_t ids[DIGEST_MOST_LISTED]; /* ascending */
} digest_body;

#endif
