/* operand_rows.cuh — where an element of a row of activations lies among the blocks that the tensor cores multiply.
 *
 * Used by whatever leaves its results there for the next product: blocks.cuh tells more of these blocks. */
#ifndef KERNELS_OPERAND_ROWS_CUH
#define KERNELS_OPERAND_ROWS_CUH

#include "../fast_kargs.h"
#include "heads.cuh"
#include "wgmma.cuh"

/* Bytes to element k of a row, of rows of n_blocks x 64 elements. Elements 4 t, 4 t + 2 of each 16 stand where lane t
 * has its first two, the others in the second half. */
__device__ __forceinline__ size_t operand_at(int row, int n_blocks, int k) {
    return ((size_t)(row / 128) * n_blocks + k / 64) * GEMM_BLOCK + swizzled(row % 128, k % 64 / 16 * 2 + k % 2) +
           k % 16 / 4 * 4 + k % 4 / 2 * 2;
}

/* Elements k and k + 1 of a row, by a whole warp: k is a multiple of four in even lanes, and the lane behind has the
 * two next. */
__device__ __forceinline__ void put_pair(uint8_t *to, int n_blocks, int row, int k, float a, float b, bool is_there) {
    const int odd = threadIdx.x % 2;
    const float other = __shfl_xor_sync(~0u, odd ? a : b, 1);
    const uint32_t both = odd ? pack_half(other, b) : pack_half(a, other);
    if (is_there) *(uint32_t *)(to + operand_at(row, n_blocks, k / 4 * 4 + odd)) = both;
}

/* Elements k .. k + 3 of a row, by one thread: k is a multiple of four. */
__device__ __forceinline__ void put_quad(uint8_t *to, int n_blocks, int row, int k, const float v[4]) {
    *(uint32_t *)(to + operand_at(row, n_blocks, k)) = pack_half(v[0], v[2]);
    *(uint32_t *)(to + operand_at(row, n_blocks, k + 1)) = pack_half(v[1], v[3]);
}

/* ---- behind a gate ---- */

/* The power of two that brings all results of a row of this size below 2^15. It may be much too small for what they
 * are: float16 has as many bits of them still. */
__device__ __forceinline__ float gate_scale(const k_gate_out &g, float row_size) {
    const float most = row_size * row_size * g.bound;
    return most > 0 && most < INFINITY ? ldexpf(1, max(-120, min(14 - ilogbf(most), 120))) : 1;
}

__device__ __forceinline__ float gate_value(const k_gate_out &g, float gate, float up) {
    const float x = gate * fmaf(gate * gate, g.cubic, g.linear);
    return __fdividef(gate, 1 + exp2_fast(x * -1.44269504f)) * up;
}

/* ---- behind attention ---- */

/* A pair of attention's results, of rows of `width`: as put_pair has it where the next product reads it, else as it is.
 * Means of what a float16 cache holds need no scale. */
__device__ __forceinline__ void put_result(const k_decode_args &a, int row, int width, int k, float x, float y,
                                           bool is_there) {
    if (a.blocks)
        put_pair(a.blocks, a.n_blocks, row, k, x, y, is_there);
    else if (is_there)
        *(float2 *)(a.out + (size_t)row * width + k) = make_float2(x, y);
}

/* Four of them, from k on, a multiple of four. */
__device__ __forceinline__ void put_four(const k_decode_args &a, int row, int width, int k, const uint4 &v) {
    if (!a.blocks) {
        *(uint4 *)(a.out + (size_t)row * width + k) = v;
        return;
    }
    const float quad[4] = {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
    put_quad(a.blocks, a.n_blocks, row, k, quad);
}

#endif
