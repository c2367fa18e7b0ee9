/* keys.cuh — floats as whole numbers in the same order.
 *
 * Used by digest.cu, and by a program that finds the best of its logits. */
#ifndef KERNELS_KEYS_CUH
#define KERNELS_KEYS_CUH

#include "kernel.cuh"

static const float GREATEST = 3.402823466e38f; /* that is finite */

static __device__ __forceinline__ uint32_t key_of(float x) {
    const uint32_t bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float value_of(uint32_t key) {
    return __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

#endif
