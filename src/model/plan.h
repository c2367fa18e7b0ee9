/* plan.h — the forward pass as a flat list of device steps, made once per model. */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "bind.h"

/* Activations of a step, each [rows][its width]. */
#define PLAN_BUFFERS(X)                                                                                                \
    X(STREAM) /* the residual stream, hidden wide */                                                                   \
    X(NORMED) /* input of a block, hidden wide */                                                                      \
    X(Q)                                                                                                               \
    X(K)                                                                                                               \
    X(V)                                                                                                               \
    X(MIXED) /* output of attention, as wide as q */                                                                   \
    X(GATE)                                                                                                            \
    X(UP)

typedef enum plan_buffer {
#define X(name) BUF_##name,
    PLAN_BUFFERS(X)
#undef X
        BUF_COUNT
} plan_buffer;

typedef enum plan_kind { PLAN_NORM, PLAN_MATMUL, PLAN_ROPE_STORE, PLAN_ATTEND, PLAN_GATE } plan_kind;

typedef struct plan_part {
    const dev_weight *w;
    const float *bias;
    plan_buffer out;
    bool add;
} plan_part;

/* One step; which fields count follows from `kind`. */
typedef struct plan_op {
    plan_kind kind;
    int layer;
    plan_buffer in, out;
    const float *weight, *weight2; /* norm; q and k norm of ROPE_STORE */
    int n_parts;
    plan_part parts[DEV_MATMUL_PARTS];
} plan_op;

typedef struct plan {
    plan_op *ops; /* between the embedding and the final norm */
    int n_ops;
    int width[BUF_COUNT]; /* floats of a row of each buffer */
} plan;

qp_status plan_make(plan *out, const model_shape *shape, const weights *w, qp_error *err);
void plan_free(plan *p);

#endif
