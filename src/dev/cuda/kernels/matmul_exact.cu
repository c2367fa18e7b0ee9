/* matmul_exact.cu — products in float32 throughout, of weights that lie row by row, or in tiles where a product of a
 * device that is otherwise fast must be exact.
 *
 * A warp makes 4 outputs of up to 8 rows. A lane adds up every 32nd product in ascending order, then the lanes' sums
 * meet; so an output's bits depend on n_in alone. */
#include "kernel.cuh"

enum { OUTPUTS = 4, WARPS = 4 };

/* Grid: [16 outputs][rows][experts]. */
template <class T, int ROWS> static __device__ void multiply(const k_matmul_args &a) {
    int index = a.n_parts - 1;
    while (index && (int)blockIdx.x < a.first[index]) index--;
    const k_part &p = a.parts[index];
    const T *w = (const T *)p.w;
    const float *bias = p.bias;
    const int32_t *list = 0;
    int n_rows = a.n_rows;
    if (a.groups.active) {
        const int e = a.groups.active[blockIdx.z];
        if (e < 0) return;
        n_rows = a.groups.counts[e];
        list = a.groups.lists + (int64_t)e * a.groups.list_stride;
        w = (const T *)p.experts[e].w;
        bias = p.experts[e].bias;
        if (!w) return;
    }
    const int lane = threadIdx.x % WARP, row = (int)blockIdx.y * ROWS;
    const int64_t first = ((int64_t)((int)blockIdx.x - a.first[index]) * WARPS + threadIdx.x / WARP) * OUTPUTS;
    if (row >= n_rows || first >= p.n_out) return;
    const float *x[ROWS];
    const T *weights[OUTPUTS];
    int64_t rows[OUTPUTS];
    float sums[OUTPUTS][ROWS] = {};
    for (int r = 0; r < ROWS; r++) { /* rows and outputs that are not there repeat the last */
        const int i = row + r < n_rows ? row + r : n_rows - 1;
        x[r] = (const float *)a.x + (int64_t)(list ? list[i] / a.groups.x_divisor : i) * a.x_stride;
    }
    for (int o = 0; o < OUTPUTS; o++) {
        rows[o] = first + o < p.n_out ? first + o : p.n_out - 1;
        weights[o] = w + rows[o] * a.n_in;
    }
#pragma unroll 2
    for (int k = lane; k < a.n_in; k += WARP) {
        float values[ROWS];
        for (int r = 0; r < ROWS; r++) values[r] = x[r][k];
        for (int o = 0; o < OUTPUTS; o++) {
            const float weight = to_float(a.is_tiled ? w[tile_place(rows[o], k, a.n_in)] : weights[o][k]);
            for (int r = 0; r < ROWS; r++) sums[o][r] = __fmaf_rn(weight, values[r], sums[o][r]);
        }
    }
    for (int o = 0; o < OUTPUTS; o++)
        for (int r = 0; r < ROWS; r++) {
            float y = warp_sum(sums[o][r]);
            if (lane || first + o >= p.n_out || row + r >= n_rows) continue;
            float *out = p.out + (int64_t)(list ? list[row + r] : row + r) * p.out_stride + first + o;
            if (bias) y = __fadd_rn(y, bias[first + o]);
            *out = p.add ? __fadd_rn(*out, y) : y;
        }
}

KERNEL k_exact_f32_1(const k_matmul_args a) { multiply<float, 1>(a); }
KERNEL k_exact_f32_8(const k_matmul_args a) { multiply<float, 8>(a); }
KERNEL k_exact_f16_1(const k_matmul_args a) { multiply<f16, 1>(a); }
KERNEL k_exact_f16_8(const k_matmul_args a) { multiply<f16, 8>(a); }
KERNEL k_exact_bf16_1(const k_matmul_args a) { multiply<bf16, 1>(a); }
KERNEL k_exact_bf16_8(const k_matmul_args a) { multiply<bf16, 8>(a); }
