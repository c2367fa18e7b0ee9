/* heads.cuh — what both attention kernels share: fragments of keys and values out of pages, numbers as float16.
 *
 * Inside a page keys are [kv_head][16 groups][head_dim][16 tokens], values [kv_head][256][head_dim], so that both are
 * read with transposing loads. Pieces of 16 bytes are exchanged on their way into shared memory, for else the eight
 * rows of such a load would meet in the same banks. */
#ifndef KERNELS_HEADS_CUH
#define KERNELS_HEADS_CUH

#include "digits.cuh"

enum { PAGE_TOKENS = 256, PAGE_GROUP = 16 };

/* Bytes into a group's keys [dim][16] or values [16][dim]; piece: 16 bytes of a row. */
__device__ __forceinline__ int key_at(int d, int piece) { return d * 32 + (piece ^ (d >> 2 & 1)) * 16; }
template <int DIM> __device__ __forceinline__ int value_at(int token, int piece) {
    return token * DIM * 2 + (piece ^ (token & 7)) * 16;
}

__device__ __forceinline__ uint32_t pack_half(float a, float b) {
    const half2 h = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&h);
}
/* What float16 loses of a and b. */
__device__ __forceinline__ uint32_t pack_rest(float a, float b, uint32_t high) {
    const float2 h = __half22float2(*reinterpret_cast<const half2 *>(&high));
    return pack_half(a - h.x, b - h.y);
}

/* The power of two that brings the greatest of a row below 2^14. */
__device__ __forceinline__ float row_power(float most) {
    return ldexpf(1, min(most > 0 && most < INFINITY ? 13 - ilogbf(most) : 0, 126));
}

/* A row's sum over the four neighbouring lanes that have parts of it, and the head's sink. fade: what the row's output
 * is multiplied by before it is divided by the sum. */
__device__ __forceinline__ float end_softmax(float *fade, float sum, float row_max, const float *sinks, int head) {
    *fade = 1;
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (sinks) {
        const float sink = __ldg(sinks + head) * 1.44269504f, max = fmaxf(row_max, sink);
        *fade = exp2_fast(row_max - max);
        sum = sum * *fade + exp2_fast(sink - max);
    }
    return sum;
}
/* Fragments of 16 inputs (of a head), from d on, x 16 tokens: r[0], r[1] for tokens 0 .. 7, r[2], r[3] for the others.
 */
__device__ __forceinline__ void load_keys(uint32_t r[4], uint32_t group, int d) {
    const int lane = threadIdx.x % 32;
    load_transposed(r, group + key_at(lane % 16, lane / 16) + key_at(d, 0)); /* d: a multiple of 8 */
}
/* 16 tokens x 16 outputs: r[0], r[1] for outputs 0 .. 7. */
template <int DIM>
__device__ __forceinline__ void load_values(uint32_t r[4], uint32_t group, int d, int lane = threadIdx.x % 32) {
    load_transposed(r, group + value_at<DIM>(lane % 16, d / 8 + lane / 16));
}
/* The first position that a query at `pos` sees. */
__device__ __forceinline__ int first_seen(int pos, int window, int chunk) {
    int first = window && pos >= window ? pos - window + 1 : 0;
    if (chunk) first = max(first, pos / chunk * chunk);
    return first;
}

#endif
