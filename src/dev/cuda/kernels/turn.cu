/* turn.cu — rope.cu's work for heads of 64 and 128 that have no norm, into a float16 cache: in registers alone.
 *
 * cuda_attend.c takes these where they fit; they do to each number what rope.cu does. A warp has one head of up to 16
 * rows of a group of keys. A lane keeps what it rotates of a key until all 16 are there, because elements of
 * neighbouring tokens are neighbours in a page, and writes 16 bytes at once. */
#include "turn.cuh"

template <int DIM, int BATCH> __device__ __forceinline__ void turn_queries(const head_of<DIM, BATCH> &is, int h) {
    const size_t step = (size_t)is.a.n_heads * DIM;
    float *q = is.a.q + is.span.row * step + (size_t)h * DIM;
    lane_pairs<DIM> p[BATCH];
    for (int r = 0; r < is.span.n_rows; r += BATCH) {
        is.take(p, q, step, r);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            if (r + j >= is.span.n_rows) break;
            const float scale = is.a.q_scale ? is.a.q_scale[is.span.row + r + j] : 1;
#pragma unroll
            for (int i = 0; i < DIM / 64; i++)
                p[j].a[i] = __fmul_rn(p[j].a[i], scale), p[j].b[i] = __fmul_rn(p[j].b[i], scale);
            is.store(p[j], q + (r + j) * step);
        }
    }
}

/* page: of the head, [16 groups][DIM][16 tokens]. */
template <int DIM, int BATCH>
__device__ __forceinline__ void turn_keys(const head_of<DIM, BATCH> &is, int h, half *page, int slot) {
    constexpr int V = DIM / 64;
    const size_t step = (size_t)is.a.kv.n_kv_heads * DIM;
    const float *k = is.a.k + is.span.row * step + (size_t)h * DIM;
    half *group = page + slot / PAGE_GROUP * (PAGE_GROUP * DIM);
    lane_pairs<DIM> p[BATCH];
    if (BATCH == 1 || is.span.n_rows < PAGE_GROUP) {
        for (int r = 0; r < is.span.n_rows; r += BATCH) {
            is.take(p, k, step, r);
#pragma unroll
            for (int j = 0; j < BATCH; j++)
#pragma unroll
                for (int i = 0; i < V; i++) {
                    if (r + j >= is.span.n_rows) continue;
                    const int token = slot % PAGE_GROUP + r + j;
                    group[is.first(i) * PAGE_GROUP + token] = __float2half_rn(p[j].a[i]);
                    group[is.second(i) * PAGE_GROUP + token] = __float2half_rn(p[j].b[i]);
                }
        }
        return;
    }
    uint32_t a[V][PAGE_GROUP / 2], b[V][PAGE_GROUP / 2];
#pragma unroll
    for (int r = 0; BATCH > 1 && r < PAGE_GROUP; r += BATCH) {
        is.take(p, k, step, r);
#pragma unroll
        for (int i = 0; i < V; i++)
#pragma unroll
            for (int j = 0; j + 1 < BATCH; j += 2) {
                a[i][(r + j) / 2] = pack_half(p[j].a[i], p[j + 1].a[i]);
                b[i][(r + j) / 2] = pack_half(p[j].b[i], p[j + 1].b[i]);
            }
    }
#pragma unroll
    for (int i = 0; i < V; i++)
#pragma unroll
        for (int j = 0; j < PAGE_GROUP / 2; j += 4) {
            *(uint4 *)(group + is.first(i) * PAGE_GROUP + 2 * j) =
                make_uint4(a[i][j], a[i][j + 1], a[i][j + 2], a[i][j + 3]);
            *(uint4 *)(group + is.second(i) * PAGE_GROUP + 2 * j) =
                make_uint4(b[i][j], b[i][j + 1], b[i][j + 2], b[i][j + 3]);
        }
}

/* page: of the head, [256 tokens][DIM]. */
template <int DIM, int BATCH>
__device__ __forceinline__ void store_values(const head_of<DIM, BATCH> &is, int h, half *page, int slot) {
    const size_t step = (size_t)is.a.kv.n_kv_heads * DIM;
    const float *v = is.a.v + is.span.row * step + (size_t)h * DIM + 2 * is.lane;
    half *to = page + (size_t)slot * DIM + 2 * is.lane;
    for (int r = 0; r < is.span.n_rows; r += BATCH) {
        float2 x[BATCH][DIM / 64];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
#pragma unroll
            for (int i = 0; i < DIM / 64; i++)
                if (r + j < is.span.n_rows) x[j][i] = *(const float2 *)(v + (r + j) * step + 64 * i);
#pragma unroll
        for (int j = 0; j < BATCH; j++)
#pragma unroll
            for (int i = 0; i < DIM / 64; i++)
                if (r + j < is.span.n_rows)
                    *(uint32_t *)(to + (r + j) * DIM + 64 * i) = pack_half(x[j][i].x, x[j][i].y);
    }
}

/* Grid: [heads of q, k and v, one a warp][spans inside a group of keys]. */
template <int DIM, int BATCH> __device__ __forceinline__ void turn_and_store(const k_rope_args &a) {
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.y];
    const head_of<DIM, BATCH> is(a, span);
    const int slot = span.position % PAGE_TOKENS;
    const size_t page = (size_t)a.pages[span.pages + span.position / PAGE_TOKENS] * a.kv.page_stride;
    int h = (int)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    if (h < a.n_heads) return turn_queries(is, h);
    h -= a.n_heads;
    const size_t head = page + (size_t)(h % a.kv.n_kv_heads) * PAGE_TOKENS * DIM * 2;
    if (h < a.kv.n_kv_heads) return turn_keys(is, h, (half *)(a.kv.k + head), slot);
    h -= a.kv.n_kv_heads;
    if (h < a.kv.n_kv_heads) store_values(is, h, (half *)(a.kv.v + head), slot);
}

#define KERNEL(name, blocks, ...)                                                                                      \
    extern "C" __global__ void __launch_bounds__(128, blocks) name(const k_rope_args a) {                              \
        turn_and_store<__VA_ARGS__>(a);                                                                                \
    }

KERNEL(k_turn_64, 4, 64, 4)
KERNEL(k_turn_64_one, 8, 64, 1)
KERNEL(k_turn_128, 4, 128, 4)
KERNEL(k_turn_128_one, 8, 128, 1)
