/* program_kargs.h — a step's launches as a program: what one kernel that stays on the GPU does, stage after stage.
 *
 * Written by cuda_program.c, read by kernels/program.cuh. A stage keeps the arguments that its launches had, so that
 * both ways read the same structs. */
#ifndef DEV_CUDA_PROGRAM_KARGS_H
#define DEV_CUDA_PROGRAM_KARGS_H

#include "fast_kargs.h"

enum {
    PROGRAM_WARPS = 16,
    PROGRAM_THREADS = 32 * PROGRAM_WARPS,
    PROGRAM_GROUPS = PROGRAM_WARPS / PACKED_SLICES, /* of warps that share a tile */
    PROGRAM_ROWS = 4,                               /* of a step, at most */
    PROGRAM_MOST_SLOTS = 4,                         /* of a warp's ring */
    PROGRAM_MOST_HEADS = 8,                         /* query heads of a KV head */
};

enum { PROGRAM_PRODUCT, PROGRAM_ATTEND, PROGRAM_MERGE, PROGRAM_GATE };

/* A product's kind of units: all of one, or 0 for mixed ones. */
#define PROGRAM_KIND(bits, group, scales) ((bits)*65536 + (group)*16 + (scales))

/* Those of each family, for which there is a kernel: X(bits, group, scales). */
#define PROGRAM_PLAIN(X) X(2, 128, PLAIN) X(4, 32, PLAIN) X(4, 128, PLAIN) X(8, 32, PLAIN)

typedef struct program_stage {
    int32_t what, waits;      /* waits: reads what other blocks wrote in the stage before */
    int32_t kind, stream;     /* of a product: its units, and where they lie among the streams */
    int32_t is_normed, gates; /* the input is normed first; outputs of parts 0 and 1 become one */
    int32_t act, dim;         /* gates: the activation. attention: elements of a head */
    const float *norm_weight; /* [n_in] or NULL */
    const int32_t *norm_rows; /* which rows are normed; NULL: 0, 1 ... */
    int64_t padding;
    float eps;
    int32_t n_spans; /* of attention */
    union {
        packed_args product;
        struct {
            k_decode_args attend;
            k_rope_args rope;
        } heads;
        k_gate_args gate;
        uint64_t words[36];
    } is;
} program_stage;

/* Where a product's weights lie. A gated product's tiles are those of parts 0 and 1 in turns. */
typedef struct program_stream {
    const uint8_t *tiles[4];
    const packed_unit *units; /* NULL: all of unit_bytes */
    uint32_t tile_bytes;
    int32_t n_tiles[4];
    int32_t unit_bytes, n_units, all_tiles, gates;
    int32_t first, end; /* made by each block: its tiles */
    int32_t unused[3];
} program_stream;

typedef struct k_program_args {
    const program_stage *stages;
    const program_stream *streams;
    uint32_t *met; /* [2], both 0 between launches */
    int32_t n_stages, n_streams;
    int32_t n_slots, per_slot, slot_bytes; /* of a ring: units of a slot and their bytes */
    int32_t scratch_bytes;
} k_program_args;

/* ---- shared memory: barriers, state, two stages, streams, scratch, rings ---- */

/* Where a warp's ring is: what is fetched next, and the slot that is read and filled next. */
typedef struct program_warp {
    const uint8_t *from;
    int32_t stream, tile, end_tile, unit, end_unit;
    uint32_t slot, parity, unused;
} program_warp;

typedef struct program_state {
    program_warp warps[PROGRAM_WARPS];
    float sums[PROGRAM_ROWS * 8]; /* of squares, a row's eight warps */
    int32_t n_streams, n_slots, per_slot, slot_bytes;
    uint32_t scratch, rings; /* where they begin */
    uint32_t *met;
} program_state;

enum {
    PROGRAM_BARRIERS = PROGRAM_WARPS * PROGRAM_MOST_SLOTS * 8,
    PROGRAM_STAGES = PROGRAM_BARRIERS + (int)sizeof(program_state),
    PROGRAM_STREAMS = PROGRAM_STAGES + 2 * (int)sizeof(program_stage),
};

PACKED_INLINE int program_up(int n) { return (n + 127) / 128 * 128; }
PACKED_INLINE int program_ring_at(int n_streams, int scratch_bytes) {
    return program_up(PROGRAM_STREAMS + n_streams * (int)sizeof(program_stream)) + program_up(scratch_bytes);
}
/* normed: inputs that are normed first, or 0. */
PACKED_INLINE int program_product_bytes(int n_rows, int n_units, int sum, int normed) {
    return matvec_x_bytes(n_rows, n_units) + matvec_scale_bytes(n_rows, n_units, sum) +
           matvec_part_bytes(n_rows, PROGRAM_GROUPS) + n_rows * normed * 4;
}
/* Rings of four warps, the queries' fragments, heads on their way, and results of the warps. */
PACKED_INLINE int program_attend_bytes(int dim, int heads) {
    return ATTEND_WARPS * ATTEND_RING * ATTEND_GROUP * dim * 4 + dim * 64 + (PROGRAM_MOST_HEADS + 2) * dim * 4 +
           ATTEND_WARPS * heads * (dim + 2) * 4;
}

#endif
