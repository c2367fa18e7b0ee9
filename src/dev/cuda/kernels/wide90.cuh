/* wide90.cuh — many rows times packed weights on Hopper: out[row][n] = sum over k of x[row][k] w[n][k].
 *
 * Instances are spelled in wide90.cu; cuda_packed.c takes them for steps of more rows than skinny90.cuh has. The
 * weights are the first operand and become float16 in registers while the block before is multiplied, once for every
 * 256 rows: that costs nothing, and spares a pass that would write them to memory. Each of two warpgroups multiplies 64
 * weight rows by 256 rows of activations; a block of threads walks over such tiles. Two neighbours have the same
 * activations, of which each sends half to both, which spares the L2 cache's bandwidth. */
#ifndef KERNELS_WIDE90_CUH
#define KERNELS_WIDE90_CUH

#include "operand_rows.cuh"
#include "operands90.cuh"

/* GATED: half of a block's tiles are a gate's, the other half those which it lets through. */
template <bool GATED> struct wide_place {
    uint32_t x, out, w, x_full, x_empty, w_full, w_empty, scales;
    int slot_bytes, rank, row_steps, n_tiles; /* row_steps x pairs of tiles of outputs */
    __device__ __forceinline__ wide_place(const k_wide_args &a, uint32_t base, int slot)
        : x(base), rank((int)cluster_rank()), row_steps((a.weights.n_rows + WIDE_ROWS - 1) / WIDE_ROWS) {
        out = x + WIDE_X_DEPTH * WIDE_X_BYTES;
        w = out + (GATED ? WIDE_OUT_BYTES : 0);
        x_full = w + a.w_depth * WIDE_TILES * slot;
        x_empty = x_full + 8 * WIDE_X_DEPTH;
        w_full = x_empty + 8 * WIDE_X_DEPTH;
        w_empty = w_full + 8 * WIDE_MOST_DEPTH;
        scales = w_empty + 8 * WIDE_MOST_DEPTH;
        const int pair = WIDE_TILES * WIDE_CLUSTER;
        n_tiles = (a.weights.n_tiles + pair - 1) / pair * row_steps;
        slot_bytes = slot;
    }
    __device__ __forceinline__ uint32_t unit(int stage) const {
        const int warp = (int)threadIdx.x / 32 - 4;
        return w + (stage * WIDE_TILES + (GATED ? warp / 2 : warp)) * slot_bytes;
    }
    /* By all lanes: one would do, and take as long, but racecheck does not see that the others have met it. */
    __device__ __forceinline__ void release_w(int stage) const { barrier_arrive_here(w_empty + 8 * stage); }
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
    /* Which tile has place i of this block's; not always there. */
    __device__ __forceinline__ int packed_tile(const k_wide_args &a, int tile, int i) const {
        if (!GATED) return first(tile) + i;
        const int half = WIDE_TILES / 2, t = first(tile) / 2 + i % half, n = a.weights.n_tiles / 2;
        return t >= n ? a.weights.n_tiles : i < half ? t : n + t;
    }
};

/* By one warp: lane i copies packed tile i's units. */
template <class UNITS, bool GATED>
__device__ __forceinline__ void wide_feed_weights(const k_wide_args &a, const UNITS &units,
                                                  const wide_place<GATED> &at) {
    const int lane = threadIdx.x % 32, slot = units.slot_bytes();
    ring_place to(a.w_depth, 1);
    for (int tile = blockIdx.x / WIDE_CLUSTER; tile < at.n_tiles; tile += gridDim.x / WIDE_CLUSTER) {
        int t = lane < WIDE_TILES ? at.packed_tile(a, tile, lane) : a.weights.n_tiles;
        const bool is_there = t < a.weights.n_tiles;
        const int there = __popc(__ballot_sync(~0u, is_there));
        t = min(t, a.weights.n_tiles - 1);
        const packed_part *part = find_part(a.weights, &t);
        const uint8_t *from = part->tiles + t * units.tile_bytes();
        for (int u = 0; u < a.weights.n_units; u++) {
            const uint32_t full = at.w_full + 8 * to.stage;
            const int bytes = units.bytes(u);
            barrier_wait(at.w_empty + 8 * to.stage, to.parity);
            if (lane == 0) barrier_expect(full, there * bytes);
            __syncwarp();
            if (is_there) copy_bulk(at.w + (to.stage * WIDE_TILES + lane) * slot, from + units.offset(u), bytes, full);
            to.step();
        }
    }
}

/* By one lane: this block's half of the rows to both. */
template <bool GATED>
__device__ __forceinline__ void wide_feed_activations(const k_wide_args &a, const wide_place<GATED> &at) {
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

/* ---- results ---- */

/* Of the threads that multiply. */
__device__ __forceinline__ void wide_meet() { meet_threads<1, WIDE_THREADS - 128>(); }

/* What a tile's rows are multiplied by, and what behind a gate besides: asked for early by a thread for each row, read
 * out of shared memory by all. */
struct wide_scales {
    float in, out;
    __device__ __forceinline__ wide_scales(const k_wide_args &a, int first_row) : in(0), out(0) {
        const int row = first_row + (int)threadIdx.x - 128;
        if (row >= a.weights.n_rows) return;
        in = __ldcg(a.row_scale + row);
        if (a.gate.out) out = __ldcg(a.gate.row_size + row);
    }
    __device__ __forceinline__ void put(const k_wide_args &a, uint32_t scales) {
        if (a.gate.out) out = gate_scale(a.gate, out);
        wide_meet(); /* nobody reads those of the tile before */
        asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(scales + (threadIdx.x - 128) * 8), "f"(in), "f"(out)
                     : "memory");
        wide_meet();
    }
};

/* in and out of rows r and r + 1. */
__device__ __forceinline__ float4 two_scales(uint32_t scales, int r) {
    const uint4 v = load_shared16(scales + r * 8);
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

/* By one thread alone for each place, so that nothing hangs on an order; it waits for nothing. */
__device__ __forceinline__ void add_to(float *to, float v) {
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(v) : "memory");
}

/* d: outputs g and g + 8 of the warp's packed tile, rows 8 i + 2 t and the next. */
__device__ __forceinline__ void wide_store(const k_wide_args &a, const float d[128], uint32_t scales, int first_row,
                                           int t) {
    const int g = threadIdx.x % 32 / 4, lane_row = threadIdx.x % 4 * 2;
    if (t >= a.weights.n_tiles) return;
    const packed_part *to = find_part(a.weights, &t);
    const int out = t * PACKED_ROWS + g, n_rows = a.weights.n_rows - first_row;
    const bool has[2] = {out < to->n_out, out + 8 < to->n_out}, adds = to->add;
    const float bias[2] = {to->bias && has[0] ? __ldg(to->bias + out) : 0,
                           to->bias && has[1] ? __ldg(to->bias + out + 8) : 0};
    float *at = to->out + first_row * to->out_stride + out;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int row = 8 * i + lane_row;
        const float4 scale = two_scales(scales, row);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (row + j % 2 >= n_rows || !has[j / 2]) continue;
            const float v = fmaf(d[4 * i + j], j % 2 ? scale.z : scale.x, bias[j / 2]);
            float *place = at + (row + j % 2) * to->out_stride + 8 * (j / 2);
            if (adds)
                add_to(place, v);
            else
                *place = v;
        }
    }
}

/* d: output g of the warp's eight of a gate and of what it lets through, rows as above. 64 results of 128 rows are a
 * block of the next product. */
template <bool GATED>
__device__ __forceinline__ void wide_store_gated(const k_wide_args &a, const float d[128], const wide_place<GATED> &at,
                                                 int first_row, int first) {
    const k_gate_out &to = a.gate;
    const int warp = (int)threadIdx.x / 32 - 4, g = threadIdx.x % 32 / 4, upper = g / 2 % 2;
    const int lane_row = threadIdx.x % 4 * 2 + upper, k = 8 * warp + g - 2 * upper; /* of two elements 2 apart */
    if (threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    wide_meet(); /* those of the tile before are gone */
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const float4 scale = two_scales(at.scales, 8 * i + threadIdx.x % 4 * 2);
        const float v = gate_value(to, d[4 * i] * scale.x, d[4 * i + 2] * scale.x) * scale.y;
        const float w = gate_value(to, d[4 * i + 1] * scale.z, d[4 * i + 3] * scale.z) * scale.w;
        const float other = __shfl_xor_sync(~0u, upper ? v : w, 8); /* of outputs 2 apart, the same row */
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at.out + (uint32_t)operand_at(8 * i + lane_row, 1, k)),
                     "r"(upper ? pack_half(other, w) : pack_half(v, other))
                     : "memory");
    }
    fence_async();
    wide_meet();
    if (threadIdx.x != 128 || first >= a.weights.n_tiles) return;
    for (int i = 0; i < WIDE_ROWS / 128; i++)
        copy_bulk_out(to.out + ((size_t)(first_row / 128 + i) * to.n_blocks + first / WIDE_TILES) * GEMM_BLOCK,
                      at.out + i * GEMM_BLOCK, GEMM_BLOCK);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* The same for each maker, whatever it needs to know. */
template <class UNITS, bool GATED> struct wide_maker : operand_maker<UNITS> {
    __device__ __forceinline__ wide_maker(const UNITS &units, float unit, int) : operand_maker<UNITS>(units, unit) {}
};
template <class UNITS> struct wide_maker<UNITS, true> : pair_maker<UNITS> { using pair_maker<UNITS>::pair_maker; };

template <class UNITS, bool GATED>
__device__ __forceinline__ void wide_multiply(const k_wide_args &a, const UNITS &units, const wide_place<GATED> &at) {
    ring_place w(a.w_depth, 0), x(WIDE_X_DEPTH, 0);
    wide_maker<UNITS, GATED> maker(units, a.weights.unit, WIDE_TILES / 2 * at.slot_bytes);
    float d[WIDE_ROWS / 2];
    for (int tile = blockIdx.x / WIDE_CLUSTER; tile < at.n_tiles; tile += gridDim.x / WIDE_CLUSTER) {
        wide_scales scales(a, at.row(tile));
        multiply_units<WIDE_ROWS>(d, maker, at, 0, a.weights.n_units, w, x);
        scales.put(a, at.scales);
        if (GATED) {
            const int row = at.row(tile) + (int)threadIdx.x - 128;
            if (tile < at.row_steps && at.rank == 0 && row < a.weights.n_rows) a.gate.row_scale[row] = 1 / scales.out;
            wide_store_gated(a, d, at, at.row(tile), at.first(tile));
        } else {
            wide_store(a, d, at.scales, at.row(tile), at.first(tile) + (int)threadIdx.x / 32 - 4);
        }
    }
    if (GATED && threadIdx.x == 128) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <class UNITS, bool GATED> __device__ __forceinline__ void wide90(const k_wide_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    const UNITS units(a.weights);
    const wide_place<GATED> at(a, base, units.slot_bytes());
    if (threadIdx.x == 0) {
        for (int i = 0; i < WIDE_X_DEPTH; i++)
            barrier_init(at.x_full + 8 * i, 1), barrier_init(at.x_empty + 8 * i, 2 * WIDE_CLUSTER);
        for (int i = 0; i < a.w_depth; i++)
            barrier_init(at.w_full + 8 * i, 1), barrier_init(at.w_empty + 8 * i, 32 * WIDE_TILES);
        prepare_meeting(1, WIDE_THREADS - 128);
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
