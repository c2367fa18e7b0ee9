/* attend_batch.cuh — single rows of many sequences against a paged float16 cache: a warp has a page of a KV head alone.
 *
 * Instances are spelled in attend_batch.cu; cuda_attend.c takes them instead of attend_decode.cuh from five rows on,
 * where there are warps enough without sharing pages. Nothing meets but pages, which merge_batch adds in order; what
 * the next product reads is left as it wants it.
 *
 * Rotating and storing the row's key and value is done on the way, which spares a kernel that would do little else
 * than start: the warp that has the row's own page does it before it fetches them with all others. */
#ifndef KERNELS_ATTEND_BATCH_CUH
#define KERNELS_ATTEND_BATCH_CUH

#include "attend_decode.cuh"
#include "operand_rows.cuh"
#include "turn.cuh"

/* What a warp works on. */
struct batch_place {
    k_span span;
    int kv_head, head, n_heads, page, pos, seen;
    bool is_there;
    __device__ __forceinline__ batch_place(const k_decode_args &a) : span(a.spans[blockIdx.z]) {
        const int shares = a.n_heads / a.n_kv_heads, blocks = (shares + ATTEND_HEADS - 1) / ATTEND_HEADS;
        const int unit = blockIdx.y * ATTEND_WARPS + threadIdx.x / 32, block = unit % blocks;
        kv_head = unit / blocks;
        head = kv_head * shares + block * ATTEND_HEADS;
        n_heads = min(ATTEND_HEADS, shares - block * ATTEND_HEADS);
        pos = span.position;
        seen = first_seen(pos, a.window, a.chunk);
        page = seen / PAGE_TOKENS + blockIdx.x;
        is_there = kv_head < a.n_kv_heads && span.n_rows == 1 && page <= pos / PAGE_TOKENS;
    }
};

/* The queries as read_queries has them, in shared memory, for registers are few: 16 bytes of each lane for 16 elements.
 * They are turned on the way if `a` tells how: both elements of a pair are this lane's. */
template <int DIM>
__device__ __forceinline__ void stage_queries(uint32_t to, const k_rope_args &a, const float *from, int row, bool there,
                                              float scale) {
    const int t = threadIdx.x % 4;
    const float *cosines = a.cos + (size_t)row * (DIM / 2), *sines = a.sin + (size_t)row * (DIM / 2);
    const float by = a.k && a.q_scale ? __ldg(a.q_scale + row) : 1;
    auto put = [&](int i, int h, float2 v) {
        const float x = __fmul_rn(v.x, by) * scale, y = __fmul_rn(v.y, by) * scale;
        const uint32_t high = pack_half(x, y);
        store_shared8(to + i * 512 + threadIdx.x % 32 * 16 + h * 8, high, pack_rest(x, y, high));
    };
#pragma unroll
    for (int i = 0; i < DIM / 32; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int d = 16 * i + 8 * h + 2 * t;
            float2 v = make_float2(0, 0), w = v;
            if (there) v = __ldcg((const float2 *)(from + d)), w = __ldcg((const float2 *)(from + DIM / 2 + d));
            if (a.k && a.pairs) {
                turn_pair(v.x, v.y, __ldg(cosines + d / 2), __ldg(sines + d / 2));
                turn_pair(w.x, w.y, __ldg(cosines + DIM / 4 + d / 2), __ldg(sines + DIM / 4 + d / 2));
            } else if (a.k) {
                const float2 c = __ldg((const float2 *)(cosines + d)), s = __ldg((const float2 *)(sines + d));
                turn_pair(v.x, w.x, c.x, s.x);
                turn_pair(v.y, w.y, c.y, s.y);
            }
            put(i, h, v);
            put(i + DIM / 32, h, w);
        }
}

/* A lane's part of 16 elements of the queries. */
__device__ __forceinline__ void load_queries(uint32_t q[4], uint32_t queries, int i) {
    const uint4 v = load_shared16(queries + i * 512 + threadIdx.x % 32 * 16);
    q[0] = v.x, q[1] = v.y, q[2] = v.z, q[3] = v.w;
}

/* The row's own key and value into its page, from where this warp fetches them like all others. */
template <int DIM> __device__ __forceinline__ void store_own(const k_rope_args &a, const batch_place &at, size_t page) {
    const head_of<DIM, 1> is(a, at.span);
    const size_t from = ((size_t)at.span.row * a.kv.n_kv_heads + at.kv_head) * DIM;
    const int lane = threadIdx.x % 32, slot = at.pos % PAGE_TOKENS;
    half *keys = (half *)(a.kv.k + page) + slot / PAGE_GROUP * (PAGE_GROUP * DIM) + slot % PAGE_GROUP;
    half *values = (half *)(a.kv.v + page) + slot * DIM;
    lane_pairs<DIM> p;
    is.take(&p, a.k + from, 0, 0);
#pragma unroll
    for (int i = 0; i < DIM / 64; i++) {
        const float2 v = __ldcg((const float2 *)(a.v + from + 64 * i + 2 * lane));
        *(uint32_t *)(values + 64 * i + 2 * lane) = pack_half(v.x, v.y);
        keys[is.first(i) * PAGE_GROUP] = __float2half_rn(p.a[i]);
        keys[is.second(i) * PAGE_GROUP] = __float2half_rn(p.b[i]);
    }
    __syncwarp();
}

/* Of the lanes that have the same row. */
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* The page's result: whole where it is the only one, as merged_pair would have it, or to be merged. */
template <int DIM>
__device__ __forceinline__ void put_page(const k_decode_args &a, const batch_place &at, const head_state<DIM> &h) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, head = at.head + g;
    const bool is_there = g < at.n_heads;
    const float total = quad_sum(h.sum);
    const size_t part = ((size_t)blockIdx.z * a.n_heads + head) * a.n_splits + blockIdx.x;
    const float sink = a.sinks && is_there ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
    const float most = fmaxf(h.max, sink), k = exp2_fast(h.max - most);
    const float by = 1 / (fmaf(k, total, 0) + (a.sinks ? exp2_fast(sink - most) : 0));
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        const int d = 8 * i + 2 * t;
        const float x = h.o[i][0] + h.o[i][2], y = h.o[i][1] + h.o[i][3];
        if (a.n_splits == 1)
            put_result(a, at.span.row, a.n_heads * DIM, head * DIM + d, k * x * by, k * y * by, is_there);
        else if (is_there)
            *(float2 *)(a.part + part * DIM + d) = make_float2(x, y);
    }
    if (a.n_splits > 1 && is_there && t == 0) a.part_sums[2 * part] = h.max, a.part_sums[2 * part + 1] = total;
}

/* For results among blocks, see put_result. */
__device__ __forceinline__ void put_unscaled(const k_decode_args &a, int row, bool is_first) {
    if (a.blocks && is_first && threadIdx.x == 0) a.row_scale[row] = 1;
}

/* Grid: pages, KV heads x blocks of eight query heads (four in a block), spans of one row. */
template <int DIM> __device__ __forceinline__ void attend_batch(const k_batch_args &b) {
    SHARED_MEMORY(shared);
    constexpr int KEYS = PAGE_GROUP * DIM * 2;
    const k_decode_args &a = b.attend;
    let_next_start();
    const batch_place at(a); /* tables are older than the kernel in front */
    wait_for_previous();
    put_unscaled(a, at.span.row, blockIdx.x == 0 && blockIdx.y == 0 && at.span.n_rows == 1);
    if (!at.is_there) return;
    const int begin = max(at.seen - at.page * PAGE_TOKENS, 0) / PAGE_GROUP;
    const int end = min(at.pos - at.page * PAGE_TOKENS, PAGE_TOKENS - 1) / PAGE_GROUP + 1;
    const size_t page =
        (size_t)a.pages[at.span.pages + at.page] * a.page_stride + (size_t)at.kv_head * PAGE_TOKENS * DIM * 2;
    const uint32_t slot = shared_address(shared) + threadIdx.x / 32 * (3 * KEYS), queries = slot + 2 * KEYS;
    const uint64_t policy = evict_first();
    if (b.turn.k && at.page == at.pos / PAGE_TOKENS) store_own<DIM>(b.turn, at, page);
    fetch_keys<DIM>(slot, a.k + page + (size_t)begin * KEYS, policy);
    commit_copies();
    fetch_values<DIM>(slot + KEYS, a.v + page + (size_t)begin * KEYS, policy);
    commit_copies();
    const int g = threadIdx.x % 32 / 4;
    stage_queries<DIM>(queries, b.turn, a.q + ((size_t)at.span.row * a.n_heads + at.head + g) * DIM, at.span.row,
                       g < at.n_heads, a.scale);
    head_state<DIM> h;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) h.o[i][0] = h.o[i][1] = h.o[i][2] = h.o[i][3] = 0;
    h.max = -INFINITY, h.sum = 0;
    for (int group = begin; group < end; group++) {
        const int first = at.page * PAGE_TOKENS + group * PAGE_GROUP;
        wait_copies<1>();
        __syncwarp();
        float s[2][4] = {};
        score_group<DIM>(s, slot, [&](uint32_t q[4], int i) { load_queries(q, queries, i); });
        __syncwarp();
        if (group + 1 < end) fetch_keys<DIM>(slot, a.k + page + (size_t)(group + 1) * KEYS, policy);
        commit_copies();
        wait_copies<1>();
        __syncwarp();
        clear_unseen<DIM>(slot, first, at.seen, at.pos);
        mix_group<DIM>(h, s, slot + KEYS, first, at.seen, at.pos, a.cap);
        __syncwarp();
        if (group + 1 < end) fetch_values<DIM>(slot + KEYS, a.v + page + (size_t)(group + 1) * KEYS, policy);
        commit_copies();
    }
    put_page<DIM>(a, at, h);
}

/* Pages of a row in ascending order: a block has a head and span, a thread two elements. */
__device__ __forceinline__ void merge_batch(const k_decode_args &a) {
    let_next_start();
    const k_span span = a.spans[blockIdx.y];
    wait_for_previous();
    if (span.n_rows != 1) return;
    put_unscaled(a, span.row, blockIdx.x == 0);
    const int head = blockIdx.x, dim = 2 * blockDim.x, d = 2 * threadIdx.x;
    const int n = span.position / PAGE_TOKENS - first_seen(span.position, a.window, a.chunk) / PAGE_TOKENS + 1;
    const size_t at = ((size_t)blockIdx.y * a.n_heads + head) * a.n_splits;
    const float sink = a.sinks ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
    float max = sink, sum = 0;
    float2 o = make_float2(0, 0);
    for (int i = 0; i < n; i++) max = fmaxf(max, __ldcg(a.part_sums + 2 * (at + i)));
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        const float2 s = __ldcg((const float2 *)a.part_sums + at + i);
        const float2 v = __ldcg((const float2 *)(a.part + (at + i) * dim + d));
        const float k = exp2_fast(s.x - max);
        sum = fmaf(k, s.y, sum);
        o.x = fmaf(k, v.x, o.x), o.y = fmaf(k, v.y, o.y);
    }
    const float by = 1 / (sum + (a.sinks ? exp2_fast(sink - max) : 0));
    put_result(a, span.row, a.n_heads * dim, head * dim + d, o.x * by, o.y * by, true);
}

#endif
