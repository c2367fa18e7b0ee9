/* norm.cuh — the sum of a row's squares in an order that depends on its width alone, and what a norm multiplies by.
 *
 * Used by rows.cu and programs, which must agree bit for bit. Eight inputs are summed one after the other, 32 such
 * pieces as a warp does it, and those blocks of 256 inputs in ascending order. */
#ifndef KERNELS_NORM_CUH
#define KERNELS_NORM_CUH

#include "kernel.cuh"
#include "ptx.cuh"

enum { NORM_PIECE = 8, NORM_BLOCK = NORM_PIECE * WARP };

/* Of a block, of which the lanes have a piece each; inputs behind the row's end are 0. */
__device__ __forceinline__ float block_square(const float v[NORM_PIECE]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < NORM_PIECE; i++) sum = __fmaf_rn(v[i], v[i], sum);
    return warp_sum(sum);
}
__device__ __forceinline__ int norm_blocks(int n_in) { return (n_in + NORM_BLOCK - 1) / NORM_BLOCK; }

/* Sums of n blocks lie in fours, with zeros behind the last one. */
enum { NORM_FOURS = 4 }; /* fours that are asked for together: the additions wait for each other long enough */
__device__ __forceinline__ void put_block(float *sums, int block, int n, float sum) {
    sums[block] = sum;
    if (block == n - 1)
        for (int i = n; i % 4; i++) sums[i] = 0;
}
__device__ __forceinline__ float add_blocks(const float *sums, int n) {
    const float4 zeros = {0, 0, 0, 0};
    float sum = 0;
    for (int first = 0; first < n; first += 4 * NORM_FOURS) {
        float4 v[NORM_FOURS];
#pragma unroll
        for (int i = 0; i < NORM_FOURS; i++) v[i] = first + 4 * i < n ? *(const float4 *)(sums + first + 4 * i) : zeros;
#pragma unroll
        for (int i = 0; i < NORM_FOURS; i++)
            sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v[i].x), v[i].y), v[i].z), v[i].w);
    }
    return sum;
}

__device__ __forceinline__ float norm_scale(float squares, int n, float eps) {
    return rsqrt_fast(__fadd_rn(__fdividef(squares, (float)n), eps));
}

#endif
