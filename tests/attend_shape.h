/* attend_shape.h — a step of attention that tests make on a device: heads, what is seen, and whose rows there are. */
#ifndef ATTEND_SHAPE_H
#define ATTEND_SHAPE_H

#include "dev/dev.h"

enum { SHAPE_SPANS = 16 };

typedef struct past_rows {
    int64_t past;
    int n_rows;
} past_rows;

typedef struct shape {
    int n_heads, n_kv, dim, window;
    kv_type type;
    past_rows spans[SHAPE_SPANS]; /* until n_rows is 0 */
    int chunk, v_dim;             /* v_dim 0: as dim */
    float cap;
    bool has_sinks, is_latent; /* latent: values inside the keys */
} shape;

#endif
