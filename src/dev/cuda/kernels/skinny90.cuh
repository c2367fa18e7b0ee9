/* skinny90.cuh — a batch of rows times packed weights on Hopper: out[row][n] = sum over k of x[row][k] w[n][k].
 *
 * Instances are spelled in skinny90.cu; cuda_packed.c takes them for the steps between matvec.cuh and wide90.cuh. The
 * weights are the product's first operand and become float16 in registers (their codes already lie as that operand
 * does), so they pass through shared memory once, packed. The activations are the second: blocks of 64 inputs that
 * blocks.cuh makes. Up to three warpgroups multiply 64 weight rows each by the same activations, for these come out of
 * the L2 cache once for each block of threads, and are more bytes than the weights; one warp copies either.
 *
 * A cluster shares a tile of outputs and cuts its inputs among its blocks: all multiprocessors have work even where
 * there are few outputs. The sums meet in their order through the cluster's shared memory. How many blocks that are
 * depends on the matrix and the GPU alone, so a row's bits do not depend on the number of rows. */
#ifndef KERNELS_SKINNY90_CUH
#define KERNELS_SKINNY90_CUH

#include "operand_rows.cuh"
#include "operands90.cuh"

/* ---- the places of a block of threads ---- */

struct skinny_place {
    uint32_t w, x, w_full, w_empty, x_full, x_empty;
    int rank, share; /* of the cluster's blocks */
    int first, end;  /* units */
    int tiles, tile; /* so many from there on */
    int slot_bytes;
    __device__ __forceinline__ skinny_place(const k_skinny_args &a, uint32_t base, int slot, int columns)
        : x(base), rank((int)cluster_rank()), share(a.share), tiles(4 * a.groups) {
        w = x + a.x_depth * columns * 128;
        w_full = w + a.w_depth * tiles * slot;
        w_empty = w_full + 8 * SKINNY_MOST_DEPTH;
        x_full = w_empty + 8 * SKINNY_MOST_DEPTH;
        x_empty = x_full + 8 * SKINNY_MOST_DEPTH;
        first = rank * a.weights.n_units / share, end = (rank + 1) * a.weights.n_units / share;
        tile = (int)blockIdx.x / share * tiles;
        slot_bytes = slot;
    }
    __device__ __forceinline__ uint32_t unit(int stage) const {
        return w + (stage * tiles + (int)threadIdx.x / 32) * slot_bytes;
    }
    /* By all lanes: one would do, and take as long, but racecheck does not see that the others have met it. */
    __device__ __forceinline__ void release_w(int stage) const { barrier_arrive_here(w_empty + 8 * stage); }
    __device__ __forceinline__ void release_x(int stage) const {
        if (threadIdx.x % 128 == 0) barrier_arrive_here(x_empty + 8 * stage);
    }
};

/* By the threads that multiply. */
__device__ __forceinline__ void groups_meet(int threads) { meet_threads_at(1, threads); }

/* The same, of all blocks that share a tile: what they have written may be read. */
__device__ __forceinline__ void skinny_meet(int share, int threads) {
    __syncwarp();
    if (share > 1)
        cluster_sync();
    else
        groups_meet(threads);
}

/* By one warp: lane i copies tile i's units. Weights wait for nobody. Where there is a gate, half of them are the
 * gate's tiles, and the other half those which these let through. */
template <class UNITS>
__device__ __forceinline__ void skinny_feed_weights(const k_skinny_args &a, const UNITS &units,
                                                    const skinny_place &at) {
    const int lane = threadIdx.x % 32, there = min(at.tiles, a.weights.n_tiles - at.tile), slot = units.slot_bytes();
    int t = at.tile + min(lane, there - 1);
    if (a.gate.out)
        t = at.tile / 2 + min(lane, there - 1) % (there / 2) + (2 * lane < there ? 0 : a.weights.n_tiles / 2);
    ring_place to(a.w_depth, 1);
    const packed_part *part = find_part(a.weights, &t);
    const uint8_t *from = part->tiles + t * units.tile_bytes();
    const int place = a.gate.out && 2 * lane >= there ? lane + (at.tiles - there) / 2 : lane;
    const uint64_t policy = evict_first();
    for (int u = at.first; u < at.end; u++) {
        const uint32_t full = at.w_full + 8 * to.stage;
        const int bytes = units.bytes(u);
        barrier_wait(at.w_empty + 8 * to.stage, to.parity);
        if (lane == 0) barrier_expect(full, there * bytes);
        __syncwarp();
        if (lane < there)
            copy_bulk_once(at.w + (to.stage * at.tiles + place) * slot, from + units.offset(u), bytes, full, policy);
        to.step();
    }
}

/* By one lane. */
__device__ __forceinline__ void skinny_feed_activations(const k_skinny_args &a, const skinny_place &at, int columns) {
    const uint8_t *from = a.x + (size_t)at.first * 4 * GEMM_BLOCK;
    ring_place to(a.x_depth, 1);
    wait_for_previous();
    for (int b = 4 * at.first; b < 4 * at.end; b++, from += GEMM_BLOCK) {
        const uint32_t full = at.x_full + 8 * to.stage;
        barrier_wait(at.x_empty + 8 * to.stage, to.parity);
        barrier_expect(full, columns * 128);
        copy_bulk(at.x + to.stage * columns * 128, from, columns * 128, full);
        to.step();
    }
}

/* ---- results ---- */

/* Rows of a thread whose scales and what they are added to are asked for together: these come from far away. */
enum { SKINNY_AT_ONCE = 4 };

/* Four outputs that lie side by side. */
struct skinny_outputs {
    const packed_part *to;
    int out;
    bool whole;
    __device__ __forceinline__ skinny_outputs(const packed_args &a, int tile, int column) {
        int t = tile + column / PACKED_ROWS;
        to = find_part(a, &t);
        out = t * PACKED_ROWS + column % PACKED_ROWS;
        whole = out + 4 <= to->n_out && !(to->out_stride & 3) && !((uintptr_t)to->out & 15);
    }
    __device__ __forceinline__ float *at(int row) const { return to->out + row * to->out_stride + out; }
    __device__ __forceinline__ float4 before(int row) const { /* what is added to, and the bias */
        float v[4] = {0, 0, 0, 0};
        if (to->add && whole) {
            const float4 old = __ldcg((const float4 *)at(row));
            v[0] = old.x, v[1] = old.y, v[2] = old.z, v[3] = old.w;
        }
        for (int i = 0; i < 4 && (to->bias || !whole); i++) {
            if (out + i >= to->n_out) break;
            if (to->add && !whole) v[i] = __ldcg(at(row) + i);
            if (to->bias) v[i] += __ldg(to->bias + out + i);
        }
        return make_float4(v[0], v[1], v[2], v[3]);
    }
    __device__ __forceinline__ void put(int row, float4 v) const {
        const float each[4] = {v.x, v.y, v.z, v.w};
        if (whole)
            *(float4 *)at(row) = v;
        else
            for (int i = 0; i < 4 && out + i < to->n_out; i++) at(row)[i] = each[i];
    }
};

/* The sums of all blocks at the same place, in the blocks' order. */
__device__ __forceinline__ float4 sum_of_blocks(uint32_t place, int share) {
    float4 each[SKINNY_MOST_SHARE], sum;
#pragma unroll
    for (int s = 0; s < SKINNY_MOST_SHARE; s++)
        if (s < share) each[s] = load_cluster16(place, s);
    sum = each[0];
#pragma unroll
    for (int s = 1; s < SKINNY_MOST_SHARE; s++)
        if (s < share) sum.x += each[s].x, sum.y += each[s].y, sum.z += each[s].z, sum.w += each[s].w;
    return sum;
}

/* Sums of all blocks lie at the same place of their shared memory; each block stores its share of the rows, a thread
 * the same outputs of every row that it has: PIECES threads of each 128 share a row. ask(j, row) and put(j, row) for
 * row j of those at once; the blocks meet between the first ones. */
template <int PIECES, class ASK, class PUT>
__device__ __forceinline__ void for_rows(const k_skinny_args &a, const skinny_place &at, bool mine, ASK ask, PUT put) {
    constexpr int STEP = 128 / PIECES;
    const int first = at.rank * a.weights.n_rows / at.share, end = (at.rank + 1) * a.weights.n_rows / at.share;
    bool met = false;
    for (int row = first + threadIdx.x / (PIECES * a.groups); row < end || !met; row += STEP * SKINNY_AT_ONCE) {
#pragma unroll
        for (int j = 0; j < SKINNY_AT_ONCE; j++)
            if (mine && row + j * STEP < end) ask(j, row + j * STEP);
        if (!met) skinny_meet(at.share, a.groups * 128);
        met = true;
#pragma unroll
        for (int j = 0; j < SKINNY_AT_ONCE; j++)
            if (mine && row + j * STEP < end) put(j, row + j * STEP);
    }
}

__device__ __forceinline__ void skinny_store(const k_skinny_args &a, uint32_t sums, const skinny_place &at) {
    constexpr int PIECES = 16;
    const int wide = PIECES * a.groups, line = skinny_line(a.groups), piece = threadIdx.x % wide;
    const bool mine = piece < (a.weights.n_tiles - at.tile) * (PACKED_ROWS / 4);
    const skinny_outputs to(a.weights, at.tile, mine ? 4 * piece : 0);
    float4 v[SKINNY_AT_ONCE];
    float scale[SKINNY_AT_ONCE];
    for_rows<PIECES>(
        a, at, mine, [&](int j, int row) { v[j] = to.before(row), scale[j] = __ldcg(a.row_scale + row); },
        [&](int j, int row) {
            const float4 sum = sum_of_blocks(sums + (row * line + 4 * piece) * 4, at.share);
            to.put(row, make_float4(fmaf(sum.x, scale[j], v[j].x), fmaf(sum.y, scale[j], v[j].y),
                                    fmaf(sum.z, scale[j], v[j].z), fmaf(sum.w, scale[j], v[j].w)));
        });
}

/* The same where half of the outputs are a gate and the other half what it lets through. */
__device__ __forceinline__ void skinny_store_gated(const k_skinny_args &a, uint32_t sums, const skinny_place &at) {
    constexpr int PIECES = 8; /* of the gate's */
    const k_gate_out &to = a.gate;
    const int wide = PIECES * a.groups, line = skinny_line(a.groups), piece = threadIdx.x % wide;
    const int k = at.tile / 2 * PACKED_ROWS + 4 * piece;
    const bool mine = piece < (a.weights.n_tiles - at.tile) * (PACKED_ROWS / 8);
    float scale[SKINNY_AT_ONCE], size[SKINNY_AT_ONCE];
    for_rows<PIECES>(
        a, at, mine, [&](int j, int row) { scale[j] = __ldcg(a.row_scale + row), size[j] = __ldcg(to.row_size + row); },
        [&](int j, int row) {
            const float4 gate = sum_of_blocks(sums + (row * line + 4 * piece) * 4, at.share);
            const float4 up = sum_of_blocks(sums + (row * line + 4 * (wide + piece)) * 4, at.share);
            const float by = gate_scale(to, size[j]), x = scale[j];
            const float v[4] = {gate_value(to, gate.x * x, up.x * x) * by, gate_value(to, gate.y * x, up.y * x) * by,
                                gate_value(to, gate.z * x, up.z * x) * by, gate_value(to, gate.w * x, up.w * x) * by};
            put_quad(to.out, to.n_blocks, row, k, v);
            if (k == 0) to.row_scale[row] = 1 / by;
        });
}

template <int COLUMNS>
__device__ __forceinline__ void put_sums(const k_skinny_args &a, uint32_t sums, const float d[COLUMNS / 2]) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, line = skinny_line(a.groups);
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) {
        const int row = i / 4 * 8 + 2 * t + i % 2, column = warp * PACKED_ROWS + g + i % 4 / 2 * 8;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(sums + (row * line + column) * 4), "f"(d[i]) : "memory");
    }
}

template <class UNITS, int COLUMNS> __device__ __forceinline__ void skinny90(const k_skinny_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    const UNITS units(a.weights);
    const skinny_place at(a, base, units.slot_bytes(), COLUMNS);
    const int warp = (int)threadIdx.x / 32 - at.tiles; /* that copies; negative: multiplies */
    if (threadIdx.x == 0) {
        for (int i = 0; i < a.w_depth; i++)
            barrier_init(at.w_full + 8 * i, 1), barrier_init(at.w_empty + 8 * i, 32 * at.tiles);
        for (int i = 0; i < a.x_depth; i++)
            barrier_init(at.x_full + 8 * i, 1), barrier_init(at.x_empty + 8 * i, a.groups);
        prepare_meeting(1, a.groups * 128);
        barriers_made();
    }
    __syncthreads();
    let_next_start();
    float d[COLUMNS / 2];
    if (warp >= 0) {
        fewer_registers<40>();
        if (warp == 0) skinny_feed_weights(a, units, at);
        if (warp == 1 && threadIdx.x % 32 == 0) skinny_feed_activations(a, at, COLUMNS);
        __syncwarp();
        if (at.share > 1) cluster_meet();
    } else {
        more_registers<152>();
        ring_place w(a.w_depth, 0), x(a.x_depth, 0);
        operand_maker<UNITS> maker(units, a.weights.unit);
        multiply_units<COLUMNS>(d, maker, at, at.first, at.end, w, x);
        wait_for_previous();         /* for what is added to */
        groups_meet(a.groups * 128); /* the rings are free */
        put_sums<COLUMNS>(a, base, d);
        if (a.gate.out)
            skinny_store_gated(a, base, at);
        else
            skinny_store(a, base, at);
    }
    if (at.share > 1) cluster_meet(); /* nobody leaves while others still read here */
}

#endif
