/* program_attend.cuh — a program's attention: the new token's key and value go into the pages, then each block takes
 * some pages of some KV heads.
 *
 * Used by program.cuh. Rotation, pages, turns of the warps and merging are those of rope.cu and attend_decode.cuh, bit
 * for bit; only who does what differs. Four warps attend to a page, two such quads to two pages at once where there are
 * so many, and fetch across pages: the next one is on its way while results of this one are merged. A warp has room for
 * one group: its next keys come while values are mixed, its next values while keys are scored. All warps rotate heads.
 *
 * What a stage needs besides the step's own heads is fetched before these are heard: the first groups, too. So the new
 * token's key and value are put where the fetched ones lie (fresh_token), not only into the page. */
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

/* What of the cache a warp fetches: its groups of page after page of its quad. What does not change is read where it
 * is: registers are for what is summed. */
template <int DIM> struct page_stream {
    const program_stage &stage;
    const program_item &item;
    const uint8_t *k, *v, *values; /* values: of the group whose keys were fetched; NULL: there was none */
    uint32_t slot;
    int page, last, group, end;

    __device__ __forceinline__ const k_decode_args &args() const { return stage.is.heads.attend; }
    __device__ __forceinline__ int pos() const { return item.span.position; }
    __device__ __forceinline__ int begin_of(int p) const {
        const int first = max(item.seen - p * PAGE_TOKENS, 0) / PAGE_GROUP;
        const int warp = threadIdx.x / 32 % ATTEND_WARPS;
        const int mine = first / ATTEND_WARPS * ATTEND_WARPS + warp; /* turns do not depend on what is seen */
        return mine < first ? mine + ATTEND_WARPS : mine;
    }
    __device__ __forceinline__ int end_of(int p) const {
        return min(pos() - p * PAGE_TOKENS, PAGE_TOKENS - 1) / PAGE_GROUP + 1;
    }
    __device__ __forceinline__ void open_page(int32_t id) {
        const size_t at = (size_t)id * args().page_stride + (size_t)item.kv_head * PAGE_TOKENS * DIM * 2;
        k = args().k + at, v = args().v + at;
        group = begin_of(page), end = end_of(page);
    }
    __device__ __forceinline__ void fetch_next_keys() {
        while (page <= last && group >= end)
            if ((page += stage.quads) <= last) open_page(args().pages[item.span.pages + page]);
        values = NULL;
        if (page <= last) {
            const size_t of = (size_t)group * PAGE_GROUP * DIM * 2;
            fetch_keys<DIM>(slot, k + of, evict_first());
            values = v + of;
            group += ATTEND_WARPS;
        }
        commit_copies();
    }
    __device__ __forceinline__ void fetch_their_values() {
        if (values) fetch_values<DIM>(slot + PAGE_GROUP * DIM * 2, values, evict_first());
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
        const int64_t place = a.n_splits == 1 ? find_place(stage, row, (head + n) * DIM + d) : 0;
        float max, total;
        const float o = merge_warps<DIM>(&max, &total, found, heads, n, d);
        if (a.n_splits == 1) {
            const float sink = a.sinks ? __ldg(a.sinks + head + n) * 1.44269504f : -INFINITY, m = fmaxf(sink, max);
            const float k = exp2_fast(max - m);
            float sum = fmaf(k, total, 0);
            if (a.sinks) sum += exp2_fast(sink - m);
            leave_result(stage, PROGRAM_FOUND, a.out, ((int64_t)row * a.n_heads + head + n) * DIM + d, place,
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
    f16 *fresh;   /* the new token's key and value, [2][DIM] */
    float *norms; /* weights of queries and keys, [2][DIM] */
    float *heads; /* [queries, key, value][DIM], until they are fragments and fresh */
    float *found; /* of the quads' warps, at the same place */
};

template <int DIM> __device__ __forceinline__ attend_room make_attend_room(uint8_t *scratch, int quads) {
    attend_room r;
    r.rings = shared_address(scratch);
    scratch += quads * ATTEND_WARPS * ATTEND_GROUP * DIM * 4;
    r.queries = shared_address(scratch);
    r.fresh = (f16 *)(scratch + DIM * 64);
    r.norms = (float *)(r.fresh + 2 * DIM);
    r.heads = r.found = r.norms + 2 * DIM;
    return r;
}

/* Puts the new token's key, or its value, into the group at `slot` if that is its place. */
template <int DIM> struct fresh_token {
    const f16 *fresh;
    int pos;
    __device__ __forceinline__ bool is_in(int first) const { return pos >= first && pos < first + PAGE_GROUP; }
    __device__ __forceinline__ void put(uint32_t (*place)(int, int), uint32_t slot, const f16 *from, int token) const {
        for (int d = threadIdx.x % 32; d < DIM; d += 32) store_shared2(slot + place(d, token), from[d].bits);
        __syncwarp();
    }
    static __device__ __forceinline__ uint32_t key_place(int d, int token) {
        return key_at(d, token / 8) + token % 8 * 2;
    }
    static __device__ __forceinline__ uint32_t value_place(int d, int token) {
        return value_at<DIM>(token, d / 8) + d % 8 * 2;
    }
    __device__ __forceinline__ void put_key(uint32_t slot, int first) const {
        if (is_in(first)) put(key_place, slot, fresh, pos - first);
    }
    __device__ __forceinline__ void put_value(uint32_t slot, int first) const {
        if (is_in(first)) put(value_place, slot + PAGE_GROUP * DIM * 2, fresh + DIM, pos - first);
    }
};

/* An item's pages by the quads in turns: the first groups of each warp. */
template <int DIM> __device__ __forceinline__ void start_pages(page_stream<DIM> &s, const attend_room &r) {
    const program_item &item = s.item;
    const int base = item.seen / PAGE_TOKENS, quad = quad_of_warp();
    s.slot = r.rings + threadIdx.x / 32 * PAGE_GROUP * DIM * 4;
    s.page = base + item.first + quad;
    s.last = min(base + item.behind - 1, s.pos() / PAGE_TOKENS);
    s.values = NULL;
    if (s.page > s.last) return;
    s.open_page(item.pages[quad]);
    s.fetch_next_keys();
    s.fetch_their_values();
}

/* The same pages, as far as start_pages has not come. */
template <int DIM> __device__ __forceinline__ void attend_pages(page_stream<DIM> &s, const attend_room &r) {
    const program_stage &stage = s.stage;
    const program_item &item = s.item;
    const k_decode_args &a = stage.is.heads.attend;
    const int shares = a.n_heads / a.n_kv_heads, warp = threadIdx.x / 32, base = item.seen / PAGE_TOKENS;
    float *found = r.found + quad_of_warp() * ATTEND_WARPS * shares * (DIM + 2);
    const fresh_token<DIM> fresh{r.fresh, s.pos()};
    const uint32_t queries = r.queries + threadIdx.x % 32 * 16;
    for (int page = base + item.first + quad_of_warp(); page <= s.last; page += stage.quads) {
        head_state<DIM> h;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) h.o[i][0] = h.o[i][1] = h.o[i][2] = h.o[i][3] = 0;
        h.max = -INFINITY, h.sum = 0;
        const int stop = s.end_of(page);
        for (int group = s.begin_of(page); group < stop; group += ATTEND_WARPS) {
            const int token = page * PAGE_TOKENS + group * PAGE_GROUP;
            wait_copies<1>();
            __syncwarp();
            fresh.put_key(s.slot, token);
            float scores[2][4] = {};
            score_group<DIM>(scores, s.slot, [&](uint32_t q[4], int i) {
                const uint4 v = load_shared16(queries + i * 512);
                q[0] = v.x, q[1] = v.y, q[2] = v.z, q[3] = v.w;
            });
            __syncwarp();
            s.fetch_next_keys();
            wait_copies<1>();
            __syncwarp();
            clear_unseen<DIM>(s.slot, token, item.seen, s.pos());
            fresh.put_value(s.slot, token);
            mix_group(h, scores, s.slot + PAGE_GROUP * DIM * 2, token, item.seen, s.pos(), a.cap);
            __syncwarp();
            s.fetch_their_values();
        }
        meet_quad(); /* what was found in the page before has been merged */
        leave_heads<DIM>(h, found, warp % ATTEND_WARPS, shares);
        meet_quad();
        leave_page<DIM>(stage, found, item.index, item.span.row, item.kv_head * shares, shares, page - base);
    }
    wait_copies<0>();
}

/* The weights of heads' norms into shared memory. */
template <int DIM> __device__ __forceinline__ void read_norms(const k_rope_args &a, const attend_room &r) {
    static_assert(2 * DIM <= PROGRAM_THREADS, "one for each thread");
    const int i = threadIdx.x;
    if (a.norm == NORM_NONE || i >= 2 * DIM) return;
    const float *weight = i < DIM ? a.q_norm : a.k_norm;
    r.norms[i] = weight ? __ldg(weight + i % DIM) : 1;
}

/* A rotated query as rows g and g + 8 of fragments, lane by lane two of its pairs. */
template <int DIM>
__device__ __forceinline__ void share_query(const attend_room &r, const float *head, int g, float q_scale,
                                            float scale) {
#pragma unroll
    for (int pair = threadIdx.x % 32; pair < DIM / 2; pair += 32) {
        float2 v = *(const float2 *)(head + 2 * pair);
        v.x = __fmul_rn(v.x, q_scale), v.y = __fmul_rn(v.y, q_scale);
        uint32_t q[2];
        pack_query(q, v, scale);
        store_shared8(r.queries + (pair / 8 * 32 + g * 4 + pair % 4) * 16 + pair % 8 / 4 * 8, q[0], q[1]);
    }
}

/* Query heads by warps 0 .., and where `stores` the key and the value by two more. */
template <int DIM>
__device__ __forceinline__ void rotate_heads(const program_stage &s, const attend_room &r, const program_item &item,
                                             int shares) {
    const k_rope_args &a = s.is.heads.rope;
    const k_decode_args &by = s.is.heads.attend;
    const k_span span = item.span;
    const int kv_head = item.kv_head;
    const int newest = span.position / PAGE_TOKENS - item.seen / PAGE_TOKENS;
    const bool stores = newest >= item.first && newest < item.behind;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = a.rot_dims / 2;
    const int64_t row = span.row;
    const bool is_q = warp < shares, is_k = warp == PROGRAM_MOST_HEADS, is_v = warp == PROGRAM_MOST_HEADS + 1;
    if (!is_q && !((is_k || is_v) && stores)) return;
    const float scale = is_q && a.q_scale ? __ldg(a.q_scale + row) : 1;
    const int64_t page = (int64_t)a.pages[span.pages + span.position / K_PAGE] * a.kv.page_stride;
    const int64_t kv_at = (row * a.kv.n_kv_heads + kv_head) * DIM;
    const float *from = is_q   ? a.q + (row * a.n_heads + kv_head * shares + warp) * DIM
                        : is_k ? a.k + kv_at
                               : a.v + kv_at;
    float *head = r.heads + warp * DIM;
    float v[8];
    hear_eight(v, from + 4 * lane, NULL, s.hears, lane < DIM / 4, false);
    if (lane < DIM / 4) *(float4 *)(head + 4 * lane) = make_float4(v[0], v[1], v[2], v[3]);
    __syncwarp();
    if (!is_v) {
        const float *weight = is_q ? r.norms : r.norms + DIM;
        if (a.norm == NORM_FIRST) norm_head(head, DIM, weight, a.eps);
        turn_head(head, item.angles, item.angles + half, half, a.pairs);
        if (a.norm == NORM_LAST) norm_head(head, DIM, weight, a.eps);
    }
    if (is_q) return share_query<DIM>(r, head, warp, scale, by.scale);
    f16 *fresh = r.fresh + (is_k ? 0 : DIM);
    for (int d = lane; d < DIM; d += 32) put_float(fresh + d, head[d]);
    const int slot = span.position % K_PAGE;
    typedef plain_kv<f16> kv;
    if (is_k)
        kv::put_key(a.kv.k + page + kv_head * kv::key_head_bytes(DIM), a.kv, slot, head);
    else
        kv::put_value(a.kv.v + page + kv_head * kv::value_head_bytes(DIM), a.kv, slot, head, NULL);
}

/* Pages of all KV heads of all spans are dealt out in that order; the pages of one KV head are done together. Makes the
 * block's item `number`, or that it has none. */
__device__ __forceinline__ void plan_item(const program_stage &s, program_item &item, int number, int begin, int end) {
    const k_decode_args &a = s.is.heads.attend;
    const k_rope_args &rope = s.is.heads.rope;
    const int pair = number / a.n_splits, half = rope.rot_dims / 2, index = pair / a.n_kv_heads;
    const k_span span = a.spans[min(index, s.n_spans - 1)];
    for (int i = threadIdx.x; i < 2 * half; i += PROGRAM_THREADS)
        item.angles[i] = __ldg((i < half ? rope.cos : rope.sin - half) + (int64_t)span.row * half + i);
    if (threadIdx.x >= PROGRAM_MOST_QUADS) return;
    const int first = number - pair * a.n_splits, quad = threadIdx.x;
    const int seen = first_seen(span.position, a.window, a.chunk), page = seen / PAGE_TOKENS + first + quad;
    item.pages[quad] = page <= span.position / PAGE_TOKENS ? a.pages[span.pages + page] : 0;
    if (quad) return;
    item.span = span;
    item.begin = begin, item.end = end;
    item.first = first, item.behind = min(end - pair * a.n_splits, a.n_splits);
    item.next = number + item.behind - first, item.seen = seen;
    item.kv_head = pair % a.n_kv_heads, item.index = index;
}

__device__ __forceinline__ void plan_block(const program_stage &s) {
    const k_decode_args &a = s.is.heads.attend;
    const int64_t n = a.n_splits * a.n_kv_heads * s.n_spans;
    const int begin = (int)(blockIdx.x * n / gridDim.x), end = (int)((blockIdx.x + 1) * n / gridDim.x);
    plan_item(s, state_of().items[0], begin, begin, end);
    __syncthreads();
}

/* One of the block's items; the first one waits its turn once all is there that needs none. */
template <int DIM>
__device__ __forceinline__ void attend_item(const program_stage &s, const program_item &item, bool is_first) {
    const k_decode_args &a = s.is.heads.attend;
    const attend_room r = make_attend_room<DIM>(program_shared() + state_of().scratch, s.quads);
    const bool attends = (int)threadIdx.x < s.quads * ATTEND_WARPS * 32;
    page_stream<DIM> pages{s, item};
    if (attends) start_pages(pages, r);
    if (is_first) { /* rows of fragments without a head are the same for all */
        const uint32_t zeros[4] = {0, 0, 0, 0};
        for (int i = threadIdx.x; i < DIM * 4; i += PROGRAM_THREADS) store_shared16(r.queries + i * 16, zeros);
    }
    read_norms<DIM>(s.is.heads.rope, r);
    __syncthreads();
    if (is_first) await_turn(s);
    rotate_heads<DIM>(s, r, item, a.n_heads / a.n_kv_heads);
    __syncthreads();
    if (attends) attend_pages(pages, r);
}

/* What of layers' attention does not change from one to the next is planned once. */
template <int DIM> __device__ __noinline__ void run_attend(int stage) {
    const program_stage &s = stage_of(stage);
    if (!s.is_planned) plan_block(s);
    const program_item *items = state_of().items;
    if (items[0].begin >= items[0].end) return await_turn(s); /* nobody may come to the next meeting too early */
    for (int which = 0;; which = 1) {
        attend_item<DIM>(s, items[which], !which);
        const int next = items[which].next, end = items[0].end;
        __syncthreads();
        if (next >= end) return;
        plan_item(s, state_of().items[1], next, 0, end);
        __syncthreads();
    }
}

/* Pages in ascending order: a warp for 32 elements of a head. */
__device__ __noinline__ void run_merge(int stage) {
    const program_stage &s = stage_of(stage);
    const k_decode_args &a = s.is.heads.attend;
    const int dim = s.dim, n_spans = s.n_spans;
    const int lane = threadIdx.x % 32, pieces = dim / 32, all = n_spans * a.n_heads * pieces;
    await_turn(s);
    for (int i = threadIdx.x / 32 * gridDim.x + blockIdx.x; i < all; i += gridDim.x * PROGRAM_WARPS) {
        const int d = i % pieces * 32 + lane, head = i / pieces % a.n_heads, index = i / pieces / a.n_heads;
        const k_span span = a.spans[index];
        const int seen = first_seen(span.position, a.window, a.chunk);
        const int n = span.position / PAGE_TOKENS - seen / PAGE_TOKENS + 1;
        const size_t at = ((size_t)index * a.n_heads + head) * a.n_splits;
        const int64_t place = find_place(s, span.row, head * dim + d);
        const float *sums = (s.hears ? s.told[PROGRAM_PAGE_SUMS] : a.part_sums) + 2 * at;
        const float *parts = (s.hears ? s.told[PROGRAM_PAGES] : a.part) + at * dim + d;
        const float sink = a.sinks ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
        float max = sink, sum = 0, o = 0;
        for (int base = 0; base < n; base += 32) {
            const int p = base + lane;
            const float m = hear(sums + 2 * p, s.hears, p < n);
            if (p < n) max = fmaxf(max, m);
        }
#pragma unroll
        for (int step = 16; step; step /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
        for (int base = 0; base < n; base += 32) {
            const int mine = base + lane, count = min(32, n - base);
            const float m = hear(sums + 2 * mine, s.hears, mine < n);
            const float factor = exp2_fast(mine < n ? m - max : -INFINITY);
            const float total = hear(sums + 2 * mine + 1, s.hears, mine < n);
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
        leave_result(s, PROGRAM_FOUND, a.out, ((int64_t)span.row * a.n_heads + head) * dim + d, place, o / sum);
    }
}

#endif
