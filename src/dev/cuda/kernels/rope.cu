/* rope.cu — what happens to q, k and v between their products and attention: norm, rotation, into the pages.
 *
 * A warp for each head of a row; rope.cuh has the steps. */
#include "rope.cuh"

/* ---- grouped-query attention: grid [heads, four a block][spans] ---- */

/* Rows of one head: the tokens of a group of keys, or one. */
struct head_rows {
    int64_t row, page;
    int n, slot, h;
};

template <class KV> static __device__ void store_values(const k_rope_args &a, const head_rows &s, float *room) {
#pragma unroll 4
    for (int r = 0; r < s.n; r++) {
        KV::put_value(a.kv.v + s.page + s.h * KV::value_head_bytes(a.kv.v_dim), a.kv, s.slot + r,
                      a.v + ((s.row + r) * a.kv.n_kv_heads + s.h) * a.kv.v_dim, room);
        __syncwarp();
    }
}

/* Rows [n][dim], `step` floats apart, into shared memory and turned there. All are asked for before any is looked at.
 */
static __device__ void turn_rows(const k_rope_args &a, const head_rows &s, float *heads, const float *from,
                                 int64_t step, const float *weight) {
    const int dim = a.kv.head_dim, half = a.rot_dims / 2;
#pragma unroll 4
    for (int r = 0; r < s.n; r++)
        for (int i = threadIdx.x % WARP; i < dim; i += WARP) heads[r * a.stride + i] = from[r * step + i];
    __syncwarp();
    for (int r = 0; r < s.n; r++) {
        float *head = heads + r * a.stride;
        if (a.norm == NORM_FIRST) norm_head(head, dim, weight, a.eps);
        turn_head(head, a.cos + (s.row + r) * half, a.sin + (s.row + r) * half, half, a.pairs);
        if (a.norm == NORM_LAST) norm_head(head, dim, weight, a.eps);
    }
}

static __device__ void turn_queries(const k_rope_args &a, const head_rows &s, float *heads) {
    const int dim = a.kv.head_dim;
    float *q = a.q + (s.row * a.n_heads + s.h) * dim;
    turn_rows(a, s, heads, q, (int64_t)a.n_heads * dim, a.q_norm);
    for (int r = 0; r < s.n; r++, q += (int64_t)a.n_heads * dim) {
        const float scale = a.q_scale ? a.q_scale[s.row + r] : 1;
        for (int i = threadIdx.x % WARP; i < dim; i += WARP) q[i] = __fmul_rn(heads[r * a.stride + i], scale);
    }
}

template <class KV> static __device__ void turn_keys(const k_rope_args &a, const head_rows &s, float *heads) {
    const int dim = a.kv.head_dim;
    turn_rows(a, s, heads, a.k + (s.row * a.kv.n_kv_heads + s.h) * dim, (int64_t)a.kv.n_kv_heads * dim, a.k_norm);
    KV::put_keys(a.kv.k + s.page + s.h * KV::key_head_bytes(dim), a.kv, s.slot, s.n, heads, a.stride);
}

template <class KV> static __device__ void rope_store(const k_rope_args &a) {
    DYNAMIC_SHARED(float, shared);
    take_turn();
    const int kv_heads = a.kv.n_kv_heads;
    const k_span span = a.spans[blockIdx.y];
    head_rows s = {span.row, (int64_t)a.pages[span.pages + span.position / K_PAGE] * a.kv.page_stride, span.n_rows,
                   span.position % K_PAGE, (int)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP)};
    float *room = shared + (int)threadIdx.x / WARP * a.stride * a.piece_rows;
    if (s.h < a.n_heads) return turn_queries(a, s, room);
    s.h -= a.n_heads;
    if (s.h < kv_heads) return turn_keys<KV>(a, s, room);
    s.h -= kv_heads;
    if (s.h < kv_heads) store_values<KV>(a, s, room);
}

KERNEL k_rope_store_f16(const k_rope_args a) { rope_store<plain_kv<f16>>(a); }
KERNEL k_rope_store_f32(const k_rope_args a) { rope_store<plain_kv<float>>(a); }
KERNEL k_rope_store_q8(const k_rope_args a) { rope_store<coded_kv<8, 8>>(a); }
KERNEL k_rope_store_q6(const k_rope_args a) { rope_store<coded_kv<6, 6>>(a); }
KERNEL k_rope_store_q4(const k_rope_args a) { rope_store<coded_kv<6, 4>>(a); }

/* ---- latent attention: the same grid, the latent stands behind the heads ---- */

template <class KV> static __device__ void latent_store(const k_latent_args &a) {
    DYNAMIC_SHARED(float, shared);
    take_turn();
    const int dim = a.kv.head_dim, rank = a.kv.v_dim, half = a.rot_dims / 2, lane = threadIdx.x % WARP;
    const k_span span = a.spans[blockIdx.y];
    const int64_t row = span.row;
    const int h = (int)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP);
    if (h > a.n_heads) return;
    const bool is_q = h < a.n_heads;
    const float *from = is_q ? a.heads + (row * a.n_heads + h + 1) * a.heads_dim - a.rot_dims : a.latent + row * dim;
    const int n = is_q ? a.rot_dims : dim;
    float *head = shared + threadIdx.x / WARP * dim;
    for (int i = lane; i < n; i += WARP) head[i] = from[i];
    __syncwarp();
    if (!is_q) norm_head(head, rank, a.norm, a.eps);
    turn_head(is_q ? head : head + rank, a.cos + row * half, a.sin + row * half, half, a.pairs);
    if (is_q) {
        float *q = a.q + (row * a.n_heads + h) * dim + rank;
        for (int i = lane; i < n; i += WARP) q[i] = head[i];
    } else {
        const int64_t page = (int64_t)a.pages[span.pages + span.position / K_PAGE] * a.kv.page_stride;
        KV::put_key(a.kv.k + page, a.kv, span.position % K_PAGE, head);
    }
}

KERNEL k_latent_store_f16(const k_latent_args a) { latent_store<plain_kv<f16>>(a); }
KERNEL k_latent_store_f32(const k_latent_args a) { latent_store<plain_kv<float>>(a); }
KERNEL k_latent_store_q8(const k_latent_args a) { latent_store<coded_kv<8, 8>>(a); }
KERNEL k_latent_store_q6(const k_latent_args a) { latent_store<coded_kv<6, 6>>(a); }
KERNEL k_latent_store_q4(const k_latent_args a) { latent_store<coded_kv<6, 4>>(a); }

/* ---- queries and results of coded caches: a warp for each vector ---- */

KERNEL k_hadamard(const k_hadamard_args a) {
    DYNAMIC_SHARED(float, shared);
    take_turn();
    const int lane = threadIdx.x % WARP;
    const int64_t vector = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (vector >= a.n_vectors) return;
    float *x = shared + threadIdx.x / WARP * a.dim, *from = a.x + vector * a.dim;
    for (int i = lane; i < a.dim; i += WARP) x[i] = from[i];
    __syncwarp();
    hadamard(x, a.first);
    hadamard(x + a.first, a.dim - a.first);
    for (int i = lane; i < a.dim; i += WARP) from[i] = x[i];
}
