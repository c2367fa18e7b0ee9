/* experts_many.cuh — more rows times the packed weights of their experts: a product for each share of an expert's list.
 *
 * Instances are spelled in experts_many.cu. Each of a block's warps has a tile of 16 outputs, all units of the inputs
 * in their order, and all of the block's rows: nothing is summed apart, so a row's bits do not depend on the others,
 * nor on how many rows a block takes. Weights become the first operands of products of 16 x 8 x 16 in registers
 * (operands.cuh); rows were made float16 by k_expert_rows, in the order in which lanes want them. Both come through
 * shared memory a unit at a time, several units ahead: a warp's own weights, and rows for all. */
#ifndef KERNELS_EXPERTS_MANY_CUH
#define KERNELS_EXPERTS_MANY_CUH

#include "gated_inputs.cuh"
#include "heads.cuh"
#include "operands.cuh"

/* ---- rows ---- */

/* All threads get the greatest of everybody's. */
__device__ __forceinline__ float greatest_of_block(float m, float *room) {
#pragma unroll
    for (int o = 16; o; o >>= 1) m = max_nan(m, __shfl_xor_sync(~0u, m, o));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = m;
    __syncthreads();
    m = room[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) m = max_nan(m, room[i]);
    return m;
}

/* Of 32 inputs lane t of four takes 4 t .. 4 t + 3 of either 16, the first and third before the others: 16 bytes. */
__device__ __forceinline__ void put_expert_row(const k_expert_rows_args &a) {
    __shared__ float room[32];
    const int row = blockIdx.x;
    take_turn();
    const float *x = a.x + row / a.x_divisor * a.x_stride;
    const k_packed_expert *is = a.chosen ? a.experts + __ldcg(a.chosen + row) : NULL;
    const int32_t *order = is ? is->order : NULL;
    const int width = order ? is->n_units * PACKED_UNIT : (int)a.out_stride;
    const float *up = a.gate.up + (x - a.x);
    auto input = [&](int k) { return a.gate.up ? gated_input(a.gate, __ldcg(x + k), __ldcg(up + k)) : __ldcg(x + k); };
    float m = 0;
    for (int k = threadIdx.x; k < a.n_in; k += blockDim.x) m = max_nan(m, fabsf(input(k)));
    m = greatest_of_block(m, room);
    const float scale = row_power(m);
    if (threadIdx.x == 0) a.scale[row] = 1 / scale;
    for (int piece = threadIdx.x; piece < width / 8; piece += blockDim.x) {
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int k = piece / 4 * 32 + i / 4 * 16 + piece % 4 * 4 + i % 4;
            const int from = order ? __ldg(order + k) : k < a.n_in ? k : -1;
            v[i] = from < 0 ? 0 : input(from) * scale;
        }
        *(uint4 *)(a.out + row * a.out_stride + piece * 8) =
            make_uint4(pack_half(v[0], v[2]), pack_half(v[1], v[3]), pack_half(v[4], v[6]), pack_half(v[5], v[7]));
    }
}

/* ---- products ---- */

/* What a warp multiplies, and where the block's stages are. */
template <class UNITS, int ROWS> struct expert_tile {
    const UNITS units;
    const k_packed_experts_args &a;
    const uint8_t *tile;
    const int *x_rows; /* [ROWS] */
    uint32_t stages;
    int n_units, stage_bytes;

    __device__ __forceinline__ expert_tile(const k_packed_experts_args &args, const k_packed_expert &is)
        : units(with_slot(args, is)), a(args), n_units(is.n_units) {}
    /* What units are made of: the expert's, but places for the greatest unit of all. */
    struct with_slot {
        const packed_unit *units;
        int64_t tile_bytes;
        int n_units, zero, most_unit_bytes;
        __device__ __forceinline__ with_slot(const k_packed_experts_args &args, const k_packed_expert &is)
            : units(is.units), tile_bytes(is.tile_bytes), n_units(is.n_units), zero(is.zero),
              most_unit_bytes(args.most_unit_bytes) {}
    };
    __device__ __forceinline__ uint32_t rows_at(int stage) const { return stages + stage * stage_bytes; }
    __device__ __forceinline__ uint32_t unit_at(int stage) const {
        return rows_at(stage) + ROWS * EXPERTS_X_LINE + (int)threadIdx.x / 32 * units.slot_bytes();
    }
    /* Unit u of the warp's tile, and its part of the rows' inputs of that unit. */
    __device__ __forceinline__ void ask(int u, int stage) const {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (u < n_units) {
            const uint64_t rows_stay = evict_last();
            const uint16_t *x = (const uint16_t *)a.x + u * PACKED_UNIT + lane * 8;
            copy_unit(unit_at(stage) + lane * 16, tile + units.offset(u) + lane * 16, units.bytes(u), evict_first());
#pragma unroll
            for (int r = 0; r < ROWS; r += EXPERTS_WARPS)
                copy_async16(rows_at(stage) + (r + warp) * EXPERTS_X_LINE + lane * 16,
                             x + x_rows[r + warp] * a.x_stride, rows_stay);
        }
        commit_copies();
    }
    __device__ __forceinline__ void wait() const {
        if (a.depth == 4)
            wait_copies<2>();
        else if (a.depth == 3)
            wait_copies<1>();
        else
            wait_copies<0>();
    }
};

/* Products of 32 inputs; x: this lane's of the first eight rows. */
template <int COLUMNS>
__device__ __forceinline__ void multiply_32(float d[COLUMNS][4], const uint32_t first[4], const uint32_t second[4],
                                            uint32_t x) {
    constexpr int AT_ONCE = COLUMNS < 4 ? COLUMNS : 4;
#pragma unroll
    for (int n = 0; n < COLUMNS; n += AT_ONCE) {
        uint4 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) v[i] = load_shared16(x + (n + i) * 8 * EXPERTS_X_LINE);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) mma_half(d[n + i], first, v[i].x, v[i].y);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) mma_half(d[n + i], second, v[i].z, v[i].w);
    }
}

/* What a block does, in shared memory: kept in registers it would cost those of a product. */
template <int ROWS> struct expert_share {
    int expert, n_rows, unused[2];
    int pairs[ROWS], x_rows[ROWS]; /* rows that are not there repeat the last */
};

/* Which part has the tile of this warp, and its number in there; the last one for warps behind it. */
__device__ __forceinline__ const k_expert_part &find_expert_part(const k_packed_experts_args &a, int *tile) {
    const int at = blockIdx.x * EXPERTS_WARPS + threadIdx.x / 32;
    const bool is_more = a.n_parts > 1 && at >= a.parts[0].n_tiles;
    *tile = min(at, a.n_tiles - 1) - (is_more ? a.parts[0].n_tiles : 0);
    return a.parts[is_more];
}

/* Outputs g and g + 8 of a tile, of rows 2 t and 2 t + 1 of each eight. */
template <int COLUMNS>
__device__ __forceinline__ void put_expert_outputs(const k_packed_experts_args &a, const float d[COLUMNS][4],
                                                   const expert_share<8 * COLUMNS> *share) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int tile;
    const k_expert_part &to = find_expert_part(a, &tile);
    if ((int)(blockIdx.x * EXPERTS_WARPS + threadIdx.x / 32) >= a.n_tiles) return;
    const float *bias = to.bias ? to.bias[share->expert] : NULL;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = n * 8 + 2 * t + i % 2, out = tile * PACKED_ROWS + g + i / 2 * 8;
            if (row >= share->n_rows || out >= to.n_out) continue;
            const float y = __fmul_rn(d[n][i], __ldcg(a.scale + share->x_rows[row]));
            to.out[share->pairs[row] * to.out_stride + out] = bias ? __fadd_rn(y, __ldg(bias + out)) : y;
        }
}

/* The expert; negative: there is nothing for this block. */
template <int ROWS>
__device__ __forceinline__ int find_expert_share(expert_share<ROWS> *share, const k_packed_experts_args &a) {
    const int e = __ldcg(&a.groups.shares[blockIdx.y].expert), first = __ldcg(&a.groups.shares[blockIdx.y].first);
    if (e < 0 || a.parts[0].experts[e].family != a.family) return -1;
    const int n_rows = min(ROWS, __ldcg(a.groups.counts + e) - first), thread = threadIdx.x;
    if (thread == 0) share->expert = e, share->n_rows = n_rows;
    if (thread < ROWS) {
        const int32_t *list = a.groups.lists + (int64_t)e * a.groups.list_stride + first;
        const int pair = __ldcg(list + min(thread, n_rows - 1));
        share->pairs[thread] = pair;
        share->x_rows[thread] = pair / a.groups.x_divisor;
    }
    return e;
}

/* Blocks of a unit that are spelled out: of 18 kinds one, for four are more instructions than caches hold. */
template <class UNITS> struct blocks_spelled { static constexpr int N = 4; };
template <> struct blocks_spelled<mixed_units> { static constexpr int N = 1; };

template <class UNITS, int COLUMNS> __device__ __forceinline__ void experts_many(const k_packed_experts_args &a) {
    SHARED_MEMORY(shared);
    constexpr int ROWS = 8 * COLUMNS;
    [[maybe_unused]] constexpr int SPELLED = blocks_spelled<UNITS>::N; /* pragmas are nvcc's */
    static_assert(sizeof(expert_share<ROWS>) == EXPERTS_SHARE_BYTES + 2 * 4 * ROWS, "as experts_shared has it");
    expert_share<ROWS> *share = (expert_share<ROWS> *)shared;
    int tile, stage = 0;
    take_turn();
    const int e = find_expert_share(share, a);
    if (e < 0) return;
    const k_packed_expert &is = find_expert_part(a, &tile).experts[e];
    expert_tile<UNITS, ROWS> w(a, is);
    w.tile = is.tiles + tile * w.units.tile_bytes();
    w.x_rows = share->x_rows;
    w.stages = shared_address(share + 1);
    w.stage_bytes = experts_stage(ROWS, w.units.slot_bytes());
    operand_maker<UNITS> maker(w.units, is.unit);
    float d[COLUMNS][4] = {};
    __syncthreads();
    for (int u = 0; u < a.depth - 1; u++) w.ask(u, u);
    for (int u = 0; u < w.n_units; u++) {
        w.wait();
        __syncthreads(); /* all has come, and nobody reads the stage any more that is filled now */
        w.ask(u + a.depth - 1, (stage ? stage : a.depth) - 1);
        const uint32_t unit = w.unit_at(stage);
#pragma unroll SPELLED
        for (int b = 0; b < 4; b++) {
            const int lane = (int)thread_now() % 32; /* kept or without a sign it spills */
            const uint32_t x = w.rows_at(stage) + lane / 4 * EXPERTS_X_LINE + lane % 4 * 16;
            uint32_t operands[4][4];
#pragma unroll
            for (int q = 0; q < 4; q++) maker.make(operands, unit, u, b, q);
            multiply_32<COLUMNS>(d, operands[0], operands[1], x + b * 128);
            multiply_32<COLUMNS>(d, operands[2], operands[3], x + b * 128 + 64);
        }
        stage = stage + 1 == a.depth ? 0 : stage + 1;
    }
    put_expert_outputs<COLUMNS>(a, d, share);
}

#endif
