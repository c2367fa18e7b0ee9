/* program_product.cuh — a product of a program: activations of a step's few rows become digits, tiles are multiplied,
 * and what follows the product (bias, residual, gate) happens where its sums meet.
 *
 * Used by program.cuh. Sums are those of matvec.cuh, slice by slice and in the same order, and norms those of rows.cu:
 * a row has the same bits either way. */
#ifndef KERNELS_PROGRAM_PRODUCT_CUH
#define KERNELS_PROGRAM_PRODUCT_CUH

#include "activate.cuh"
#include "matvec.cuh"
#include "program_ring.cuh"

enum { PROGRAM_BATCH = MATVEC_BATCH * PROGRAM_GROUPS, NORM_THREADS = 256, PIECES = 3 };

/* Where a product's activations and partial sums lie. */
struct product_room {
    uint32_t digits;
    float *scales, *part, *x; /* x: what is normed */
    int *sums;
};

template <int GROUP> __device__ __forceinline__ product_room make_product_room(const packed_args &a, uint8_t *scratch) {
    product_room r;
    r.digits = shared_address(scratch);
    r.scales = (float *)(scratch + matvec_x_bytes(a.n_rows, a.n_units));
    r.sums = (int *)(r.scales + a.n_rows * a.n_units * 2);
    r.part = (float *)((uint8_t *)r.scales + matvec_scale_bytes(a.n_rows, a.n_units, GROUP));
    r.x = (float *)((uint8_t *)r.part + matvec_part_bytes(a.n_rows, PROGRAM_GROUPS));
    return r;
}

/* ---- activations ---- */

template <int GROUP>
__device__ __forceinline__ void put_digits(const packed_args &a, const product_room &r, const float v[8], int row,
                                           int k) {
    const int width = a.n_units * PACKED_UNIT;
    store_digits<GROUP>(v, k, r.digits + 2 * row * (width + 64), width + 64, r.scales + row * a.n_units * 2,
                        r.sums + row * (width / GROUP));
}

/* Some loads of a thread are on their way at once. */
template <int GROUP> __device__ __forceinline__ void stage_plain(const packed_args &a, const product_room &r) {
    const int per_row = a.n_units * (PACKED_UNIT / 8), all = a.n_rows * per_row;
    for (int base = threadIdx.x; base < all; base += PIECES * PROGRAM_THREADS) {
        float v[PIECES][8];
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
            const int i = base + j * PROGRAM_THREADS;
            if (i < all) read_inputs(v[j], a, i / per_row, i % per_row * 8);
        }
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
            const int i = base + j * PROGRAM_THREADS;
            if (i < all) put_digits<GROUP>(a, r, v[j], i / per_row, i % per_row * 8);
        }
    }
}

/* Inputs into shared memory, all threads at once; then the sums of their squares: 256 threads a row, as k_norm has. */
__device__ __forceinline__ void read_rows(const program_stage &s, float *x, float *sums) {
    const packed_args &a = s.is.product;
    const int t = threadIdx.x % NORM_THREADS, n = a.n_in;
    for (int row = 0; row < a.n_rows; row++) {
        const float *from = a.x + (s.norm_rows ? __ldg(s.norm_rows + row) : row) * a.x_stride;
#pragma unroll 4
        for (int i = threadIdx.x; i < n / 4; i += PROGRAM_THREADS)
            ((float4 *)(x + row * n))[i] = __ldcg((const float4 *)from + i);
    }
    __syncthreads();
    for (int row = threadIdx.x / NORM_THREADS; row < a.n_rows; row += PROGRAM_THREADS / NORM_THREADS) {
        float sum = 0;
#pragma unroll 8
        for (int i = t; i < n; i += NORM_THREADS) sum = __fmaf_rn(x[row * n + i], x[row * n + i], sum);
        sum = warp_sum(sum);
        if (t % 32 == 0) sums[row * 8 + t / 32] = sum;
    }
}

__device__ __forceinline__ float norm_scale(const float *sums, int n, float eps) {
    float sum = sums[0];
#pragma unroll
    for (int i = 1; i < NORM_THREADS / 32; i++) sum = __fadd_rn(sum, sums[i]);
    return 1 / sqrtf(sum / (float)n + eps);
}

/* Which input each of eight packed ones is, -1: none; and its weight. */
__device__ __forceinline__ void read_weights(const program_stage &s, int i, int from[8], float weight[8]) {
    const packed_args &a = s.is.product;
    const int k = i % (a.n_units * (PACKED_UNIT / 8)) * 8;
#pragma unroll
    for (int j = 0; j < 8; j++) from[j] = a.order ? __ldg(a.order + k + j) : k + j < a.n_in ? k + j : -1;
#pragma unroll
    for (int j = 0; j < 8; j++) weight[j] = s.norm_weight && from[j] >= 0 ? __ldg(s.norm_weight + from[j]) : 1;
}

/* A thread's first weights are read before its turn. */
template <int GROUP>
__device__ __forceinline__ void stage_normed(const program_stage &s, const product_room &r, float *sums,
                                             uint32_t turn) {
    const packed_args &a = s.is.product;
    const int per_row = a.n_units * (PACKED_UNIT / 8), all = a.n_rows * per_row, n = a.n_in;
    int from[8];
    float weight[8];
    read_weights(s, threadIdx.x, from, weight);
    await_turn(turn);
    read_rows(s, r.x, sums);
    __syncthreads();
    for (int i = threadIdx.x; i < all; i += PROGRAM_THREADS) {
        const int row = i / per_row;
        const float scale = norm_scale(sums + row * 8, n, s.eps), *x = r.x + row * n;
        float v[8];
        if (i != (int)threadIdx.x) read_weights(s, i, from, weight);
#pragma unroll
        for (int j = 0; j < 8; j++) v[j] = from[j] < 0 ? 0 : __fmul_rn(__fmul_rn(x[from[j]], scale), weight[j]);
        put_digits<GROUP>(a, r, v, row, i % per_row * 8);
    }
}

/* ---- results ---- */

__device__ __forceinline__ float meet_slices(const packed_args &a, const float *part, int n, int row, int r) {
    const float *from = part + (n * PACKED_SLICES * a.n_rows + row) * MATVEC_PART + r;
    float sum = 0;
#pragma unroll
    for (int s = 0; s < PACKED_SLICES; s++) sum += from[s * a.n_rows * MATVEC_PART];
    return sum;
}

/* Value i of those of a batch from `tile` on. */
struct output_place {
    int n, row, r, part, out;
    float *at;
};
__device__ __forceinline__ output_place find_output(const packed_args &a, int i, int tile) {
    output_place o;
    o.r = i % PACKED_ROWS, o.row = i / PACKED_ROWS % a.n_rows, o.n = i / PACKED_ROWS / a.n_rows;
    int t;
    o.part = find_tile(
        &t, [&](int p) { return a.parts[p].n_tiles; }, tile + o.n, false);
    o.out = t * PACKED_ROWS + o.r;
    o.at = a.parts[o.part].out + o.row * a.parts[o.part].out_stride + o.out;
    return o;
}

/* What the thread's first value of a batch is added to. */
__device__ __forceinline__ float read_before(const packed_args &a, int tile, int count) {
    if ((int)threadIdx.x >= count * a.n_rows * PACKED_ROWS) return 0;
    const output_place o = find_output(a, threadIdx.x, tile);
    return a.parts[o.part].add && o.out < a.parts[o.part].n_out ? __ldcg(o.at) : 0;
}

__device__ __forceinline__ void store_outputs(const packed_args &a, const float *part, int tile, int count,
                                              float before) {
    for (int i = threadIdx.x; i < count * a.n_rows * PACKED_ROWS; i += PROGRAM_THREADS) {
        const output_place o = find_output(a, i, tile);
        const packed_part &to = a.parts[o.part];
        if (o.out >= to.n_out) continue;
        const float sum = finish_output(to, o.out, meet_slices(a, part, o.n, o.row, o.r), a.unit);
        if (to.add && i != (int)threadIdx.x) before = __ldcg(o.at);
        __stcg(o.at, to.add ? __fadd_rn(before, sum) : sum);
    }
}

/* Even tiles are the gate's, the odd one behind each is what it gates. */
__device__ __forceinline__ void store_gated(const packed_args &a, const float *part, int tile, int count, int act) {
    for (int i = threadIdx.x; i < count / 2 * a.n_rows * PACKED_ROWS; i += PROGRAM_THREADS) {
        const int r = i % PACKED_ROWS, row = i / PACKED_ROWS % a.n_rows, n = i / PACKED_ROWS / a.n_rows;
        const int out = (tile / 2 + n) * PACKED_ROWS + r;
        const packed_part &gate = a.parts[0], &up = a.parts[1];
        if (out >= gate.n_out) continue;
        const float g = finish_output(gate, out, meet_slices(a, part, 2 * n, row, r), a.unit);
        const float u = finish_output(up, out, meet_slices(a, part, 2 * n + 1, row, r), a.unit);
        __stcg(gate.out + row * gate.out_stride + out, __fmul_rn(activate(act, g), u));
    }
}

/* ---- the stage ---- */

/* Apart from the others, so that each has the registers to itself. */
template <class UNITS> __device__ __noinline__ void run_product(int index, uint32_t turn) {
    constexpr int GROUP = UNITS::SUM;
    const program_stage &s = stage_of(index);
    const program_stream &tiles = stream_of(s.stream);
    const packed_args &a = s.is.product;
    const UNITS units(a);
    const product_room r = make_product_room<GROUP>(a, program_shared() + state_of().scratch);
    weight_ring ring;
    if (s.is_normed) {
        stage_normed<GROUP>(s, r, state_of().sums, turn);
    } else {
        await_turn(turn);
        stage_plain<GROUP>(a, r);
    }
    const int warp = threadIdx.x / 32, group = warp / PACKED_SLICES, lane = threadIdx.x % 32, g = lane / 4,
              t = lane % 4;
    const int width = a.n_units * PACKED_UNIT, column_row = min(g / 2, a.n_rows - 1), lane_row = min(t, a.n_rows - 1);
    x_view x[1];
    x[0].digits = r.digits + (2 * column_row + g % 2) * (width + 64) + t * 16;
    x[0].scales = r.scales + lane_row * a.n_units * 2;
    x[0].sums = r.sums + lane_row * (width / GROUP);
    __syncthreads();
    for (int batch = tiles.first; batch < tiles.end; batch += PROGRAM_BATCH) {
        const int count = min(tiles.end - batch, PROGRAM_BATCH);
        const float before = s.gates ? 0 : read_before(a, batch, count);
        for (int i = group; i < count; i += PROGRAM_GROUPS) {
            const int slice = slice_of(warp, batch + i), end = packed_slice(slice + 1, a.n_units);
            float y[1][2] = {};
            for (int u = packed_slice(slice, a.n_units); u < end;) {
                uint32_t at = ring.wait();
                for (const int stop = min(u + ring.per_slot, end); u < stop; u++) {
                    units.template dot<1>(y, at, x, u);
                    at += units.bytes(u);
                }
                ring.next();
            }
            if (t < a.n_rows) {
                float *to = r.part + ((i * PACKED_SLICES + slice) * a.n_rows + t) * MATVEC_PART + g;
                to[0] = y[0][0], to[8] = y[0][1];
            }
        }
        __syncthreads();
        if (s.gates)
            store_gated(a, r.part, batch, count, s.act);
        else
            store_outputs(a, r.part, batch, count, before);
        if (batch + PROGRAM_BATCH < tiles.end) __syncthreads();
    }
    ring.close();
}

#endif
