/* program_merge.cuh — a head's splits become its result, in ascending order.
 *
 * Used by program.cuh. The sums are those of attend_decode.cuh's merge, or attend_coded.cuh's, bit for bit. A block has
 * a head, and all its warps look for splits at once, for a look is what takes the time; few of them add these up. */
#ifndef KERNELS_PROGRAM_MERGE_CUH
#define KERNELS_PROGRAM_MERGE_CUH

#include "program_attend.cuh"

enum { MERGE_EACH = PROGRAM_MERGE_PAGES / PROGRAM_WARPS, MERGE_HALVES = PROGRAM_MERGE_PAGES / 32 };

/* A warp for 32 elements of a head. */
struct plain_pages {
    static constexpr int EACH = 1; /* elements of a lane */
    typedef int64_t places;
    static __device__ __forceinline__ int pieces(int dim) { return dim / 32; }
    static __device__ __forceinline__ void load(float v[EACH], const float *from) { v[0] = *from; }
    static __device__ __forceinline__ places find(const program_stage &s, int row, int head, int d) {
        return find_place(s, row, head * s.dim + d);
    }
    static __device__ __forceinline__ void leave(const program_stage &s, float o[EACH], int row, int head, int d,
                                                 const places &place) {
        const k_decode_args &a = s.is.heads.attend;
        leave_result(s, PROGRAM_FOUND, a.out, ((int64_t)row * a.n_heads + head) * s.dim + d, place, o[0]);
    }
};

/* A warp for a head, whose result is rotated back. */
struct rotated_pages {
    static constexpr int EACH = 4;
    typedef head_places places;
    static __device__ __forceinline__ int pieces(int) { return 1; }
    static __device__ __forceinline__ void load(float v[EACH], const float *from) {
        const float4 w = *(const float4 *)from;
        v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
    }
    static __device__ __forceinline__ places find(const program_stage &s, int row, int head, int) {
        return head_places(s, row, head, s.dim);
    }
    static __device__ __forceinline__ void leave(const program_stage &s, float o[EACH], int row, int head, int,
                                                 const places &at) {
        leave_rotated(s, o, row, head, s.dim, at);
    }
};

/* Where what was found in a head's splits is. */
struct merged_head {
    const float *sums, *parts;
    int n;

    __device__ __forceinline__ merged_head(const program_stage &s, int index, int head) {
        const k_decode_args &a = s.is.heads.attend;
        const size_t at = ((size_t)index * a.n_heads + head) * a.n_splits;
        n = state_of().n_splits[index];
        sums = (s.hears ? s.told[PROGRAM_PAGE_SUMS] : a.part_sums) + 2 * at;
        parts = (s.hears ? s.told[PROGRAM_PAGES] : a.part) + at * s.dim;
        if (s.hears) sums = told_at(sums), parts = told_at(parts);
    }
};

/* Splits `base` and on: their maxima and sums, one a lane and half, for a warp that adds; and each warp's elements of
 * some, which go into the scratch. All are looked at together. */
struct merged_pages {
    float max[MERGE_HALVES], total[MERGE_HALVES];

    __device__ __forceinline__ void gather(const program_stage &s, const merged_head &h, float *room, int base,
                                           bool adds) {
        const int dim = s.dim, lane = lane_now(), first = thread_now() / 32 * MERGE_EACH;
        const int count = lane < dim / 4 ? h.n - base - first : 0, left = adds ? h.n - base - lane : 0;
        const float *from = h.parts + (size_t)(base + first) * dim + 4 * lane, *sums = h.sums + 2 * (base + lane);
        float v[MERGE_EACH][4];
        look_together([&] {
            uint4 words[MERGE_EACH] = {};
            uint32_t m[MERGE_HALVES] = {}, t[MERGE_HALVES] = {}, top = 0;
#pragma unroll
            for (int i = 0; i < MERGE_EACH; i++)
                if (i < count) words[i] = load_relaxed16(from + i * dim);
#pragma unroll
            for (int i = 0; i < MERGE_HALVES; i++)
                if (32 * i < left) m[i] = load_relaxed4(sums + 64 * i), t[i] = load_relaxed4(sums + 64 * i + 1);
#pragma unroll
            for (int i = 0; i < MERGE_EACH; i++) top = ::max(top, greatest(words[i])), put4(v[i], words[i]);
#pragma unroll
            for (int i = 0; i < MERGE_HALVES; i++) {
                top = ::max(top, ::max(m[i], t[i]));
                max[i] = 32 * i < left ? __uint_as_float(m[i]) : -INFINITY, total[i] = __uint_as_float(t[i]);
            }
            return !s.hears || top != (uint32_t)UNSAID;
        });
        float *to = room + first * dim + 4 * lane;
#pragma unroll
        for (int i = 0; i < MERGE_EACH; i++)
            if (i < count) *(float4 *)(to + i * dim) = make_float4(v[i][0], v[i][1], v[i][2], v[i][3]);
    }
    /* The greatest of all splits' maxima, once the first ones are here. */
    __device__ __forceinline__ float most(const program_stage &s, const merged_head &h, float so_far) const {
#pragma unroll
        for (int i = 0; i < MERGE_HALVES; i++) so_far = fmaxf(so_far, max[i]);
#pragma unroll 1
        for (int base = PROGRAM_MERGE_PAGES; base < h.n; base += 32) {
            uint32_t m = 0;
            const bool is_any = base + (int)lane_now() < h.n;
            look_together([&] {
                if (is_any) m = load_relaxed4(h.sums + 2 * (base + lane_now()));
                return !s.hears || m != (uint32_t)UNSAID;
            });
            if (is_any) so_far = fmaxf(so_far, __uint_as_float(m));
        }
#pragma unroll
        for (int step = 16; step; step /= 2) so_far = fmaxf(so_far, __shfl_xor_sync(~0u, so_far, step));
        return so_far;
    }
    /* Adds the first `left` of them. */
    template <class PAGES>
    __device__ __forceinline__ void add(float o[PAGES::EACH], float &sum, const float *room, int left, int d, int dim,
                                        float most) const {
#pragma unroll
        for (int i = 0; i < MERGE_HALVES; i++) {
            const int count = min(32, left - 32 * i);
            const float factor = exp2_fast(max[i] - most), *from = room + 32 * i * dim + d;
#pragma unroll 4
            for (int p = 0; p < count; p++) {
                float v[PAGES::EACH];
                const float k = __shfl_sync(~0u, factor, p);
                PAGES::load(v, from + p * dim);
                sum = fmaf(k, __shfl_sync(~0u, total[i], p), sum);
#pragma unroll
                for (int j = 0; j < PAGES::EACH; j++) o[j] = fmaf(k, v[j], o[j]);
            }
        }
    }
};

/* Head `number` of all heads of all spans, by the whole block. */
template <class PAGES> __device__ __forceinline__ void merge_head(const program_stage &s, int number) {
    const k_decode_args &a = s.is.heads.attend;
    float *room = (float *)(program_shared() + state_of().scratch);
    const int warp = threadIdx.x / 32, head = number % a.n_heads, index = number / a.n_heads;
    const int d = warp * 32 + min((int)(threadIdx.x % 32) * PAGES::EACH, s.dim - PAGES::EACH);
    const bool adds = agreed(warp < PAGES::pieces(s.dim));
    const int row = state_of().spans[index].row;
    const merged_head h(s, index, head);
    const float sink = sink_of(a, head);
    merged_pages pages;
    float most = sink, sum = 0, o[PAGES::EACH] = {};
#pragma unroll 1
    for (int base = 0; base < h.n; base += PROGRAM_MERGE_PAGES) {
        if (base) __syncthreads(); /* the scratch is free again */
        pages.gather(s, h, room, base, adds);
        if (!base && adds) most = pages.most(s, h, sink);
        __syncthreads();
        if (adds) pages.add<PAGES>(o, sum, room, h.n - base, d, s.dim, most);
    }
    if (!adds) return;
    const typename PAGES::places place = PAGES::find(s, row, head, d);
    if (a.sinks) sum += exp2_fast(sink - most);
#pragma unroll
    for (int j = 0; j < PAGES::EACH; j++) o[j] = o[j] / sum;
    PAGES::leave(s, o, row, head, d, place);
}

template <class PAGES> __device__ __noinline__ void run_merge(int stage) {
    const program_stage &s = stage_of(stage);
    const int all = s.n_spans * s.is.heads.attend.n_heads;
    await_turn(s);
    for (int i = blockIdx.x; i < all; i += gridDim.x) {
        merge_head<PAGES>(s, i);
        __syncthreads(); /* the scratch is free again */
    }
}

#endif
