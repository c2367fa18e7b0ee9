/* rows.cu — what is done to rows one by one: embedding, norms, gates, sums, copies.
 *
 * Called through launch.c, all `early`. Every value is made from its own row alone; a norm's sum depends on the width
 * alone. */
#include "activate.cuh"
#include "embed.cuh"
#include "norm.cuh"

/* ---- embedding ---- */

/* Grid: [pieces of a row][rows]. */
template <class T> static __device__ void embed(const k_embed_args &a) {
    take_turn();
    const int id = embedded_id(a, blockIdx.y);
    float *out = a.out + (int64_t)blockIdx.y * a.dim;
    for (int64_t i = thread_index(); i < a.dim; i += thread_count()) {
        const float x = embedded<T>(a, id, i);
        out[i] = a.add ? __fadd_rn(out[i], x) : x;
    }
}

KERNEL k_embed_f32(const k_embed_args a) { embed<float>(a); }
KERNEL k_embed_f16(const k_embed_args a) { embed<f16>(a); }
KERNEL k_embed_bf16(const k_embed_args a) { embed<bf16>(a); }

/* ---- norm ---- */

enum { NORM_ROOM = 256 }; /* blocks that are summed at once: of all rows but the longest all of them */

static __device__ void read_piece(float v[NORM_PIECE], const float *x, int k, int dim) {
    if (dim % 4 == 0 && k + NORM_PIECE <= dim) {
        const float4 low = *(const float4 *)(x + k), high = *(const float4 *)(x + k + 4);
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        return;
    }
    for (int i = 0; i < NORM_PIECE; i++) v[i] = k + i < dim ? x[k + i] : 0;
}

/* All threads of the block get what `sum` makes of each block of a row, added up. */
template <class SUM> static __device__ float sum_row(const float *x, int dim, float *room, SUM sum) {
    float all = 0;
    for (int first = 0; first < dim; first += NORM_ROOM * NORM_BLOCK) {
        const int behind = min(dim, first + NORM_ROOM * NORM_BLOCK);
        const int n = norm_blocks(behind - first);
        __syncthreads(); /* nobody still reads earlier sums */
        for (int k = first + threadIdx.x * NORM_PIECE; k / NORM_BLOCK * NORM_BLOCK < behind;
             k += blockDim.x * NORM_PIECE) {
            float v[1][NORM_PIECE];
            read_piece(v[0], x, k, dim);
            const float one = sum(v, k);
            if (threadIdx.x % WARP == 0) put_block(room, (k - first) / NORM_BLOCK, n, one);
        }
        __syncthreads();
        const float some = add_blocks(room, n);
        all = first ? __fadd_rn(all, some) : some;
    }
    return all;
}

/* Grid: [heads][rows]; the block's width follows from dim. */
KERNEL k_norm(const k_norm_args a) {
    enum { AT_ONCE = 4 }; /* asked for before one is written, which could be where another is read */
    alignas(16) __shared__ float room[NORM_ROOM];
    take_turn();
    const int64_t row = blockIdx.y, from = a.rows ? a.rows[row] : row, width = (int64_t)a.heads * a.dim;
    const float *x = a.x + from * width + (int64_t)blockIdx.x * a.dim;
    float *out = a.out + row * width + (int64_t)blockIdx.x * a.dim;
    const float *weight = a.weight && a.own_weights ? a.weight + (int64_t)blockIdx.x * a.dim : a.weight;
    const int dim = a.dim;
    float mean = 0;
    if (a.is_layer)
        mean = sum_row(x, dim, room,
                       [](const float v[1][NORM_PIECE], int) {
                           float sum = 0;
                           for (int i = 0; i < NORM_PIECE; i++) sum = __fadd_rn(sum, v[0][i]);
                           return warp_sum(sum);
                       }) /
               (float)dim;
    const float squares = sum_row(x, dim, room, [mean, dim](float v[1][NORM_PIECE], int k) {
        for (int i = 0; i < NORM_PIECE; i++) v[0][i] = k + i < dim ? v[0][i] - mean : 0;
        return block_square(v[0]);
    });
    const float scale = norm_scale(squares, dim, a.eps);
    const int step = (int)blockDim.x;
    for (int first = threadIdx.x; first < dim; first += AT_ONCE * step) {
        float v[AT_ONCE], w[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * step;
            v[k] = i < dim ? x[i] : 0;
            w[k] = weight && i < dim ? weight[i] : 1;
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int i = first + k * step;
            if (i >= dim) break;
            float y = __fmul_rn(__fmul_rn(v[k] - mean, scale), w[k]);
            if (a.bias) y = __fadd_rn(y, a.bias[i]);
            out[i] = y;
        }
    }
}

/* ---- gates ---- */

KERNEL k_gate(const k_gate_args a) {
    take_turn();
    for (int64_t i = thread_index(); i < a.n; i += thread_count())
        a.gate[i] = __fmul_rn(activate(a.act, a.gate[i]), a.up ? a.up[i] : 1);
}

/* Comparisons, not minima, so that NaN stays NaN. */
static __device__ float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

KERNEL k_clamped_gate(const k_gate_args a) {
    take_turn();
    for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
        const float g = a.gate[i] > a.limit ? a.limit : a.gate[i], u = clamp(a.up[i], -a.limit, a.limit);
        a.gate[i] = g * sigmoid(a.alpha * g) * (u + 1);
    }
}

KERNEL k_xielu(const k_xielu_args a) {
    take_turn();
    for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
        const float x = a.x[i], low = x < a.eps ? x : a.eps;
        const float y = x > 0 ? a.alpha_p * x * x : a.alpha_n * (expm1f(low) - x);
        a.x[i] = y + a.beta * x;
    }
}

KERNEL k_limit(const k_limit_args a) {
    take_turn();
    for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
        float x = a.x[i] * a.scale;
        if (a.cap != 0) x = a.cap * tanhf(x / a.cap);
        a.x[i] = a.limit != 0 ? clamp(x, -a.limit, a.limit) : x;
    }
}

KERNEL k_add(const k_add_args a) {
    take_turn();
    for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
        const float scale = a.row_gate ? __fmul_rn(a.scale, sigmoid(a.row_gate[i / a.dim])) : a.scale;
        a.to[i] = __fmaf_rn(scale, a.from[i], a.to[i]);
    }
}

/* ---- copies: grid [pieces][blocks] ---- */

template <class T> static __device__ void copy(const k_copy_args &a) {
    take_turn();
    T *to = (T *)((uint8_t *)a.to + (int64_t)blockIdx.y * a.stride);
    const T *from = (const T *)((const uint8_t *)a.from + (int64_t)blockIdx.y * a.stride);
    for (int64_t i = thread_index(); i < a.bytes / (int64_t)sizeof(T); i += thread_count()) to[i] = from[i];
}

KERNEL k_copy_wide(const k_copy_args a) { copy<uint4>(a); }
KERNEL k_copy_bytes(const k_copy_args a) { copy<uint8_t>(a); }

/* Grid: [1]. What the host has written is there before the launch is, so it is asked for before the turn has come. */
KERNEL k_fetch(const k_fetch_args a) {
    const bool is_any = (int64_t)threadIdx.x * 16 < a.bytes;
    uint4 v = {0, 0, 0, 0};
    let_next_start();
    if (is_any) v = ((const uint4 *)a.from)[threadIdx.x];
    wait_for_previous();
    if (is_any) ((uint4 *)a.to)[threadIdx.x] = v;
}
