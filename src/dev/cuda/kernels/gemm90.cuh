/* gemm90.cuh — many rows times float16 weights on Hopper: out[row][n] = sum over k of x[row][k] w[n][k].
 *
 * Both operands come in blocks of 128 rows x 64 inputs that already lie as the tensor cores want them (wgmma.cuh), one
 * block after the other along the inputs; unpack.cuh makes them. So a block is one copy in bulk and needs no tensor
 * map. One block of threads per multiprocessor walks over tiles of 128 rows x 256 outputs: one warp copies, two
 * warpgroups multiply. Two neighbours have the same outputs and each sends half of the weights to both, which spares
 * the L2 cache's bandwidth. (Four, who share rows as well, were slower: too few of them fit the GPU at once.) */
#ifndef KERNELS_GEMM90_CUH
#define KERNELS_GEMM90_CUH

#include "../fast_kargs.h"
#include "wgmma.cuh"
#include <cuda_fp16.h>

struct gemm_place {
    uint32_t full, empty, data;
};

/* The pairs' tiles, 2 x 128 rows x 256 outputs, down the rows first. */
struct gemm_cut {
    int row_steps, n_tiles, rank;
    __device__ __forceinline__ gemm_cut(const k_gemm_args &a)
        : row_steps((a.n_rows + GEMM_ROWS * GEMM_CLUSTER - 1) / (GEMM_ROWS * GEMM_CLUSTER)),
          n_tiles(row_steps * ((a.n_out + GEMM_OUTS - 1) / GEMM_OUTS)), rank((int)cluster_rank()) {}
    __device__ __forceinline__ int row_tile(int tile) const { return tile % row_steps * GEMM_CLUSTER + rank; }
    __device__ __forceinline__ int out_tile(int tile) const { return tile / row_steps; }
};

__device__ __forceinline__ void gemm_feed(const k_gemm_args &a, gemm_place at) {
    const gemm_cut cut(a);
    const size_t step = (size_t)a.n_blocks * GEMM_BLOCK; /* from 128 rows or outputs to the next */
    int stage = 0, parity = 1;
    for (int tile = blockIdx.x / GEMM_CLUSTER; tile < cut.n_tiles; tile += gridDim.x / GEMM_CLUSTER) {
        const uint8_t *x = a.x + (size_t)cut.row_tile(tile) * step;
        const uint8_t *w = a.w + (size_t)(cut.out_tile(tile) * 2 + cut.rank) * step;
        for (int k = 0; k < a.n_blocks; k++, x += GEMM_BLOCK, w += GEMM_BLOCK) {
            const uint32_t to = at.data + stage * GEMM_STAGE, full = at.full + stage * 8;
            barrier_wait(at.empty + stage * 8, parity);
            barrier_expect(full, GEMM_STAGE);
            copy_bulk(to, x, GEMM_BLOCK, full);
            copy_bulk_to(to + (1 + cut.rank) * GEMM_BLOCK, w, GEMM_BLOCK, full, 3);
            if (++stage == GEMM_STAGES) stage = 0, parity ^= 1;
        }
    }
}

/* Two neighbouring outputs, of which the second may not be there. */
__device__ __forceinline__ void gemm_put(const k_gemm_args &a, float *to, int n, float2 v) {
    if (a.bias) v.x += __ldg(a.bias + n), v.y += n + 1 < a.n_out ? __ldg(a.bias + n + 1) : 0;
    to[n] = a.add ? to[n] + v.x : v.x;
    if (n + 1 < a.n_out) to[n + 1] = a.add ? to[n + 1] + v.y : v.y;
}

/* A row's 64 outputs of this lane, all of which are there: what is added to is read before anything is written. */
template <bool ADD>
__device__ __forceinline__ void gemm_store_whole(const k_gemm_args &a, const float d[128], int h, float *to, int out,
                                                 float scale) {
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        float2 v[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            v[j] = make_float2(0, 0);
            if (ADD) v[j] = *(const float2 *)(to + out + 8 * (i + j));
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            v[j].x = fmaf(d[4 * (i + j) + 2 * h], scale, v[j].x);
            v[j].y = fmaf(d[4 * (i + j) + 2 * h + 1], scale, v[j].y);
        }
#pragma unroll
        for (int j = 0; j < 8; j++) *(float2 *)(to + out + 8 * (i + j)) = v[j];
    }
}

__device__ __forceinline__ void gemm_store(const k_gemm_args &a, const float d[128], int row, int out) {
    const int lane = threadIdx.x % 32, first = out + lane % 4 * 2;
    const bool whole = out + GEMM_OUTS <= a.n_out && !a.bias && !(a.out_stride & 1) && !((uintptr_t)a.out & 7);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = row + lane / 4 + 8 * h;
        if (r >= a.n_rows) continue;
        const float scale = __ldg(a.row_scale + r);
        float *to = a.out + r * a.out_stride;
        if (whole && a.add) {
            gemm_store_whole<true>(a, d, h, to, first, scale);
        } else if (whole) {
            gemm_store_whole<false>(a, d, h, to, first, scale);
        } else {
#pragma unroll
            for (int i = 0; i < 32; i++)
                if (first + 8 * i < a.n_out)
                    gemm_put(a, to, first + 8 * i, make_float2(d[4 * i + 2 * h] * scale, d[4 * i + 2 * h + 1] * scale));
        }
    }
}

/* Both blocks write here, so both must hear, from one thread of each warpgroup. */
__device__ __forceinline__ void gemm_release(uint32_t barrier) {
    if (threadIdx.x % 32 == 0 && threadIdx.x % 128 < 32 * GEMM_CLUSTER) barrier_arrive(barrier, threadIdx.x / 32 % 4);
}

__device__ __forceinline__ void gemm_multiply(const k_gemm_args &a, gemm_place at) {
    const gemm_cut cut(a);
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 % 4;
    int stage = 0, parity = 0, last = 0;
    float d[128];
    for (int tile = blockIdx.x / GEMM_CLUSTER; tile < cut.n_tiles; tile += gridDim.x / GEMM_CLUSTER) {
        for (int k = 0; k < a.n_blocks; k++) {
            barrier_wait(at.full + stage * 8, parity);
            const uint32_t base = at.data + stage * GEMM_STAGE;
            const uint64_t x = operand(base + group * (GEMM_BLOCK / 2)), w = operand(base + GEMM_BLOCK);
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < GEMM_DEPTH / 16; i++) wgmma_256(d, x + 2 * i, w + 2 * i, k | i);
            wgmma_commit();
            wgmma_wait<1>();
            if (k) gemm_release(at.empty + last * 8);
            last = stage;
            if (++stage == GEMM_STAGES) stage = 0, parity ^= 1;
        }
        wgmma_wait<0>();
        gemm_release(at.empty + last * 8);
        gemm_store(a, d, cut.row_tile(tile) * GEMM_ROWS + group * 64 + warp * 16, cut.out_tile(tile) * GEMM_OUTS);
    }
}

__device__ __forceinline__ void gemm90(const k_gemm_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = ((uint32_t)__cvta_generic_to_shared(shared) + 1023) & ~1023u;
    gemm_place at;
    at.data = base, at.full = base + GEMM_STAGES * GEMM_STAGE, at.empty = at.full + GEMM_STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < GEMM_STAGES; i++)
            barrier_init(at.full + 8 * i, 1), barrier_init(at.empty + 8 * i, 2 * GEMM_CLUSTER);
        barriers_made();
    }
    __syncthreads();
    cluster_sync();
    if (threadIdx.x < 128) {
        fewer_registers<40>();
        if (threadIdx.x == 0) gemm_feed(a, at);
    } else {
        more_registers<232>();
        gemm_multiply(a, at);
    }
    __syncwarp();
    cluster_meet(); /* nobody leaves while the neighbour may still write here */
}

#endif
