/* cuda_packed.h — matrices that stay small numbers on the GPU: loading them, and their products.
 *
 * Called by cuda_weights.c and cuda_matmul.c where the GPU has the kernels (launch.h, FAST_KERNELS); see
 * kernels/packed.h for how such a matrix lies. */
#ifndef DEV_CUDA_CUDA_PACKED_H
#define DEV_CUDA_CUDA_PACKED_H

#include "cuda.h"
#include "pack_cuda.h"

/* A row has the same bits in steps of up to so many, and in those of more up to SKINNY_ROWS. */
enum { CUDA_ALIKE_ROWS = 4 };

typedef struct cuda_packed {
    kernel_id matvec, wide;
    kernel_id skinny;          /* of 32 rows; 64 and 128 follow */
    kernel_id wide_gated;      /* KERNEL_COUNT: there is none */
    kernel_id few, many;       /* of experts; many: of 8 rows, 32 and 64 follow */
    int n_units, n_tiles, sum; /* sum: inputs whose activations are summed together */
    int zero, most_unit_bytes;
    float unit;
    float most;               /* no weight is greater */
    size_t tile_bytes, bytes; /* bytes: of all tiles */
    void *tiles;              /* device memory, as are the next */
    int32_t *order;           /* NULL: as they come */
    const int32_t *places;    /* where order has each input, behind it; NULL: that cannot be said */
    packed_unit *units;       /* behind their slices; NULL: all of one kind */
    uint64_t layout;          /* hash of what order and units hold: equal ones can share a launch */
} cuda_packed;

/* Makes *out if this matrix can be kept so. */
qp_status cuda_packed_make(cuda_device *c, cuda_packed **out, const quant_matrix *m, qp_error *err);
/* What it would take of the GPU's memory; 0: it cannot be kept so. */
size_t cuda_packed_bytes(const quant_matrix *m);
/* The lock is held. */
void cuda_packed_free(cuda_device *c, cuda_packed *p);

/* All parts of an op from `first` on whose weights are packed alike; marks them. True: the gate and what `next` tells
 * of are done as well. The lock is held. */
bool cuda_packed_matmul(cuda_device *c, const matmul_args *a, int first);
/* The input of products that are all packed, behind a norm or a gate, straight to where the products want it; false:
 * that is not possible here. c->waiting.of remembers it for them. The lock is held. */
bool cuda_packed_norm(cuda_device *c, const norm_args *a);
bool cuda_packed_gate(cuda_device *c, const matmul_args *a);
/* The same for attention, whose rows are `width` elements; tells it where. */
bool cuda_packed_leave(cuda_device *c, k_decode_args *out, const dev_weight *next, int n_rows, int width);
bool cuda_packed_alike(const cuda_packed *a, const cuda_packed *b);
/* How few rows are multiplied: rows of a block, units in flight of a warp, threads. */
typedef struct matvec_fit {
    int rows, depth, threads;
    size_t shared_bytes;
} matvec_fit;
/* False: the step has failed. */
bool cuda_packed_fit(cuda_device *c, matvec_fit *out, const cuda_packed *p, int n_rows);
/* Asks the driver, once, what choosing between kernels needs. */
qp_status cuda_packed_ask(cuda_device *c, qp_error *err);
/* Room for steps of so many rows. The lock is held. */
qp_status cuda_packed_reserve(cuda_device *c, int max_rows, int64_t max_in, qp_error *err);
/* What that takes. */
size_t cuda_packed_room(const cuda_device *c, int max_rows, int64_t max_in);

#endif
