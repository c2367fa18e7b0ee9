/* kargs.h — the arguments of every kernel, one struct each, seen by C and by nvcc alike.
 *
 * A kernel takes its struct by value; the host fills the same struct (launch.c copies it). Pointers are into device
 * memory. No type here may differ between the two compilers: fixed sizes and pointers alone; and no holes, as lists of
 * launches are compared byte by byte. */
#ifndef DEV_CUDA_KARGS_H
#define DEV_CUDA_KARGS_H

#include <stdint.h>

enum { K_PARTS = 4, K_TILE_ROWS = 16, K_TILE_DEPTH = 32, K_SLICES = 8, K_PAGE = 256, K_KEY_GROUP = 16 };

/* ---- weights ---- */

/* A matrix [n_out][n_in] as rows, or in tiles of 16 rows x 32 inputs in the order in which the tensor cores' operands
 * lie in the registers of a warp (matmul_tiled.cu), padded with zeros. */
typedef struct k_tile_args {
    const void *rows;
    void *tiles;
    int64_t n_out, n_in;
} k_tile_args;

/* ---- rows ---- */

typedef struct k_embed_args {
    const int32_t *ids;  /* below 0: the row's in `best` */
    const int32_t *best; /* of the rows of the last digest */
    const void *table;
    float *out;
    int64_t dim;
    float scale;
    int32_t add, is_tiled, unused;
} k_embed_args;

typedef struct k_norm_args {
    const float *x, *weight, *bias; /* weight, bias: NULL for none */
    const int32_t *rows;            /* NULL: 0, 1 ... */
    float *out;
    int32_t dim, heads, is_layer, own_weights;
    float eps;
    int32_t unused;
} k_norm_args;

typedef struct k_gate_args {
    float *gate;
    const float *up;
    int64_t n;
    int32_t act;
    float alpha, limit;
    int32_t unused;
} k_gate_args;

typedef struct k_xielu_args {
    float *x;
    int64_t n;
    float alpha_p, alpha_n, beta, eps;
} k_xielu_args;

typedef struct k_add_args {
    float *to;
    const float *from, *row_gate;
    int64_t n;
    int32_t dim;
    float scale;
} k_add_args;

typedef struct k_limit_args {
    float *x;
    int64_t n;
    float scale, cap, limit;
    int32_t unused;
} k_limit_args;

/* Blocks of `bytes`, `stride` apart. */
/* A step's tables, out of the host's memory: pieces of 16 bytes, a thread for each. */
typedef struct k_fetch_args {
    void *to;
    const void *from;
    int64_t bytes;
} k_fetch_args;

typedef struct k_copy_args {
    void *to;
    const void *from;
    int64_t bytes, stride;
    int32_t n_blocks, unused;
} k_copy_args;

/* ---- products ---- */

typedef struct k_expert {
    const void *w;
    const float *bias;
} k_expert;

/* Rows [first, first + rows_each) of an expert's list, as far as it goes; expert -1: nothing. */
typedef struct k_share {
    int32_t expert, first;
} k_share;

/* What is multiplied by which rows, where experts take turns: all NULL and 0 otherwise. */
typedef struct k_groups {
    const int32_t *active; /* [gridDim.z]: an expert each, -1: none */
    const k_share *shares; /* [gridDim.y], for packed ones: no block has nothing to do but the last */
    const int32_t *counts; /* [n_experts] */
    const int32_t *lists;  /* [n_experts][list_stride]: the rows of `out`; a row of x is that divided by x_divisor */
    int32_t list_stride, x_divisor;
} k_groups;

typedef struct k_part {
    const void *w;
    const float *bias;
    float *out;
    int64_t out_stride;
    const k_expert *experts; /* instead of w and bias */
    int32_t n_out, add;
} k_part;

typedef struct k_matmul_args {
    const void *x;      /* float32, or 16 bits and padded with zeros to a multiple of K_TILE_DEPTH */
    const float *scale; /* [rows of x]: multiplies results; NULL: none */
    int64_t x_stride;
    int32_t n_rows, n_in, n_parts;
    int32_t is_tiled;       /* the weights, of products in float32 */
    int32_t first[K_PARTS]; /* blockIdx.x of each part's first block */
    k_part parts[K_PARTS];
    k_groups groups;
} k_matmul_args;

/* x as 16 bits; with `scale`, each row times a power of two that brings its greatest element below 2^14. */
typedef struct k_narrow_args {
    const float *x;
    void *out;
    float *scale;
    int64_t x_stride, out_stride;
    int32_t n_in, unused;
} k_narrow_args;

/* ---- keys, values, attention ---- */

/* n_rows rows of a step from `row` on, the first at `position`, of a sequence whose pages begin at pages[`pages`]. */
typedef struct k_span {
    int32_t row, n_rows, position, pages;
} k_span;

typedef struct k_kv {
    uint8_t *k, *v; /* v NULL: inside the keys */
    int64_t page_stride;
    int32_t n_kv_heads, head_dim, v_dim, unused;
} k_kv;

typedef struct k_rope_args {
    float *q, *k;
    const float *v, *q_norm, *k_norm, *cos, *sin, *q_scale;
    k_kv kv;
    const k_span *spans; /* inside one group of keys each */
    const int32_t *pages;
    int32_t n_heads, norm, rot_dims, pairs;
    float eps;
    int32_t piece_rows; /* of a span at most */
    int32_t stride;     /* floats of a row of a head in shared memory */
    int32_t unused;
} k_rope_args;

typedef struct k_latent_args {
    const float *heads;
    float *q, *latent;
    const float *norm, *cos, *sin;
    k_kv kv;
    const k_span *spans;
    const int32_t *pages;
    int32_t n_heads, heads_dim, rot_dims, pairs;
    float eps;
    int32_t unused;
} k_latent_args;

/* Vectors of `dim` in place: their first elements and the others each times a Hadamard matrix (kv.cuh). */
typedef struct k_hadamard_args {
    float *x;
    int64_t n_vectors;
    int32_t dim, first;
} k_hadamard_args;

typedef struct k_attend_args {
    const float *q, *sinks;
    float *out;
    float *parts; /* [span][head tile][page][query][2 + v_dim] where pages are apart */
    k_kv kv;
    const k_span *spans; /* of at most tile_rows rows each */
    const int32_t *pages;
    int32_t n_heads, group, tile_heads, most_pages, window, chunk;
    float scale, cap;
} k_attend_args;

/* ---- experts ---- */

typedef struct k_route_args {
    const float *logits, *bias;
    int32_t *experts;
    float *weights;
    int32_t n_experts, top_k, sigmoid, n_groups, groups, group_best, normalize;
    float floor, scale;
    int32_t unused;
} k_route_args;

typedef struct k_group_args {
    const int32_t *experts;
    int32_t *active, *counts, *lists;
    k_share *shares;
    int32_t n_pairs, n_experts, list_stride, n_active;
    int32_t n_shares, rows_each; /* of a share */
} k_group_args;

/* weigh: out[pair] = weights[pair] x[pair / top_k]; mix: out[row] = sum over its pairs of weights[pair] x[pair]. */
typedef struct k_pairs_args {
    const float *x, *weights;
    float *out;
    int32_t dim, top_k;
} k_pairs_args;

#endif
