/* emulate.h — what CUDA's headers give to a kernel, so that kernels can be compiled as plain C++ and run without a GPU.
 *
 * Included before a kernel by the build. A thread of a block is a coroutine (emulate.cpp): it runs
 * until it meets others at a barrier or in an exchange between the lanes of its warp. Slow, but exact about who waits
 * for whom, and memory checkers see every access. */
#ifndef TESTS_CUDA_EMULATE_H
#define TESTS_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static /* one block runs at a time */

struct emulated_index {
    unsigned x, y, z;
};
struct uint4 {
    uint32_t x, y, z, w;
};

extern emulated_index threadIdx, blockIdx, blockDim, gridDim;

void *emulate_shared(void);
#define DYNAMIC_SHARED(type, name) type *name = (type *)emulate_shared()

/* All threads of the block; all lanes of the warp. Threads that have ended are not waited for. */
void __syncthreads(void);
void __syncwarp(void);
/* Each lane shows `bytes`; the result points to what the 32 lanes have shown, 64 bytes each, until the exchange after
 * next. */
const uint8_t *emulate_exchange(const void *shown, size_t bytes);

template <class T> static inline T __shfl_xor_sync(unsigned, T value, int step) {
    T out;
    memcpy(&out, emulate_exchange(&value, sizeof value) + 64 * (threadIdx.x % 32 ^ (unsigned)step), sizeof out);
    return out;
}

unsigned __ballot_sync(unsigned lanes, bool vote);
static inline int __popc(unsigned x) { return __builtin_popcount(x); }

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __uint_as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct f16;
struct bf16;
float to_float(f16 x);
void put_float(f16 *to, float x);
void put_float(bf16 *to, float x);
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, f16);
void multiply_tile(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bf16);

#endif
