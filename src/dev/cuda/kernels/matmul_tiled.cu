/* matmul_tiled.cu — products of 16-bit weights with 16-bit activations on the tensor cores, float32 sums.
 *
 * Weights lie in tiles (tile_place): a lane finds its operands of two products as two 16-byte words, a warp reads 512
 * bytes in a row, and nothing passes through shared memory. The eight warps of a block share 16 outputs, each an
 * eighth of the inputs; their sums meet in shared memory in a fixed order. That cut depends on n_in alone, and a
 * column of the tensor core's result on its own row of x alone, so bits do not depend on how many rows there are.
 *
 * Inputs within a tile are taken in an order that lets a lane read eight neighbouring elements of a row of x. */
#include "kernel.cuh"

static __device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

/* ---- activations to 16 bits: a block for each row ---- */

/* The scale is a power of two, so that nothing but the rounding to 16 bits is lost. */
template <class T> static __device__ void narrow(const k_narrow_args &a) {
    __shared__ float room[8];
    take_turn();
    const float *x = a.x + (int64_t)blockIdx.x * a.x_stride;
    T *out = (T *)a.out + (int64_t)blockIdx.x * a.out_stride;
    float up = 1;
    if (a.scale) {
        float most = 0;
        for (int i = threadIdx.x; i < a.n_in; i += blockDim.x) most = fmaxf(most, fabsf(x[i]));
        most = warp_most(most);
        if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = most;
        __syncthreads();
        for (int i = 0; i < (int)blockDim.x / WARP; i++) most = fmaxf(most, room[i]);
        const int exponent = (int)(__float_as_uint(most) >> 23 & 255) - 127;
        const int by = exponent > 100 ? -100 : exponent < -100 ? 113 : 13 - exponent;
        up = power_of_two(by);
        if (threadIdx.x == 0) a.scale[blockIdx.x] = power_of_two(-by);
    }
    for (int i = threadIdx.x; i < a.out_stride; i += blockDim.x)
        put_float(&out[i], i < a.n_in ? __fmul_rn(x[i], up) : 0);
}

KERNEL k_narrow_f16(const k_narrow_args a) { narrow<f16>(a); }
KERNEL k_narrow_bf16(const k_narrow_args a) { narrow<bf16>(a); }

/* ---- weights into tiles ---- */

/* Grid: any. Elements are written in their new order, those beyond the matrix as zeros. */
KERNEL k_tile(const k_tile_args a) {
    const int64_t per_row = (a.n_in + K_TILE_DEPTH - 1) / K_TILE_DEPTH;
    const int64_t n = (a.n_out + K_TILE_ROWS - 1) / K_TILE_ROWS * per_row * (K_TILE_ROWS * K_TILE_DEPTH);
    for (int64_t i = thread_index(); i < n; i += thread_count()) {
        const int in_tile = (int)(i % (K_TILE_ROWS * K_TILE_DEPTH)), half = in_tile % 8, lane = in_tile / 8 % WARP;
        const int64_t tile = i / (K_TILE_ROWS * K_TILE_DEPTH);
        const int64_t row = tile / per_row * K_TILE_ROWS + lane / 4 + half / 2 % 2 * 8;
        const int64_t k =
            tile % per_row * K_TILE_DEPTH + lane % 4 * 8 + in_tile / (8 * WARP) * 4 + half / 4 * 2 + half % 2;
        const bool is_there = row < a.n_out && k < a.n_in;
        ((uint16_t *)a.tiles)[i] = is_there ? ((const uint16_t *)a.rows)[row * a.n_in + k] : (uint16_t)0;
    }
}

/* ---- products ---- */

/* What a block multiplies. */
struct work {
    const k_part *part;
    const void *w;
    const float *bias;
    const int32_t *list; /* NULL: rows as they come */
    int tile, n_rows;
};

static __device__ bool find_work(work *out, const k_matmul_args &a) {
    int index = a.n_parts - 1;
    while (index && (int)blockIdx.x < a.first[index]) index--;
    const k_part *p = &a.parts[index];
    *out = {p, p->w, p->bias, 0, (int)blockIdx.x - a.first[index], a.n_rows};
    if (!a.groups.active) return true;
    const int e = a.groups.active[blockIdx.z];
    if (e < 0) return false;
    out->n_rows = a.groups.counts[e];
    out->list = a.groups.lists + (int64_t)e * a.groups.list_stride;
    out->w = p->experts[e].w;
    out->bias = p->experts[e].bias;
    return out->w != NULL;
}

/* Sums of this warp's eighth of the inputs. */
template <class T, int TILES>
static __device__ void multiply_slice(float (*sums)[4], const k_matmul_args &a, const work &w, int first_row) {
    const int lane = threadIdx.x % WARP, slice = threadIdx.x / WARP, depth = (a.n_in + K_TILE_DEPTH - 1) / K_TILE_DEPTH;
    const int begin = depth * slice / K_SLICES, end = depth * (slice + 1) / K_SLICES;
    const uint4 *weights = (const uint4 *)w.w + ((int64_t)w.tile * depth + begin) * (2 * WARP) + lane;
    const uint4 *x[TILES];
    for (int i = 0; i < TILES; i++) { /* rows that are not there repeat the last */
        const int at = first_row + i * 8 + lane / 4, row = at < w.n_rows ? at : w.n_rows - 1;
        const int64_t from = w.list ? w.list[row] / a.groups.x_divisor : row;
        x[i] = (const uint4 *)((const uint16_t *)a.x + from * a.x_stride) + begin * 4 + lane % 4;
    }
#pragma unroll 4
    for (int k = begin; k < end; k++, weights += 2 * WARP) {
        const uint4 low = weights[0], high = weights[WARP];
        const uint32_t first[4] = {low.x, low.y, low.z, low.w}, second[4] = {high.x, high.y, high.z, high.w};
        for (int i = 0; i < TILES; i++) {
            const uint4 b = *x[i];
            x[i] += 4;
            multiply_tile(sums[i], first, b.x, b.y, T());
            multiply_tile(sums[i], second, b.z, b.w, T());
        }
    }
}

/* Grid: [16 outputs][8 TILES rows][experts], a warp for each slice of the inputs. */
template <class T, int TILES> static __device__ void multiply(const k_matmul_args &a) {
    __shared__ float slices[K_SLICES][TILES][WARP][4];
    take_turn();
    work w;
    const int first_row = (int)blockIdx.y * 8 * TILES;
    if (!find_work(&w, a) || first_row >= w.n_rows) return;
    float sums[TILES][4] = {};
    multiply_slice<T, TILES>(sums, a, w, first_row);
    for (int i = 0; i < TILES; i++)
        for (int j = 0; j < 4; j++) slices[threadIdx.x / WARP][i][threadIdx.x % WARP][j] = sums[i][j];
    __syncthreads();
    for (int i = threadIdx.x; i < TILES * 8 * K_TILE_ROWS; i += blockDim.x) {
        const int output = i % K_TILE_ROWS, column = i / K_TILE_ROWS, row = first_row + column;
        const int64_t at = (int64_t)w.tile * K_TILE_ROWS + output;
        if (row >= w.n_rows || at >= w.part->n_out) continue;
        const int lane = output % 8 * 4 + column % 8 / 2, j = output / 8 * 2 + column % 2;
        float y = slices[0][column / 8][lane][j];
        for (int s = 1; s < K_SLICES; s++) y = __fadd_rn(y, slices[s][column / 8][lane][j]);
        const int64_t to = w.list ? w.list[row] : row, from = w.list ? to / a.groups.x_divisor : row;
        float *out = w.part->out + to * w.part->out_stride + at;
        if (a.scale) y = __fmul_rn(y, a.scale[from]);
        if (w.bias) y = __fadd_rn(y, w.bias[at]);
        *out = w.part->add ? __fadd_rn(*out, y) : y;
    }
}

KERNEL __launch_bounds__(256) k_tiled_f16_1(const k_matmul_args a) { multiply<f16, 1>(a); }
KERNEL __launch_bounds__(256) k_tiled_f16_4(const k_matmul_args a) { multiply<f16, 4>(a); }
KERNEL __launch_bounds__(256) k_tiled_f16_8(const k_matmul_args a) { multiply<f16, 8>(a); }
KERNEL __launch_bounds__(256) k_tiled_bf16_1(const k_matmul_args a) { multiply<bf16, 1>(a); }
KERNEL __launch_bounds__(256) k_tiled_bf16_4(const k_matmul_args a) { multiply<bf16, 4>(a); }
KERNEL __launch_bounds__(256) k_tiled_bf16_8(const k_matmul_args a) { multiply<bf16, 8>(a); }
