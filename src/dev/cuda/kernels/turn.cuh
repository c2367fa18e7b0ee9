/* turn.cuh — the rotation of a head of 64 or 128 elements, in the registers of a warp.
 *
 * Used by turn.cu and attend_batch.cuh, which must turn a key into the same bits. A lane has one or two pairs of
 * elements that turn together. */
#ifndef KERNELS_TURN_CUH
#define KERNELS_TURN_CUH

#include "heads.cuh"
#include "../kargs.h"

/* A pair, rotated. */
__device__ __forceinline__ void turn_pair(float &a, float &b, float c, float s) {
    const float x = a, y = b;
    a = __fmaf_rn(x, c, -__fmul_rn(y, s));
    b = __fmaf_rn(y, c, __fmul_rn(x, s));
}

/* Pairs of a head that a lane rotates. */
template <int DIM> struct lane_pairs { float a[DIM / 64], b[DIM / 64]; };

/* BATCH: rows that are asked for before any is looked at; 1: there is only one. */
template <int DIM, int BATCH> struct head_of {
    static constexpr int V = DIM / 64;
    const k_rope_args &a;
    const k_span &span;
    int lane, pairs;
    __device__ __forceinline__ head_of(const k_rope_args &args, const k_span &is)
        : a(args), span(is), lane((int)threadIdx.x % 32), pairs(args.pairs) {}
    /* Which elements pair i of this lane has, and which angle. */
    __device__ __forceinline__ int first(int i) const { return pairs ? 64 * i + 2 * lane : V * lane + i; }
    __device__ __forceinline__ int second(int i) const {
        return pairs ? 64 * i + 2 * lane + 1 : DIM / 2 + V * lane + i;
    }
    __device__ __forceinline__ int angle(int i) const { return pairs ? 32 * i + lane : V * lane + i; }

    __device__ __forceinline__ void load(lane_pairs<DIM> &p, const float *x) const {
        if (pairs) {
#pragma unroll
            for (int i = 0; i < V; i++) {
                const float2 v = *(const float2 *)(x + first(i));
                p.a[i] = v.x, p.b[i] = v.y;
            }
        } else if (V == 2) {
            const float2 v = *(const float2 *)(x + 2 * lane), w = *(const float2 *)(x + DIM / 2 + 2 * lane);
            p.a[0] = v.x, p.a[V - 1] = v.y, p.b[0] = w.x, p.b[V - 1] = w.y;
        } else {
            p.a[0] = x[lane], p.b[0] = x[DIM / 2 + lane];
        }
    }
    __device__ __forceinline__ void store(const lane_pairs<DIM> &p, float *x) const {
        if (pairs) {
#pragma unroll
            for (int i = 0; i < V; i++) *(float2 *)(x + first(i)) = make_float2(p.a[i], p.b[i]);
        } else if (V == 2) {
            *(float2 *)(x + 2 * lane) = make_float2(p.a[0], p.a[V - 1]);
            *(float2 *)(x + DIM / 2 + 2 * lane) = make_float2(p.b[0], p.b[V - 1]);
        } else {
            x[lane] = p.a[0], x[DIM / 2 + lane] = p.b[0];
        }
    }
    __device__ __forceinline__ void turn(lane_pairs<DIM> &p, int r) const {
        const float *cosines = a.cos + (size_t)(span.row + r) * (DIM / 2), *sines = a.sin + (cosines - a.cos);
#pragma unroll
        for (int i = 0; i < V; i++) turn_pair(p.a[i], p.b[i], __ldg(cosines + angle(i)), __ldg(sines + angle(i)));
    }
    /* Rows r .. r + BATCH - 1, `step` floats apart, turned. */
    __device__ __forceinline__ void take(lane_pairs<DIM> p[BATCH], const float *x, size_t step, int r) const {
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (r + j < span.n_rows) load(p[j], x + (r + j) * step);
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (r + j < span.n_rows) turn(p[j], r + j);
    }
};

#endif
