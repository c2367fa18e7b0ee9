/* flash90.cuh — many query rows of a sequence against its paged float16 cache, on Hopper's tensor cores.
 *
 * Instances are spelled in flash90.cu; cuda_attend.c takes them instead of attend_prefill.cuh, which does the same. A
 * block takes up to 128 consecutive rows for one head, 64 for each of two warpgroups, so that one multiplies while the
 * other works on its softmax. A third brings 128 tokens' keys and values at a time into a ring of two.
 *
 * The tricky thing is that a page has keys as [16 groups][head_dim][16 tokens]: for the product with the queries these
 * are rows of head_dim whose columns (tokens) lie side by side, 16 in a piece of 32 bytes, which the hardware takes as
 * they are when its 16-byte halves are exchanged as key_at does. Values have the head's elements side by side. */
#ifndef KERNELS_FLASH90_CUH
#define KERNELS_FLASH90_CUH

#include "attend_decode.cuh"
#include "operand_rows.cuh"

template <int DIM> struct flash_sizes {
    static constexpr int KEYS = FLASH_TOKENS * DIM * 2, STAGE = 2 * KEYS, GROUP = PAGE_GROUP * DIM * 2,
                         HALF = FLASH_TOKENS * 128, QUERIES = 64 * DIM * 2;
};

struct flash_place {
    uint32_t q, ring, full, empty;
};

/* ---- bringing keys and values ---- */

/* 16 bytes, or as many zeros. */
__device__ __forceinline__ void copy_or_clear(uint32_t to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

/* By a warp: a group of 16 tokens, of which those behind `last` count as zeros. */
template <int DIM>
__device__ __forceinline__ void flash_fetch_group(const k_decode_args &a, const k_span &span, uint32_t stage, int group,
                                                  int token, int kv_head, int last) {
    using size = flash_sizes<DIM>;
    const int lane = threadIdx.x % 32, known = min(token, last) / PAGE_GROUP * PAGE_GROUP;
    const size_t of = (size_t)a.pages[span.pages + known / PAGE_TOKENS] * a.page_stride +
                      ((size_t)kv_head * PAGE_TOKENS + known % PAGE_TOKENS) * DIM * 2;
#pragma unroll 4
    for (int i = 0; i < DIM / 16; i++) {
        const int piece = i * 32 + lane;
        copy_or_clear(stage + group * size::GROUP + key_at(piece / 2, piece % 2), a.k + of + piece * 16, token <= last);
    }
#pragma unroll 4
    for (int i = 0; i < DIM / 16; i++) {
        const int piece = i * 32 + lane, row = piece / (DIM / 8), column = piece % (DIM / 8);
        copy_or_clear(stage + size::KEYS + column / 8 * size::HALF + swizzled(group * PAGE_GROUP + row, column % 8),
                      a.v + of + piece * 16, token + row <= last);
    }
}

/* What this thread has asked for is there. */
__device__ __forceinline__ void flash_hand_over(uint32_t full) {
    wait_copies<0>();
    fence_async();
    barrier_arrive_here(full);
}

template <int DIM>
__device__ __forceinline__ void flash_feed(const k_decode_args &a, const k_span &span, const flash_place &at,
                                           int kv_head, int begin, int last) {
    const int warp = threadIdx.x / 32 % 4;
    int stage = 0, parity = 1;
    for (int token = begin; token <= last; token += FLASH_TOKENS) {
        if (token > begin) flash_hand_over(at.full + 8 * (stage ^ 1)); /* before waiting for those who wait for it */
        barrier_wait(at.empty + 8 * stage, parity);
        for (int g = warp; g < FLASH_TOKENS / PAGE_GROUP; g += 4)
            flash_fetch_group<DIM>(a, span, at.ring + stage * flash_sizes<DIM>::STAGE, g, token + g * PAGE_GROUP,
                                   kv_head, last);
        commit_copies();
        stage ^= 1;
        if (!stage) parity ^= 1;
    }
    flash_hand_over(at.full + 8 * (stage ^ 1));
}

/* ---- rows ---- */

/* The two rows that a lane's quad works on, 8 apart; positions in units of the whole sequence. */
template <int DIM> struct flash_rows {
    float o[DIM / 2];
    float max[2], sum[2];
    int pos[2], seen[2];
    int lowest, highest; /* all rows of the warpgroup see tokens in between */
};

/* Rows as float16 where the tensor cores read them, times `scale`; by the warpgroup. */
template <int DIM>
__device__ __forceinline__ void flash_put_queries(const k_decode_args &a, const k_span &span, uint32_t to, int first,
                                                  int head, float scale) {
    constexpr int PIECES = DIM / 8;
    for (int i = threadIdx.x % 128; i < 64 * PIECES; i += 128) {
        const int r = i / PIECES, piece = i % PIECES, row = first + r;
        float4 v = make_float4(0, 0, 0, 0), w = v;
        if (row < span.n_rows) {
            const float4 *from =
                (const float4 *)(a.q + ((size_t)(span.row + row) * a.n_heads + head) * DIM + piece * 8);
            v = __ldcg(from), w = __ldcg(from + 1);
        }
        asm volatile(
            "st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to + piece / 8 * (64 * 128) + swizzled(r, piece % 8)),
            "r"(pack_half(v.x * scale, v.y * scale)), "r"(pack_half(v.z * scale, v.w * scale)),
            "r"(pack_half(w.x * scale, w.y * scale)), "r"(pack_half(w.z * scale, w.w * scale))
            : "memory");
    }
}

template <int DIM>
__device__ __forceinline__ void flash_begin(flash_rows<DIM> &r, const k_decode_args &a, const k_span &span, int first) {
#pragma unroll
    for (int i = 0; i < DIM / 2; i++) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(r.o[i])); /* see operands90.cuh */
    const int from = span.position + first, mine = from + (int)threadIdx.x / 32 % 4 * 16 + (int)threadIdx.x % 32 / 4;
    for (int h = 0; h < 2; h++) {
        r.max[h] = -INFINITY, r.sum[h] = 0;
        r.pos[h] = mine + 8 * h;
        r.seen[h] = first_seen(r.pos[h], a.window, a.chunk);
    }
    r.lowest = first_seen(from + 63, a.window, a.chunk);
    r.highest = from;
}

/* Asks for the scores of 128 tokens. */
template <int DIM> __device__ __forceinline__ void flash_scores(float s[64], uint32_t queries, uint32_t keys) {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
        wgmma_scores(s, operand(queries + i / 4 * (64 * 128)) + 2 * (i % 4),
                     side_by_side(keys + i * 512, flash_sizes<DIM>::GROUP, 256, SWIZZLE_32), i);
    wgmma_commit();
}

/* Scores become probabilities against the rows' new maxima, as the next product's operands; what was mixed fades. */
template <int DIM>
__device__ __forceinline__ void flash_soften(flash_rows<DIM> &r, uint32_t p[8][4], float s[64], int first, float cap) {
    const int t = threadIdx.x % 4;
    if (cap != 0) {
#pragma unroll
        for (int i = 0; i < 64; i++) s[i] = cap * 1.44269504f * tanhf(s[i] / cap);
    }
    if (first < r.lowest || first + FLASH_TOKENS - 1 > r.highest) {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int token = first + i / 4 * 8 + 2 * t + i % 2, h = i % 4 / 2;
            if (token < r.seen[h] || token > r.pos[h]) s[i] = -INFINITY;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float max = r.max[h], sum = 0;
#pragma unroll
        for (int i = 2 * h; i < 64; i += 4) max = fmaxf(max, fmaxf(s[i], s[i + 1]));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
        max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
        const float base = max == -INFINITY ? 0 : max, fade = exp2_fast(r.max[h] - base);
        r.max[h] = max;
#pragma unroll
        for (int i = 2 * h; i < 64; i += 4) {
            s[i] = exp2_fast(s[i] - base), s[i + 1] = exp2_fast(s[i + 1] - base);
            sum += s[i] + s[i + 1];
        }
        r.sum[h] = r.sum[h] * fade + sum;
#pragma unroll
        for (int i = 2 * h; i < DIM / 2; i += 4) r.o[i] *= fade, r.o[i + 1] *= fade;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) p[i][j] = pack_half(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
}

/* Asks for the values of 128 tokens, mixed. */
template <int DIM> __device__ __forceinline__ void flash_mix(float *o, const uint32_t p[8][4], uint32_t values) {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < 8; i++)
        wgmma_mix<DIM>(o, p[i], side_by_side(values + i * 2048, flash_sizes<DIM>::HALF, 1024, SWIZZLE_128));
    wgmma_commit();
}

/* What products have written may be read from here on. */
template <int N> __device__ __forceinline__ void settled(float *d) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

template <int DIM>
__device__ __forceinline__ void flash_store(flash_rows<DIM> &r, const k_decode_args &a, const k_span &span, int first,
                                            int head) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float fade;
        const float sum = end_softmax(&fade, r.sum[h], r.max[h], a.sinks, head);
        const int row = r.pos[h] - span.position;
        const bool is_there = row < span.n_rows;
        const float scale = fade / sum;
        if (a.blocks && is_there && head == 0 && t == 0) a.row_scale[span.row + row] = 1;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++)
            put_result(a, span.row + row, a.n_heads * DIM, head * DIM + 8 * i + 2 * t, r.o[4 * i + 2 * h] * scale,
                       r.o[4 * i + 2 * h + 1] * scale, is_there);
    }
}

/* The next scores are asked for behind this tile's values, so that the tensor cores always have something to do. */
template <int DIM>
__device__ __forceinline__ void flash_multiply(const k_decode_args &a, const k_span &span, const flash_place &at,
                                               int head, int begin, int last) {
    using size = flash_sizes<DIM>;
    const int group = threadIdx.x / 128 - 1, first = group * 64;
    const uint32_t queries = at.q + group * size::QUERIES;
    flash_put_queries<DIM>(a, span, queries, first, head, a.cap != 0 ? a.scale : a.scale * 1.44269504f);
    fence_async();
    meet_threads_at(1 + group, 128);
    flash_rows<DIM> r;
    flash_begin(r, a, span, first);
    float s[64];
    uint32_t p[8][4];
    int stage = 0, parity = 0;
    barrier_wait(at.full, 0);
    flash_scores<DIM>(s, queries, at.ring);
    for (int token = begin; token <= last; token += FLASH_TOKENS) {
        const uint32_t values = at.ring + stage * size::STAGE + size::KEYS;
        wgmma_wait<0>();
        settled<64>(s);
        settled<DIM / 2>(r.o);
        if (token > begin && threadIdx.x % 128 == 0) barrier_arrive_here(at.empty + 8 * (stage ^ 1));
        flash_soften<DIM>(r, p, s, token, a.cap);
        flash_mix<DIM>(r.o, p, values);
        stage ^= 1;
        if (!stage) parity ^= 1;
        if (token + FLASH_TOKENS > last) break;
        barrier_wait(at.full + 8 * stage, parity);
        flash_scores<DIM>(s, queries, at.ring + stage * size::STAGE);
    }
    wgmma_wait<0>();
    settled<DIM / 2>(r.o);
    flash_store<DIM>(r, a, span, first, head);
}

/* Grid: heads, spans of at most 128 rows; the last spans see most and begin first. */
template <int DIM> __device__ __forceinline__ void flash90(const k_decode_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    const flash_place at = {base, base + 2 * flash_sizes<DIM>::QUERIES,
                            base + 2 * flash_sizes<DIM>::QUERIES + 2 * flash_sizes<DIM>::STAGE,
                            base + 2 * flash_sizes<DIM>::QUERIES + 2 * flash_sizes<DIM>::STAGE + 16};
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            barrier_init(at.full + 8 * i, 128), barrier_init(at.empty + 8 * i, 2);
            prepare_meeting(1 + i, 128);
        }
        barriers_made();
    }
    __syncthreads();
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[gridDim.y - 1 - blockIdx.y];
    if (a.singles && span.n_rows == 1) return;
    const int head = blockIdx.x, last = span.position + span.n_rows - 1;
    const int begin = first_seen(span.position, a.window, a.chunk) / FLASH_TOKENS * FLASH_TOKENS;
    if (threadIdx.x < 128) {
        fewer_registers<56>();
        flash_feed<DIM>(a, span, at, head / (a.n_heads / a.n_kv_heads), begin, last);
    } else {
        more_registers<224>();
        flash_multiply<DIM>(a, span, at, head, begin, last);
    }
}

#endif
