/* operands.cuh — a block of packed weights, 16 rows x 64 inputs of a warp, as the tensor cores' first operand of
 * float16.
 *
 * Used by operands90.cuh for Hopper's products and by experts_many.cuh for those that every GPU has: the registers of
 * either lie alike. A code becomes a float16 by its bits (0x6400 | code is 1024 + code, a float of 8 bits is one
 * already), so that taking the zero off is exact and only the product with the scale rounds. Where a word's codes come
 * out two at a time, they are those of inputs two apart; whoever makes the activations lays them to match. */
#ifndef KERNELS_OPERANDS_CUH
#define KERNELS_OPERANDS_CUH

#include "unit_dot.cuh"

/* This lane's words of block b of a unit. */
template <int BITS> __device__ __forceinline__ void load_words(uint32_t w[BITS], uint32_t unit, int b) {
    const uint32_t lane = unit + threadIdx.x % 32 * 16;
    auto at = [&](int word) { return lane + word / 4 * 512 + word % 4 * 4; };
    if (BITS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < BITS; i += 4) {
            const uint4 v = load_shared16(at(b * BITS + i));
            w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < BITS; i++) w[i] = load_shared4(at(b * BITS + i));
    }
}

/* What lane words hold in steps of 16 inputs: codes of inputs 4 t, 4 t + 2 and of 4 t + 1, 4 t + 3, raised; as they
 * lie, times Code::first or, of the second class (q >= 2), Code::second. */
template <int BITS> struct raised_codes {
    uint32_t c[2][4];
    __device__ __forceinline__ raised_codes(const uint32_t *w) { Code<BITS>::unpack(w, c); }
    template <int ODD> __device__ __forceinline__ half2 get(int q, int e) const {
        return raised<ODD>(c[q / 2][q % 2 * 2 + e]);
    }
};

/* Two instructions become one. */
template <> struct raised_codes<4> {
    uint32_t w[4], odd[4];
    __device__ __forceinline__ raised_codes(const uint32_t *from) {
#pragma unroll
        for (int i = 0; i < 4; i++) w[i] = from[i], odd[i] = from[i] >> 8;
    }
    template <int ODD> __device__ __forceinline__ half2 get(int q, int e) const {
        const uint32_t word = (ODD ? odd : w)[q % 2 * 2 + e], mask = q / 2 ? 0x00F000F0u : 0x000F000Fu;
        const uint32_t whole = and_or(word, mask, 0x64006400u);
        return *reinterpret_cast<const half2 *>(&whole);
    }
};

/* A group's scales as they meet raised codes of either class; all of it but the product with d is exact. */
template <int SCALES, class CODE> struct raised_scales {
    half2 d[2], min[2], zero[2][2];
    __device__ __forceinline__ void set(const group_scale &s, float unit) {
        d[0] = __float2half2_rn(s.d.x * unit), d[1] = __float2half2_rn(s.d.y * unit);
        min[0] = __float2half2_rn(-s.min.x * unit), min[1] = __float2half2_rn(-s.min.y * unit);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            zero[0][e] = __float2half2_rn(-1024.0f / CODE::first - s.zero[e]);
            zero[1][e] = __float2half2_rn(-1024.0f / CODE::second - s.zero[e]);
        }
    }
    __device__ __forceinline__ uint32_t value(half2 raised, int step, int e) const {
        const int times = step ? CODE::second : CODE::first;
        const half2 zero_of = zero[times == CODE::first ? 0 : 1][e];
        const half2 code =
            times > 1 ? __hfma2(raised, __float2half2_rn(1.0f / times), zero_of) : __hadd2(raised, zero_of);
        const bool has_min = SCALES == PACKED_MIN || SCALES == PACKED_SUPER_MIN;
        const half2 v = has_min ? __hfma2(code, d[e], min[e]) : __hmul2(code, d[e]);
        return *reinterpret_cast<const uint32_t *>(&v);
    }
};

/* Makes the first operands of four products of 16 inputs out of block b of a unit, one after the other: what is made
 * between two products costs no time. */
template <int BITS, int GROUP, int SCALES, bool IS_FLOAT = Float<SCALES>::is> struct block_maker {
    uint32_t words[BITS];
    raised_scales<SCALES, Code<BITS>> s;
    __device__ __forceinline__ void begin(uint32_t unit, int b) { load_words<BITS>(words, unit, b); }
    __device__ __forceinline__ void make(uint32_t a[4], uint32_t unit, int b, int q, int zero, float unit_of) {
        const raised_codes<BITS> codes(words);
        if (q == 0 || q * 16 % GROUP == 0)
            s.set(read_scale<SCALES, GROUP>(unit + BITS * 512, (b * 64 + q * 16) / GROUP, threadIdx.x % 32 / 4, zero),
                  unit_of);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            a[e] = s.value(codes.template get<0>(q, e), q / 2, e);
            a[2 + e] = s.value(codes.template get<1>(q, e), q / 2, e);
        }
    }
};

/* The same of floats. */
template <int GROUP, int SCALES> struct block_maker<8, GROUP, SCALES, true> {
    using FLOAT = Float<SCALES>;
    uint32_t words[8];
    half2 d[2];
    __device__ __forceinline__ void begin(uint32_t unit, int b) { load_words<8>(words, unit, b); }
    __device__ __forceinline__ uint32_t value(uint32_t pair, int e) const {
        const half2 v = __hmul2(*reinterpret_cast<const half2 *>(&pair), d[e]);
        return *reinterpret_cast<const uint32_t *>(&v);
    }
    __device__ __forceinline__ void make(uint32_t a[4], uint32_t unit, int b, int q, int, float unit_of) {
        if (q == 0) {
            const group_scale s = read_scale<SCALES, GROUP>(unit + 8 * 512, b * 64 / GROUP, threadIdx.x % 32 / 4, 0);
            d[0] = __float2half2_rn(s.d.x * (unit_of * FLOAT::factor));
            d[1] = __float2half2_rn(s.d.y * (unit_of * FLOAT::factor));
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            a[e] = value(FLOAT::first(words[2 * q + e]), e);
            a[2 + e] = value(FLOAT::second(words[2 * q + e]), e);
        }
    }
};

/* The same whatever a unit is. */
template <class UNITS> struct operand_maker;

template <int BITS, int GROUP, int SCALES> struct operand_maker<same_units<BITS, GROUP, SCALES>> {
    block_maker<BITS, GROUP, SCALES> block;
    int zero;
    float unit_of;
    __device__ __forceinline__ operand_maker(const same_units<BITS, GROUP, SCALES> &units, float unit)
        : zero(units.zero), unit_of(unit) {}
    __device__ __forceinline__ void make(uint32_t a[4][4], uint32_t unit, int, int b, int q) {
        if (q == 0) block.begin(unit, b);
        block.make(a[q], unit, b, q, zero, unit_of);
    }
};

/* All four at once, for what kind they are decides a branch: when no product of the block before the last is left. */
template <> struct operand_maker<mixed_units> {
    const packed_unit *table;
    float unit_of;
    __device__ __forceinline__ operand_maker(const mixed_units &units, float unit)
        : table(units.table), unit_of(unit) {}
    template <int BITS, int GROUP> __device__ __forceinline__ void all(uint32_t a[4][4], uint32_t unit, int b) const {
        block_maker<BITS, GROUP, PACKED_PLAIN> block;
        block.begin(unit, b);
#pragma unroll
        for (int q = 0; q < 4; q++) block.make(a[q], unit, b, q, 1 << (BITS - 1), unit_of);
    }
    __device__ __forceinline__ void make(uint32_t a[4][4], uint32_t unit, int u, int b, int q) const {
        if (q != 2) return;
        switch (__ldg(&table[u].kind)) {
#define X(bits, group)                                                                                                 \
    case PACKED_KIND(bits, group):                                                                                     \
        all<bits, group>(a, unit, b);                                                                                  \
        break;
            PACKED_MIXES(X)
#undef X
        }
    }
};

#endif
