/* digits.cuh — whole numbers of 2 to 8 bits times activations of two int8 digits, on the tensor cores.
 *
 * Used by matvec.cuh; its codes by operands90.cuh, too. An activation is a whole number of 15 bits times
 * one scale per 128 inputs, split into two digits of seven bits that stand in neighbouring columns of one m16n8k32
 * product: the sums inside a group are exact, cannot overflow, and are more accurate than float16 activations. Codes
 * stay unsigned; zeros and minima are taken off by the sum of a group's activations.
 *
 * The tricky thing is how codes lie: BITS words of a lane hold its 32 codes of 16 rows x 64 inputs such that most come
 * out with one AND. They come out in two classes, times Code<BITS>::first and ::second (in place, not shifted down);
 * each class has sums of its own that meet after the group. */
#ifndef KERNELS_DIGITS_CUH
#define KERNELS_DIGITS_CUH

#include "order.cuh"
#include "packed.h"
#include "ptx.cuh"

__device__ __forceinline__ uint32_t pick(uint32_t a, uint32_t mask, uint32_t other) { return (a & mask) | other; }

/* a[step]: the registers of m16n8k32's first operand for inputs 32 step + 4 t .. and 32 step + 16 + 4 t .. of rows g
 * and g + 8. */
template <int BITS> struct Code;

template <> struct Code<2> {
    static constexpr int first = 1, second = 4;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t high = w[i] >> 4;
            a[0][i] = w[i] & 0x03030303u, a[1][i] = w[i] & 0x0C0C0C0Cu;
            a[0][i + 2] = high & 0x03030303u, a[1][i + 2] = high & 0x0C0C0C0Cu;
        }
    }
};

/* What is not where it is wanted is shifted to the left, which is a product; shifts to the right are not. */
template <> struct Code<3> {
    static constexpr int first = 4, second = 32;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 3; i++) a[0][i] = w[i] & 0x1C1C1C1Cu, a[1][i] = w[i] & 0xE0E0E0E0u;
        a[0][3] = pick(w[0] << 2, 0x0C0C0C0Cu, w[2] << 4 & 0x10101010u);
        a[1][3] = pick(w[1] << 5, 0x60606060u, w[2] << 6 & 0x80808080u);
    }
};

template <> struct Code<4> {
    static constexpr int first = 1, second = 16;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[0][i] = w[i] & 0x0F0F0F0Fu;
            find_now(a[0][i]); /* what is left is a difference, not another AND: those are what is short */
            a[1][i] = w[i] - a[0][i];
        }
    }
};

template <> struct Code<5> {
    static constexpr int first = 1, second = 8;
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
    static constexpr int first = 1, second = 4;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i] & 0x3F3F3F3Fu;
        a[1][0] = pick(w[0], 0xC0C0C0C0u, pick(w[1] >> 2, 0x30303030u, w[4] << 2 & 0x0C0C0C0Cu));
        a[1][1] = pick(w[2], 0xC0C0C0C0u, pick(w[3] >> 2, 0x30303030u, w[5] << 2 & 0x0C0C0C0Cu));
        a[1][2] = w[4] & 0xFCFCFCFCu, a[1][3] = w[5] & 0xFCFCFCFCu;
    }
};

template <> struct Code<8> {
    static constexpr int first = 1, second = 1;
    static __device__ __forceinline__ void unpack(const uint32_t *w, uint32_t a[2][4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[0][i] = w[i], a[1][i] = w[i + 4];
    }
};

#endif
