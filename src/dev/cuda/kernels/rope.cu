/* rope.cu — what happens to q, k and v between their products and attention: norm, rotation, into the pages.
 *
 * A warp for each head of a row; a head waits in shared memory between its steps. dev.h tells where the elements of a
 * page lie. */
#include "kv.cuh"

enum { NORM_NONE, NORM_FIRST, NORM_LAST }; /* enum head_norm */

static __device__ void norm_head(float *head, int dim, const float *weight, float eps) {
    const int lane = threadIdx.x % WARP;
    float sum = 0;
    for (int i = lane; i < dim; i += WARP) sum = __fmaf_rn(head[i], head[i], sum);
    const float scale = 1 / sqrtf(warp_sum(sum) / (float)dim + eps);
    for (int i = lane; i < dim; i += WARP) head[i] = __fmul_rn(__fmul_rn(head[i], scale), weight ? weight[i] : 1);
    __syncwarp();
}

static __device__ void turn_head(float *head, const float *cosines, const float *sines, int half, int pairs) {
    for (int i = threadIdx.x % WARP; i < half; i += WARP) {
        float *x = &head[pairs ? 2 * i : i], *y = pairs ? x + 1 : x + half;
        const float a = *x, b = *y, c = cosines[i], s = sines[i];
        *x = __fmaf_rn(a, c, -__fmul_rn(b, s));
        *y = __fmaf_rn(b, c, __fmul_rn(a, s));
    }
    __syncwarp();
}

/* ---- grouped-query attention: grid [heads, four a block][rows] ---- */

template <class KV> static __device__ void rope_store(const k_rope_args &a) {
    DYNAMIC_SHARED(float, shared);
    take_turn();
    const int dim = a.kv.head_dim, room = dim > a.kv.v_dim ? dim : a.kv.v_dim, kv_heads = a.kv.n_kv_heads,
              half = a.rot_dims / 2, lane = threadIdx.x % WARP;
    const k_span span = a.spans[blockIdx.y];
    const int64_t row = span.row;
    int h = (int)(blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP);
    if (h >= a.n_heads + 2 * kv_heads) return;
    const int64_t page = (int64_t)a.pages[span.pages + span.position / K_PAGE] * a.kv.page_stride;
    const int slot = span.position % K_PAGE;
    if (h >= a.n_heads + kv_heads) {
        h -= a.n_heads + kv_heads;
        KV::put_value(a.kv.v + page + h * KV::value_head_bytes(a.kv.v_dim), a.kv, slot,
                      a.v + (row * kv_heads + h) * a.kv.v_dim, shared + threadIdx.x / WARP * room);
        return;
    }
    const bool is_q = h < a.n_heads;
    if (!is_q) h -= a.n_heads;
    float *head = shared + threadIdx.x / WARP * room,
          *from = is_q ? a.q + (row * a.n_heads + h) * dim : a.k + (row * kv_heads + h) * dim;
    const float *weight = is_q ? a.q_norm : a.k_norm;
    for (int i = lane; i < dim; i += WARP) head[i] = from[i];
    __syncwarp();
    if (a.norm == NORM_FIRST) norm_head(head, dim, weight, a.eps);
    turn_head(head, a.cos + row * half, a.sin + row * half, half, a.pairs);
    if (a.norm == NORM_LAST) norm_head(head, dim, weight, a.eps);
    if (!is_q) return KV::put_key(a.kv.k + page + h * KV::key_head_bytes(dim), a.kv, slot, head);
    const float scale = a.q_scale ? a.q_scale[row] : 1;
    for (int i = lane; i < dim; i += WARP) from[i] = __fmul_rn(head[i], scale);
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
