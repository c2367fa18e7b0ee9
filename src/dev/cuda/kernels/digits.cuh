/* digits.cuh — codes of 2 to 8 bits times activations of two int8 digits, on the tensor cores.
 *
 * Used by matvec.cuh; its codes by operands90.cuh, too. An activation is a whole number of 15 bits times
 * one scale per 128 inputs, split into two digits of seven bits that stand in neighbouring columns of one m16n8k32
 * product: the sums inside a group are exact, cannot overflow, and are more accurate than float16 activations. Codes
 * stay unsigned; zeros and minima are taken off by the sum of a group's activations.
 *
 * The tricky thing is how codes lie: BITS words of a lane hold its 32 codes of 16 rows x 64 inputs such that most come
 * out with one AND. They come out in two classes, as they are and times `Code<BITS>::factor` (in place, not shifted
 * down); each class has sums of its own that meet after the group. */
#ifndef KERNELS_DIGITS_CUH
#define KERNELS_DIGITS_CUH

#include "order.cuh"
#include "packed.h"
#include <stdint.h>

__device__ __forceinline__ uint32_t pick(uint32_t a, uint32_t mask, uint32_t other) { return (a & mask) | other; }

/* a[step]: the registers of m16n8k32's first operand for inputs 32 step + 4 t .. and 32 step + 16 + 4 t .. of rows g
 * and g + 8. */
template <int BITS> struct Code;

template <> struct Code<2> {
    static constexpr int factor = 4;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t high = w[i] >> 4;
            a[0][i] = w[i] & 0x03030303u, a[1][i] = w[i] & 0x0C0C0C0Cu;
            a[0][i + 2] = high & 0x03030303u, a[1][i + 2] = high & 0x0C0C0C0Cu;
        }
    }
};

template <> struct Code<3> {
    static constexpr int factor = 8;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 3; i++) a[0][i] = w[i] & 0x07070707u, a[1][i] = w[i] & 0x38383838u;
        a[0][3] = pick(w[0] >> 6, 0x03030303u, w[2] >> 4 & 0x04040404u);
        a[1][3] = pick(w[1] >> 3, 0x18181818u, w[2] >> 2 & 0x20202020u);
    }
};

template <> struct Code<4> {
    static constexpr int factor = 16;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i] & 0x0F0F0F0Fu, a[1][i] = w[i] & 0xF0F0F0F0u;
    }
};

template <> struct Code<5> {
    static constexpr int factor = 8;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i] & 0x1F1F1F1Fu;
        a[1][0] = pick(w[0], 0xE0E0E0E0u, w[3] >> 2 & 0x18181818u);
        a[1][1] = pick(w[1], 0xE0E0E0E0u, pick(w[3] >> 3, 0x10101010u, w[4] << 3 & 0x08080808u));
        a[1][2] = pick(w[2], 0xE0E0E0E0u, w[4] << 2 & 0x18181818u);
        a[1][3] = w[4] & 0xF8F8F8F8u;
    }
};

template <> struct Code<6> {
    static constexpr int factor = 4;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i] & 0x3F3F3F3Fu;
        a[1][0] = pick(w[0], 0xC0C0C0C0u, pick(w[1] >> 2, 0x30303030u, w[4] << 2 & 0x0C0C0C0Cu));
        a[1][1] = pick(w[2], 0xC0C0C0C0u, pick(w[3] >> 2, 0x30303030u, w[5] << 2 & 0x0C0C0C0Cu));
        a[1][2] = w[4] & 0xFCFCFCFCu, a[1][3] = w[5] & 0xFCFCFCFCu;
    }
};

template <> struct Code<8> {
    static constexpr int factor = 1;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i], a[1][i] = w[i + 4];
    }
};

/* ---- instructions ---- */

__device__ __forceinline__ void mma_digits(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Sixteen inputs only: groups of 16. */
__device__ __forceinline__ void mma_digits16(int c[4], uint32_t a0, uint32_t a1, uint32_t b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
/* Loads that the compiler may move, so that many are on their way at once. */
__device__ __forceinline__ uint4 load_shared16(uint32_t a) { return *(const uint4 *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint32_t load_shared4(uint32_t a) { return *(const uint32_t *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint32_t load_shared2(uint32_t a) { return *(const uint16_t *)__cvta_shared_to_generic(a); }
__device__ __forceinline__ uint64_t evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
/* Weights pass by once: they must not push activations out of the L2 cache. */
__device__ __forceinline__ void copy_async16(uint32_t to, const void *from, uint64_t policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ float max_nan(float a, float b) {
    float m;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
    return m;
}

#endif
