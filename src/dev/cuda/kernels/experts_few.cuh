/* experts_few.cuh — few rows times the packed weights of their experts: matvec.cuh, told by k_groups.
 *
 * Instances are spelled in experts_few.cu. A block has some tiles of one expert and up to four rows of its list, so a
 * row's sums are those of matvec.cuh, whoever else is in the step. Which weights a block reads is known only when the
 * rows have been grouped, so nothing begins before that. */
#ifndef KERNELS_EXPERTS_FEW_CUH
#define KERNELS_EXPERTS_FEW_CUH

#include "gated_inputs.cuh"
#include "matvec.cuh"

/* What packed_args is elsewhere. */
struct expert_work {
    const float *x;
    int64_t x_stride;
    const int32_t *order;
    const packed_unit *units;
    int64_t tile_bytes;
    int n_in, n_rows, rows_each, depth, n_units, zero, most_unit_bytes;
    int expert, first_tiles;           /* of the first part */
    const uint8_t *tiles, *more_tiles; /* of either */
    const int32_t *pairs;              /* of the rows */
    int x_divisor;
    const k_expert_part *parts;
    const k_gated_inputs *gate;
};

__device__ __forceinline__ void read_inputs(float v[8], const expert_work &a, int row, int k) {
    const packed_args x = {a.x, a.x_stride, a.order, a.n_in}, more = {a.gate->up, a.x_stride, a.order, a.n_in};
    const int from = __ldcg(a.pairs + row) / a.x_divisor;
    float up[8];
    read_inputs(v, x, from, k);
    if (!a.gate->up) return;
    read_inputs(up, more, from, k);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = gated_input(*a.gate, v[i], up[i]);
}

__device__ __forceinline__ const uint8_t *tile_of(const expert_work &a, int tile, size_t tile_bytes) {
    return tile < a.first_tiles ? a.tiles + tile * tile_bytes : a.more_tiles + (tile - a.first_tiles) * tile_bytes;
}

__device__ __forceinline__ void put_output(const expert_work &a, int tile, int r, int row, float sum) {
    const bool is_first = tile < a.first_tiles;
    const k_expert_part &to = a.parts[is_first ? 0 : 1];
    const int out = (is_first ? tile : tile - a.first_tiles) * PACKED_ROWS + r;
    if (out >= to.n_out) return;
    sum = __fmul_rn(sum, __ldg(&a.parts[0].experts[a.expert].unit)); /* not kept: registers are few */
    to.out[__ldcg(a.pairs + row) * to.out_stride + out] =
        to.bias ? __fadd_rn(sum, __ldg(to.bias[a.expert] + out)) : sum;
}

/* False: there is nothing for this block. */
__device__ __forceinline__ bool find_expert_work(expert_work &w, const k_packed_experts_args &a) {
    const int e = __ldcg(&a.groups.shares[blockIdx.y].expert), row = __ldcg(&a.groups.shares[blockIdx.y].first);
    if (e < 0) return false;
    const k_packed_expert &is = a.parts[0].experts[e];
    if (is.family != a.family) return false;
    w.n_rows = min(a.rows_each, __ldcg(a.groups.counts + e) - row);
    w.pairs = a.groups.lists + (int64_t)e * a.groups.list_stride + row;
    w.x = (const float *)a.x, w.x_stride = a.x_stride, w.x_divisor = a.groups.x_divisor;
    w.order = is.order, w.units = is.units, w.tile_bytes = is.tile_bytes;
    w.n_in = a.n_in, w.rows_each = a.rows_each, w.depth = a.depth, w.most_unit_bytes = a.most_unit_bytes;
    w.n_units = is.n_units, w.zero = is.zero;
    w.expert = e, w.first_tiles = a.parts[0].n_tiles;
    w.tiles = is.tiles, w.more_tiles = a.n_parts > 1 ? a.parts[1].experts[e].tiles : NULL;
    w.parts = a.parts, w.gate = &a.gate;
    return true;
}

template <class UNITS> __device__ __forceinline__ void experts_few(const k_packed_experts_args &a) {
    expert_work w;
    take_turn();
    if (!find_expert_work(w, a)) return;
    const int first = (int)((int64_t)blockIdx.x * a.n_tiles / gridDim.x);
    const int end = (int)((int64_t)(blockIdx.x + 1) * a.n_tiles / gridDim.x);
    multiply_tiles<UNITS, 1>(w, first, end, 0);
}

#endif
