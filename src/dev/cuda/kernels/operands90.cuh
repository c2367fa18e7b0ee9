/* operands90.cuh — what the products of Hopper's warpgroups have in common: rings, and the loop over a tile's units.
 *
 * Used by skinny90.cuh and wide90.cuh. operands.cuh makes the first operands; blocks.cuh lays the activations to match.
 */
#ifndef KERNELS_OPERANDS90_CUH
#define KERNELS_OPERANDS90_CUH

#include "../fast_kargs.h"
#include "operands.cuh"
#include "wgmma.cuh"

/* Where a ring is read or filled. */
struct ring_place {
    int depth, stage, parity;
    __device__ __forceinline__ ring_place(int deep, int first_parity) : depth(deep), stage(0), parity(first_parity) {}
    __device__ __forceinline__ void step() {
        if (++stage == depth) stage = 0, parity ^= 1;
    }
};

/* Of codes of 4 bits: the first operand's rows g are rows g, or g + 8, of one tile, and its rows g + 8 the same ones of
 * another tile, `other` bytes behind: what a thread computes of both meets in its registers. */
template <class UNITS> struct pair_maker;

template <int GROUP, int SCALES> struct pair_maker<same_units<4, GROUP, SCALES>> {
    uint32_t words[4];
    raised_scales<SCALES, Code<4>> s;
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
