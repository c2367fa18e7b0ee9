/* floats.cuh — codes that are floats of 8 bits, and the digits of activations, as float16 for the tensor cores.
 *
 * Used by unit_dot.cuh and operands90.cuh. A word has a lane's codes of four neighbouring inputs; the first and the
 * third come out as one pair, the others as another, as raised_codes has those of whole numbers. A kind of floats is a
 * struct here with what a float16 of it must be multiplied by, and a row of PACKED_SAMES.
 *
 * The tricky thing: an e4m3 in the place of a float16 (sign at the top, its exponent at the lower end of the five bits)
 * is 2^8 too small and otherwise exact, unless it is a NaN: of those the group's scale tells. So the pair at the top of
 * a word's halves comes out with one AND, and the other pair lies in the eight bits of either half that this one
 * leaves. */
#ifndef KERNELS_FLOATS_CUH
#define KERNELS_FLOATS_CUH

#include "packed.h"
#include "ptx.cuh"

template <int SCALES> struct Float { static constexpr bool is = false; /* such codes are whole numbers */ };

template <> struct Float<PACKED_E4M3> {
    static constexpr bool is = true;
    static constexpr float factor = 256;
    static __device__ __forceinline__ uint32_t first(uint32_t w) { return w & 0xBF80BF80u; }
    static __device__ __forceinline__ uint32_t second(uint32_t w) {
        return (w << 1 & 0x80008000u) | (w << 7 & 0x3F803F80u);
    }
};

/* Bytes 0 and 2 of codes (a byte each), or 1 and 3, as float16 that are 1024 too great. */
template <int ODD> __device__ __forceinline__ half2 raised(uint32_t codes) {
    const uint32_t whole = __byte_perm(codes, 0x64646464u, ODD ? 0x4341 : 0x4240);
    return *reinterpret_cast<const half2 *>(&whole);
}

/* Digits 0 and 2 of a word, or 1 and 3. */
template <int ODD> __device__ __forceinline__ uint32_t digit_pair(uint32_t digits) {
    const uint32_t off = 0x64806480u; /* 1024 + 128, twice */
    const half2 pair = __hsub2(raised<ODD>(digits ^ 0x80808080u), *reinterpret_cast<const half2 *>(&off));
    return *reinterpret_cast<const uint32_t *>(&pair);
}

#endif
