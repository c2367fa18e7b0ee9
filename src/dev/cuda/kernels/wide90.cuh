/* wide90.cuh — many rows times packed weights on Hopper: out[row][n] = sum over k of x[row][k] w[n][k].
 *
 * Instances are spelled in wide90.cu; cuda_packed.c takes them for steps of more rows than skinny90.cuh has. The
 * weights are the first operand and become float16 in registers while the block before is multiplied, once for every
 * 256 rows: that costs nothing, and spares a pass that would write them to memory. Each of two warpgroups multiplies 64
 * weight rows by 256 rows of activations; a block of threads walks over such tiles. Two neighbours have the same
 * activations, of which each sends half to both, which spares the L2 cache's bandwidth. */
#ifndef KERNELS_WIDE90_CUH
#define KERNELS_WIDE90_CUH

#include "operands90.cuh"

struct wide_place {
    uint32_t x, w, x_full, x_empty, w_full, w_empty;
    int slot_bytes, rank, row_steps, n_tiles; /* row_steps x pairs of tiles of outputs */
    __device__ __forceinline__ wide_place(const k_wide_args &a, uint32_t base, int slot)
        : x(base), rank((int)cluster_rank()), row_steps((a.weights.n_rows + WIDE_ROWS - 1) / WIDE_ROWS) {
        w = x + WIDE_X_DEPTH * WIDE_X_BYTES;
        x_full = w + a.w_depth * WIDE_TILES * slot;
        x_empty = x_full + 8 * WIDE_X_DEPTH;
        w_full = x_empty + 8 * WIDE_X_DEPTH;
        w_empty = w_full + 8 * WIDE_MOST_DEPTH;
        const int pair = WIDE_TILES * WIDE_CLUSTER;
        n_tiles = (a.weights.n_tiles + pair - 1) / pair * row_steps;
        slot_bytes = slot;
    }
    __device__ __forceinline__ uint32_t unit(int stage) const {
        return w + (stage * WIDE_TILES + (int)threadIdx.x / 32 - 4) * slot_bytes;
    }
    __device__ __forceinline__ void release_w(int stage) const {
        if (threadIdx.x % 32 == 0) barrier_arrive_here(w_empty + 8 * stage);
    }
    /* Both blocks write there, so both must hear, from one thread of each warpgroup. */
    __device__ __forceinline__ void release_x(int stage) const {
        if (threadIdx.x % 32 == 0 && threadIdx.x % 128 < 32 * WIDE_CLUSTER)
            barrier_arrive(x_empty + 8 * stage, threadIdx.x / 32 % 4);
    }
    __device__ __forceinline__ int row(int tile) const { return tile % row_steps * WIDE_ROWS; }
    /* The first of this block's packed tiles. */
    __device__ __forceinline__ int first(int tile) const {
        return (tile / row_steps * WIDE_CLUSTER + rank) * WIDE_TILES;
    }
};

/* By one warp: lane i copies packed tile i's units. */
template <class UNITS>
__device__ __forceinline__ void wide_feed_weights(const k_wide_args &a, const UNITS &units, const wide_place &at) {
    const int lane = threadIdx.x % 32, slot = units.slot_bytes();
    ring_place to(a.w_depth, 1);
    for (int tile = blockIdx.x / WIDE_CLUSTER; tile < at.n_tiles; tile += gridDim.x / WIDE_CLUSTER) {
        const int there = max(0, min(WIDE_TILES, a.weights.n_tiles - at.first(tile)));
        int t = min(at.first(tile) + lane, a.weights.n_tiles - 1);
        const packed_part *part = find_part(a.weights, &t);
        const uint8_t *from = part->tiles + t * units.tile_bytes();
        for (int u = 0; u < a.weights.n_units; u++) {
            const uint32_t full = at.w_full + 8 * to.stage;
            const int bytes = units.bytes(u);
            barrier_wait(at.w_empty + 8 * to.stage, to.parity);
            if (lane == 0) barrier_expect(full, there * bytes);
            __syncwarp();
            if (lane < there)
                copy_bulk(at.w + (to.stage * WIDE_TILES + lane) * slot, from + units.offset(u), bytes, full);
            to.step();
        }
    }
}

/* By one lane: this block's half of the rows to both. */
__device__ __forceinline__ void wide_feed_activations(const k_wide_args &a, const wide_place &at) {
    const int n_blocks = 4 * a.weights.n_units;
    ring_place to(WIDE_X_DEPTH, 1);
    wait_for_previous();
    for (int tile = blockIdx.x / WIDE_CLUSTER; tile < at.n_tiles; tile += gridDim.x / WIDE_CLUSTER) {
        const uint8_t *from = a.x + (size_t)(at.row(tile) / 128 + at.rank) * n_blocks * GEMM_BLOCK;
        for (int b = 0; b < n_blocks; b++, from += GEMM_BLOCK) {
            const uint32_t full = at.x_full + 8 * to.stage;
            barrier_wait(at.x_empty + 8 * to.stage, to.parity);
            barrier_expect(full, WIDE_X_BYTES);
            copy_bulk_to(at.x + to.stage * WIDE_X_BYTES + at.rank * GEMM_BLOCK, from, GEMM_BLOCK, full, 3);
            to.step();
        }
    }
}

/* d: outputs g and g + 8 of the warp's packed tile, rows 8 i + 2 t and the next. */
__device__ __forceinline__ void wide_store(const k_wide_args &a, const float d[128], int first_row, int t) {
    const int g = threadIdx.x % 32 / 4, lane_row = first_row + threadIdx.x % 4 * 2;
    if (t >= a.weights.n_tiles) return;
    const packed_part *to = find_part(a.weights, &t);
    const int out = t * PACKED_ROWS + g;
    const bool has[2] = {out < to->n_out, out + 8 < to->n_out};
    const float bias[2] = {to->bias && has[0] ? __ldg(to->bias + out) : 0,
                           to->bias && has[1] ? __ldg(to->bias + out + 8) : 0};
    enum { AT_ONCE = 4 };
#pragma unroll
    for (int i = 0; i < 32; i += AT_ONCE) {
        float old[AT_ONCE][4], scale[AT_ONCE][2];
#pragma unroll
        for (int j = 0; j < AT_ONCE * 4; j++) {
            const int row = lane_row + 8 * (i + j / 4) + j % 2, h = j % 4 / 2;
            const bool is = row < a.weights.n_rows && has[h];
            if (!h) scale[j / 4][j % 2] = row < a.weights.n_rows ? __ldg(a.row_scale + row) : 0;
            old[j / 4][j % 4] = bias[h];
            if (to->add && is) old[j / 4][j % 4] += __ldcg(to->out + row * to->out_stride + out + 8 * h);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE * 4; j++) {
            const int row = lane_row + 8 * (i + j / 4) + j % 2, h = j % 4 / 2;
            if (row < a.weights.n_rows && has[h])
                to->out[row * to->out_stride + out + 8 * h] =
                    fmaf(d[4 * i + j], scale[j / 4][j % 2], old[j / 4][j % 4]);
        }
    }
}

template <class UNITS>
__device__ __forceinline__ void wide_multiply(const k_wide_args &a, const UNITS &units, const wide_place &at) {
    ring_place w(a.w_depth, 0), x(WIDE_X_DEPTH, 0);
    float d[WIDE_ROWS / 2];
    for (int tile = blockIdx.x / WIDE_CLUSTER; tile < at.n_tiles; tile += gridDim.x / WIDE_CLUSTER) {
        multiply_units<UNITS, WIDE_ROWS>(d, units, a.weights.unit, at, 0, a.weights.n_units, w, x);
        wide_store(a, d, at.row(tile), at.first(tile) + (int)threadIdx.x / 32 - 4);
    }
}

template <class UNITS> __device__ __forceinline__ void wide90(const k_wide_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    const UNITS units(a.weights);
    const wide_place at(a, base, units.slot_bytes());
    if (threadIdx.x == 0) {
        for (int i = 0; i < WIDE_X_DEPTH; i++)
            barrier_init(at.x_full + 8 * i, 1), barrier_init(at.x_empty + 8 * i, 2 * WIDE_CLUSTER);
        for (int i = 0; i < a.w_depth; i++)
            barrier_init(at.w_full + 8 * i, 1), barrier_init(at.w_empty + 8 * i, WIDE_TILES);
        barriers_made();
    }
    __syncthreads();
    cluster_sync();
    let_next_start();
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x / 32 == 0) wide_feed_weights(a, units, at);
        if (threadIdx.x == 32) wide_feed_activations(a, at);
    } else {
        more_registers<232>();
        wait_for_previous(); /* for what is added to */
        wide_multiply(a, units, at);
    }
    __syncwarp();
    cluster_meet(); /* nobody leaves while the neighbour may still write here */
}

#endif
