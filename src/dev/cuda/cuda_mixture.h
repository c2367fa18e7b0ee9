/* cuda_mixture.h — the packed experts of a layer: tables of them that stay on the GPU, and their products.
 *
 * Called by cuda_experts.c, and by cuda_weights.c where experts come and go. All of it needs the device's lock. */
#ifndef DEV_CUDA_CUDA_MIXTURE_H
#define DEV_CUDA_CUDA_MIXTURE_H

#include "cuda_packed.h"

enum {
    MIXTURE_FAMILIES = 4, /* kernels that one projection's experts may need */
    MIXTURE_EXPERT_BYTES = sizeof(k_packed_expert)
};

enum { MIXTURE_GATE, MIXTURE_UP, MIXTURE_DOWN, MIXTURE_PROJECTIONS };

/* A projection of all experts. */
typedef struct cuda_projection {
    const k_packed_expert *experts;         /* device memory */
    cuda_packed families[MIXTURE_FAMILIES]; /* what their experts have in common, and the most units of any */
    int n_families;
    int n_units;       /* of any expert, the most */
    bool has_order;    /* some of its experts have one */
    const void *plain; /* the first of 16 bits (cuda_weight); NULL: all are packed */
} cuda_projection;

typedef struct cuda_mixture {
    const void *key[MIXTURE_PROJECTIONS];
    int n_experts;
    bool together; /* gate and up of every expert are multiplied by one launch */
    bool has_plain;
    cuda_projection of[MIXTURE_PROJECTIONS];
    void *own; /* device memory that the pool had no room for, or NULL */
} cuda_mixture;

/* How a step's rows are multiplied: hangs on their number alone. */
typedef struct mixture_cut {
    bool are_few;
    int rows_each; /* of a share */
    int n_shares;  /* at most */
} mixture_cut;

/* Rows times one projection or two. */
typedef struct mixture_product {
    const float *x; /* [n_x][n_in] */
    int n_x, n_in, n_pairs;
    const int32_t *chosen; /* [n_pairs] */
    k_groups groups;
    mixture_cut cut;
    bool are_made; /* the rows of the product before, which needed no order either */
    k_gated_inputs gate;
    int first, n_parts;
    k_expert_part parts[2]; /* bias, out, out_stride, n_out */
} mixture_product;

/* NULL: these experts are seen for the first time. */
const cuda_mixture *cuda_mixture_known(const cuda_device *c, const experts_args *a);
/* NULL: the step has failed. */
const cuda_mixture *cuda_mixture_make(cuda_device *c, const experts_args *a);
mixture_cut cuda_mixture_cut(cuda_device *c, const cuda_mixture *m, const experts_args *a);
void cuda_mixture_multiply(cuda_device *c, const cuda_mixture *m, const mixture_product *p);
/* Room for the tables of all packed experts that are open. */
qp_status cuda_mixture_reserve(cuda_device *c, qp_error *err);
/* An expert goes, or all do: tables are made again when they are wanted. */
void cuda_mixture_forget(cuda_device *c);
void cuda_mixture_close(cuda_device *c);

#endif
