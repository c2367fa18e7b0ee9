/* pack_cuda.h — re-laying a quantised matrix for the GPU's kernels for small numbers (kernels/packed.h).
 *
 * Called by cuda_weights.c on threads of the host, a range of tiles at a time into pinned memory, so that a model is
 * never held twice. Formats whose values come out of a table become codes of 8 bits, or of 5 where these hold them
 * (MXFP4); a format that cannot be told in small numbers and a scale has no plan. */
#ifndef DEV_CUDA_PACK_CUDA_H
#define DEV_CUDA_PACK_CUDA_H

#include "dev/cuda/kernels/packed.h"
#include "quant/quant.h"

enum { PACK_MOST_RUNS = 64, PACK_MOST_PIECES = PACKED_UNIT / QUANT_TILE_DEPTH };

/* Inputs [from, from + n) of a run. */
typedef struct cuda_piece {
    int run, n;
    int64_t from;
} cuda_piece;

typedef struct cuda_run {
    quant_run is;
    int bits, group, scales; /* as the kernels know them */
    int lowest;              /* of values out of a table: what codes are above it */
    int first_unit, n_units; /* what no unit of a run is filled by goes into one with what others have left */
    int unit_bytes;
    size_t offset; /* in a tile */
    int n_pieces;  /* of such a unit, which is a run by itself; 0: it is none */
    cuda_piece pieces[PACK_MOST_PIECES];
} cuda_run;

typedef struct cuda_plan {
    int n_runs, n_units, n_tiles;
    size_t tile_bytes;
    int32_t *order; /* [n_units * PACKED_UNIT]: which input a packed one is, -1 none; NULL: the matrix' own order */
    size_t order_bytes;
    bool has_places;                   /* behind it: [n_in], where order has each input; false: some are there twice */
    cuda_run runs[2 * PACK_MOST_RUNS]; /* the matrix', then what is left of them */
} cuda_plan;

/* Whether there is one. The matrix must outlive it. On QP_OK with *possible it is freed by pack_cuda_free. */
qp_status pack_cuda_plan(cuda_plan *out, bool *possible, const quant_matrix *m, qp_error *err);
void pack_cuda_free(cuda_plan *p);
/* The greatest of what scales a matrix has, as the bits of float16 without their sign. */
typedef struct cuda_extremes {
    uint16_t d, dmin;
} cuda_extremes;

/* Tiles [first, first + n) into n * tile_bytes at `to`. */
cuda_extremes pack_cuda_tiles(uint8_t *to, const cuda_plan *p, const quant_matrix *m, int first, int n);
/* No weight of a matrix with such scales is greater. Infinite: a scale is, for it was a NaN or a power of two that
 * float16 does not hold. */
float pack_cuda_bound(const cuda_plan *p, cuda_extremes most);

#endif
