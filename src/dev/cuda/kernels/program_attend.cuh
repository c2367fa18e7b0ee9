/* program_attend.cuh — a program's attention: the new token's key and value go into the pages, then each block takes
 * some pages of some KV heads.
 *
 * Used by program.cuh. Rotation, pages, turns of the warps and merging are those of rope.cu and attend_decode.cuh, bit
 * for bit; only who does what differs. Four warps attend to a page, two such quads to two pages at once, and fetch
 * across pages: the next one is on its way while results of this one are merged. A warp has room for one group: its
 * next keys come while values are mixed, its next values while keys are scored. All warps rotate heads. */
#ifndef KERNELS_PROGRAM_ATTEND_CUH
#define KERNELS_PROGRAM_ATTEND_CUH

#include "attend_decode.cuh"
#include "program_tell.cuh"
#include "rope.cuh"

__device__ __forceinline__ int quad_of_warp() { return threadIdx.x / 32 / ATTEND_WARPS; }

__device__ __forceinline__ void meet_quad() {
    __syncwarp();
    if (quad_of_warp())
        meet_threads<2, ATTEND_WARPS * 32>();
    else
        meet_threads<1, ATTEND_WARPS * 32>();
}

/* What of the cache a warp fetches: its groups of page after page of its quad. */
template <int DIM> struct page_stream {
    const k_decode_args &a;
    const int32_t *pages;
    const uint8_t *k, *v, *values; /* values: of the group whose keys were fetched; NULL: there was none */
    uint32_t slot;
    int kv_head, pos, seen, page, last, group, end;
    uint64_t policy;

    __device__ __forceinline__ int begin_of(int p) const {
        const int first = max(seen - p * PAGE_TOKENS, 0) / PAGE_GROUP, warp = threadIdx.x / 32 % ATTEND_WARPS;
        const int mine = first / ATTEND_WARPS * ATTEND_WARPS + warp; /* turns do not depend on what is seen */
        return mine < first ? mine + ATTEND_WARPS : mine;
    }
    __device__ __forceinline__ int end_of(int p) const {
        return min(pos - p * PAGE_TOKENS, PAGE_TOKENS - 1) / PAGE_GROUP + 1;
    }
    __device__ __forceinline__ void open_page() {
        const size_t at = (size_t)pages[page] * a.page_stride + (size_t)kv_head * PAGE_TOKENS * DIM * 2;
        k = a.k + at, v = a.v + at;
        group = begin_of(page), end = end_of(page);
    }
    __device__ __forceinline__ void fetch_next_keys() {
        while (page <= last && group >= end)
            if ((page += PROGRAM_QUADS) <= last) open_page();
        values = NULL;
        if (page <= last) {
            const size_t of = (size_t)group * PAGE_GROUP * DIM * 2;
            fetch_keys<DIM>(slot, k + of, policy);
            values = v + of;
            group += ATTEND_WARPS;
        }
        commit_copies();
    }
    __device__ __forceinline__ void fetch_their_values() {
        if (values) fetch_values<DIM>(slot + PAGE_GROUP * DIM * 2, values, policy);
        commit_copies();
    }
};

/* A page's result: to be merged with others', or the only one. */
template <int DIM>
__device__ __forceinline__ void leave_page(const program_stage &stage, const float *found, int span, int row, int head,
                                           int heads, int split) {
    const k_decode_args &a = stage.is.heads.attend;
    for (int i = threadIdx.x % (ATTEND_WARPS * 32); i < heads * DIM; i += ATTEND_WARPS * 32) {
        const int n = i / DIM, d = i % DIM;
        float max, total;
        const float o = merge_warps<DIM>(&max, &total, found, heads, n, d);
        if (a.n_splits == 1) {
            const float sink = a.sinks ? __ldg(a.sinks + head + n) * 1.44269504f : -INFINITY, m = fmaxf(sink, max);
            const float k = exp2_fast(max - m);
            float sum = fmaf(k, total, 0);
            if (a.sinks) sum += exp2_fast(sink - m);
            leave_result(stage, PROGRAM_FOUND, a.out, ((int64_t)row * a.n_heads + head + n) * DIM + d,
                         fmaf(k, o, 0) / sum);
            continue;
        }
        const size_t to = ((size_t)span * a.n_heads + head + n) * a.n_splits + split;
        leave_part(stage, PROGRAM_PAGES, a.part, to * DIM + d, o);
        if (d) continue;
        leave_part(stage, PROGRAM_PAGE_SUMS, a.part_sums, 2 * to, max);
        leave_part(stage, PROGRAM_PAGE_SUMS, a.part_sums, 2 * to + 1, total);
    }
}

struct attend_room {
    uint32_t rings, queries;
    float *heads; /* [queries, key, value][DIM], until queries are fragments */
    float *found; /* of the quads' warps, at the same place */
};

template <int DIM> __device__ __forceinline__ attend_room make_attend_room(uint8_t *scratch) {
    attend_room r;
    r.rings = shared_address(scratch);
    scratch += PROGRAM_QUADS * ATTEND_WARPS * ATTEND_GROUP * DIM * 4;
    r.queries = shared_address(scratch);
    r.heads = r.found = (float *)(scratch + DIM * 64);
    return r;
}

/* Pages [first, end) as the query at `pos` counts them, by the quads in turns. */
template <int DIM>
__device__ __forceinline__ void attend_pages(const program_stage &stage, const attend_room &r, int span_index,
                                             const k_span &span, int kv_head, int first, int end) {
    const k_decode_args &a = stage.is.heads.attend;
    const int shares = a.n_heads / a.n_kv_heads, warp = threadIdx.x / 32, pos = span.position;
    const int seen = first_seen(pos, a.window, a.chunk), base = seen / PAGE_TOKENS;
    const int quad = quad_of_warp();
    float *found = r.found + quad * ATTEND_WARPS * shares * (DIM + 2);
    page_stream<DIM> s{a, a.pages + span.pages};
    s.slot = r.rings + warp * PAGE_GROUP * DIM * 4;
    s.kv_head = kv_head, s.pos = pos, s.seen = seen, s.page = base + first + quad;
    s.last = min(base + end - 1, pos / PAGE_TOKENS);
    s.policy = evict_first();
    if (s.page > s.last) return;
    s.open_page();
    s.fetch_next_keys();
    s.fetch_their_values();
    const uint32_t queries = r.queries + threadIdx.x % 32 * 16;
    for (int page = base + first + quad; page <= s.last; page += PROGRAM_QUADS) {
        head_state<DIM> h;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) h.o[i][0] = h.o[i][1] = h.o[i][2] = h.o[i][3] = 0;
        h.max = -INFINITY, h.sum = 0;
        const int stop = s.end_of(page);
        for (int group = s.begin_of(page); group < stop; group += ATTEND_WARPS) {
            const int token = page * PAGE_TOKENS + group * PAGE_GROUP;
            wait_copies<1>();
            __syncwarp();
            float scores[2][4] = {};
            score_group<DIM>(scores, s.slot, [&](uint32_t q[4], int i) {
                const uint4 v = load_shared16(queries + i * 512);
                q[0] = v.x, q[1] = v.y, q[2] = v.z, q[3] = v.w;
            });
            __syncwarp();
            s.fetch_next_keys();
            wait_copies<1>();
            __syncwarp();
            clear_unseen<DIM>(s.slot, token, seen, pos);
            mix_group(h, scores, s.slot + PAGE_GROUP * DIM * 2, token, seen, pos, a.cap);
            __syncwarp();
            s.fetch_their_values();
        }
        meet_quad(); /* what was found in the page before has been merged */
        leave_heads<DIM>(h, found, warp % ATTEND_WARPS, shares);
        meet_quad();
        leave_page<DIM>(stage, found, span_index, span.row, kv_head * shares, shares, page - base);
    }
    wait_copies<0>();
}

/* Query heads by warps 0 .., and where `stores` the key and the value by two more. */
template <int DIM>
__device__ __forceinline__ void rotate_heads(const program_stage &s, const attend_room &r, const k_span &span,
                                             int kv_head, int shares, bool stores) {
    const k_rope_args &a = s.is.heads.rope;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = a.rot_dims / 2;
    const int64_t row = span.row;
    const bool is_q = warp < shares, is_k = warp == PROGRAM_MOST_HEADS, is_v = warp == PROGRAM_MOST_HEADS + 1;
    if (!is_q && !((is_k || is_v) && stores)) return;
    const int64_t kv_at = (row * a.kv.n_kv_heads + kv_head) * DIM;
    const float *from = is_q   ? a.q + (row * a.n_heads + kv_head * shares + warp) * DIM
                        : is_k ? a.k + kv_at
                               : a.v + kv_at;
    float *head = r.heads + warp * DIM;
#pragma unroll
    for (int i = 0; i < DIM / 32; i++) head[i * 32 + lane] = hear(from + i * 32 + lane, s.hears);
    __syncwarp();
    if (!is_v) {
        const float *weight = is_q ? a.q_norm : a.k_norm;
        if (a.norm == NORM_FIRST) norm_head(head, DIM, weight, a.eps);
        turn_head(head, a.cos + row * half, a.sin + row * half, half, a.pairs);
        if (a.norm == NORM_LAST) norm_head(head, DIM, weight, a.eps);
    }
    if (is_q) {
        const float scale = a.q_scale ? a.q_scale[row] : 1;
#pragma unroll
        for (int i = 0; i < DIM / 32; i++) head[i * 32 + lane] = __fmul_rn(head[i * 32 + lane], scale);
        return;
    }
    const int64_t page = (int64_t)a.pages[span.pages + span.position / K_PAGE] * a.kv.page_stride;
    const int slot = span.position % K_PAGE;
    typedef plain_kv<f16> kv;
    if (is_k)
        kv::put_key(a.kv.k + page + kv_head * kv::key_head_bytes(DIM), a.kv, slot, head);
    else
        kv::put_value(a.kv.v + page + kv_head * kv::value_head_bytes(DIM), a.kv, slot, head, NULL);
}

/* Rotated queries as fragments: a warp for each 16 elements. */
template <int DIM> __device__ __forceinline__ void share_queries(const attend_room &r, int shares, float scale) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if (warp >= DIM / 16) return;
    uint32_t q[4];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float2 v = make_float2(0, 0);
        if (g < shares) v = *(const float2 *)(r.heads + g * DIM + 16 * warp + 8 * h + 2 * t);
        pack_query(q + 2 * h, v, scale);
    }
    store_shared16(r.queries + (warp * 32 + lane) * 16, q);
}

/* Pages of all KV heads of all spans are dealt out in that order; the pages of one KV head are done together. */
template <int DIM> __device__ __noinline__ void run_attend(int stage, uint32_t turn) {
    const program_stage &s = stage_of(stage);
    const k_decode_args &a = s.is.heads.attend;
    const attend_room r = make_attend_room<DIM>(program_shared() + state_of().scratch);
    const int shares = a.n_heads / a.n_kv_heads, n = a.n_splits * a.n_kv_heads * s.n_spans;
    const int end = (int)((int64_t)(blockIdx.x + 1) * n / gridDim.x);
    await_turn(turn);
    for (int item = (int)((int64_t)blockIdx.x * n / gridDim.x), stop; item < end; item = stop) {
        const int pair = item / a.n_splits, first = item - pair * a.n_splits, kv_head = pair % a.n_kv_heads;
        const int index = pair / a.n_kv_heads;
        stop = min(end, (pair + 1) * a.n_splits);
        const k_span span = a.spans[index];
        const int newest = span.position / PAGE_TOKENS - first_seen(span.position, a.window, a.chunk) / PAGE_TOKENS;
        const int behind = stop - pair * a.n_splits;
        rotate_heads<DIM>(s, r, span, kv_head, shares, newest >= first && newest < behind);
        __syncthreads();
        share_queries<DIM>(r, shares, a.scale);
        __syncthreads();
        if (threadIdx.x < PROGRAM_QUADS * ATTEND_WARPS * 32)
            attend_pages<DIM>(s, r, index, span, kv_head, first, behind);
        __syncthreads();
    }
}

/* Pages in ascending order: a warp for 32 elements of a head. */
__device__ __forceinline__ void run_merge(int stage, uint32_t turn) {
    const program_stage &s = stage_of(stage);
    const k_decode_args &a = s.is.heads.attend;
    const int dim = s.dim, n_spans = s.n_spans;
    const int lane = threadIdx.x % 32, pieces = dim / 32, all = n_spans * a.n_heads * pieces;
    await_turn(turn);
    for (int i = threadIdx.x / 32 * gridDim.x + blockIdx.x; i < all; i += gridDim.x * PROGRAM_WARPS) {
        const int d = i % pieces * 32 + lane, head = i / pieces % a.n_heads, index = i / pieces / a.n_heads;
        const k_span span = a.spans[index];
        const int seen = first_seen(span.position, a.window, a.chunk);
        const int n = span.position / PAGE_TOKENS - seen / PAGE_TOKENS + 1;
        const size_t at = ((size_t)index * a.n_heads + head) * a.n_splits;
        const float *sums = (s.hears ? s.told[PROGRAM_PAGE_SUMS] : a.part_sums) + 2 * at;
        const float *parts = (s.hears ? s.told[PROGRAM_PAGES] : a.part) + at * dim + d;
        const float sink = a.sinks ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
        float max = sink, sum = 0, o = 0;
        for (int p = lane; p < n; p += 32) max = fmaxf(max, hear(sums + 2 * p, s.hears));
#pragma unroll
        for (int step = 16; step; step /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
        for (int base = 0; base < n; base += 32) {
            const int mine = base + lane, count = min(32, n - base);
            const float factor = exp2_fast(mine < n ? hear(sums + 2 * mine, s.hears) - max : -INFINITY);
            const float total = mine < n ? hear(sums + 2 * mine + 1, s.hears) : 0;
#pragma unroll 1
            for (int first = 0; first < count; first += 8) {
                float v[8];
                hear_apart(v, parts + (size_t)(base + first) * dim, dim, count - first, s.hears);
#pragma unroll
                for (int p = 0; p < 8; p++) {
                    if (first + p == count) break;
                    const float k = __shfl_sync(~0u, factor, first + p);
                    sum = fmaf(k, __shfl_sync(~0u, total, first + p), sum);
                    o = fmaf(k, v[p], o);
                }
            }
        }
        if (a.sinks) sum += exp2_fast(sink - max);
        leave_result(s, PROGRAM_FOUND, a.out, ((int64_t)span.row * a.n_heads + head) * dim + d, o / sum);
    }
}

#endif
