/* blocks.cuh — rows of activations as float16 in the blocks that skinny90.cuh and wide90.cuh multiply.
 *
 * Instances are spelled in blocks.cu. Blocks are of 128 rows x 64 inputs and lie as wgmma.cuh tells, one after the
 * other along the inputs; inputs of each 16 are exchanged as operands90.cuh has those of weights. Rows come as they
 * are, behind a norm, or behind a gate; the latter two spare the float32 result where nobody but the product reads it.
 * One block of threads makes a row: each thread keeps its inputs in registers, for they are needed more than once: the
 * row is multiplied by the power of two that brings its greatest below 2^14, and that is known last. */
#ifndef KERNELS_BLOCKS_CUH
#define KERNELS_BLOCKS_CUH

#include "../fast_kargs.h"
#include "activate.cuh"
#include "heads.cuh"
#include "matvec.cuh"
#include "wgmma.cuh"

/* A thread's inputs: pieces of eight, blockDim.x pieces apart, from input `first` on. */
struct row_inputs {
    float v[BLOCKS_PIECES][8];
    int first;
};

template <class TAKE> __device__ __forceinline__ void for_pieces(int first, int width, TAKE take) {
#pragma unroll
    for (int i = 0; i < BLOCKS_PIECES; i++) {
        const int k = first + (i * (int)blockDim.x + (int)threadIdx.x) * 8;
        if (k < width) take(i, k);
    }
}

/* All threads get what `meet` makes of everybody's x, in the order of the warps. */
template <class MEET> __device__ __forceinline__ float meet_block(float x, float *room, MEET meet) {
#pragma unroll
    for (int o = 16; o; o >>= 1) x = meet(x, __shfl_xor_sync(~0u, x, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    x = room[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) x = meet(x, room[i]);
    return x;
}

__device__ __forceinline__ float block_total(float x, float *room) {
    return meet_block(x, room, [](float a, float b) { return a + b; });
}

__device__ __forceinline__ void read_row(row_inputs &r, const k_blocks_args &a, const float *x, const int32_t *order,
                                         int row) {
    const packed_args from = {x, a.x_stride, order, a.n_in};
    for_pieces(r.first, a.n_blocks * 64, [&](int i, int k) { read_inputs(r.v[i], from, row, k); });
}

/* Elements k .. k + 7 of a vector that has n, 0 behind it. */
__device__ __forceinline__ void read_eight(float v[8], const float *from, int k, int n) {
    if (k + 8 <= n && !((uintptr_t)from & 15)) {
        const float4 lo = __ldg((const float4 *)(from + k)), hi = __ldg((const float4 *)(from + k + 4));
        v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w, v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
        return;
    }
    for (int j = 0; j < 8; j++) v[j] = k + j < n ? __ldg(from + k + j) : 0;
}

/* What is behind n_in is 0 and stays so. */
__device__ __forceinline__ void norm_row(row_inputs &r, const k_blocks_args &a, float *room) {
    float mean = 0, sum = 0;
    if (a.is_layer) {
        for_pieces(0, a.n_in, [&](int i, int) {
            for (int j = 0; j < 8; j++) sum += r.v[i][j];
        });
        mean = block_total(sum, room) / (float)a.n_in;
        sum = 0;
    }
    for_pieces(0, a.n_in, [&](int i, int k) {
        for (int j = 0; j < 8; j++) {
            r.v[i][j] = k + j < a.n_in ? r.v[i][j] - mean : 0;
            sum = fmaf(r.v[i][j], r.v[i][j], sum);
        }
    });
    const float scale = 1 / sqrtf(block_total(sum, room) / (float)a.n_in + a.eps);
    for_pieces(0, a.n_in, [&](int i, int k) {
        float with[8];
        for (int j = 0; j < 8; j++) r.v[i][j] *= scale;
        if (a.with) {
            read_eight(with, a.with, k, a.n_in);
            for (int j = 0; j < 8; j++) r.v[i][j] *= with[j];
        }
        if (a.bias) {
            read_eight(with, a.bias, k, a.n_in);
            for (int j = 0; j < 8; j++) r.v[i][j] += with[j];
        }
    });
}

template <int ACT> __device__ __forceinline__ void gate_row(row_inputs &r, const k_blocks_args &a, int row) {
    const packed_args from = {a.with, a.x_stride, NULL, a.n_in};
    for_pieces(r.first, a.n_blocks * 64, [&](int i, int k) {
        float up[8];
        read_inputs(up, from, row, k);
        for (int j = 0; j < 8; j++) r.v[i][j] = activate(ACT, r.v[i][j]) * up[j];
    });
}

__device__ __forceinline__ float greatest(const row_inputs &r, int width, float m) {
    for_pieces(r.first, width, [&](int i, int) {
        for (int j = 0; j < 8; j++) m = max_nan(m, fabsf(r.v[i][j]));
    });
    return m;
}

__device__ __forceinline__ float size_of(const row_inputs &r, int width, float sum) {
    for_pieces(r.first, width, [&](int i, int) {
        for (int j = 0; j < 8; j++) sum += fabsf(r.v[i][j]);
    });
    return sum;
}

__device__ __forceinline__ void put_row(const row_inputs &r, const k_blocks_args &a, int row, float scale) {
    for_pieces(r.first, a.n_blocks * 64, [&](int i, int k) {
        const float *v = r.v[i];
        uint8_t *block = a.out + ((size_t)(row / 128) * a.n_blocks + k / 64) * GEMM_BLOCK;
        /* inputs 4 t, 4 t + 2 of 16 stand where lane t has its first two, the others in the second half */
        const int piece = k % 64 / 16 * 2, at = k % 16;
        *(uint2 *)(block + swizzled(row % 128, piece) + at) =
            make_uint2(pack_half(v[0] * scale, v[2] * scale), pack_half(v[4] * scale, v[6] * scale));
        *(uint2 *)(block + swizzled(row % 128, piece + 1) + at) =
            make_uint2(pack_half(v[1] * scale, v[3] * scale), pack_half(v[5] * scale, v[7] * scale));
    });
}

enum { ROW_PLAIN, ROW_NORM, ROW_GATE }; /* and then the activations */

template <int KIND>
__device__ __forceinline__ void make_row(row_inputs &r, const k_blocks_args &a, int row, float *room) {
    read_row(r, a, a.x, KIND == ROW_PLAIN ? a.order : NULL, row);
    if (KIND == ROW_NORM) norm_row(r, a, room);
    if (KIND >= ROW_GATE) gate_row<KIND - ROW_GATE>(r, a, row);
}

/* A row that is wider than the threads together is made twice, piece by piece; never one behind a norm. */
template <int KIND> __device__ __forceinline__ void put_blocks(const k_blocks_args &a) {
    __shared__ float room[32];
    const int row = blockIdx.x, width = a.n_blocks * 64, step = blockDim.x * 8 * BLOCKS_PIECES;
    row_inputs r;
    float m = 0, size = 0;
    let_next_start();
    wait_for_previous();
    for (r.first = 0; r.first < width; r.first += step) {
        make_row<KIND>(r, a, row, room);
        m = greatest(r, width, m);
        if (KIND < ROW_GATE) size = size_of(r, width, size);
    }
    if (KIND < ROW_GATE && a.row_size) {
        size = block_total(size, room);
        if (threadIdx.x == 0) a.row_size[row] = size;
    }
    m = meet_block(m, room, max_nan);
    const float scale = row_power(m);
    if (threadIdx.x == 0) a.row_scale[row] = 1 / scale;
    r.first -= step;
    if (!r.first) return put_row(r, a, row, scale);
    for (r.first = 0; r.first < width; r.first += step) {
        make_row<KIND>(r, a, row, room);
        put_row(r, a, row, scale);
    }
}

#endif
