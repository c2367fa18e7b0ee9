/* plan.h — the forward pass as a flat list of device steps, made once per model. */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "bind.h"

/* Activations of a step, each [rows][its width]. */
#define PLAN_BUFFERS(X)                                                                                                \
    X(STREAM)     /* the residual stream, hidden wide */                                                               \
    X(NORMED)     /* input of a block, hidden wide */                                                                  \
    X(NORMED_TOO) /* of the second of two parallel blocks */                                                           \
    X(BLOCK)      /* output of a block that is not added as it comes */                                                \
    X(Q)                                                                                                               \
    X(K)                                                                                                               \
    X(V)                                                                                                               \
    X(MIXED) /* output of attention, all heads */                                                                      \
    X(GATE)                                                                                                            \
    X(UP)                                                                                                              \
    X(Q_LOW)        /* latent attention: q in its low rank ... */                                                      \
    X(HEADS)        /* ... and its heads, before the keys' matrix is multiplied in */                                  \
    X(LATENT)       /* the latent and what is rotated */                                                               \
    X(MIXED_LATENT) /* attention's output, as latents */                                                               \
    X(ROUTER)                                                                                                          \
    X(CHOSEN)  /* ids of experts (int32) */                                                                            \
    X(WEIGHTS) /* of those experts */                                                                                  \
    X(EXPERT_IN)                                                                                                       \
    X(EXPERT_OUT)                                                                                                      \
    X(SHARED_OUT)                                                                                                      \
    X(SWITCH)

typedef enum plan_buffer {
#define X(name) BUF_##name,
    PLAN_BUFFERS(X)
#undef X
        BUF_COUNT
} plan_buffer;

typedef enum plan_kind {
    PLAN_NORM,
    PLAN_MATMUL,
    PLAN_HEADS, /* a matrix of its own for each head */
    PLAN_ROPE_STORE,
    PLAN_LATENT_STORE,
    PLAN_ATTEND,
    PLAN_GATE,
    PLAN_XIELU,
    PLAN_LIMIT,
    PLAN_ADD,
    PLAN_ROUTE,
    PLAN_EXPERTS,
    PLAN_KIND_COUNT
} plan_kind;

typedef struct plan_part {
    slot slot;
    const dev_weight *w;
    const float *bias;
    plan_buffer out;
    int width; /* floats from a row of `out` to the next */
    bool add;
} plan_part;

/* One step; which fields count follows from `kind`. */
typedef struct plan_op {
    plan_kind kind;
    int layer;
    plan_buffer in, out;
    int width;                     /* floats of a row of `in` */
    const float *weight, *weight2; /* norm: weights and bias; ROPE_STORE: q and k norm */
    const dev_weight *matrices;    /* HEADS: [n_heads] */
    plan_buffer row_gate;          /* ADD: BUF_COUNT for none */
    int heads;                     /* norm: vectors of a row, 0: 1 */
    bool own_weights;              /* norm: of each of those vectors */
    bool is_read_once;             /* norm, ATTEND: by the product that follows it, and by nothing else */
    norm_kind norm;
    float eps, scale;
    float xielu[4];          /* alpha_p, alpha_n, beta, eps */
    bool is_gated, is_exact; /* MATMUL: see matmul_args */
    const dev_weight *next;  /* MATMUL: the same, where no adapter reads the result */
    int n_parts;
    plan_part parts[DEV_MATMUL_PARTS];
} plan_op;

typedef struct plan {
    plan_op *ops; /* between the embedding and the final norm */
    int n_ops;
    int width[BUF_COUNT]; /* most floats of a row of each buffer; 0: not used */
} plan;

/* Floats of a row of each buffer, [BUF_COUNT]. */
void plan_widths(int *width, const model_shape *shape, const device *dev);
qp_status plan_make(plan *out, const model_shape *shape, const weights *w, qp_error *err);
void plan_free(plan *p);

#endif
