/* program_attend.cuh — a program's attention: the new token's key and value go into the pages, then each block takes
 * some splits of some KV heads.
 *
 * Used by program.cuh. Rotation, splits, turns of the warps and merging are those of rope.cu and attend_decode.cuh, or
 * attend_coded.cuh, bit for bit; only who does what differs. Four warps attend to a split, several such quads to as
 * many splits at once where there are so many, and fetch across them: the next one is on its way while results of this
 * one are merged. A warp has room for one group: its next keys come while values are mixed, its next values while keys
 * are scored. Heads are rotated by warps that do not fetch, as far as there are such.
 *
 * What a stage needs besides the step's own heads is fetched before these are heard: the first groups, too. So the new
 * token's key and value are put where the fetched ones lie (fresh_token), and into the page only when nobody waits.
 *
 * The tricky thing are registers: results fill half of them. So places are found where they are needed, out of numbers
 * that are read anew (thread_now, lane_now): what the compiler knows already it keeps from page to page. */
#ifndef KERNELS_PROGRAM_ATTEND_CUH
#define KERNELS_PROGRAM_ATTEND_CUH

#include "program_token.cuh"

__device__ __forceinline__ int quad_of_warp() { return thread_now() / 32 / ATTEND_WARPS; }

enum { QUAD_BARRIER = 4 }; /* the first quad's */

__device__ __forceinline__ void meet_quad() {
    __syncwarp();
    meet_threads_at(QUAD_BARRIER + quad_of_warp(), ATTEND_WARPS * 32);
}

/* What of the cache a warp fetches: its groups in turn after turn of its quad's, as group_walk has them. What does not
 * change is read where it is: registers are for what is summed. */
template <class CACHE> struct page_stream {
    const program_stage &stage;
    const program_item &item;
    bool fetches; /* there was a group whose keys were fetched: the one in front of `group` */
    uint32_t slot;
    uint32_t group; /* the next one, of the row's */

    __device__ __forceinline__ page_stream(const program_stage &of, const program_item &its)
        : stage(of), item(its), fetches(false) {}
    __device__ __forceinline__ const k_decode_args &args() const { return stage.is.heads.attend; }
    __device__ __forceinline__ const program_quad &quad() const { return item.quads[quad_of_warp()]; }
    __device__ __forceinline__ int pos() const { return item.span.position; }
    /* Read from memory it would be waited for behind all pages that are on their way. */
    __device__ __forceinline__ int32_t id_of(int page) const {
        const int i = page - quad().begin / PAGE_GROUPS;
        return i < PROGRAM_QUAD_PAGES ? quad().ids[i] : args().pages[item.span.pages + page];
    }
    static __device__ __forceinline__ int32_t &page_now() { return state_of().pages[thread_now() / 32]; }
    __device__ __forceinline__ void open_page() {
        const int32_t id = id_of(group / PAGE_GROUPS);
        if (lane_now() == 0) page_now() = id;
        __syncwarp();
    }
    /* A group of that page, of the keys or the values from `base` on. */
    __device__ __forceinline__ const uint8_t *find(const uint8_t *base, uint32_t of, uint32_t group_bytes) const {
        const uint32_t number = item.kv_head * PAGE_GROUPS + of % PAGE_GROUPS;
        return base + (size_t)page_now() * args().page_stride + (size_t)number * group_bytes;
    }
    /* The first of all. */
    __device__ __forceinline__ void open() {
        group = first_group(quad().begin, item.seen);
        if (group < (uint32_t)quad().end) open_page();
    }
    /* The one whose keys were fetched last. */
    __device__ __forceinline__ uint32_t fetched() const { return group - ATTEND_WARPS; }
    __device__ __forceinline__ void fetch_next_keys() {
        fetches = group < (uint32_t)quad().end;
        if (fetches) {
            if (group % PAGE_GROUPS < ATTEND_WARPS) open_page();
            CACHE::fetch_keys(slot, find(args().k, group, CACHE::KEYS));
            group += ATTEND_WARPS;
        }
        commit_copies();
    }
    __device__ __forceinline__ void clear_unseen(int token) const {
        CACHE::clear_unseen(slot + CACHE::KEYS, token, item.seen, pos());
    }
    /* The first group of all is there and clear. */
    __device__ __forceinline__ void clear_first() {
        if (!fetches) return;
        wait_copies<0>();
        __syncwarp();
        clear_unseen(fetched() * PAGE_GROUP);
    }
    __device__ __forceinline__ void fetch_their_values() {
        if (fetches) CACHE::fetch_values(slot + CACHE::KEYS, find(args().v, fetched(), CACHE::VALUES));
        commit_copies();
    }
};

/* Where elements 4 i .. 4 i + 3 of a head's result are told, in lane i; asked for before they are there. */
struct head_places {
    int64_t of[4];
    __device__ __forceinline__ head_places(const program_stage &s, int row, int head, int dim) {
        const int first = head * dim + min(4 * (int)lane_now(), dim - 4);
#pragma unroll
        for (int i = 0; i < 4; i++) of[i] = find_place(s, row, first + i);
    }
};

/* The result, rotated back. */
__device__ __forceinline__ void leave_rotated(const program_stage &s, float x[4], int row, int head, int dim,
                                              const head_places &places) {
    const k_decode_args &a = s.is.heads.attend;
    const int lane = lane_now();
    rotate_lanes(x, dim);
    if (lane >= dim / 4) return;
    const int64_t first = ((int64_t)row * a.n_heads + head) * dim + lane * 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        leave_result(s, PROGRAM_FOUND, a.out, first + i, places.of[i], x[i] * rotation_scale(dim));
}

/* A split's result, to be merged with others'. */
template <int DIM>
__device__ __forceinline__ void leave_part_of(const program_stage &stage, const float *found, int span, int head,
                                              int heads, int split) {
    const k_decode_args &a = stage.is.heads.attend;
    for (int i = thread_now() % (ATTEND_WARPS * 32); i < heads * DIM; i += ATTEND_WARPS * 32) {
        const int n = i / DIM, d = i % DIM;
        float max, total;
        const float o = merge_warps<DIM>(&max, &total, found, heads, n, d);
        const size_t to = ((size_t)span * a.n_heads + head + n) * a.n_splits + split;
        leave_part(stage, PROGRAM_PAGES, a.part, to * DIM + d, o);
        if (d) continue;
        leave_part(stage, PROGRAM_PAGE_SUMS, a.part_sums, 2 * to, max);
        leave_part(stage, PROGRAM_PAGE_SUMS, a.part_sums, 2 * to + 1, total);
    }
}

/* ---- the only split: merged by the whole block ---- */

/* Threads in the order in which they merge: who attends comes last. */
__device__ __forceinline__ int merging_thread() {
    return ((int)thread_now() + PROGRAM_THREADS - ATTEND_WARPS * 32) % PROGRAM_THREADS;
}

/* Element d of head n of the split: what merged_value makes of one. */
template <int DIM>
__device__ __forceinline__ float end_page(const k_decode_args &a, const float *found, int heads, int n, int d,
                                          float sink) {
    float max, total;
    const float o = merge_warps<DIM>(&max, &total, found, heads, n, d);
    return whole_value(a, sink, o, max, total);
}

/* Elements of all heads; a thread has few. Their places and sinks are known before the warps that attend have met. */
template <int DIM>
__device__ __forceinline__ void end_elements(const program_stage &s, const float *found, int row, int head, int heads) {
    constexpr int EACH = PROGRAM_MOST_HEADS * DIM / PROGRAM_THREADS;
    const k_decode_args &a = s.is.heads.attend;
    int places[EACH];
    float sinks[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = min(merging_thread() + i * PROGRAM_THREADS, heads * DIM - 1);
        places[i] = (int)find_place(s, row, head * DIM + at), sinks[i] = sink_of(a, head + at / DIM);
        find_now(places[i]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = merging_thread() + i * PROGRAM_THREADS;
        if (at < heads * DIM)
            leave_result(s, PROGRAM_FOUND, a.out, ((int64_t)row * a.n_heads + head) * DIM + at, places[i],
                         end_page<DIM>(a, found, heads, at / DIM, at % DIM, sinks[i]));
    }
}

/* Likewise a warp for each head, whose result is rotated back. */
template <int DIM>
__device__ __forceinline__ void end_heads(const program_stage &s, const float *found, int row, int head, int heads) {
    static_assert(PROGRAM_MOST_HEADS <= PROGRAM_WARPS, "each has one");
    const k_decode_args &a = s.is.heads.attend;
    const int n = merging_thread() / 32, of = min(n, heads - 1);
    const head_places places(s, row, head + of, DIM);
    const float sink = sink_of(a, head + of);
    __syncthreads();
    if (n >= heads) return;
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = end_page<DIM>(a, found, heads, n, lane_now() % (DIM / 4) * 4 + i, sink);
    leave_rotated(s, x, row, head + n, DIM, places);
}

template <int DIM, class CACHE>
__device__ __forceinline__ void end_only_page(const program_stage &s, const float *found, int row, int head,
                                              int heads) {
    if constexpr (CACHE::IS_ROTATED)
        end_heads<DIM>(s, found, row, head, heads);
    else
        end_elements<DIM>(s, found, row, head, heads);
}

struct attend_room {
    uint32_t rings, queries;
    uint8_t *fresh; /* the new token's key, and its value behind CACHE::FRESH_KEY */
    float *norms;   /* weights of queries and keys, [2][DIM] */
    float *heads;   /* [queries, key, value][DIM], until they are fragments and fresh */
    float *found;   /* of the quads' warps, at the same place */
};

template <int DIM, class CACHE> __device__ __forceinline__ attend_room find_room(int quads) {
    uint8_t *scratch = program_shared() + state_of().scratch;
    attend_room r;
    r.rings = shared_address(scratch);
    scratch += quads * ATTEND_WARPS * (CACHE::KEYS + CACHE::VALUES);
    r.queries = shared_address(scratch);
    r.fresh = scratch + CACHE::QUERIES;
    r.norms = (float *)(r.fresh + DIM * 4);
    r.heads = r.found = r.norms + 2 * DIM;
    return r;
}

/* Puts the new token's key, or its value, into the group at `slot` if that is its place. */
template <class CACHE> struct fresh_token {
    const uint8_t *fresh;
    int pos;
    __device__ __forceinline__ bool is_in(int first) const { return pos >= first && pos < first + PAGE_GROUP; }
    __device__ __forceinline__ void put_key(uint32_t slot, int first) const {
        if (is_in(first)) CACHE::put_key(slot, fresh, pos - first);
    }
    __device__ __forceinline__ void put_value(uint32_t slot, int first) const {
        if (is_in(first)) CACHE::put_value(slot + CACHE::KEYS, fresh + CACHE::FRESH_KEY, pos - first);
    }
};

/* The split that the warp is at, which no register keeps. */
__device__ __forceinline__ program_split &split_now() { return state_of().splits[thread_now() / 32]; }
__device__ __forceinline__ void keep_split(const program_split &split) {
    __syncwarp(); /* all have read what it was */
    if (lane_now() == 0) split_now() = split;
    __syncwarp();
}

/* The first groups of each warp. */
template <class CACHE> __device__ __forceinline__ void start_pages(page_stream<CACHE> &s, const attend_room &r) {
    s.slot = r.rings + threadIdx.x / 32 * (CACHE::KEYS + CACHE::VALUES);
    s.open();
    keep_split(s.quad().first);
    s.fetch_next_keys();
    s.fetch_their_values();
}

/* The quad's splits, as far as start_pages has not come. What was found in the only split is left to the block. */
template <int DIM, class CACHE>
__device__ __forceinline__ void attend_pages(page_stream<CACHE> &s, const attend_room &r) {
    const program_stage &stage = s.stage;
    const program_item &item = s.item;
    const k_decode_args &a = stage.is.heads.attend;
    const int shares = a.n_heads / a.n_kv_heads;
    const fresh_token<CACHE> fresh{r.fresh, s.pos()};
    typename CACHE::state h;
    h.clear();
    if (agreed(s.quad().begin == s.quad().end)) return;
    for (;;) {
        while (s.fetches && s.fetched() < (uint32_t)split_now().end) {
            const int token = s.fetched() * PAGE_GROUP;
            wait_copies<1>();
            __syncwarp();
            fresh.put_key(s.slot, token);
            auto scores = CACHE::score(s.slot, r.queries);
            __syncwarp();
            s.fetch_next_keys();
            wait_copies<1>();
            __syncwarp();
            s.clear_unseen(token);
            fresh.put_value(s.slot, token);
            CACHE::mix(h, scores, s.slot + CACHE::KEYS, token, item.seen, s.pos(), a.cap);
            __syncwarp();
            s.fetch_their_values();
        }
        float *found = r.found + quad_of_warp() * ATTEND_WARPS * shares * (DIM + 2);
        const bool is_only = a.n_splits == 1;
        if (!is_only) meet_quad(); /* what was found in the split before has been merged */
        CACHE::leave(h, found, thread_now() / 32 % ATTEND_WARPS, shares);
        if (is_only) break;
        meet_quad();
        const program_split now = split_now();
        leave_part_of<DIM>(stage, found, item.index, item.kv_head * shares, shares, now.number);
        if (agreed(now.end == s.quad().end)) break;
        keep_split({now.number + 1, row_splits(a, item.seen, s.pos()).end(now.number + 1)});
        h.clear();
    }
    wait_copies<0>();
}

/* The weights of heads' norms into shared memory. */
template <int DIM> __device__ __forceinline__ void read_norms(const k_rope_args &a, const attend_room &r) {
    static_assert(2 * DIM <= PROGRAM_THREADS, "one for each thread");
    const int i = thread_now();
    if (i >= 2 * DIM) return;
    const float *weight = i < DIM ? a.q_norm : a.k_norm;
    r.norms[i] = weight ? __ldg(weight + i % DIM) : 1;
}

/* Query heads are for warps 0 .. in the order of roles, the key and the value for those behind PROGRAM_MOST_HEADS. Who
 * fetches comes last where a few warps are enough for all heads. */
template <class CACHE> __device__ __forceinline__ int role_of_warp(int quads) {
    const int warp = thread_now() / 32;
    return CACHE::TOKEN_WARPS > 1 ? warp : (warp + PROGRAM_WARPS - quads * ATTEND_WARPS) % PROGRAM_WARPS;
}

/* Heads on their way from their products to where they are attended to; queries without a head are zeros. */
template <int DIM, class CACHE>
__device__ __forceinline__ void rotate_heads(const program_stage &s, const attend_room &r, const program_item &item,
                                             int shares) {
    const k_rope_args &a = s.is.heads.rope;
    const int role = role_of_warp<CACHE>(s.quads), lane = lane_now(), half = a.rot_dims / 2;
    const int which = role < PROGRAM_MOST_HEADS ? -1 : (role - PROGRAM_MOST_HEADS) / CACHE::TOKEN_WARPS;
    const bool is_q = role < CACHE::HEADS, is_k = which == 0, is_v = which == 1;
    if (!is_q && !((is_k || is_v) && item.has_newest)) return;
    const bool is_any = lane < DIM / 4 && (!is_q || role < shares);
    const int64_t row = item.span.row;
    const float scale = is_q && a.q_scale ? __ldg(a.q_scale + row) : 1;
    const int64_t kv_at = (row * a.kv.n_kv_heads + item.kv_head) * DIM;
    const float *from = is_q   ? a.q + (row * a.n_heads + item.kv_head * shares + role) * DIM
                        : is_k ? a.k + kv_at
                               : a.v + kv_at;
    float *head = r.heads + role * DIM;
    float v[8];
    hear_eight(v, from + 4 * lane, NULL, s.hears, is_any, false);
    if (lane < DIM / 4) *(float4 *)(head + 4 * lane) = make_float4(v[0], v[1], v[2], v[3]);
    __syncwarp();
    if (!is_v) {
        const float *weight = is_q ? r.norms : r.norms + DIM;
        if (a.norm == NORM_FIRST) norm_head(head, DIM, weight, a.eps);
        turn_head(head, item.angles, item.angles + half, half, a.pairs);
        if (a.norm == NORM_LAST) norm_head(head, DIM, weight, a.eps);
    }
    const int piece = (role - PROGRAM_MOST_HEADS) % CACHE::TOKEN_WARPS;
    if (is_q)
        CACHE::put_query(r.queries, head, role, scale, s.is.heads.attend.scale);
    else if (is_k)
        CACHE::keep_key(r.fresh, piece, head);
    else
        CACHE::keep_value(r.fresh + CACHE::FRESH_KEY, piece, head);
}

/* What is kept of the new token goes into its page, by the last warps: nobody waits for that. */
template <class CACHE>
__device__ __forceinline__ void store_token(const program_stage &s, const attend_room &r, const program_item &item) {
    const k_rope_args &a = s.is.heads.rope;
    const int i = (int)thread_now() / 32 - (PROGRAM_WARPS - 2 * CACHE::TOKEN_WARPS), pos = item.span.position;
    if (i < 0 || !item.has_newest) return;
    const int64_t page = (int64_t)__ldg(a.pages + item.span.pages + pos / K_PAGE) * a.kv.page_stride;
    const size_t group = (size_t)item.kv_head * (PAGE_TOKENS / PAGE_GROUP);
    const int slot = pos % K_PAGE, piece = i % CACHE::TOKEN_WARPS;
    if (i < CACHE::TOKEN_WARPS)
        CACHE::store_key({r.fresh, a.kv.k + page + group * CACHE::KEYS, slot, piece});
    else
        CACHE::store_value({r.fresh + CACHE::FRESH_KEY, a.kv.v + page + group * CACHE::VALUES, slot, piece});
}

/* Splits of all KV heads of all spans are dealt out in that order; those of one KV head are done together. Makes the
 * block's item `number`, or that it has none. */
__device__ __forceinline__ void plan_item(const program_stage &s, program_item &item, int number, int begin, int end) {
    const k_decode_args &a = s.is.heads.attend;
    const k_rope_args &rope = s.is.heads.rope;
    const int pair = number / a.n_splits, half = rope.rot_dims / 2, index = pair / a.n_kv_heads;
    const k_span span = a.spans[min(index, s.n_spans - 1)];
    const int first = number - pair * a.n_splits, thread = thread_now();
    if (thread < 2 * half)
        item.angles[thread] = __ldg((thread < half ? rope.cos : rope.sin - half) + (int64_t)span.row * half + thread);
    if (thread >= PROGRAM_MOST_QUADS * PROGRAM_QUAD_PAGES) return;
    const int seen = first_seen(span.position, a.window, a.chunk), behind = min(end - pair * a.n_splits, a.n_splits);
    const row_splits splits(a, seen, span.position);
    const int n = min(behind, splits.count) - first;
    auto from = [&](int of) { return first + (of * n + s.quads - 1) / s.quads; }; /* the first ones have more */
    const int quad = thread / PROGRAM_QUAD_PAGES, page = thread % PROGRAM_QUAD_PAGES, split = from(quad);
    const bool is_any = quad < s.quads && split < from(quad + 1);
    const int begin_group = is_any ? splits.begin(split) : 0, end_group = is_any ? splits.end(from(quad + 1) - 1) : 0;
    const int number_of = begin_group / PAGE_GROUPS + page;
    program_quad &to = item.quads[quad];
    if (number_of * PAGE_GROUPS < end_group) to.ids[page] = a.pages[span.pages + number_of];
    if (page) return;
    to.begin = begin_group, to.end = end_group, to.first = {split, splits.end(split)};
    if (quad) return;
    item.span = span;
    item.begin = begin, item.end = end;
    item.has_newest = first < splits.count && behind >= splits.count;
    item.next = number + behind - first, item.seen = seen;
    item.kv_head = pair % a.n_kv_heads, item.index = index;
}

/* Which splits a block has, counted through all KV heads of all spans. A block that has some of two heads does one
 * after the other, and its quads seldom come out even in both; all wait for it. So each head has as many blocks as all
 * of them can have, unless the blocks that are left over would be missed more. */
struct split_share {
    int begin, end;

    static __device__ __forceinline__ int shares_of(int n, int by) { return (n + by - 1) / by; }

    __device__ __forceinline__ split_share(int heads, int splits, int quads) {
        const int blocks = (int)gridDim.x, block = (int)blockIdx.x, n = heads * splits, each = blocks / heads;
        const int turns = shares_of(shares_of(n, blocks), quads) + 1; /* of the splits of two heads, at most */
        if (each && shares_of(shares_of(splits, each), quads) <= turns) {
            const int head = block / each, share = block - head * each;
            const bool is_any = head < heads;
            begin = is_any ? head * splits + share * splits / each : 0;
            end = is_any ? head * splits + (share + 1) * splits / each : 0;
        } else {
            begin = (int)((int64_t)block * n / blocks), end = (int)((int64_t)(block + 1) * n / blocks);
        }
    }
};

/* What merging begins with. */
__device__ __forceinline__ void plan_merge(const k_decode_args &a, int index) {
    const k_span span = a.spans[index];
    state_of().spans[index] = span;
    state_of().n_splits[index] = row_splits(a, first_seen(span.position, a.window, a.chunk), span.position).count;
}

__device__ __forceinline__ void plan_block(const program_stage &s) {
    const k_decode_args &a = s.is.heads.attend;
    const split_share share(a.n_kv_heads * s.n_spans, a.n_splits, s.quads);
    plan_item(s, state_of().items[0], share.begin, share.begin, share.end);
    if (thread_now() < (uint32_t)s.n_spans) plan_merge(a, thread_now());
    if (thread_now() == 0) state_of().items[1].begin = -1; /* none yet */
    __syncthreads();
}

/* One of the block's items; the first one waits its turn once all is there that needs none. */
template <int DIM, class CACHE>
__device__ __forceinline__ void attend_item(const program_stage &s, const program_item &item, bool is_first) {
    const k_decode_args &a = s.is.heads.attend;
    const int shares = a.n_heads / a.n_kv_heads;
    const attend_room r = find_room<DIM, CACHE>(s.quads);
    const bool attends = (int)threadIdx.x < s.quads * ATTEND_WARPS * 32;
    page_stream<CACHE> pages(s, item);
    if (attends) start_pages(pages, r);
    if (s.is.heads.rope.norm != NORM_NONE) {
        read_norms<DIM>(s.is.heads.rope, r);
        __syncthreads();
    }
    if (is_first) await_turn(s);
    rotate_heads<DIM, CACHE>(s, r, item, shares);
    if (attends) pages.clear_first();
    __syncthreads();
    store_token<CACHE>(s, r, item);
    if (attends) attend_pages<DIM>(pages, r);
    if (a.n_splits == 1) end_only_page<DIM, CACHE>(s, r.found, item.span.row, item.kv_head * shares, shares);
}

/* Whether the block has something to attend to. */
__device__ __forceinline__ bool has_items() { return state_of().items[0].begin < state_of().items[0].end; }

/* What of layers' attention does not change from one to the next is planned once: a block's first two items. */
template <int DIM, class CACHE> __device__ __noinline__ void run_attend(int stage) {
    const program_stage &s = stage_of(stage);
    if (!s.is_planned) plan_block(s);
    program_item *items = state_of().items;
    if (!has_items()) return await_turn(s); /* nobody may come to the next meeting too early */
    for (int which = 0;; which = 1) {
        attend_item<DIM, CACHE>(s, items[which], !which);
        const int next = items[which].next, end = items[0].end;
        const bool is_there = items[1].begin == next;
        __syncthreads();
        if (next >= end) return;
        if (is_there) continue;
        plan_item(s, items[1], next, next, end);
        __syncthreads();
    }
}

#endif
