/* unit_dot_one.cuh — one unit of weights (16 rows x 256 inputs) times one row of activations, by one warp.
 *
 * Used by programs for steps of one row; the same bits as unit_dot.cuh in fewer instructions. There four lanes finish
 * the same sums, for one row has two digits and a product has eight columns. Here the pairs of columns are four parts
 * of the inputs: classes 0 and 1 of the first half, then of the second. A lane shows the tensor core its own part and
 * zeros for the others, so each lane t finishes the sums of part t, and three steps bring them together in lane 0 of
 * four. */
#ifndef KERNELS_UNIT_DOT_ONE_CUH
#define KERNELS_UNIT_DOT_ONE_CUH

#include "unit_dot.cuh"

/* Where a lane finds the row, and which part of it is the lane's as a column (of the first operand's partner) and as a
 * row (of the result). */
struct x_part {
    uint32_t digits, scales, sums; /* digits: of this lane's digit and column's part; sums: of its result's */
    int lane, half, step;          /* half and step: of the result's part */
    uint32_t mine[4];              /* 1 for the column's part, 0 for the others */

    /* Of a row from input `first` on, whose low digits lie `low` bytes behind the high ones. */
    template <int SUM>
    static __device__ __forceinline__ x_part of(int first, int low, uint32_t digits_at, const float *row_scales,
                                                const int *row_sums) {
        x_part x;
        x.lane = thread_now() % 32; /* kept: read again for every unit it would be waited for */
        const uint32_t lane = x.lane, g = lane / 4, t = lane % 4;
        const uint32_t column = g / 2;
        x.half = t / 2, x.step = t % 2;
        x.digits = digits_at + g % 2 * low + column / 2 * 128 + t * 16 + column % 2 * 8 - first;
        x.scales = shared_address(row_scales) - first / PACKED_X_GROUP * 4;
        x.sums = shared_address(row_sums) + x.half * (PACKED_X_GROUP / SUM * 4) - first / SUM * 4;
        find_now(x.lane), find_now(x.half), find_now(x.step);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) x.mine[i] = column == i, find_now(x.mine[i]);
        find_now(x.digits), find_now(x.scales), find_now(x.sums);
        return x;
    }
};

/* Products of a block of both halves: sums of the parts. b: the lane's digits of that block. What is not the lane's is
 * made 0 by a product, for what else could do it is what codes are made with. */
template <int BITS>
__device__ __forceinline__ void multiply_parts(int c[4], const uint32_t *w0, const uint32_t *w1, uint2 b,
                                               const uint32_t mine[4]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t a[2][4];
        Code<BITS>::unpack(h ? w1 : w0, a);
#pragma unroll
        for (int step = 0; step < 2; step++) mma_digits(c, a[step], b.x * mine[2 * h + step], b.y * mine[2 * h + step]);
    }
}

__device__ __forceinline__ float from_lane(float v, int distance) { return __shfl_xor_sync(~0u, v, distance); }
__device__ __forceinline__ int from_lane(int v, int distance) { return __shfl_xor_sync(~0u, v, distance); }

/* The group of the result's half that a lane finishes in block b. */
template <int GROUP> __device__ __forceinline__ int x_group(const x_part &x, int b) {
    return GROUP == 32 ? 2 * b + x.step : GROUP == 64 ? b : 0;
}

/* Sums of N neighbouring groups, which lie in a word of as many. */
template <int N> __device__ __forceinline__ int add_sums(uint32_t at) {
    static_assert(N == 1 || N == 2 || N == 4, "words of shared memory");
    if constexpr (N == 4) {
        const uint4 all = load_shared16(at);
        return (int)(all.x + all.y + (all.z + all.w));
    } else if constexpr (N == 2) {
        const uint2 both = load_shared8(at);
        return (int)(both.x + both.y);
    }
    return (int)load_shared4(at);
}

/* y of lanes with t = 0. unit: where it begins in shared memory; u: its number among the units of its tile; pay: called
 * once all lanes have read the unit, which the products tell, for which they meet; much is done behind it that does not
 * wait for it. */
template <int BITS, int GROUP, int SUM, class PAY>
__device__ __forceinline__ void unit_dot_one(float y[2], uint32_t unit, const x_part &x, int u, int zero, PAY pay) {
    constexpr int FIRST = Code<BITS>::first, SECOND = Code<BITS>::second, F = SECOND / FIRST;
    constexpr int PER = PACKED_X_GROUP / GROUP;
    const uint32_t scales = unit + BITS * 512 + x.lane / 4 * 4;
    uint32_t w[4 * BITS];
#pragma unroll
    for (int i = 0; i < BITS; i++) {
        const uint4 line = load_shared16(unit + i * 512 + x.lane * 16);
        w[4 * i] = line.x, w[4 * i + 1] = line.y, w[4 * i + 2] = line.z, w[4 * i + 3] = line.w;
    }
    float2 d[2];
#pragma unroll
    for (int b = 0; b < (GROUP == 128 ? 1 : 2); b++)
        d[b] = halves(load_shared4(scales + (x.half * PER + x_group<GROUP>(x, b)) * 32));
    int c[2][4]; /* [block] */
#pragma unroll
    for (int b = 0; b < 2; b++) {
        c[b][0] = c[b][1] = c[b][2] = c[b][3] = 0;
        const uint2 digits = load_shared8(x.digits + u * PACKED_UNIT + b * 64);
        multiply_parts<BITS>(c[b], w + b * BITS, w + (2 + b) * BITS, digits, x.mine);
    }
    if (GROUP == 128) /* one group: its sums are exact, and half as long a chain of products each */
#pragma unroll
        for (int i = 0; i < 4; i++) c[0][i] += c[1][i];
    pay();
    float v[2] = {0, 0};
#pragma unroll
    for (int b = 0; b < (GROUP == 128 ? 1 : 2); b++) {
        int t0 = c[b][0] * 128 + c[b][1], t1 = c[b][2] * 128 + c[b][3];
        const int j = x_group<GROUP>(x, b);
        if (GROUP > 32) t0 = t0 * F + from_lane(t0, 1), t1 = t1 * F + from_lane(t1, 1);
        const uint32_t sums = x.sums + u * (2 * PACKED_X_GROUP / SUM * 4) + j * (GROUP / SUM * 4);
        const int sum = add_sums<GROUP / SUM>(sums);
        const int off = zero * sum * (GROUP == 32 && !x.step ? FIRST : SECOND);
        v[0] = fmaf(d[b].x, (float)(t0 - off), v[0]);
        v[1] = fmaf(d[b].y, (float)(t1 - off), v[1]);
    }
    /* Classes meet: of groups of 32 here, the second one divided by F; others have the second one's factor. */
    constexpr float TIMES = 1.0f / (GROUP == 32 ? FIRST : SECOND);
    const uint2 k = load_shared8(x.scales + u * 8);
    const float k0 = __uint_as_float(k.x) * TIMES, k1 = __uint_as_float(k.y) * TIMES;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float s = GROUP == 32 ? fmaf(from_lane(v[r], 1), 1.0f / F, v[r]) : v[r];
        y[r] = fmaf(k1, from_lane(s, 2), fmaf(k0, s, y[r]));
    }
}

/* ---- kinds of units ---- */

/* All of one kind, and each of its own: as unit_dot.cuh has them, for one row. bytes: of the unit; no two kinds have as
 * many. */
template <int BITS, int GROUP> struct same_units_one : same_units<BITS, GROUP, PACKED_PLAIN> {
    __device__ __forceinline__ same_units_one(const packed_args &a) : same_units<BITS, GROUP, PACKED_PLAIN>(a) {}
    template <class PAY>
    __device__ __forceinline__ void dot_one(float y[2], uint32_t unit, const x_part &x, int u, int, PAY pay) const {
        unit_dot_one<BITS, GROUP, GROUP>(y, unit, x, u, this->zero, pay);
    }
};
struct mixed_units_one : mixed_units {
    __device__ __forceinline__ mixed_units_one(const packed_args &a) : mixed_units(a) {}
    template <class PAY>
    __device__ __forceinline__ void dot_one(float y[2], uint32_t unit, const x_part &x, int u, int bytes,
                                            PAY pay) const {
        /* common kinds first: the compiler's way to a case is five comparisons long */
        if (bytes == packed_unit_bytes(4, PACKED_PLAIN, 128)) return unit_dot_one<4, 128, SUM>(y, unit, x, u, 8, pay);
        if (bytes == packed_unit_bytes(3, PACKED_PLAIN, 128)) return unit_dot_one<3, 128, SUM>(y, unit, x, u, 4, pay);
        switch (bytes) {
#define X(bits, group)                                                                                                 \
    case packed_unit_bytes(bits, PACKED_PLAIN, group):                                                                 \
        return unit_dot_one<bits, group, SUM>(y, unit, x, u, 1 << (bits - 1), pay);
            PACKED_MIXES(X)
#undef X
        }
    }
};

#endif
