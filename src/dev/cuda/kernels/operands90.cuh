/* operands90.cuh — a block of packed weights, 16 rows x 64 inputs of a warp, as the first operand of Hopper's products.
 *
 * Used by skinny90.cuh and wide90.cuh. A code becomes a float16 by its bits (0x6400 | code is 1024 + code, a float of 8
 * bits is one already), so that taking the zero off is exact and only the product with the scale rounds. Where a word's
 * codes come out two at a time, they are those of inputs two apart; blocks.cuh lays the activations to match. */
#ifndef KERNELS_OPERANDS90_CUH
#define KERNELS_OPERANDS90_CUH

#include "../fast_kargs.h"
#include "unit_dot.cuh"
#include "wgmma.cuh"

/* Where a ring is read or filled. */
struct ring_place {
    int depth, stage, parity;
    __device__ __forceinline__ ring_place(int deep, int first_parity) : depth(deep), stage(0), parity(first_parity) {}
    __device__ __forceinline__ void step() {
        if (++stage == depth) stage = 0, parity ^= 1;
    }
};

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

/* What lane words hold in steps of 16 inputs: codes of inputs 4 t, 4 t + 2 and of 4 t + 1, 4 t + 3, raised; those of
 * the second class (q >= 2) as they lie, times Code::factor. */
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
        uint32_t whole; /* word & mask | raise, which the compiler makes two instructions */
        asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(whole) : "r"(word), "r"(mask), "r"(0x64006400u));
        return *reinterpret_cast<const half2 *>(&whole);
    }
};

/* A group's scales as they meet raised codes of either class; all of it but the product with d is exact. */
template <int SCALES, int FACTOR> struct raised_scales {
    half2 d[2], min[2], zero[2][2];
    __device__ __forceinline__ void set(const group_scale &s, float unit) {
        d[0] = __float2half2_rn(s.d.x * unit), d[1] = __float2half2_rn(s.d.y * unit);
        min[0] = __float2half2_rn(-s.min.x * unit), min[1] = __float2half2_rn(-s.min.y * unit);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            zero[0][e] = __float2half2_rn(-1024.0f - s.zero[e]);
            zero[1][e] = __float2half2_rn(-1024.0f / FACTOR - s.zero[e]);
        }
    }
    __device__ __forceinline__ uint32_t value(half2 raised, int step, int e) const {
        const half2 code = step && FACTOR > 1 ? __hfma2(raised, __float2half2_rn(1.0f / FACTOR), zero[1][e])
                                              : __hadd2(raised, zero[0][e]);
        const bool has_min = SCALES == PACKED_MIN || SCALES == PACKED_SUPER_MIN;
        const half2 v = has_min ? __hfma2(code, d[e], min[e]) : __hmul2(code, d[e]);
        return *reinterpret_cast<const uint32_t *>(&v);
    }
};

/* Makes the first operands of four products of 16 inputs out of block b of a unit, one after the other: what is made
 * between two products costs no time. */
template <int BITS, int GROUP, int SCALES, bool IS_FLOAT = Float<SCALES>::is> struct block_maker {
    uint32_t words[BITS];
    raised_scales<SCALES, Code<BITS>::factor> s;
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

/* Of codes of 4 bits: the first operand's rows g are rows g, or g + 8, of one tile, and its rows g + 8 the same ones of
 * another tile, `other` bytes behind: what a thread computes of both meets in its registers. */
template <class UNITS> struct pair_maker;

template <int GROUP, int SCALES> struct pair_maker<same_units<4, GROUP, SCALES>> {
    uint32_t words[4];
    raised_scales<SCALES, Code<4>::factor> s;
    int zero, other, half;
    float unit_of;
    __device__ __forceinline__ pair_maker(const same_units<4, GROUP, SCALES> &units, float unit, int behind)
        : zero(units.zero), other(behind), half((int)threadIdx.x / 32 % 2), unit_of(unit) {}
    __device__ __forceinline__ void make(uint32_t a[4][4], uint32_t unit, int, int b, int q) {
        const int g = threadIdx.x % 32 / 4;
        if (q == 0) {
            const uint32_t at = unit + b * 512 + threadIdx.x % 32 * 16 + half * 4;
            words[0] = load_shared4(at), words[1] = load_shared4(at + other);
            words[2] = load_shared4(at + 8), words[3] = load_shared4(at + other + 8);
        }
        if (q == 0 || q * 16 % GROUP == 0) {
            const int group = (b * 64 + q * 16) / GROUP;
            const group_scale x = read_scale<SCALES, GROUP>(unit + 2048, group, g, zero);
            const group_scale y = read_scale<SCALES, GROUP>(unit + other + 2048, group, g, zero);
            group_scale both;
            both.d = half ? make_float2(x.d.y, y.d.y) : make_float2(x.d.x, y.d.x);
            both.min = half ? make_float2(x.min.y, y.min.y) : make_float2(x.min.x, y.min.x);
            both.zero[0] = half ? x.zero[1] : x.zero[0], both.zero[1] = half ? y.zero[1] : y.zero[0];
            s.set(both, unit_of);
        }
        const raised_codes<4> codes(words);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            a[q][e] = s.value(codes.get<0>(q, e), q / 2, e);
            a[q][2 + e] = s.value(codes.get<1>(q, e), q / 2, e);
        }
    }
};

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

/* Products of units [first, end) of this warp's tile, into d: units wait in a ring, w_stage and x_stage are where its
 * and the activations' next ones lie. The operands of a block are made while the block before is multiplied. */
template <int COLUMNS, class MAKER, class AT>
__device__ __forceinline__ void multiply_units(float *d, MAKER &maker, const AT &at, int first, int end, ring_place &w,
                                               ring_place &x) {
    uint32_t a[2][4][4];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) /* 0, but no constant: products wait for each other where d is one */
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(d[i]));
    uint32_t unit = at.unit(w.stage);
    barrier_wait(at.w_full + 8 * w.stage, w.parity);
#pragma unroll
    for (int q = 0; q < 4; q++) maker.make(a[0], unit, first, 0, q);
    int last = 0;
    for (int u = first; u < end; u++) {
#pragma unroll
        for (int b = 0; b < 4; b++) {
            int next = u;
            if (b == 3 && u + 1 < end) { /* behind the last unit it is made again for nothing */
                next = u + 1;
                w.step();
                unit = at.unit(w.stage);
                barrier_wait(at.w_full + 8 * w.stage, w.parity);
            }
            barrier_wait(at.x_full + 8 * x.stage, x.parity);
            const uint64_t blocks = operand(at.x + x.stage * COLUMNS * 128);
#pragma unroll
            for (int q = 0; q < 4; q++) {
                wgmma_begin();
                wgmma_weights<COLUMNS>(d, a[b % 2][q], blocks + 2 * q);
                wgmma_commit();
                wgmma_wait<3>(); /* the operands that are made now were read four products ago */
                maker.make(a[(b + 1) % 2], unit, next, (b + 1) % 4, q);
            }
            if (b || u > first) at.release_x(last);
            last = x.stage;
            x.step();
            /* All lanes have read the unit: the last one once more, see above. */
            if (b == 3 ? u + 1 == end : b == 2 && u + 1 < end) {
                __syncwarp();
                at.release_w(w.stage);
            }
        }
    }
    w.step();
    wgmma_wait<0>();
    at.release_x(last);
}

/* Which part has tile t, which becomes its number in there. */
__device__ __forceinline__ const packed_part *find_part(const packed_args &a, int *t) {
    int p = 0;
    while (p + 1 < a.n_parts && *t >= a.parts[p].n_tiles) *t -= a.parts[p++].n_tiles;
    return &a.parts[p];
}

#endif
