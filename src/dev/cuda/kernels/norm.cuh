/* norm.cuh — the sum of a row's squares in an order that depends on its width alone, and what a norm multiplies by.
 *
 * Used by rows.cu and programs, which must agree bit for bit. Eight inputs are summed one after the other, 32 such
 * pieces as a warp does it, and those blocks of 256 inputs in ascending order. */
#ifndef KERNELS_NORM_CUH
#define KERNELS_NORM_CUH

#include "kernel.cuh"
#include "ptx.cuh"

enum { NORM_PIECE = 8, NORM_BLOCK = NORM_PIECE * WARP };

/* Of blocks, of each of which the lanes have a piece; inputs behind the row's end are 0. */
template <int BLOCKS>
__device__ __forceinline__ void block_squares(float sums[BLOCKS], const float v[BLOCKS][NORM_PIECE]) {
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        sums[b] = 0;
#pragma unroll
        for (int i = 0; i < NORM_PIECE; i++) sums[b] = __fmaf_rn(v[b][i], v[b][i], sums[b]);
    }
#pragma unroll
    for (int step = 16; step; step /= 2)
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) sums[b] = __fadd_rn(sums[b], __shfl_xor_sync(~0u, sums[b], step));
}
__device__ __forceinline__ float add_blocks(const float *sums, int n) {
    constexpr int AT_ONCE = 16; /* asked for together: the additions wait for each other long enough */
    float sum = 0;
    for (int first = 0; first < n; first += AT_ONCE) {
        float v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) v[i] = first + i < n ? sums[first + i] : 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) sum = __fadd_rn(sum, v[i]);
    }
    return sum;
}

__device__ __forceinline__ float norm_scale(float squares, int n, float eps) {
    return rsqrt_fast(__fadd_rn(__fdividef(squares, (float)n), eps));
}

#endif
