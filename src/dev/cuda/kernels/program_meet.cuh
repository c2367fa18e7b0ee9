/* program_meet.cuh — how the sums of a product's slices come together, and those of a norm's squares: within a block,
 * or in a cluster whose blocks have some slices each.
 *
 * Used by program_product.cuh. A step of several rows is done by clusters: a block makes digits of its own slices'
 * inputs alone, so it looks for an eighth of what others tell, and each of its warps has a slice of more tiles. What a
 * block has is sent to the one that finishes the result, through its shared memory. That takes longer than a meeting of
 * a block's own warps, so a step of one row, whose digits are few, has blocks by themselves. Sums are added slice by
 * slice either way: they have the same bits.
 *
 * The tricky thing is when a block may be sent sums: not before it has read those of the batch before, nor while its
 * scratch is used for attention. So it says when it is ready, which nobody waits for in fact, for the weights come
 * between. Sums of squares have two places in turns and wait for nobody: who sends them for the next norm but one has
 * met everybody in the product between. */
#ifndef KERNELS_PROGRAM_MEET_CUH
#define KERNELS_PROGRAM_MEET_CUH

#include "matvec.cuh"
#include "norm.cuh"
#include "program_tell.cuh"

enum {
    CLERK = PROGRAM_WARPS / 2, /* the warp that keeps books */
    SUMS_BARRIER = 3,          /* who finishes sums waits there for those who make their parts */
};

/* Which inputs the block has, and where its activations lie. */
struct product_room {
    int first, width; /* of the block's inputs */
    int row, units;   /* from a row's digits to the low ones; of a row, where it has room for them */
    uint32_t digits;
    float *part, *scales, *x, *weights, *squares; /* x: what is normed, then the norm's weights and sums of squares */
    int *sums;

    __device__ __forceinline__ product_room(const program_stage &s, const program_share &share) {
        uint8_t *scratch = program_shared() + state_of().scratch;
        const program_room &at = s.room;
        first = share.first_unit * PACKED_UNIT, width = share.units * PACKED_UNIT;
        row = at.row, units = at.row / PACKED_UNIT;
        part = (float *)scratch; /* at the same place in all blocks, for these send it */
        digits = shared_address(scratch) + at.digits;
        scales = (float *)(scratch + at.scales), sums = (int *)(scratch + at.sums);
        squares = (float *)(scratch + at.squares), x = (float *)(scratch + at.x);
        weights = (float *)(scratch + at.weights);
    }
};

/* Partial sums of a result, from that of the first slice on. */
__device__ __forceinline__ float meet_slices(const float *from, int step) {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < PACKED_SLICES; s++) sum += from[s * step];
    return sum;
}
/* A lane's place among those of a slice's sums of a tile in one row: of rows g and g + 8 of it. */
__device__ __forceinline__ int sums_place(int tile, int slice, int n_rows, int row, int g) {
    return ((tile * PACKED_SLICES + slice) * n_rows + row) * MATVEC_PART + 2 * g;
}

/* Tiles whose sums meet together; of gated products gates and what they let through in turns. */
struct tile_span {
    int first, count, most;
    __device__ __forceinline__ tile_span(const program_share &share, int at_once)
        : first(share.first), count(min(share.end - share.first, at_once)), most(at_once) {}
    /* Whether there are more. */
    __device__ __forceinline__ bool next(int end) {
        first += most, count = min(end - first, most);
        return count > 0;
    }
};

/* ---- a block by itself: one row ---- */

struct block_meets {
    static constexpr bool IS_ALONE = true;
    static __device__ __forceinline__ int blocks() { return 1; }

    struct batch : tile_span {
        __device__ __forceinline__ batch(const program_share &share, int n_rows)
            : tile_span(share, program_batch(n_rows)) {}
        /* Tiles, or pairs of them, that the block finishes, and which of the batch's its n-th one is. */
        __device__ __forceinline__ int mine(int twice) const { return count >> twice; }
        __device__ __forceinline__ int number(int n) const { return n; }
        __device__ __forceinline__ void begin(int, int) const {}
        /* The sums of a slice of tile i, by a warp; lane 4 g + t has those of row t. */
        __device__ __forceinline__ void put(float *part, const float y[2], int i, int slice, int n_rows, int,
                                            bool) const {
            const int lane = threadIdx.x % 32, t = lane % 4;
            if (t < n_rows) *(float2 *)(part + sums_place(i, slice, n_rows, t, lane / 4)) = make_float2(y[0], y[1]);
        }
        /* Until all are there; by a warp that reads none. */
        __device__ __forceinline__ void wait() const { meet_threads<SUMS_BARRIER, PROGRAM_THREADS>(); }
        __device__ __forceinline__ void pass(bool) const { pass_threads<SUMS_BARRIER, PROGRAM_THREADS>(); }
        __device__ __forceinline__ void end() const {}
    };
};

/* ---- the blocks of a cluster, at least two: one alone may send nothing ---- */

/* Sums of squares of a norm's blocks of inputs. */
struct squares_meeting {
    float *at;
    uint32_t barrier, parity;

    __device__ __forceinline__ squares_meeting() {
        program_state &p = state_of();
        const int turn = p.norms % PROGRAM_TURNS;
        at = (float *)(program_shared() + p.squares + turn * p.squares_bytes);
        barrier = shared_address(&p.squares_met[turn]), parity = p.norms / PROGRAM_TURNS % 2;
    }
    /* By one thread: says how many are to come, and puts zeros behind the last one of a row. */
    __device__ __forceinline__ void expect(int n_in, int n_rows) const {
        const int n = norm_blocks(n_in);
        for (int row = 0; row < n_rows; row++)
            for (int i = n; i % 4; i++) at[row * program_squares(n) + i] = 0;
        barrier_expect(barrier, n * n_rows * 4);
    }
    /* By whole warps: of the block of inputs that input k lies in. */
    __device__ __forceinline__ void put(float sum, int row, int k, bool is_any, int n_in) const {
        const uint32_t to = threadIdx.x % 32;
        const float *place = at + row * program_squares(norm_blocks(n_in)) + k / NORM_BLOCK;
        if (to < cluster_blocks() && is_any && k / NORM_BLOCK * NORM_BLOCK < n_in)
            send4(shared_address(place), sum, barrier, to);
    }
    __device__ __forceinline__ void wait() const { barrier_wait(barrier, parity); }
};

struct cluster_meets {
    static constexpr bool IS_ALONE = false;
    static __device__ __forceinline__ int blocks() { return (int)cluster_blocks(); }

    struct batch : tile_span {
        int turn; /* how many there were before */
        __device__ __forceinline__ batch(const program_share &share, int n_rows)
            : tile_span(share, program_batch(n_rows) << cluster_shift()), turn(state_of().batches) {}
        __device__ __forceinline__ bool next(int end) {
            turn++;
            return tile_span::next(end);
        }
        __device__ __forceinline__ int mine(int twice) const {
            return ((count >> twice) + (1 << cluster_shift()) - 1 - (int)cluster_rank()) >> cluster_shift();
        }
        __device__ __forceinline__ int number(int n) const { return (n << cluster_shift()) + (int)cluster_rank(); }
        static __device__ __forceinline__ uint32_t sums() { return shared_address(&state_of().sums_met); }
        __device__ __forceinline__ uint32_t ready() const {
            return shared_address(&state_of().ready[turn % PROGRAM_TURNS]);
        }
        /* By a warp, once all sums of the batch before have been read: tells the cluster that others may come. */
        __device__ __forceinline__ void begin(int n_rows, int twice) const {
            const uint32_t to = threadIdx.x % 32;
            if (!to) barrier_expect(sums(), (mine(twice) << twice) * PACKED_SLICES * n_rows * PACKED_ROWS * 4);
            __syncwarp();
            if (to < cluster_blocks()) barrier_arrive(ready(), to);
        }
        __device__ __forceinline__ void wait_ready() const { barrier_wait(ready(), turn / PROGRAM_TURNS % 2); }
        __device__ __forceinline__ void put(const float *part, const float y[2], int i, int slice, int n_rows,
                                            int twice, bool is_first) const {
            const int lane = threadIdx.x % 32, t = lane % 4, n = i >> twice;
            const int place = n >> cluster_shift() << twice | (i & twice);
            if (is_first) wait_ready();
            if (t < n_rows)
                send8(shared_address(part + sums_place(place, slice, n_rows, t, lane / 4)), y[0], y[1], sums(),
                      n & ((1 << cluster_shift()) - 1));
        }
        __device__ __forceinline__ void wait() const { barrier_wait(sums(), turn % 2); }
        /* One warp always waits for both, so that no block is two batches ahead of another. */
        __device__ __forceinline__ void pass(bool is_clerk) const {
            if (is_clerk) wait_ready(), wait();
        }
        __device__ __forceinline__ void end() const {
            if (threadIdx.x == 0) state_of().batches = turn;
        }
    };
};

#endif
