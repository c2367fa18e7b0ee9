/* attend_prefill.cuh — many query rows of a sequence against its paged float16 cache, on the tensor cores.
 *
 * Instances are spelled in attend_decode.cu; Hopper has flash90.cuh instead. A block takes up to 64 consecutive rows
 * for one head, 16 a warp; its warps bring 64 tokens' keys and values into shared memory together, the next 64 while
 * these are multiplied, and each row keeps an online softmax. Queries and probabilities are float16, sums float32. */
#ifndef KERNELS_ATTEND_PREFILL_CUH
#define KERNELS_ATTEND_PREFILL_CUH

#include "attend_decode.cuh"

enum { PREFILL_TOKENS = ATTEND_WARPS * PAGE_GROUP };

/* The two rows that a lane's quad works on, 8 apart. */
template <int DIM> struct row_pair {
    float o[DIM / 8][4];
    float max[2], sum[2];
    int pos[2], seen[2];
};

template <int DIM>
__device__ __forceinline__ void read_rows(uint32_t q[DIM / 16][4], const k_decode_args &a, const k_span &span,
                                          int head) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = warp * 16 + g + 8 * h;
        const float *from = a.q + ((size_t)(span.row + row) * a.n_heads + head) * DIM + 2 * t;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) {
            float2 v = make_float2(0, 0);
            if (row < span.n_rows) v = __ldcg((const float2 *)(from + 8 * i));
            q[i / 2][i % 2 * 2 + h] = pack_half(v.x * a.scale, v.y * a.scale);
        }
    }
}

template <int DIM>
__device__ __forceinline__ void begin_rows(row_pair<DIM> &r, const k_decode_args &a, const k_span &span) {
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) r.o[i][0] = r.o[i][1] = r.o[i][2] = r.o[i][3] = 0;
    for (int h = 0; h < 2; h++) {
        r.max[h] = -INFINITY, r.sum[h] = 0;
        r.pos[h] = span.position + (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 + 8 * h;
        r.seen[h] = first_seen(r.pos[h], a.window, a.chunk);
    }
}

/* Scores of 8 TILES tokens from `first` on become probabilities against the rows' new maxima. */
template <int DIM, int TILES>
__device__ __forceinline__ void soften(row_pair<DIM> &r, float s[TILES][4], int first, float cap) {
    const int t = threadIdx.x % 4;
    float max[2] = {r.max[0], r.max[1]};
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int token = first + 8 * i + 2 * t + j % 2, h = j / 2;
            float x = s[i][j];
            if (cap != 0) x = cap * tanhf(x / cap);
            x = token < r.seen[h] || token > r.pos[h] ? -INFINITY : x * 1.44269504f;
            s[i][j] = x;
            max[h] = fmaxf(max[h], x);
        }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        max[h] = fmaxf(max[h], __shfl_xor_sync(~0u, max[h], 1));
        max[h] = fmaxf(max[h], __shfl_xor_sync(~0u, max[h], 2));
        const float base = max[h] == -INFINITY ? 0 : max[h], fade = exp2_fast(r.max[h] - base);
        r.max[h] = max[h];
        r.sum[h] *= fade;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) r.o[i][2 * h] *= fade, r.o[i][2 * h + 1] *= fade;
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int j = 2 * h; j < 2 * h + 2; j++) {
                s[i][j] = exp2_fast(s[i][j] - base);
                r.sum[h] += s[i][j];
            }
    }
}

/* 64 tokens, in four groups that lie `slot` bytes apart. */
template <int DIM>
__device__ __forceinline__ void attend_tokens(row_pair<DIM> &r, const uint32_t q[DIM / 16][4], uint32_t groups,
                                              int first, float cap) {
    constexpr int SLOT = PAGE_GROUP * DIM * 4;
    float s[2 * ATTEND_WARPS][4] = {};
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
#pragma unroll
        for (int j = 0; j < ATTEND_WARPS; j++) {
            uint32_t k[4];
            load_keys(k, groups + j * SLOT, 16 * i);
            mma_half(s[2 * j], q[i], k[0], k[1]);
            mma_half(s[2 * j + 1], q[i], k[2], k[3]);
        }
    soften<DIM, 2 * ATTEND_WARPS>(r, s, first, cap);
#pragma unroll
    for (int j = 0; j < ATTEND_WARPS; j++) {
        const uint32_t p[4] = {pack_half(s[2 * j][0], s[2 * j][1]), pack_half(s[2 * j][2], s[2 * j][3]),
                               pack_half(s[2 * j + 1][0], s[2 * j + 1][1]),
                               pack_half(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) {
            uint32_t v[4];
            load_values<DIM>(v, groups + j * SLOT + PAGE_GROUP * DIM * 2, 16 * i);
            mma_half(r.o[2 * i], p, v[0], v[1]);
            mma_half(r.o[2 * i + 1], p, v[2], v[3]);
        }
    }
}

template <int DIM>
__device__ __forceinline__ void store_rows(row_pair<DIM> &r, const k_decode_args &a, const k_span &span, int head) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float fade;
        const float sum = end_softmax(&fade, r.sum[h], r.max[h], a.sinks, head);
        const int row = warp * 16 + g + 8 * h;
        if (row >= span.n_rows) continue;
        float *to = a.out + ((size_t)(span.row + row) * a.n_heads + head) * DIM + 2 * t;
        const float scale = fade / sum;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++)
            *(float2 *)(to + 8 * i) = make_float2(r.o[i][2 * h] * scale, r.o[i][2 * h + 1] * scale);
    }
}

/* Grid: heads, spans of at most 64 rows; the last spans see most and begin first. */
template <int DIM> __device__ __forceinline__ void attend_prefill(const k_decode_args &a) {
    SHARED_MEMORY(shared);
    constexpr int SLOT = PAGE_GROUP * DIM * 4;
    const int head = blockIdx.x, kv_head = head / (a.n_heads / a.n_kv_heads), warp = threadIdx.x / 32;
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[gridDim.y - 1 - blockIdx.y];
    if (a.singles && span.n_rows == 1) return;
    const int last = span.position + span.n_rows - 1;
    const int begin = first_seen(span.position, a.window, a.chunk) / PREFILL_TOKENS * PREFILL_TOKENS;
    const uint32_t ring = shared_address(shared);
    const uint64_t policy = evict_last();
    auto fetch = [&](int token, int stage) { /* each warp a group */
                                             const int mine = token + warp * PAGE_GROUP;
                                             if (mine <= last) {
                                                 const size_t of =
                                                     (size_t)a.pages[span.pages + mine / PAGE_TOKENS] * a.page_stride +
                                                     ((size_t)kv_head * PAGE_TOKENS + mine % PAGE_TOKENS) * DIM * 2;
                                                 fetch_group<DIM>(ring + (stage * ATTEND_WARPS + warp) * SLOT, a.k + of,
                                                                  a.v + of, policy);
                                             }
                                             commit_copies();
    };
    fetch(begin, 0);
    uint32_t q[DIM / 16][4];
    read_rows<DIM>(q, a, span, head);
    row_pair<DIM> r;
    begin_rows<DIM>(r, a, span);
    for (int token = begin, stage = 0; token <= last; token += PREFILL_TOKENS, stage ^= 1) {
        fetch(token + PREFILL_TOKENS, stage ^ 1);
        wait_copies<1>();
        __syncwarp();
        clear_unseen<DIM>(ring + (stage * ATTEND_WARPS + warp) * SLOT, token + warp * PAGE_GROUP, 0, last);
        __syncthreads();
        if (token <= span.position + warp * 16 + 15)
            attend_tokens<DIM>(r, q, ring + stage * ATTEND_WARPS * SLOT, token, a.cap);
        __syncthreads(); /* before the stage is filled again */
    }
    store_rows<DIM>(r, a, span, head);
}

#endif
