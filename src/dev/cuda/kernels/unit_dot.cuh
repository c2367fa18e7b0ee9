/* unit_dot.cuh — one unit of weights (16 rows x 256 inputs) times up to 4 NT rows of activations, by one warp.
 *
 * Called by matvec.cuh; a row's sums do not depend on how many rows there are.
 *
 * The tricky thing: lane 4 g + t computes rows g and g + 8 of the tile for activation row t of each n-tile: columns
 * 2 t and 2 t + 1 of the product are the high and the low digit of that row, and both are in this lane's registers. */
#ifndef KERNELS_UNIT_DOT_CUH
#define KERNELS_UNIT_DOT_CUH

#include "digits.cuh"
#include "floats.cuh"

/* Where a lane finds activations in shared memory. */
struct x_view {
    uint32_t digits;     /* of this lane's column: inputs 64 b + 16 t .. in the order of blocks */
    const float *scales; /* of this lane's row, [inputs / 128] */
    const int *sums;     /* likewise, [inputs / SUM] */
};

__device__ __forceinline__ float2 halves(uint32_t v) { return __half22float2(*reinterpret_cast<half2 *>(&v)); }

/* The scales of a group in a unit: d, and what is taken off, as a whole number or as a minimum. */
struct group_scale {
    float2 d, min;
    int zero[2];
};

template <int SCALES, int GROUP>
__device__ __forceinline__ group_scale read_scale(uint32_t at, int j, int g, int zero) {
    constexpr int n = PACKED_UNIT / GROUP;
    group_scale s;
    s.min = make_float2(0, 0);
    s.zero[0] = s.zero[1] = zero;
    if (SCALES <= PACKED_MIN) {
        s.d = halves(load_shared4(at + j * 32 + g * 4));
        if (SCALES == PACKED_ZERO) {
            const uint32_t z = load_shared2(at + n * 32 + j * 16 + g * 2);
            s.zero[0] = z & 255, s.zero[1] = z >> 8;
        }
        if (SCALES == PACKED_MIN) s.min = halves(load_shared4(at + n * 32 + j * 32 + g * 4));
        return s;
    }
    const float2 d = halves(load_shared4(at + g * 4));
    const int super = SCALES == PACKED_SUPER ? 32 : 64;
    const uint32_t k = load_shared2(at + super + j * 16 + g * 2);
    s.d = make_float2(d.x * (int8_t)(k & 255), d.y * (int8_t)(k >> 8));
    if (SCALES == PACKED_SUPER_MIN) {
        const float2 min = halves(load_shared4(at + 32 + g * 4));
        const uint32_t m = load_shared2(at + super + n * 16 + j * 16 + g * 2);
        s.min = make_float2(min.x * (m & 255), min.y * (m >> 8));
    }
    return s;
}

/* v += d (T - zero S) - min S, where the codes' sum T and S come `factor` times as large. */
template <int SCALES>
__device__ __forceinline__ void add_group(float v[2], const int c[4], const group_scale &s, int sum, int factor) {
    int t0 = c[0] * 128 + c[1], t1 = c[2] * 128 + c[3];
    sum *= factor;
    if (SCALES == PACKED_PLAIN || SCALES == PACKED_ZERO || SCALES == PACKED_SUPER)
        t0 -= s.zero[0] * sum, t1 -= s.zero[1] * sum;
    v[0] = fmaf(s.d.x, (float)t0, v[0]);
    v[1] = fmaf(s.d.y, (float)t1, v[1]);
    if (SCALES == PACKED_MIN || SCALES == PACKED_SUPER_MIN) {
        v[0] = fmaf(-s.min.x, (float)sum, v[0]);
        v[1] = fmaf(-s.min.y, (float)sum, v[1]);
    }
}

/* The activations' sum over group j of a half; SUM inputs are summed already. */
template <int GROUP, int SUM> __device__ __forceinline__ int group_sum(const int *sums, int x_half, int j) {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < GROUP / SUM; i++) sum += sums[x_half * (PACKED_X_GROUP / SUM) + j * (GROUP / SUM) + i];
    return sum;
}

/* One half of a unit: 128 inputs, `half` of the unit's two. w: this lane's words of its two blocks. */
template <int BITS, int GROUP, int SCALES, int NT, int SUM>
__device__ __forceinline__ void half_dot(float y[NT][2], const uint32_t *w, uint32_t scales, const x_view x[NT],
                                         int x_half, int half, int zero) {
    constexpr int FIRST = Code<BITS>::first, SECOND = Code<BITS>::second, F = SECOND / FIRST;
    constexpr int PER = PACKED_X_GROUP / GROUP; /* groups of this half */
    const int g = threadIdx.x % 32 / 4;
    float v[NT][2][2]; /* [class] */
    int c[NT][2][4];
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            v[n][i][0] = v[n][i][1] = 0;
            c[n][i][0] = c[n][i][1] = c[n][i][2] = c[n][i][3] = 0;
        }
#pragma unroll
    for (int b = 0; b < 2; b++) {
        uint32_t a[2][4];
        Code<BITS>::unpack(w + b * BITS, a);
        uint4 xd[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) xd[n] = load_shared16(x[n].digits + x_half * 128 + b * 64);
        if (GROUP >= 64) {
#pragma unroll
            for (int n = 0; n < NT; n++) mma_digits(c[n][0], a[0], xd[n].x, xd[n].y);
#pragma unroll
            for (int n = 0; n < NT; n++) mma_digits(c[n][1], a[1], xd[n].z, xd[n].w);
            if (GROUP == 64 || b == 1) { /* the group is complete */
                const int j = GROUP == 64 ? b : 0;
                const group_scale s = read_scale<SCALES, GROUP>(scales, half * PER + j, g, zero);
#pragma unroll
                for (int n = 0; n < NT; n++) {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        c[n][0][i] = c[n][0][i] * F + c[n][1][i];
                        c[n][1][i] = 0;
                    }
                    add_group<SCALES>(v[n][1], c[n][0], s, group_sum<GROUP, SUM>(x[n].sums, x_half, j), SECOND);
#pragma unroll
                    for (int i = 0; i < 4; i++) c[n][0][i] = 0;
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < 2; step++)
#pragma unroll
                for (int h = 0; h < (GROUP == 16 ? 2 : 1); h++) {
                    const int j = GROUP == 16 ? b * 4 + step * 2 + h : b * 2 + step;
                    const group_scale s = read_scale<SCALES, GROUP>(scales, half * PER + j, g, zero);
#pragma unroll
                    for (int n = 0; n < NT; n++) {
                        const uint32_t b0 = step ? xd[n].z : xd[n].x, b1 = step ? xd[n].w : xd[n].y;
                        int sums[4] = {0, 0, 0, 0};
                        if (GROUP == 16)
                            mma_digits16(sums, a[step][2 * h], a[step][2 * h + 1], h ? b1 : b0);
                        else
                            mma_digits(sums, a[step], b0, b1);
                        add_group<SCALES>(v[n][step], sums, s, group_sum<GROUP, SUM>(x[n].sums, x_half, j),
                                          step ? SECOND : FIRST);
                    }
                }
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const float k = x[n].scales[x_half] * (1.0f / SECOND);
        y[n][0] = fmaf(k, fmaf(v[n][0][0], F, v[n][1][0]), y[n][0]);
        y[n][1] = fmaf(k, fmaf(v[n][0][1], F, v[n][1][1]), y[n][1]);
    }
}

/* The same of floats: digits become float16, and sums are float32. */
template <int GROUP, int SCALES, int NT>
__device__ __forceinline__ void float_half_dot(float y[NT][2], const uint32_t *w, uint32_t scales, const x_view x[NT],
                                               int x_half, int half) {
    static_assert(GROUP == PACKED_X_GROUP, "one scale for the half");
    using FLOAT = Float<SCALES>;
    float c[NT][4] = {};
#pragma unroll
    for (int b = 0; b < 2; b++) {
        uint4 xd[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) xd[n] = load_shared16(x[n].digits + x_half * 128 + b * 64);
#pragma unroll
        for (int q = 0; q < 4; q++) { /* 16 inputs */
            const uint32_t w0 = w[b * 8 + 2 * q], w1 = w[b * 8 + 2 * q + 1];
            const uint32_t a[4] = {FLOAT::first(w0), FLOAT::first(w1), FLOAT::second(w0), FLOAT::second(w1)};
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const uint32_t digits = q == 0 ? xd[n].x : q == 1 ? xd[n].y : q == 2 ? xd[n].z : xd[n].w;
                mma_half(c[n], a, digit_pair<0>(digits), digit_pair<1>(digits));
            }
        }
    }
    const group_scale s = read_scale<SCALES, GROUP>(scales, half, threadIdx.x % 32 / 4, 0);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const float k = x[n].scales[x_half] * FLOAT::factor;
        y[n][0] = fmaf(k * s.d.x, fmaf(c[n][0], 128, c[n][1]), y[n][0]);
        y[n][1] = fmaf(k * s.d.y, fmaf(c[n][2], 128, c[n][3]), y[n][1]);
    }
}

/* unit: where it begins in shared memory; u: its number among the units of its tile. */
template <int BITS, int GROUP, int SCALES, int NT, int SUM = GROUP>
__device__ __forceinline__ void unit_dot(float y[NT][2], uint32_t unit, const x_view x[NT], int u, int zero) {
    const uint32_t lane = threadIdx.x % 32;
    uint32_t w[4 * BITS];
#pragma unroll
    for (int i = 0; i < BITS; i++) {
        const uint4 line = load_shared16(unit + i * 512 + lane * 16);
        w[4 * i] = line.x, w[4 * i + 1] = line.y, w[4 * i + 2] = line.z, w[4 * i + 3] = line.w;
    }
    const uint32_t scales = unit + BITS * 512;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t *words = w + half * 2 * BITS;
        if constexpr (Float<SCALES>::is)
            float_half_dot<GROUP, SCALES, NT>(y, words, scales, x, 2 * u + half, half);
        else
            half_dot<BITS, GROUP, SCALES, NT, SUM>(y, words, scales, x, 2 * u + half, half, zero);
    }
}

/* ---- how the units of a tile follow each other ---- */

/* A unit on its way into shared memory, by a warp whose lanes give places 16 bytes apart. */
__device__ __forceinline__ void copy_unit(uint32_t to, const uint8_t *from, int bytes, uint64_t policy) {
    const int whole = bytes / 512 * 512;
#pragma unroll
    for (int i = 0; i < whole; i += 512) copy_async16(to + i, from + i, policy);
    if ((int)threadIdx.x % 32 * 16 < bytes - whole) copy_async16(to + whole, from + whole, policy);
}

/* All of one kind. */
template <int BITS, int GROUP, int SCALES> struct same_units {
    static constexpr int SUM = GROUP, BYTES = packed_unit_bytes(BITS, SCALES, GROUP);
    int n, zero;
    /* ARGS: packed_args, or what an expert has in their place (experts_few.cuh, experts_many.cuh) */
    template <class ARGS> __device__ __forceinline__ same_units(const ARGS &a) : n(a.n_units), zero(a.zero) {}
    __device__ __forceinline__ size_t tile_bytes() const { return (size_t)n * BYTES; }
    __device__ __forceinline__ uint32_t offset(int u) const { return u * BYTES; }
    __device__ __forceinline__ int bytes(int) const { return BYTES; }
    __device__ __forceinline__ int slot_bytes() const { return BYTES; }
    template <int NT>
    __device__ __forceinline__ void dot(float y[NT][2], uint32_t unit, const x_view x[NT], int u) const {
        unit_dot<BITS, GROUP, SCALES, NT>(y, unit, x, u, zero);
    }
};

/* Each of its own width and group, as EXL2 mixes them; scales are PLAIN. */
struct mixed_units {
    static constexpr int SUM = 32;
    const packed_unit *table;
    size_t tile;
    int slot;
    template <class ARGS>
    __device__ __forceinline__ mixed_units(const ARGS &a)
        : table(a.units), tile(a.tile_bytes), slot(a.most_unit_bytes) {}
    __device__ __forceinline__ size_t tile_bytes() const { return tile; }
    __device__ __forceinline__ uint32_t offset(int u) const { return __ldg(&table[u].offset); }
    __device__ __forceinline__ int bytes(int u) const { return __ldg(&table[u].bytes); }
    __device__ __forceinline__ int slot_bytes() const { return slot; }
    template <int NT>
    __device__ __forceinline__ void dot(float y[NT][2], uint32_t unit, const x_view x[NT], int u) const {
        switch (__ldg(&table[u].kind)) {
#define X(bits, group)                                                                                                 \
    case PACKED_KIND(bits, group):                                                                                     \
        return unit_dot<bits, group, PACKED_PLAIN, NT, SUM>(y, unit, x, u, 1 << (bits - 1));
            PACKED_MIXES(X)
#undef X
        }
    }
};

#endif
