/* fast_kargs.h — the arguments of the kernels for packed weights, many rows and decoding; C and nvcc read it alike.
 *
 * Like kargs.h, apart from it because these kernels need a GPU's own instructions. */
#ifndef DEV_CUDA_FAST_KARGS_H
#define DEV_CUDA_FAST_KARGS_H

#include "kargs.h"
#include "kernels/packed.h"

/* ---- activations for the tensor cores: blocks.cuh ---- */

enum { GEMM_BLOCK = 128 * 64 * 2 }; /* bytes of 128 rows x 64 inputs as float16 */

/* Activations as blocks. */
typedef struct k_blocks_args {
    const float *x;
    int64_t x_stride;
    const int32_t *order; /* as packed_args has it */
    uint8_t *out;
    float *row_scale; /* what the row must be multiplied by afterwards */
    int32_t n_in, n_blocks;
    const float *with, *bias; /* of a norm: its weights, NULL for ones, and what is added, NULL for nothing; of a gate:
                               * the other factor, which lies as x does */
    int32_t is_layer;
    float eps;
    float *row_size; /* the sum of the row's absolute values, for k_gate_out; NULL: nobody asks */
} k_blocks_args;

/* Of a product whose parts are a gate and what it lets through: results become the rows of the next product. */
typedef struct k_gate_out {
    uint8_t *out;          /* blocks; NULL: there is no gate */
    float *row_scale;      /* of these */
    const float *row_size; /* of the rows that are multiplied */
    float bound;           /* no result is greater than bound * row_size^2 */
    float linear, cubic;   /* the gate is x / (1 + exp(-(linear x + cubic x^3))) */
    int32_t n_blocks;
} k_gate_out;

/* Pieces of eight inputs that a thread keeps, and most threads: more would have too few registers. */
enum { BLOCKS_PIECES = 4, BLOCKS_THREADS = 896 };

/* ---- batches: skinny90.cuh ---- */

enum {
    SKINNY_MOST_GROUPS = 3, /* warpgroups that multiply, four tiles each */
    SKINNY_FEEDERS = 128,   /* threads */
    SKINNY_THREADS = 128 * SKINNY_MOST_GROUPS + SKINNY_FEEDERS,
    SKINNY_MOST_DEPTH = 16,
    SKINNY_MOST_SHARE = 8,
    SKINNY_ROWS = 128
};

typedef struct k_skinny_args {
    packed_args weights;
    const uint8_t *x;         /* blocks [n_blocks] */
    const float *row_scale;   /* [n_rows]: multiplies the row's results */
    int32_t share;            /* blocks of a cluster, which share the inputs */
    int32_t w_depth, x_depth; /* units and blocks in flight */
    int32_t groups;           /* warpgroups that multiply */
    k_gate_out gate;
} k_skinny_args;

/* Floats from a row of sums to the next. */
PACKED_INLINE int skinny_line(int groups) { return groups * 4 * PACKED_ROWS + 4; }

/* Rings, barriers, and the room to begin where 1024 bytes do; the sums lie where the rings were. */
PACKED_INLINE int skinny_shared(int columns, int groups, int unit_bytes, int w_depth, int x_depth) {
    const int rings = w_depth * groups * 4 * unit_bytes + x_depth * columns * 128;
    const int sums = columns * skinny_line(groups) * 4;
    return 1024 + (rings + 4 * 8 * SKINNY_MOST_DEPTH > sums ? rings + 4 * 8 * SKINNY_MOST_DEPTH : sums);
}

/* ---- many rows: wide90.cuh ---- */

enum {
    WIDE_CLUSTER = 2,
    WIDE_ROWS = 256,  /* of activations */
    WIDE_TILES = 8,   /* of weights */
    WIDE_X_DEPTH = 4, /* blocks in flight */
    WIDE_X_BYTES = WIDE_ROWS * 128,
    WIDE_OUT_BYTES = WIDE_ROWS * 128, /* 64 results of each row behind a gate */
    WIDE_THREADS = 384,
    WIDE_MOST_DEPTH = 4
};

typedef struct k_wide_args {
    packed_args weights;
    const uint8_t *x;        /* blocks [rows / 128][n_blocks], there for whole tiles */
    const float *row_scale;  /* as k_skinny_args has it */
    int32_t w_depth, unused; /* units in flight */
    k_gate_out gate;         /* out NULL, but for the kernels that are made for it */
} k_wide_args;

/* Rings, barriers, scales of the rows, results on their way where there is a gate, and the room to begin where 1024
 * bytes do. */
PACKED_INLINE int wide_shared(int unit_bytes, int w_depth, int is_gated) {
    return 1024 + WIDE_X_DEPTH * WIDE_X_BYTES + (is_gated ? WIDE_OUT_BYTES : 0) + w_depth * WIDE_TILES * unit_bytes +
           16 * (WIDE_X_DEPTH + WIDE_MOST_DEPTH) + WIDE_ROWS * 8;
}

/* ---- experts: experts_few.cuh and experts_many.cuh ---- */

/* A packed matrix of an expert. */
typedef struct k_packed_expert {
    const uint8_t *tiles;
    const int32_t *order; /* as packed_args has it */
    const packed_unit *units;
    int64_t tile_bytes;
    float unit;
    int32_t n_units, zero;
    int32_t family; /* kernels that multiply it, by a number of the projection's own; negative: those of 16 bits */
} k_packed_expert;

/* Inputs that a gate has not seen yet: of x, which are its own, min(x, limit) / (1 + exp(-alpha x)), times those of
 * `up` within +-limit and `more` above them. */
typedef struct k_gated_inputs {
    const float *up; /* as x lies; NULL: x are the inputs */
    float alpha, limit, more;
    int32_t unused;
} k_gated_inputs;

typedef struct k_expert_part {
    const k_packed_expert *experts; /* [n_experts] */
    const float *const *bias;       /* [n_experts] or NULL */
    float *out;
    int64_t out_stride;
    int32_t n_out, n_tiles;
} k_expert_part;

/* Experts of one family. Two parts: what says `experts` of the first holds for both, but for tiles. */
typedef struct k_packed_experts_args {
    const void *x;      /* float32; of experts_many.cuh rows that k_expert_rows has made */
    const float *scale; /* of these */
    int64_t x_stride;
    k_groups groups;
    int32_t n_in, n_parts, n_tiles, family; /* n_tiles: of all parts */
    int32_t rows_each, depth;               /* rows of a block; units in flight */
    int32_t most_unit_bytes, unused;
    k_gated_inputs gate; /* not of experts_many.cuh, whose rows have seen it */
    k_expert_part parts[2];
} k_packed_experts_args;

/* Rows of activations as float16 for experts_many.cuh, each times a power of two. */
typedef struct k_expert_rows_args {
    const float *x;
    uint16_t *out;
    float *scale;          /* what the row must be multiplied by afterwards */
    const int32_t *chosen; /* the expert of each row of `out`, where experts have orders of their own; or NULL */
    const k_packed_expert *experts; /* whose orders these are */
    k_gated_inputs gate;
    int64_t x_stride, out_stride; /* out_stride: elements, a multiple of PACKED_UNIT */
    int32_t n_in, x_divisor;      /* row r is made of row r / x_divisor of x */
} k_expert_rows_args;

enum {
    EXPERTS_SHARE_BYTES = 16,
    EXPERTS_WARPS = 8,        /* of experts_many.cuh: a tile each */
    EXPERTS_X_LINE = 512 + 64 /* bytes from a row of 256 inputs in shared memory to the next: no two in one bank */
};

/* Shared memory of experts_many.cuh: whose rows, their numbers, then stages of rows and units. */
PACKED_INLINE int experts_stage(int n_rows, int unit_bytes) {
    return n_rows * EXPERTS_X_LINE + EXPERTS_WARPS * unit_bytes;
}
PACKED_INLINE int experts_shared(int n_rows, int unit_bytes, int depth) {
    return EXPERTS_SHARE_BYTES + 2 * 4 * n_rows + depth * experts_stage(n_rows, unit_bytes);
}

/* ---- attention: attend_decode.cuh and attend_prefill.cuh ---- */

enum { ATTEND_ROWS = 64, ATTEND_WARPS = 4, ATTEND_HEADS = 8, ATTEND_RING = 2, ATTEND_GROUP = 16 };

enum { ATTEND_TURN = ATTEND_WARPS * ATTEND_GROUP }; /* tokens that four warps read at once, a group each */

/* Splits of a row that sees so many turns, of more than a page: 2 to the power of `shift` at most, one for each `least`
 * turns at most, and as few as leave none of them more turns than it must have. */
PACKED_INLINE int attend_splits(int turns, int shift, int least) {
    const int fit = (turns + (1 << shift) - 1) >> shift, each = fit > least ? fit : least;
    return (turns + each - 1) / each;
}

enum { FLASH_ROWS = 128, FLASH_TOKENS = 128, FLASH_THREADS = 384 };

typedef struct k_decode_args {
    const float *q; /* [rows][n_heads][dim] */
    float *out;     /* likewise */
    const uint8_t *k, *v;
    uint64_t page_stride;
    const k_span *spans; /* of at most ATTEND_ROWS rows each, or FLASH_ROWS for flash90.cuh */
    const int32_t *pages;
    const float *sinks;                                   /* [n_heads] or NULL */
    float *part;                                          /* [spans][n_heads][n_splits][dim] */
    float *part_sums;                                     /* [spans][n_heads][n_splits][2]: maximum and sum */
    int32_t n_heads, n_kv_heads, n_splits, window, chunk; /* splits: of the row that has most */
    float scale, cap;
    int16_t split_shift; /* the logarithm of the most that a row may have, and for how many turns it has one at most */
    int16_t split_turns;
    int16_t singles;  /* spans of one row are cut into splits, others are not */
    int16_t ring;     /* groups of tokens that a warp has room for, at most ATTEND_RING */
    int32_t n_blocks; /* 64 elements each, of a row of results */
    uint8_t *blocks;  /* where results go as float16, for the product behind (attend_batch.cuh, flash90.cuh); NULL:
                       * to `out` */
    float *row_scale; /* of these, one a row */
} k_decode_args;

/* turn.k NULL: queries are turned, and the rows' keys and values stored. */
typedef struct k_batch_args {
    k_decode_args attend;
    k_rope_args turn;
} k_batch_args;

/* Of so many bits: a block of 32 elements of 16 tokens' keys, and of one value (kv_quant.h). */
#define coded_key_block(bits) (ATTEND_GROUP * (2 + 4 * (bits)))
#define coded_value_block(bits) (2 + 4 * (bits))

/* Keys and values of a group of tokens; floats have 16 bits. */
PACKED_INLINE int attend_group_bytes(int dim, int key_bits, int value_bits) {
    if (key_bits == 16) return ATTEND_GROUP * dim * 4;
    return dim / 32 * (coded_key_block(key_bits) + ATTEND_GROUP * coded_value_block(value_bits));
}

/* What a warp finds lies in the rings' place afterwards. */
static inline int attend_coded_shared(int dim, int key_bits, int value_bits) {
    const int rings = ATTEND_WARPS * ATTEND_RING * attend_group_bytes(dim, key_bits, value_bits);
    const int found = ATTEND_WARPS * ATTEND_HEADS * (dim + 2) * 4;
    return rings > found ? rings : found;
}

/* Queries, two stages of keys and values, barriers, and the room to begin where 1024 bytes do. */
static inline int flash_shared(int dim) { return 1024 + (FLASH_ROWS + 4 * FLASH_TOKENS) * dim * 2 + 32; }

/* A warp's keys, values and queries. */
static inline int attend_batch_shared(int dim) { return ATTEND_WARPS * ATTEND_GROUP * dim * 6; }
static inline int attend_decode_shared(int dim, int ring) { return ATTEND_WARPS * ring * ATTEND_GROUP * dim * 4; }

#endif
