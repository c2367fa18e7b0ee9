/* attend_decode.cuh — one query row against a paged float16 cache: splits of its tokens each alone, then merged in
 * order.
 *
 * Instances are spelled in attend_decode.cu. A block takes one split of one row for up to eight query heads that share
 * a KV head; its four warps take turns at groups of 16 tokens, each with a ring and an online softmax of its
 * own. Splits, turns and the order of merging depend on the position alone, so a row's bits do not depend on its
 * neighbours.
 *
 * The trick: a product has 16 rows for 8 heads, so rows 8 .. 15 hold what float16 loses of the query (and of the
 * probabilities): nearly float32 for nothing. */
#ifndef KERNELS_ATTEND_DECODE_CUH
#define KERNELS_ATTEND_DECODE_CUH

#include "../fast_kargs.h"
#include "heads.cuh"

enum { PAGE_GROUPS = PAGE_TOKENS / PAGE_GROUP };

/* How the turns that a row sees are dealt out to splits. What lies in one page is one: to merge takes as long as to
 * attend to it. */
struct row_splits {
    int first, turns, count, behind;
    /* least: turns of a split; 1 where a program attends, whose steps have few rows. */
    __device__ __forceinline__ row_splits(const k_decode_args &a, int seen, int pos, int least = 1)
        : first(seen / ATTEND_TURN), turns(pos / ATTEND_TURN - first + 1),
          count(seen / PAGE_TOKENS == pos / PAGE_TOKENS ? 1 : attend_splits(turns, a.split_shift, least)),
          behind(pos / PAGE_GROUP + 1) {}
    /* Groups of a split, counted from the row's first token. */
    __device__ __forceinline__ int begin(int split) const { return (first + split * turns / count) * ATTEND_WARPS; }
    __device__ __forceinline__ int end(int split) const { return min(begin(split + 1), behind); }
};

/* A warp's first group of those from `begin` on, which begin with a turn. */
__device__ __forceinline__ int first_group(int begin, int seen) {
    const int mine = begin + threadIdx.x / 32 % ATTEND_WARPS;
    return mine < seen / PAGE_GROUP ? mine + ATTEND_WARPS : mine;
}

/* A warp's groups of a split, as they lie. */
struct group_walk {
    int group, end;
    __device__ __forceinline__ group_walk(const row_splits &of, int split, int seen)
        : group(first_group(of.begin(split), seen)), end(of.end(split)) {}
    __device__ __forceinline__ bool is_any() const { return group < end; }
    __device__ __forceinline__ int page() const { return group / PAGE_GROUPS; }
    __device__ __forceinline__ int in_page() const { return group % PAGE_GROUPS; }
    __device__ __forceinline__ int token() const { return group * PAGE_GROUP; }
    __device__ __forceinline__ void next() { group += ATTEND_WARPS; }
};

/* A group's keys, and its values, into shared memory. Places are written as sums of what depends on the lane and what
 * does not: there are few registers for them. */
template <int DIM> __device__ __forceinline__ void fetch_keys(uint32_t to, const uint8_t *k, uint64_t policy) {
    const int lane = threadIdx.x % 32;
    to += key_at(lane / 2, lane % 2);
#pragma unroll
    for (int i = 0; i < DIM / 16; i++) copy_async16(to + i * 512, k + lane * 16 + i * 512, policy);
}
template <int DIM> __device__ __forceinline__ void fetch_values(uint32_t to, const uint8_t *v, uint64_t policy) {
    constexpr int PIECES = DIM / 8, TOKENS = 32 / PIECES; /* of a token; that a warp copies at once */
    const int lane = thread_now() % 32, token = lane / PIECES, piece = lane % PIECES ^ token;
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        copy_async16(to + token * DIM * 2 + (piece ^ (i * TOKENS & 7)) * 16 + i * 512, v + lane * 16 + i * 512, policy);
}

/* Both, into a slot of the ring. */
template <int DIM>
__device__ __forceinline__ void fetch_group(uint32_t slot, const uint8_t *k, const uint8_t *v, uint64_t policy) {
    fetch_keys<DIM>(slot, k, policy);
    fetch_values<DIM>(slot + PAGE_GROUP * DIM * 2, v, policy);
}

/* What lies in slots that the query does not see may be anything, and nothing times NaN is NaN. */
template <int DIM> __device__ __forceinline__ void clear_unseen(uint32_t slot, int first, int seen, int pos) {
    const int lane = threadIdx.x % 32;
    const uint32_t zeros[4] = {0, 0, 0, 0};
    if (first >= seen && first + PAGE_GROUP - 1 <= pos) return;
    for (int i = 0; i < PAGE_GROUP; i++)
        if ((first + i < seen || first + i > pos) && lane < DIM / 8)
            store_shared16(slot + PAGE_GROUP * DIM * 2 + i * DIM * 2 + lane * 16, zeros);
    __syncwarp();
}

/* One head's running softmax in the lanes of a quad. */
template <int DIM> struct head_state {
    float o[DIM / 8][4]; /* [n-tile]: 0, 1 of the high part of the probabilities, 2, 3 of the rest */
    float max, sum;      /* sum: of this lane's tokens only */

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
        max = -INFINITY, sum = 0;
    }
};

/* Products of the queries, of which queries(q, i) gets elements 16 i and on, with a group's keys: s[i][j] and
 * s[i][j + 2] together are the score of token 8 i + 2 t + j. */
template <int DIM, class QUERIES>
__device__ __forceinline__ void score_group(float s[2][4], uint32_t keys, QUERIES queries) {
#pragma unroll
    for (int i = 0; i < DIM / 16; i++) {
        uint32_t k[4], q[4];
        load_keys(k, keys, 16 * i);
        queries(q, i);
        mma_half(s[0], q, k[0], k[1]);
        mma_half(s[1], q, k[2], k[3]);
    }
}

/* Scores p of tokens `first`, the next one, and those 8 behind them become weights: a gets them as a first operand.
 * Tokens outside [seen, pos] do not count. Returns what was found before must be multiplied by. */
template <int DIM>
__device__ __forceinline__ float weigh_group(head_state<DIM> &h, uint32_t a[4], float p[4], int first, int seen,
                                             int pos, float cap) {
    float max = h.max;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int token = first + i / 2 * 8 + i % 2;
        if (cap != 0) p[i] = cap * tanhf(p[i] / cap);
        p[i] = token < seen || token > pos ? -INFINITY : p[i] * 1.44269504f;
        max = fmaxf(max, p[i]);
    }
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
    const float base = max == -INFINITY ? 0 : max, fade = exp2_fast(h.max - base);
    h.max = max, h.sum *= fade;
#pragma unroll
    for (int i = 0; i < 4; i++) p[i] = exp2_fast(p[i] - base), h.sum += p[i];
    a[0] = pack_half(p[0], p[1]), a[1] = pack_rest(p[0], p[1], a[0]);
    a[2] = pack_half(p[2], p[3]), a[3] = pack_rest(p[2], p[3], a[2]);
    return fade;
}

/* Token `first` is the group's; tokens outside [seen, pos] do not count. */
template <int DIM>
__device__ __forceinline__ void mix_group(head_state<DIM> &h, const float s[2][4], uint32_t values, int first, int seen,
                                          int pos, float cap) {
    const int lane = thread_now() % 32, t = lane % 4; /* no register keeps places from group to group */
    float p[4];
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; i++) p[i] = s[i / 2][i % 2] + s[i / 2][i % 2 + 2];
    const float fade = weigh_group(h, a, p, first + 2 * t, seen, pos, cap);
    if (agreed(fade != 1)) { /* seldom, once a few groups have been seen */
#pragma unroll
        for (int i = 0; i < DIM / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) h.o[i][j] *= fade;
    }
#pragma unroll
    for (int i = 0; i < DIM / 16; i++) {
        uint32_t v[4];
        load_values<DIM>(v, values, 16 * i, lane);
        mma_half(h.o[2 * i], a, v[0], v[1]);
        mma_half(h.o[2 * i + 1], a, v[2], v[3]);
    }
}

template <int DIM>
__device__ __forceinline__ void attend_group(head_state<DIM> &h, const uint32_t q[DIM / 16][4], uint32_t slot,
                                             int first, int seen, int pos, float cap) {
    float s[2][4] = {};
    score_group<DIM>(s, slot, [&](uint32_t to[4], int i) {
#pragma unroll
        for (int j = 0; j < 4; j++) to[j] = q[i][j];
    });
    mix_group(h, s, slot + PAGE_GROUP * DIM * 2, first, seen, pos, cap);
}

__device__ __forceinline__ void pack_query(uint32_t q[2], float2 v, float scale) {
    const float x = __fmul_rn(v.x, scale), y = __fmul_rn(v.y, scale);
    q[0] = pack_half(x, y);
    q[1] = pack_rest(x, y, q[0]);
}

/* The queries' fragments: heads g as rows g, their rests as rows g + 8. */
template <int DIM>
__device__ __forceinline__ void read_queries(uint32_t q[DIM / 16][4], const float *from, bool there, float scale) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float2 v = make_float2(0, 0);
            if (there) v = __ldcg((const float2 *)(from + 16 * i + 8 * h + 2 * t));
            pack_query(q[i] + 2 * h, v, scale);
        }
}

/* What a warp has found for up to `heads` heads goes into its place of [warp][heads][DIM], and maxima and sums behind
 * all of them. This lane's place; NULL: it has none. */
template <int DIM>
__device__ __forceinline__ float *leave_sums(const head_state<DIM> &h, float *shared, int warp, int heads) {
    const int g = lane_now() / 4, t = lane_now() % 4;
    float *sums = shared + ATTEND_WARPS * heads * DIM;
    float sum = h.sum;
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (g >= heads) return NULL;
    if (t == 0) sums[2 * (warp * heads + g)] = h.max, sums[2 * (warp * heads + g) + 1] = sum;
    return shared + (warp * heads + g) * DIM;
}
template <int DIM>
__device__ __forceinline__ void leave_heads(const head_state<DIM> &h, float *shared, int warp, int heads) {
    const int t = lane_now() % 4;
    float *mine = leave_sums(h, shared, warp, heads);
    if (!mine) return;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++)
        *(float2 *)(mine + 8 * i + 2 * t) = make_float2(h.o[i][0] + h.o[i][2], h.o[i][1] + h.o[i][3]);
}

/* Element d of head n of the split: the warps' results in their order. */
template <int DIM>
__device__ __forceinline__ float merge_warps(float *max, float *total, const float *shared, int heads, int n, int d) {
    const float *sums = shared + ATTEND_WARPS * heads * DIM;
    float m = -INFINITY, all = 0, o = 0;
    for (int w = 0; w < ATTEND_WARPS; w++) m = fmaxf(m, sums[2 * (w * heads + n)]);
    for (int w = 0; w < ATTEND_WARPS; w++) {
        const float k = exp2_fast(sums[2 * (w * heads + n)] - m);
        all = fmaf(k, sums[2 * (w * heads + n) + 1], all);
        o = fmaf(k, shared[(w * heads + n) * DIM + d], o);
    }
    *max = m, *total = all;
    return o;
}

/* A block's warps have left what they found. put(head, element, value, maximum, sum) gets what comes out. */
template <int DIM, class PUT> __device__ __forceinline__ void meet_warps(const float *shared, int n_heads, PUT put) {
    __syncthreads();
    for (int i = threadIdx.x; i < n_heads * DIM; i += blockDim.x) {
        const int n = i / DIM, d = i % DIM;
        float max, total;
        const float o = merge_warps<DIM>(&max, &total, shared, ATTEND_HEADS, n, d);
        put(n, d, o, max, total);
    }
}

/* A split's result waits for the others. */
template <int DIM>
__device__ __forceinline__ void put_part(const k_decode_args &a, int head, int d, float o, float max, float total) {
    const size_t at = ((size_t)blockIdx.z * a.n_heads + head) * a.n_splits + blockIdx.x;
    a.part[at * DIM + d] = o;
    if (d == 0) a.part_sums[2 * at] = max, a.part_sums[2 * at + 1] = total;
}

__device__ __forceinline__ float sink_of(const k_decode_args &a, int head) {
    return a.sinks ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
}

/* The only split's result: what merged_value makes of one. */
__device__ __forceinline__ float whole_value(const k_decode_args &a, float sink, float o, float max, float total) {
    const float m = fmaxf(max, sink), k = exp2_fast(max - m);
    float sum = fmaf(k, total, 0);
    if (a.sinks) sum += exp2_fast(sink - m);
    return fmaf(k, o, 0) / sum;
}

/* Grid: splits, KV heads x blocks of eight query heads, spans of one row. */
template <int DIM> __device__ __forceinline__ void attend_decode(const k_decode_args &a) {
    SHARED_MEMORY(shared);
    constexpr int SLOT = PAGE_GROUP * DIM * 4;
    const int shares = a.n_heads / a.n_kv_heads, blocks = (shares + ATTEND_HEADS - 1) / ATTEND_HEADS;
    const int kv_head = blockIdx.y / blocks, block = blockIdx.y % blocks;
    const int head = kv_head * shares + block * ATTEND_HEADS,
              n_heads = min(ATTEND_HEADS, shares - block * ATTEND_HEADS);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.z];
    if (span.n_rows != 1) return;
    const int row = span.row, pos = span.position, seen = first_seen(pos, a.window, a.chunk);
    const row_splits splits(a, seen, pos, a.split_turns);
    if ((int)blockIdx.x >= splits.count) return;
    const uint32_t ring = shared_address(shared) + warp * a.ring * SLOT;
    const uint64_t policy = evict_first();
    group_walk now(splits, blockIdx.x, seen), ahead = now;
    auto fetch = [&](int slot) {
        if (ahead.is_any()) {
            const size_t of = (size_t)a.pages[span.pages + ahead.page()] * a.page_stride +
                              ((size_t)kv_head * PAGE_TOKENS + ahead.in_page() * PAGE_GROUP) * DIM * 2;
            fetch_group<DIM>(ring + slot * SLOT, a.k + of, a.v + of, policy);
            ahead.next();
        }
        commit_copies();
    };
    fetch(0);
    fetch(1);
    uint32_t q[DIM / 16][4];
    read_queries<DIM>(q, a.q + ((size_t)row * a.n_heads + head + g) * DIM, g < n_heads, a.scale);
    head_state<DIM> h;
    h.clear();
    for (int slot = 0; now.is_any(); now.next(), slot ^= 1) {
        wait_copies<1>();
        __syncwarp();
        clear_unseen<DIM>(ring + slot * SLOT, now.token(), seen, pos);
        attend_group<DIM>(h, q, ring + slot * SLOT, now.token(), seen, pos, a.cap);
        __syncwarp();
        fetch(slot);
    }
    wait_copies<0>();
    __syncthreads();
    leave_heads<DIM>(h, (float *)shared, warp, ATTEND_HEADS);
    meet_warps<DIM>((const float *)shared, n_heads, [&](int n, int d, float o, float max, float total) {
        if (a.n_splits == 1)
            a.out[((size_t)row * a.n_heads + head + n) * DIM + d] = whole_value(a, sink_of(a, head + n), o, max, total);
        else
            put_part<DIM>(a, head + n, d, o, max, total);
    });
}

/* This thread's element of the block's head, of splits in ascending order. */
__device__ __forceinline__ float merged_value(const k_decode_args &a, const k_span &span) {
    const int head = blockIdx.x, dim = blockDim.x, d = threadIdx.x;
    const int seen = first_seen(span.position, a.window, a.chunk);
    const int n = row_splits(a, seen, span.position, a.split_turns).count;
    const size_t at = ((size_t)blockIdx.y * a.n_heads + head) * a.n_splits;
    const float sink = sink_of(a, head);
    float max = sink, sum = 0, o = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, __ldcg(a.part_sums + 2 * (at + i)));
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        const float2 s = __ldcg((const float2 *)a.part_sums + at + i);
        const float k = exp2_fast(s.x - max);
        sum = fmaf(k, s.y, sum);
        o = fmaf(k, __ldcg(a.part + (at + i) * dim + d), o);
    }
    if (a.sinks) sum += exp2_fast(sink - max);
    return o / sum;
}

/* One block per head and span; DIM threads. */
__device__ __forceinline__ void attend_merge(const k_decode_args &a) {
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.y];
    if (span.n_rows != 1) return;
    a.out[((size_t)span.row * a.n_heads + blockIdx.x) * blockDim.x + threadIdx.x] = merged_value(a, span);
}

#endif
