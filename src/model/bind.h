/* bind.h — the weights of a model on its device, found by slot and layer. */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "arch.h"

/* A matrix or a vector, or neither where the model has none. */
typedef struct bound {
    dev_weight matrix;
    float *vector; /* device memory [n] */
    int64_t n;
    uint64_t sample; /* of the matrix' first bytes, as the file has them */
} bound;

/* One slot of one layer: a single weight, or one for each expert or head. */
typedef struct bound_slot {
    bound one;
    dev_weight *matrices; /* [n_members], where there are several */
    float **vectors;      /* [n_members] */
    int64_t vector_n;
    int n_members;
} bound_slot;

/* Where weights come from. `fetch` fills a matrix [rows, cols] ([rows, 1] for a vector) whose bytes live as long as
 * the weights; the row names it in errors. `release` hears of each whose bytes have been copied or re-laid: they will
 * hardly be read again. */
typedef struct weight_source {
    qp_status (*fetch)(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                       quant_matrix *out, qp_error *err);
    void (*release)(void *user, const quant_matrix *m); /* NULL: none */
    /* Type and sizes of a matrix, whose values need not be there; the caller closes it. */
    qp_status (*look)(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                      quant_matrix *out, qp_error *err);
    void *user;
    void (*progress)(void *user, double done, double total); /* NULL: none */
    void *progress_user;
} weight_source;

typedef struct weights {
    dev_split split;
    int n_layers;
    bool tied;
    bound_slot *slots; /* [n_layers + 1][SLOT_COUNT]; the last row holds what is not per layer */
    uint64_t bytes, n_parameters, embed_bytes, idle_bytes; /* idle: experts that a single token does not choose */
    uint64_t packed_bytes;                                 /* of weights that the device keeps in a form of its own */
} weights;

/* Each weight lies where its layer does. What is before the layers lies with the first, what is behind them with the
 * last of them, and so does a table that is both. */
qp_status weights_bind(weights *out, const dev_split *split, const arch_row *arch, const model_shape *shape,
                       const weight_source *source, qp_error *err);
void weights_close(weights *w);
/* Which of the devices has a slot. */
int weights_share(const dev_split *split, slot s, int layer, bool tied);
/* What the matrices of a slot are for. */
dev_use weights_use(slot s, const model_shape *shape);
/* layer is ignored for slots that are not per layer. NULL where the model has none. */
const dev_weight *weights_matrix(const weights *w, slot s, int layer);
/* Tells that matrix from others of its kind, without reading it again; 0 where the model has none. */
uint64_t weights_sample(const weights *w, slot s, int layer);
const float *weights_vector(const weights *w, slot s, int layer);
/* [experts or heads]; NULL where the model has none. */
const dev_weight *weights_matrices(const weights *w, slot s, int layer);
const float *const *weights_vectors(const weights *w, slot s, int layer);

#endif
