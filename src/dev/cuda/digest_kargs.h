/* digest_kargs.h — the argument of digest.cu's kernels, seen by C and by nvcc alike, as kargs.h is. */
#ifndef DEV_CUDA_DIGEST_KARGS_H
#define DEV_CUDA_DIGEST_KARGS_H

#include "../../base/digest.h"

typedef struct k_digest_args {
    const float *logits;        /* [rows][stride] */
    float *changed;             /* likewise: of rows that are masked or have changes */
    const digest_order *orders; /* [rows], and behind them what they point to */
    digest_head *heads;
    digest_head *heads_here; /* likewise, in memory of the host; NULL: there are too many rows for that */
    int32_t *best;           /* of each of those */
    digest_body *bodies;
    int64_t stride;
} k_digest_args;

enum { DIGEST_LIST_THREADS = 1024 }; /* of k_digest_list's block, the widest one */

#endif
