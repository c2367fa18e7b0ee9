/* program_kargs.h — a step's launches as a program: what one kernel that stays on the GPU does, stage after stage.
 *
 * Written by cuda_program.c, read by kernels/program.cuh. A stage keeps the arguments that its launches had, so that
 * both ways read the same structs. */
#ifndef DEV_CUDA_PROGRAM_KARGS_H
#define DEV_CUDA_PROGRAM_KARGS_H

#include "fast_kargs.h"
#include "../../base/digest.h"

enum {
    PROGRAM_WARPS = 16,
    PROGRAM_THREADS = 32 * PROGRAM_WARPS,
    PROGRAM_ROWS = 4,                       /* of a step, at most */
    PROGRAM_MOST_SLOTS = 6,                 /* of a warp's ring, a unit each */
    PROGRAM_MOST_HEADS = 8,                 /* query heads of a KV head */
    PROGRAM_PARTS = 4,                      /* of a product */
    PROGRAM_MOST_QUADS = 4,                 /* of ATTEND_WARPS that attend, each to a split */
    PROGRAM_FEW_QUADS = 2,                  /* where memory is slower than they are: float16 */
    PROGRAM_QUAD_PAGES = 16,                /* of a quad's, that are known before they are attended to */
    PROGRAM_MERGE_PAGES = 64,               /* of a head, that are looked for at once */
    PROGRAM_MOST_PIECES = 3,                /* of eight inputs that a thread stages at once */
    PROGRAM_TURNS = 2,                      /* of what blocks of a cluster send each other */
    PROGRAM_MOST_STREAMS = PROGRAM_THREADS, /* each has a thread that deals it */
};

enum { PROGRAM_PRODUCT, PROGRAM_ATTEND, PROGRAM_MERGE, PROGRAM_GATE, PROGRAM_EMBED };

/* A table that is embedded. */
enum { PROGRAM_F32, PROGRAM_F16, PROGRAM_BF16 };

/* Of what attention tells: its result, and before that what was found in each page, with its maximum and sum. */
enum { PROGRAM_FOUND, PROGRAM_PAGES, PROGRAM_PAGE_SUMS };

/* A product's kind of units: all of one, or 0 for mixed ones. */
#define PROGRAM_KIND(bits, group, scales) ((bits)*65536 + (group)*16 + (scales))

/* Those for which there is a kernel: X(bits, group, scales). Common ones are looked for first. */
#define PROGRAM_COMMON(X) X(4, 32, PLAIN) X(4, 128, PLAIN)
#define PROGRAM_RARE(X) X(8, 32, PLAIN) X(2, 128, PLAIN)
#define PROGRAM_PLAIN(X) PROGRAM_COMMON(X) PROGRAM_RARE(X)
/* Of floats, whose one row goes the way of several. */
#define PROGRAM_FLOATS(X) X(8, 128, E4M3)

/* How the inputs of a product's only row become digits, where that can be told with one word: each thread has a piece
 * at most that is normed, or one that is not; pieces as they come; and the same where weights have an order of their
 * own, in which they are put. */
enum {
    PROGRAM_ANY,
    PROGRAM_KEPT,
    PROGRAM_ONLY,
    PROGRAM_WHOLE,
    PROGRAM_SCATTERED_KEPT,
    PROGRAM_SCATTERED_ONLY,
    PROGRAM_SCATTERED,
};

/* Which function does a stage, in one word: what the stage is, or a product's kind and whether it has one row. */
PACKED_INLINE int program_way(int what, int kind, int n_rows) {
    return what != PROGRAM_PRODUCT ? -what : kind * 2 + (n_rows == 1);
}

/* Caches of codes: X(elements of a head, bits of keys, of values). */
#define PROGRAM_CODED_CACHES(X) X(128, 8, 8) X(128, 6, 6) X(128, 6, 4) X(64, 8, 8) X(64, 6, 6) X(64, 6, 4)

/* Where a product's activations lie in the scratch, behind the sums: in bytes. */
typedef struct program_room {
    int32_t digits, scales, sums;
    int32_t squares, x, weights; /* of what is normed there: sums of squares, the inputs, the norm's weights */
    int32_t row;                 /* from a row's digits to the low ones */
} program_room;

typedef struct program_stage {
    int32_t what, way;        /* way: program_way */
    int32_t waits;            /* how often blocks have met when it begins; 0: it need not wait for others */
    int32_t stream;           /* of a product: where its weights lie among the streams */
    int32_t is_normed, gates; /* the input is normed first; outputs of parts 0 and 1 become one */
    int32_t act, dim;         /* gates: the activation. attention: elements of a head */
    const float *norm_weight; /* [n_in] or NULL */
    const int32_t *norm_rows; /* which rows are normed; NULL: 0, 1 ... */
    /* Words that are told (kernels/program_tell.cuh), in the first area. */
    float *told[PROGRAM_PARTS]; /* where results are told, part by part; NULL: they are not */
    const float *before;        /* what a product is added to, or a gate's products */
    /* A row of results that one product reads is told in the order of its weights where that does not put it there
     * itself, and a row of them is so long. */
    const int32_t *places; /* where each result is told; NULL: as they come */
    int64_t told_stride;
    float eps;
    int32_t n_spans, quads;       /* of attention */
    int32_t hears, hears_before;  /* inputs were told, and what comes before */
    int32_t is_planned;           /* attention: blocks have the plan of the stage of attention before */
    int32_t is_placed;            /* a product: inputs are told in the order of its weights */
    int32_t width;                /* a gate: of its rows */
    int16_t key_bits, value_bits; /* attention: of the cache's elements; 16: float16 */
    int32_t staging;              /* a product of one row: PROGRAM_KEPT .. */
    int32_t asks;      /* a product: units that a warp asks for between two looks at its inputs (units_ahead) */
    program_room room; /* a product */
    union {
        packed_args product;
        struct {
            k_decode_args attend;
            k_rope_args rope;
        } heads;
        k_gate_args gate;
        struct {
            k_embed_args of;
            int32_t type, n_rows; /* PROGRAM_F32 .. */
        } embed;
        uint64_t words[36];
    } is;
} program_stage;

/* Where a product's weights lie. A gated product's tiles are those of parts 0 and 1 in turns. */
typedef struct program_stream {
    const uint8_t *tiles[PROGRAM_PARTS];
    const packed_slice_units *slices; /* NULL: all units of unit_bytes */
    uint32_t tile_bytes;
    int32_t n_tiles[PROGRAM_PARTS];
    int32_t unit_bytes, n_units, all_tiles, gates;
    int32_t unused;
} program_stream;

/* A cluster's share of a stream, tiles first .. end - 1; each block makes it anew. */
typedef struct program_share {
    const uint8_t *tiles[PROGRAM_PARTS]; /* of parts that it has tiles of: where tile `first` would lie */
    int32_t ends[PROGRAM_PARTS];         /* of those tiles, counted from `first` */
    const packed_slice_units *slices;
    uint32_t tile_bytes;
    int32_t unit_bytes, n_units, n_parts, gates;
    int32_t first, end;
    int32_t first_unit, units; /* of a tile: the block's */
} program_share;

/* Where a warp's ring is: what is fetched next, and the slot that is read and filled next. */
typedef struct program_warp {
    const uint8_t *from;
    uint32_t sizes;      /* in shared memory: bytes of the next unit of a slice whose units differ; 0: they do not */
    int32_t left, bytes; /* units of the slice that are to be fetched; of the next one */
    uint32_t jump;       /* from the end of the warp's slice of a tile to its next one */
    int32_t slice_units;
    int32_t tiles_left, next_part, stream; /* tiles of the part, this one too */
    uint32_t slot, parity;
    int32_t slice, group, group_shift; /* which the warp has, of 2 to the power of this groups */
} program_warp;

/* How a warp's ring begins, which is the same in all launches of a program: the first one leaves it for the others. */
typedef struct program_start {
    program_warp warp; /* once all slots have been filled */
    const uint8_t *units[PROGRAM_MOST_SLOTS];
    int32_t bytes[PROGRAM_MOST_SLOTS]; /* 0: nothing is left for the slot */
    int32_t is_known, unused;
} program_start;

typedef struct k_program_args {
    const program_stage *stages;
    const program_stream *streams;
    program_start *starts; /* [blocks][PROGRAM_WARPS] */
    uint32_t *met; /* [2], 0 between launches; then the area of the next one, and what the last one told in it; at
                      PROGRAM_BEST the greatest logit so far, 0 between launches */
    uint8_t *told; /* two areas */
    int64_t area_bytes, told_bytes;
    int32_t n_stages, n_streams, has_slices;
    int32_t n_slots, slot_bytes;          /* of a ring */
    int32_t scratch_bytes, squares_bytes; /* squares: of one turn */
    /* The digest of the only row of logits, whose tiles are those of the last stream, where no more is asked than the
     * best of its first n_best; 0: it is not made here. */
    int32_t n_best;
    const float *logits; /* NULL: they are not the program's result, or are not one row */
    digest_head *heads, *heads_here;
    int32_t *best;
} k_program_args;

enum { PROGRAM_BEST = 4 };

/* ---- shared memory: barriers, state, two stages, shares of streams, squares, scratch, rings ---- */

/* A split, and the end of its groups, of those that the row has. */
typedef struct program_split {
    int32_t number, end;
} program_split;

/* What four warps attend to: groups begin .. end - 1, which are whole splits. */
typedef struct program_quad {
    int32_t begin, end;
    program_split first;
    int32_t ids[PROGRAM_QUAD_PAGES]; /* of pages, from the first one on */
} program_quad;

/* One of a block's items of attention: some splits of a KV head. */
typedef struct program_item {
    k_span span;
    int32_t begin, end;                         /* of the first: all of the block's items; of another: its own begin */
    int32_t next, seen;                         /* the block's next one; the first position that the row sees */
    int32_t kv_head, index, has_newest, unused; /* has_newest: the row's new token belongs to the item */
    program_quad quads[PROGRAM_MOST_QUADS];
    float angles[128]; /* cosines and sines of the row */
} program_item;

typedef struct program_state {
    program_item items[2];      /* the first one, and others in turns */
    k_span spans[PROGRAM_ROWS]; /* of attention */
    int32_t n_splits[PROGRAM_ROWS];
    program_split splits[PROGRAM_WARPS]; /* that each warp is at */
    int32_t pages[PROGRAM_WARPS];        /* that each fetches from */
    program_warp warps[PROGRAM_WARPS];
    packed_slice_units slices[2][PROGRAM_WARPS]; /* a warp's slice of a stream whose units differ; streams take turns */
    int32_t at[PROGRAM_WARPS];                   /* the stage that each warp has come to */
    int32_t n_streams, has_slices, n_slots, slot_bytes; /* has_slices: some stream's units differ */
    int32_t slice_shift;    /* the block has 2 to the power of this of the slices, and the cluster all of them */
    int32_t batches, norms; /* whose sums have met so far: of tiles, and of squares */
    int32_t squares_bytes;
    uint32_t squares, scratch, rings; /* where they begin */
    int32_t unused;
    /* Barriers: of sums that are sent here; of blocks to which they may be sent. */
    uint64_t sums_met, ready[PROGRAM_TURNS], squares_met[PROGRAM_TURNS];
    uint32_t *met;
    int64_t told_shift;  /* from the first area to this launch's */
    int64_t told_before; /* bytes of the other one that the launch before has used */
} program_state;         /* what lies behind begins at a multiple of 16 */

enum {
    PROGRAM_SLOTS_BYTES = PROGRAM_WARPS * PROGRAM_MOST_SLOTS * 8, /* of barriers; likewise of what is in the slots */
    PROGRAM_BARRIERS = 2 * PROGRAM_SLOTS_BYTES,
    PROGRAM_STAGES = PROGRAM_BARRIERS + (int)sizeof(program_state),
    PROGRAM_SHARES = PROGRAM_STAGES + 2 * (int)sizeof(program_stage),
};

PACKED_INLINE int program_up(int n) { return (n + 127) / 128 * 128; }
PACKED_INLINE int program_squares_at(int n_streams) {
    return program_up(PROGRAM_SHARES + n_streams * (int)sizeof(program_share));
}
PACKED_INLINE int program_scratch_at(int n_streams, int squares_bytes) {
    return program_squares_at(n_streams) + program_up(PROGRAM_TURNS * squares_bytes);
}
PACKED_INLINE int program_ring_at(int n_streams, int squares_bytes, int scratch_bytes) {
    return program_scratch_at(n_streams, squares_bytes) + program_up(scratch_bytes);
}
/* Units of a tile of which a block of a cluster has some slices, at most. */
PACKED_INLINE int program_units(int n_units, int cluster) { return (n_units + cluster - 1) / cluster; }
/* Tiles that a block finishes between two meetings: no more results than threads. */
PACKED_INLINE int program_batch(int n_rows) { return n_rows > 2 ? 8 : 16; }
PACKED_INLINE int program_part_bytes(int n_rows) {
    return matvec_part_bytes(n_rows, program_batch(n_rows) / MATVEC_BATCH);
}
/* Sums of squares of blocks of a unit's inputs: of a row, in fours. */
PACKED_INLINE int program_squares(int n_units) { return (n_units + 3) / 4 * 4; }
/* Whether a thread has one piece of eight of all rows' inputs at most, which it can keep while they are normed. */
PACKED_INLINE int program_keeps(int n_inputs) { return n_inputs <= PROGRAM_THREADS * 8; }
/* n_units: of the block, of n_in inputs; lies: whether all inputs lie there to be normed. Returns the bytes of all. */
PACKED_INLINE int program_lay_room(program_room *r, int n_rows, int n_units, int sum, int n_in, int lies) {
    const int normed = lies ? n_in : 0;
    r->row = n_units * PACKED_UNIT + 64;
    r->digits = program_part_bytes(n_rows);
    r->sums = r->digits + matvec_x_bytes(n_rows, n_units);
    r->scales = r->sums + n_rows * n_units * (PACKED_UNIT / sum) * 4;
    r->squares = r->sums + matvec_scale_bytes(n_rows, n_units, sum);
    const int squares = program_squares((n_in + PACKED_UNIT - 1) / PACKED_UNIT);
    r->x = r->squares + n_rows * (squares > PROGRAM_WARPS ? squares : PROGRAM_WARPS) * 4;
    r->weights = r->x + n_rows * normed * 4;
    return r->weights + normed * 4;
}
/* Warps that make each new key, and each new value: of codes one for each block. */
PACKED_INLINE int program_token_warps(int dim, int bits) { return bits == 16 ? 1 : dim / 32; }
/* A KV head's queries as operands of products: float16, or digits with a scale for each. */
#define program_query_bytes(dim, key_bits)                                                                             \
    ((key_bits) == 16 ? (dim)*PROGRAM_MOST_HEADS * 4 : (dim)*PROGRAM_MOST_HEADS * 2 + PROGRAM_MOST_HEADS * 4)
/* Groups of the quads' warps, the queries, the fresh token, norms, and heads on their way or results of the
 * warps. */
PACKED_INLINE int program_attend_bytes(int dim, int key_bits, int value_bits, int heads, int quads) {
    const int turned = (PROGRAM_MOST_HEADS + 2 * program_token_warps(dim, key_bits)) * dim * 4;
    const int found = quads * ATTEND_WARPS * heads * (dim + 2) * 4;
    return quads * ATTEND_WARPS * attend_group_bytes(dim, key_bits, value_bits) + program_query_bytes(dim, key_bits) +
           dim * 4 + dim * 8 + (turned > found ? turned : found);
}
/* Pages that are merged. */
PACKED_INLINE int program_merge_bytes(int dim) { return PROGRAM_MERGE_PAGES * dim * 4; }

#endif
