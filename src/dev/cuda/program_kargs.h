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
    PROGRAM_PARTS = 4,                              /* of a product */
    PROGRAM_QUADS = 2,                              /* of ATTEND_WARPS that attend, each to a page */
};

enum { PROGRAM_PRODUCT, PROGRAM_ATTEND, PROGRAM_MERGE, PROGRAM_GATE };

/* Of what attention tells: its result, and before that what was found in each page, with its maximum and sum. */
enum { PROGRAM_FOUND, PROGRAM_PAGES, PROGRAM_PAGE_SUMS };

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
    /* Words that are told (kernels/program_tell.cuh), in the first area. */
    float *told[PROGRAM_PARTS]; /* where results are told, part by part; NULL: they are not */
    const float *before;        /* what a product is added to, or a gate's products */
    float eps;
    int32_t n_spans;             /* of attention */
    int32_t hears, hears_before; /* inputs were told, and what comes before */
    int32_t unused[2];
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
    const uint8_t *tiles[PROGRAM_PARTS];
    const packed_unit *units; /* NULL: all of unit_bytes */
    uint32_t tile_bytes;
    int32_t n_tiles[PROGRAM_PARTS];
    int32_t unit_bytes, n_units, all_tiles, gates;
    int32_t first, end; /* made by each block: its tiles */
    int32_t unused[3];
} program_stream;

typedef struct k_program_args {
    const program_stage *stages;
    const program_stream *streams;
    uint32_t *met; /* [2], 0 between launches; then the area of the next one, and what the last one told in it */
    uint8_t *told; /* two areas */
    int64_t area_bytes, told_bytes;
    int32_t n_stages, n_streams;
    int32_t n_slots, per_slot, slot_bytes; /* of a ring: units of a slot and their bytes */
    int32_t scratch_bytes;
} k_program_args;

/* ---- shared memory: barriers, state, two stages, streams, scratch, rings ---- */

/* Where a warp's ring is: what is fetched next, and the slot that is read and filled next. */
typedef struct program_warp {
    const uint8_t *from;
    const packed_unit *units; /* of the tile's units those that are to be fetched; NULL: all of unit_bytes */
    int32_t left, unit_bytes; /* units of the slice that are to be fetched */
    uint32_t at;              /* where they begin in the tile, if they are not all alike */
    uint32_t jump;            /* from the end of the warp's slice of a tile to its next one */
    int32_t slice_units;
    int32_t tiles_left, part, stream; /* tiles of the part, this one too */
    uint32_t slot, parity;
} program_warp;

typedef struct program_state {
    program_warp warps[PROGRAM_WARPS];
    float sums[PROGRAM_ROWS * 8]; /* of squares, a row's eight warps */
    int32_t n_streams, n_slots, per_slot, slot_bytes;
    uint32_t scratch, rings; /* where they begin */
    uint32_t *met;
    int64_t told_shift; /* from the first area to this launch's */
    int64_t unused;     /* what lies behind begins at a multiple of 16 */
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
           matvec_part_bytes(n_rows, PROGRAM_GROUPS) + (n_rows + 1) * normed * 4;
}
/* Groups of the quads' warps, the queries' fragments, and heads on their way or results of the warps. */
PACKED_INLINE int program_attend_bytes(int dim, int heads) {
    const int turned = (PROGRAM_MOST_HEADS + 2) * dim * 4, found = PROGRAM_QUADS * ATTEND_WARPS * heads * (dim + 2) * 4;
    return PROGRAM_QUADS * ATTEND_WARPS * ATTEND_GROUP * dim * 4 + dim * 64 + (turned > found ? turned : found);
}

#endif
