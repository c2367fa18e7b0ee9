/* attend_batch.cuh — single rows of many sequences against a paged float16 cache: a warp has a page of a KV head alone.
 *
 * Instances are spelled in attend_batch.cu; cuda_attend.c takes them instead of attend_decode.cuh from five rows on,
 * where there are warps enough without sharing pages. Nothing meets but pages, which merge_batch adds in order; what
 * the next product reads is left as it wants it.
 *
 * Rotating and storing the row's key and value is done on the way, which spares a kernel that would do little else
 * than start. The warp that has the row's own page puts them among the tokens that it has fetched before they were
 * there. A short context is over before memory has answered twice, so everything is asked for at once, in front. */
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

/* A lane has four elements of a head: two neighbours, and those that lie half a head behind them. */
template <int DIM> struct head_part {
    static constexpr int LANES = DIM / 4, AT_ONCE = 32 / LANES; /* of a head; heads of a warp */
    static __device__ __forceinline__ int head() { return threadIdx.x % 32 / LANES; }
    static __device__ __forceinline__ int first() { return threadIdx.x % LANES * 2; }
};

/* How a row is turned: a lane's angles, the same for all heads. */
template <int DIM> struct turner {
    float2 cosine, sine; /* of both turns */
    bool is_on, are_neighbours;

    __device__ __forceinline__ turner(const k_rope_args &a, int row) : is_on(a.k), are_neighbours(a.pairs) {
        const float *cosines = a.cos + (size_t)row * (DIM / 2), *sines = a.sin + (size_t)row * (DIM / 2);
        const int d = head_part<DIM>::first();
        cosine = sine = make_float2(0, 0);
        if (!is_on) return;
        if (are_neighbours) {
            cosine = make_float2(__ldg(cosines + d / 2), __ldg(cosines + DIM / 4 + d / 2));
            sine = make_float2(__ldg(sines + d / 2), __ldg(sines + DIM / 4 + d / 2));
        } else {
            cosine = __ldg((const float2 *)(cosines + d)), sine = __ldg((const float2 *)(sines + d));
        }
    }
    /* v: elements first() and behind; w: half a head further. */
    __device__ __forceinline__ void turn(float2 &v, float2 &w) const {
        if (is_on && are_neighbours) {
            turn_pair(v.x, v.y, cosine.x, sine.x);
            turn_pair(w.x, w.y, cosine.y, sine.y);
        } else if (is_on) {
            turn_pair(v.x, w.x, cosine.x, sine.x);
            turn_pair(v.y, w.y, cosine.y, sine.y);
        }
    }
};

/* The queries as read_queries has them, in shared memory, for registers are few: 16 bytes of each lane for 16 elements.
 * Rows of heads that are not there are whatever lies there: nobody reads what becomes of them. */
template <int DIM>
__device__ __forceinline__ void stage_queries(uint32_t to, const float *from, int n_heads, const turner<DIM> &turner,
                                              float by, float scale) {
    using part = head_part<DIM>;
    const int first = part::first();
    auto put = [&](int g, int d, float2 v) {
        const float x = __fmul_rn(v.x, by) * scale, y = __fmul_rn(v.y, by) * scale;
        const uint32_t high = pack_half(x, y);
        store_shared8(to + d / 16 * 512 + (4 * g + d % 8 / 2) * 16 + d % 16 / 8 * 8, high, pack_rest(x, y, high));
    };
#pragma unroll 2
    for (int g = part::head(); g < n_heads; g += part::AT_ONCE) {
        float2 v = __ldcg((const float2 *)(from + g * DIM + first)),
               w = __ldcg((const float2 *)(from + g * DIM + DIM / 2 + first));
        turner.turn(v, w);
        put(g, first, v);
        put(g, DIM / 2 + first, w);
    }
}

/* A lane's part of 16 elements of the queries. */
__device__ __forceinline__ void load_queries(uint32_t q[4], uint32_t queries, int i) {
    const uint4 v = load_shared16(queries + i * 512 + threadIdx.x % 32 * 16);
    q[0] = v.x, q[1] = v.y, q[2] = v.z, q[3] = v.w;
}

/* The row's own key and value, of a lane's elements, as the cache has them. They go into their page, and among what has
 * been fetched from there meanwhile. */
template <int DIM> struct own_token {
    uint32_t key[2], value[2];
    __device__ __forceinline__ own_token() : key{0, 0}, value{0, 0} {}

    __device__ __forceinline__ own_token(const k_rope_args &a, const batch_place &at, const turner<DIM> &turner) {
        const size_t from = ((size_t)at.span.row * a.kv.n_kv_heads + at.kv_head) * DIM + head_part<DIM>::first();
        float2 k = __ldcg((const float2 *)(a.k + from)), l = __ldcg((const float2 *)(a.k + from + DIM / 2));
        const float2 v = __ldcg((const float2 *)(a.v + from)), w = __ldcg((const float2 *)(a.v + from + DIM / 2));
        turner.turn(k, l);
        key[0] = pack_half(k.x, k.y), key[1] = pack_half(l.x, l.y);
        value[0] = pack_half(v.x, v.y), value[1] = pack_half(w.x, w.y);
    }
    __device__ __forceinline__ void store(const k_rope_args &a, int slot, size_t page) const {
        uint16_t *keys = (uint16_t *)(a.kv.k + page) + slot / PAGE_GROUP * (PAGE_GROUP * DIM) + slot % PAGE_GROUP;
        half *values = (half *)(a.kv.v + page) + slot * DIM;
        if (head_part<DIM>::head()) return; /* one of each */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int d = head_part<DIM>::first() + i * (DIM / 2);
            *(uint32_t *)(values + d) = value[i];
            keys[d * PAGE_GROUP] = (uint16_t)key[i], keys[(d + 1) * PAGE_GROUP] = (uint16_t)(key[i] >> 16);
        }
    }
    /* token: its place in the group. */
    __device__ __forceinline__ void show_key(uint32_t keys, int token) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int d = head_part<DIM>::first() + i * (DIM / 2);
            store_shared2(keys + key_at(d, token / 8) + token % 8 * 2, (uint16_t)key[i]);
            store_shared2(keys + key_at(d + 1, token / 8) + token % 8 * 2, (uint16_t)(key[i] >> 16));
        }
        __syncwarp();
    }
    __device__ __forceinline__ void show_value(uint32_t values, int token) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int d = head_part<DIM>::first() + i * (DIM / 2);
            store_shared4(values + value_at<DIM>(token, d / 8) + d % 8 * 2, value[i]);
        }
        __syncwarp();
    }
};

/* Of the lanes that have the same row. */
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* The page's result: whole where it is the only one, as merged_pair would have it, or to be merged. Lanes have pairs of
 * all elements; they change them in `room` for four neighbours each, so that places are found once for these. */
template <int DIM>
__device__ __forceinline__ void put_page(const k_decode_args &a, const batch_place &at, const head_state<DIM> &h,
                                         uint32_t room) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, head = at.head + g;
    const bool is_there = g < at.n_heads, is_whole = a.n_splits == 1;
    const float total = quad_sum(h.sum);
    const size_t part = ((size_t)blockIdx.z * a.n_heads + head) * a.n_splits + blockIdx.x;
    const float sink = a.sinks && is_there ? __ldg(a.sinks + head) * 1.44269504f : -INFINITY;
    const float most = fmaxf(h.max, sink), k = is_whole ? exp2_fast(h.max - most) : 1;
    const float by = is_whole ? 1 / (fmaf(k, total, 0) + (a.sinks ? exp2_fast(sink - most) : 0)) : 1;
    auto place = [&](int of, int d) { return room + (of * DIM + (d ^ of * 8)) * 4; }; /* apart in the banks */
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        const float x = h.o[i][0] + h.o[i][2], y = h.o[i][1] + h.o[i][3];
        if (is_there) store_shared8(place(g, 8 * i + 2 * t), __float_as_uint(k * x * by), __float_as_uint(k * y * by));
    }
    if (!is_whole && is_there && t == 0) a.part_sums[2 * part] = h.max, a.part_sums[2 * part + 1] = total;
    __syncwarp();
    for (int of = head_part<DIM>::head(); of < at.n_heads; of += head_part<DIM>::AT_ONCE) {
        const int d = head_part<DIM>::first() * 2;
        const uint4 v = load_shared16(place(of, d));
        if (is_whole)
            put_four(a, at.span.row, a.n_heads * DIM, (at.head + of) * DIM + d, v);
        else
            *(uint4 *)(a.part + (((size_t)blockIdx.z * a.n_heads + at.head + of) * a.n_splits + blockIdx.x) * DIM + d) =
                v;
    }
}

/* For results among blocks, see put_result. */
__device__ __forceinline__ void put_unscaled(const k_decode_args &a, int row, bool is_first) {
    if (a.blocks && is_first && threadIdx.x == 0) a.row_scale[row] = 1;
}

/* Grid: pages, KV heads x blocks of eight query heads (four in a block), spans of one row. What the kernels in front
 * do not write is asked for before they have ended: tables, and pages if this one stores the step's own tokens. */
template <int DIM> __device__ __forceinline__ void attend_batch(const k_batch_args &b) {
    SHARED_MEMORY(shared);
    constexpr int KEYS = PAGE_GROUP * DIM * 2;
    const k_decode_args &a = b.attend;
    let_next_start();
    const batch_place at(a);
    const int begin = max(at.seen - at.page * PAGE_TOKENS, 0) / PAGE_GROUP;
    const int end = min(at.pos - at.page * PAGE_TOKENS, PAGE_TOKENS - 1) / PAGE_GROUP + 1;
    const uint32_t slot = shared_address(shared) + threadIdx.x / 32 * (3 * KEYS), queries = slot + 2 * KEYS;
    const uint64_t policy = evict_first();
    size_t page = 0;
    if (!b.turn.k) wait_for_previous();
    if (at.is_there) {
        page = (size_t)a.pages[at.span.pages + at.page] * a.page_stride + (size_t)at.kv_head * PAGE_TOKENS * DIM * 2;
        fetch_keys<DIM>(slot, a.k + page + (size_t)begin * KEYS, policy);
        commit_copies();
        fetch_values<DIM>(slot + KEYS, a.v + page + (size_t)begin * KEYS, policy);
        commit_copies();
    }
    if (b.turn.k) wait_for_previous();
    put_unscaled(a, at.span.row, blockIdx.x == 0 && blockIdx.y == 0 && at.span.n_rows == 1);
    if (!at.is_there) return;
    const turner<DIM> turner(b.turn, at.span.row);
    const bool is_own = b.turn.k && at.page == at.pos / PAGE_TOKENS;
    own_token<DIM> own;
    if (is_own) own = own_token<DIM>(b.turn, at, turner);
    stage_queries<DIM>(queries, a.q + ((size_t)at.span.row * a.n_heads + at.head) * DIM, at.n_heads, turner,
                       b.turn.k && b.turn.q_scale ? __ldg(b.turn.q_scale + at.span.row) : 1, a.scale);
    if (is_own) own.store(b.turn, at.pos % PAGE_TOKENS, page);
    head_state<DIM> h;
    h.clear();
    for (int group = begin; group < end; group++) {
        const int first = at.page * PAGE_TOKENS + group * PAGE_GROUP;
        const bool has_own = is_own && group + 1 == end;
        wait_copies<1>();
        __syncwarp();
        if (has_own) own.show_key(slot, at.pos % PAGE_GROUP);
        float s[2][4] = {};
        score_group<DIM>(s, slot, [&](uint32_t q[4], int i) { load_queries(q, queries, i); });
        __syncwarp();
        if (group + 1 < end) fetch_keys<DIM>(slot, a.k + page + (size_t)(group + 1) * KEYS, policy);
        commit_copies();
        wait_copies<1>();
        __syncwarp();
        if (has_own) own.show_value(slot + KEYS, at.pos % PAGE_GROUP);
        clear_unseen<DIM>(slot, first, at.seen, at.pos);
        mix_group<DIM>(h, s, slot + KEYS, first, at.seen, at.pos, a.cap);
        __syncwarp();
        if (group + 1 < end) fetch_values<DIM>(slot + KEYS, a.v + page + (size_t)(group + 1) * KEYS, policy);
        commit_copies();
    }
    put_page<DIM>(a, at, h, queries);
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
