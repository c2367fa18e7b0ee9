/* kernel.cuh — what the general kernels share: 16-bit floats, sums over a warp, the tensor cores' product.
 *
 * Sums are written with fixed order and explicit fused operations, so that two kernels that must agree bit for bit do,
 * whatever the compiler makes of them. tests/cuda/emulate.h, included before all else, stands in for the toolkit's
 * headers where these kernels are run without a GPU. */
#ifndef DEV_CUDA_KERNELS_KERNEL_CUH
#define DEV_CUDA_KERNELS_KERNEL_CUH

#include "../kargs.h"
#include "order.cuh"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

#define KERNEL extern "C" __global__ void

struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

#ifdef __CUDACC__
static __device__ __forceinline__ float to_float(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
static __device__ __forceinline__ void put_float(f16 *to, float x) { to->bits = __half_as_ushort(__float2half_rn(x)); }
static __device__ __forceinline__ void put_float(bf16 *to, float x) {
    to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

/* c += a b with a [16][16] by rows, b [16][8] by columns, as PTX spreads them over a warp. */
static __device__ __forceinline__ void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, f16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

static __device__ __forceinline__ float to_float(float x) { return x; }
static __device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((uint32_t)x.bits << 16); }
static __device__ __forceinline__ void put_float(float *to, float x) { *to = x; }

enum { WARP = 32 };
static const unsigned ALL_LANES = 0xffffffffu;

/* All lanes get the sum; each adds in the same order. */
static __device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step; step /= 2) x = __fadd_rn(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

static __device__ __forceinline__ float warp_most(float x) {
    for (int step = 16; step; step /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, x, step);
        x = other <= x ? x : other; /* lets NaN through */
    }
    return x;
}

/* All threads of the block get the sum. `room`: a float for each warp. */
static __device__ __forceinline__ float block_sum(float x, float *room) {
    const int warps = (int)blockDim.x / WARP;
    x = warp_sum(x);
    if (warps == 1) return x;
    __syncthreads(); /* nobody still reads an earlier sum */
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = x;
    __syncthreads();
    x = room[0];
    for (int i = 1; i < warps; i++) x = __fadd_rn(x, room[i]);
    return x;
}

static __device__ __forceinline__ int64_t thread_index(void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ int64_t thread_count(void) { return (int64_t)gridDim.x * blockDim.x; }

/* Where element (row, k) of a matrix lies among tiles of K_TILE_ROWS x K_TILE_DEPTH. A lane of the warp holds eight
 * inputs of two rows, 8 apart: four for each of two products. */
static __device__ __forceinline__ int64_t tile_place(int64_t row, int64_t k, int64_t n_in) {
    const int64_t per_row = (n_in + K_TILE_DEPTH - 1) / K_TILE_DEPTH;
    const int r = (int)(row % K_TILE_ROWS), at = (int)(k % K_TILE_DEPTH), j = at % 8;
    const int lane = r % 8 * 4 + at / 8, half = j % 4 / 2 * 4 + r / 8 * 2 + j % 2;
    return ((row / K_TILE_ROWS * per_row + k / K_TILE_DEPTH) * 2 + j / 4) * (WARP * 8) + lane * 8 + half;
}

#endif
