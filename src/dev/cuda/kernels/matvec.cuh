/* matvec.cuh — few rows times packed weights: a decode step's products, bound by the memory's bandwidth.
 *
 * Instances are spelled in matvec.cu. One block of 8 or 16 warps per multiprocessor goes through its share of the tiles
 * of 16 weight rows. Warps own slices of the inputs: each streams its units through a ring of its own in shared memory,
 * lanes reading what they copied themselves, so that no barrier stands between memory and arithmetic. Partial sums of a
 * batch of tiles meet in shared memory in a fixed order.
 *
 * The ring is filled before the kernel waits for the one before it, and small enough that two kernels' blocks fit one
 * multiprocessor: the memory works while activations change hands. experts_few.cuh does the same for experts, whose
 * weights are known only then: what it has in place of packed_args tells the same things, each by a function here. */
#ifndef KERNELS_MATVEC_CUH
#define KERNELS_MATVEC_CUH

#include "unit_dot.cuh"

/* ---- what is multiplied ---- */

/* The part that has a tile, and its number in there. */
__device__ __forceinline__ const packed_part &part_with(const packed_args &a, int *tile) {
    int p = 0;
    while (*tile >= a.parts[p].n_tiles) *tile -= a.parts[p++].n_tiles;
    return a.parts[p];
}

__device__ __forceinline__ const uint8_t *tile_of(const packed_args &a, int tile, size_t tile_bytes) {
    const packed_part &part = part_with(a, &tile);
    return part.tiles + tile * tile_bytes;
}

/* What becomes of a sum over all slices. */
__device__ __forceinline__ float finish_output(const packed_part &to, int out, float sum, float unit) {
    sum = __fmul_rn(sum, unit);
    return to.bias ? __fadd_rn(sum, __ldg(to.bias + out)) : sum;
}

/* The sum of output r of a tile. */
__device__ __forceinline__ void put_output(const packed_args &a, int tile, int r, int row, float sum) {
    const packed_part &to = part_with(a, &tile);
    const int out = tile * PACKED_ROWS + r;
    if (out >= to.n_out) return;
    float *at = to.out + row * to.out_stride + out;
    sum = finish_output(to, out, sum, a.unit);
    *at = to.add ? __fadd_rn(__ldcg(at), sum) : sum;
}

/* ---- activations ---- */

__device__ __forceinline__ void read_inputs(float v[8], const packed_args &a, int row, int k) {
    const float *x = a.x + row * a.x_stride;
    if (!a.order && k + 8 <= a.n_in && !(a.x_stride & 3)) {
        const float4 lo = __ldcg((const float4 *)(x + k)), hi = __ldcg((const float4 *)(x + k + 4));
        v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w, v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int from = a.order ? __ldg(a.order + k + i) : k + i < a.n_in ? k + i : -1;
        v[i] = from < 0 ? 0 : __ldcg(x + from);
    }
}

/* Where a row's digits go: those of the low digit `low` bytes behind the high one's. */
struct digit_row {
    uint32_t digits, low;
    float *scales;
    int *sums;
};

/* Eight inputs of a row, from k on, of each of some pieces; the 16 threads of a group of 128 come together. What is
 * added before rounding, 1.5 x 2^23, leaves whole numbers in the last bits of the sums: the low digit is the last seven
 * of them, the high one the eight in front of these. Pieces go side by side, for all of this waits for itself. */
template <int GROUP, int PIECES>
__device__ __forceinline__ void store_digits(const float v[PIECES][8], const digit_row to[PIECES], const int k[PIECES],
                                             const bool is_any[PIECES]) {
    constexpr uint32_t rounder = 0x4B400000;
    float m[PIECES];
    uint32_t hi[PIECES][2], lo[PIECES][2], sum[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        m[p] = 0, sum[p] = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) m[p] = max_nan(m[p], fabsf(v[p][i]));
    }
#pragma unroll
    for (int o = 8; o; o >>= 1)
#pragma unroll
        for (int p = 0; p < PIECES; p++) m[p] = max_nan(m[p], __shfl_xor_sync(~0u, m[p], o));
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const float inverse = m[p] > 0 ? __fdividef(16256.0f, m[p]) : 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t whole[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                whole[i] = __float_as_uint(__fmaf_rn(v[p][4 * half + i], inverse, __uint_as_float(rounder)));
                sum[p] += whole[i] - rounder;
            }
            const uint32_t a = __byte_perm(whole[0], whole[1], 0x5410), b = __byte_perm(whole[2], whole[3], 0x5410);
            hi[p][half] = __byte_perm(a << 1, b << 1, 0x7531);
            lo[p][half] = __byte_perm(a, b, 0x6420) & 0x7F7F7F7F;
        }
    }
#pragma unroll
    for (int o = 1; o < GROUP / 8; o <<= 1)
#pragma unroll
        for (int p = 0; p < PIECES; p++) sum[p] += __shfl_xor_sync(~0u, sum[p], o);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        if (!is_any[p]) continue;
        const uint32_t from = k[p], in_step = from % 32; /* without a sign: so these are masks and shifts */
        const uint32_t at =
            to[p].digits + from / 64 * 64 + from % 64 / 32 * 8 + in_step / 16 * 4 + in_step % 16 / 4 * 16;
        store_shared4(at, hi[p][0]);
        store_shared4(at + 16, hi[p][1]);
        store_shared4(at + to[p].low, lo[p][0]);
        store_shared4(at + to[p].low + 16, lo[p][1]);
        if (from % GROUP == 0) to[p].sums[from / GROUP] = (int)sum[p];
        if (from % PACKED_X_GROUP == 0) to[p].scales[from / PACKED_X_GROUP] = m[p] * (1.0f / 16256.0f);
    }
}

template <int GROUP, class ARGS>
__device__ __forceinline__ void stage_inputs(const ARGS &a, uint32_t digits, float *scales, int *sums) {
    const int width = a.n_units * PACKED_UNIT, column = width + 64, per_row = width / 8;
    for (int i = threadIdx.x; i < a.n_rows * per_row; i += blockDim.x) {
        const int row = i / per_row, k = (i - row * per_row) * 8;
        const digit_row to = {digits + 2 * row * column, (uint32_t)column, scales + row * a.n_units * 2,
                              sums + row * (width / GROUP)};
        const bool is_any = true;
        float v[1][8];
        read_inputs(v[0], a, row, k);
        store_digits<GROUP, 1>(v, &to, &k, &is_any);
    }
}

/* ---- weights ---- */

/* What a warp streams: the units of its slice of tile after tile. */
template <class UNITS, class ARGS> struct unit_stream {
    UNITS units;
    const uint8_t *from;
    uint64_t policy;
    uint32_t ring, slot; /* slot: to be filled next */
    int tile, end_tile, step, unit, end_unit, depth;

    __device__ __forceinline__ void begin_tile(const ARGS &a, int warp) {
        if (tile >= end_tile) return;
        const int slice = (warp + 3 * tile) % PACKED_SLICES;
        unit = packed_slice(slice, a.n_units), end_unit = packed_slice(slice + 1, a.n_units);
        from = tile_of(a, tile, units.tile_bytes()) + units.offset(unit) + threadIdx.x % 32 * 16;
    }
    __device__ __forceinline__ void next(const ARGS &a, int warp) {
        while (tile < end_tile && unit == end_unit) { /* a slice may be empty */
            tile += step;
            begin_tile(a, warp);
        }
        if (tile < end_tile) {
            const int bytes = units.bytes(unit);
            copy_unit(ring + slot * units.slot_bytes() + threadIdx.x % 32 * 16, from, bytes, policy);
            from += bytes;
            unit++;
        }
        commit_copies();
        slot = (int)slot + 1 == depth ? 0 : slot + 1;
    }
    /* Until the oldest unit on its way is here. */
    __device__ __forceinline__ void wait() const {
        if (depth == 4)
            wait_copies<2>();
        else if (depth == 3)
            wait_copies<1>();
        else
            wait_copies<0>();
    }
};

/* ---- results ---- */

/* Slices meet in ascending order; `count` tiles from `tile` on lie in `part`. */
template <class ARGS>
__device__ __forceinline__ void store_tiles(const ARGS &a, const float *part, int tile, int count, int first_row) {
    for (int i = threadIdx.x; i < count * a.n_rows * PACKED_ROWS; i += blockDim.x) {
        const int r = i % PACKED_ROWS, row = i / PACKED_ROWS % a.n_rows, n = i / PACKED_ROWS / a.n_rows;
        const float *from = part + (n * PACKED_SLICES * a.n_rows + row) * MATVEC_PART + r;
        float sum = 0;
#pragma unroll
        for (int s = 0; s < PACKED_SLICES; s++) sum += from[s * a.n_rows * MATVEC_PART];
        put_output(a, tile + n, r, first_row + row, sum);
    }
}

/* Tiles [first, end) times the block's rows, whose results begin at `row`. */
template <class UNITS, int NT, class ARGS>
__device__ __forceinline__ void multiply_tiles(const ARGS &a, int first, int end, int row) {
    SHARED_MEMORY(shared);
    constexpr int GROUP = UNITS::SUM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int groups = blockDim.x / (32 * PACKED_SLICES), group = warp / PACKED_SLICES,
              in_batch = MATVEC_BATCH * groups;
    const int width = a.n_units * PACKED_UNIT;
    float *scales = (float *)(shared + matvec_x_bytes(a.rows_each, a.n_units));
    int *sums = (int *)(scales + a.n_rows * a.n_units * 2);
    float *part = (float *)((uint8_t *)scales + matvec_scale_bytes(a.rows_each, a.n_units, GROUP));

    const UNITS units(a);
    unit_stream<UNITS, ARGS> stream{units};
    stream.ring = shared_address(part) + matvec_part_bytes(a.rows_each, groups) + warp * a.depth * units.slot_bytes();
    stream.slot = 0, stream.tile = first + group, stream.end_tile = end, stream.step = groups;
    stream.unit = stream.end_unit = 0, stream.depth = a.depth;
    stream.policy = evict_first();
    stream.begin_tile(a, warp);
    for (int i = 0; i < a.depth - 1; i++) stream.next(a, warp);

    wait_for_previous();
    stage_inputs<GROUP>(a, shared_address(shared), scales, sums);
    x_view x[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int column_row = min(n * 4 + g / 2, a.n_rows - 1), lane_row = min(n * 4 + t, a.n_rows - 1);
        x[n].digits = shared_address(shared) + (2 * column_row + g % 2) * (width + 64) + t * 16;
        x[n].scales = scales + lane_row * a.n_units * 2;
        x[n].sums = sums + lane_row * (width / GROUP);
    }
    __syncthreads();

    uint32_t slot = 0;
    for (int batch = first; batch < end; batch += in_batch) {
        const int count = min(end - batch, in_batch);
        for (int i = group; i < count; i += groups) {
            const int slice = (warp + 3 * (batch + i)) % PACKED_SLICES;
            float y[NT][2] = {};
            for (int u = packed_slice(slice, a.n_units); u < packed_slice(slice + 1, a.n_units); u++) {
                stream.wait();
                __syncwarp(); /* scales were copied by other lanes; and all have read the slot that is filled now */
                stream.next(a, warp);
                units.template dot<NT>(y, stream.ring + slot * units.slot_bytes(), x, u);
                slot = (int)slot + 1 == a.depth ? 0 : slot + 1;
            }
#pragma unroll
            for (int n = 0; n < NT; n++)
                if (n * 4 + t < a.n_rows) {
                    float *to = part + ((i * PACKED_SLICES + slice) * a.n_rows + n * 4 + t) * MATVEC_PART + g;
                    to[0] = y[n][0], to[8] = y[n][1];
                }
        }
        __syncthreads();
        store_tiles(a, part, batch, count, row);
        if (batch + in_batch < end) __syncthreads();
    }
}

template <class UNITS, int NT> __device__ __forceinline__ void matvec(packed_args a) {
    const int row = blockIdx.y * a.rows_each;
    a.n_rows = min(a.rows_each, a.n_rows - row);
    a.x += row * a.x_stride;
    const int first = (int)((int64_t)blockIdx.x * a.n_tiles / gridDim.x);
    const int end = (int)((int64_t)(blockIdx.x + 1) * a.n_tiles / gridDim.x);
    let_next_start();
    multiply_tiles<UNITS, NT>(a, first, end, row);
}

#endif
