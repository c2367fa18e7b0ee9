/* skinny90.cuh — a batch of rows times packed weights on Hopper: out[row][n] = sum over k of x[row][k] w[n][k].
 *
 * Instances are spelled in skinny90.cu; cuda_packed.c takes them for the steps between matvec.cuh and gemm90.cuh. The
 * weights are the product's first operand and become float16 in registers (their codes already lie as that operand
 * does), so they pass through shared memory once, packed. The activations are the second: blocks of 64 inputs that
 * unpack.cuh makes. One warp copies, two warpgroups multiply 64 weight rows each.
 *
 * A cluster shares a tile of outputs and cuts its inputs among its blocks: all multiprocessors have work even where
 * there are few outputs. The sums meet in their order through the cluster's shared memory. How many blocks that are
 * depends on the matrix alone, so a row's bits do not depend on the number of rows. */
#ifndef KERNELS_SKINNY90_CUH
#define KERNELS_SKINNY90_CUH

#include "unpack.cuh"

/* ---- weights ---- */

/* This lane's words of block b of a unit. */
template <int BITS> __device__ __forceinline__ void load_words(uint32_t w[BITS], uint32_t unit, int b) {
    const uint32_t lane = unit + threadIdx.x % 32 * 16;
    auto at = [&](int word) { return lane + word / 4 * 512 + word % 4 * 4; };
    if (BITS % 4 == 0) {
#pragma unroll
        for (int i = 0; i < BITS; i += 4) {
            const uint4 v = load_shared16(at(b * BITS + i));
            w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < BITS; i++) w[i] = load_shared4(at(b * BITS + i));
    }
}

/* Block b of a unit as the first operand of four products of 16 inputs. */
template <int BITS, int GROUP, int SCALES>
__device__ __forceinline__ void block_operands(uint32_t a[4][4], uint32_t unit, int b, int zero, float unit_of) {
    constexpr int F = Code<BITS>::factor;
    const int g = threadIdx.x % 32 / 4;
    uint32_t w[BITS], c[2][4];
    load_words<BITS>(w, unit, b);
    Code<BITS>::unpack(w, c);
    unit_scales s;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        if (q == 0 || q * 16 % GROUP == 0)
            s.set(read_scale<SCALES, GROUP>(unit + BITS * 512, (b * 64 + q * 16) / GROUP, g, zero), unit_of);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            half2 v[2];
            code_values<SCALES>(v, c[q / 2][q % 2 * 2 + e] / (q / 2 ? F : 1), s.zero[e], s.d[e], s.min[e]);
            a[q][e] = *reinterpret_cast<const uint32_t *>(&v[0]);
            a[q][2 + e] = *reinterpret_cast<const uint32_t *>(&v[1]);
        }
    }
}

template <int BITS, int GROUP, int SCALES>
__device__ __forceinline__ void operands(const same_units<BITS, GROUP, SCALES> &is, uint32_t a[4][4], uint32_t unit,
                                         int, int b, float unit_of) {
    block_operands<BITS, GROUP, SCALES>(a, unit, b, is.zero, unit_of);
}

__device__ __forceinline__ void operands(const mixed_units &is, uint32_t a[4][4], uint32_t unit, int u, int b,
                                         float unit_of) {
    switch (__ldg(&is.table[u].kind)) {
#define X(bits, group)                                                                                                 \
    case PACKED_KIND(bits, group):                                                                                     \
        block_operands<bits, group, PACKED_PLAIN>(a, unit, b, 1 << (bits - 1), unit_of);                               \
        break;
        PACKED_MIXES(X)
#undef X
    }
}

/* ---- the places of a block of threads ---- */

struct skinny_place {
    uint32_t w, x, w_full, w_empty, x_full, x_empty;
    int rank, share; /* of the cluster's blocks */
    int first, end;  /* units */
    int tile;        /* first of SKINNY_TILES */
    __device__ __forceinline__ skinny_place(const k_skinny_args &a, uint32_t base, int slot, int columns)
        : x(base), rank((int)cluster_rank()), share(a.share) {
        w = x + a.x_depth * columns * 128;
        w_full = w + a.w_depth * SKINNY_TILES * slot;
        w_empty = w_full + 8 * SKINNY_MOST_DEPTH;
        x_full = w_empty + 8 * SKINNY_MOST_DEPTH;
        x_empty = x_full + 8 * SKINNY_MOST_DEPTH;
        first = rank * a.weights.n_units / share, end = (rank + 1) * a.weights.n_units / share;
        tile = (int)blockIdx.x / share * SKINNY_TILES;
    }
};

/* Which part has tile t, which becomes its number in there. */
__device__ __forceinline__ const packed_part *find_part(const packed_args &a, int *t) {
    int p = 0;
    while (p + 1 < a.n_parts && *t >= a.parts[p].n_tiles) *t -= a.parts[p++].n_tiles;
    return &a.parts[p];
}

/* By one warp: lane i copies tile i's units, and the first lane the activations. */
template <class UNITS>
__device__ __forceinline__ void skinny_feed(const k_skinny_args &a, const UNITS &units, const skinny_place &at,
                                            int columns) {
    const int lane = threadIdx.x % 32, there = min(SKINNY_TILES, a.weights.n_tiles - at.tile),
              slot = units.slot_bytes();
    int t = at.tile + min(lane, there - 1), sent = at.first, w_stage = 0, w_parity = 1, x_stage = 0, x_parity = 1;
    const packed_part *part = find_part(a.weights, &t);
    const uint8_t *from = part->tiles + t * units.tile_bytes();
    auto send = [&] {
        const uint32_t full = at.w_full + 8 * w_stage;
        barrier_wait(at.w_empty + 8 * w_stage, w_parity);
        const int bytes = units.bytes(sent);
        if (lane == 0) barrier_expect(full, there * bytes);
        __syncwarp();
        if (lane < there)
            copy_bulk(at.w + (w_stage * SKINNY_TILES + lane) * slot, from + units.offset(sent), bytes, full);
        sent++;
        if (++w_stage == a.w_depth) w_stage = 0, w_parity ^= 1;
    };
    const int lag = (a.x_depth + 3) / 4; /* units: what is that far behind has been read when its activations have */
    while (sent < at.end && sent - at.first < a.w_depth) send(); /* weights wait for nobody */
    wait_for_previous();
    for (int u = at.first; u < at.end; u++) {
        for (int b = 0; b < 4; b++) {
            const uint32_t full = at.x_full + 8 * x_stage;
            barrier_wait(at.x_empty + 8 * x_stage, x_parity);
            if (lane == 0) {
                barrier_expect(full, columns * 128);
                copy_bulk(at.x + x_stage * columns * 128, a.x + (size_t)(4 * u + b) * GEMM_BLOCK, columns * 128, full);
            }
            if (++x_stage == a.x_depth) x_stage = 0, x_parity ^= 1;
        }
        if (u - at.first >= lag && sent < at.end) send();
    }
}

/* ---- products ---- */

/* d: weight rows g and g + 8 of a warp's tile, activation rows 8 i + 2 t and the next. */
template <class UNITS, int COLUMNS>
__device__ __forceinline__ void skinny_multiply(float d[COLUMNS / 2], const k_skinny_args &a, const UNITS &units,
                                                const skinny_place &at) {
    const int warp = threadIdx.x / 32, slot = units.slot_bytes();
    int w_stage = 0, w_parity = 0, x_stage = 0, x_parity = 0, last = 0;
    uint32_t w[2][4][4];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) d[i] = 0;
    for (int u = at.first; u < at.end; u++) {
        barrier_wait(at.w_full + 8 * w_stage, w_parity);
        const uint32_t unit = at.w + (w_stage * SKINNY_TILES + warp) * slot;
#pragma unroll
        for (int b = 0; b < 4; b++) {
            operands(units, w[b % 2], unit, u, b, a.weights.unit);
            barrier_wait(at.x_full + 8 * x_stage, x_parity);
            const uint64_t x = operand(at.x + x_stage * COLUMNS * 128);
            wgmma_begin();
#pragma unroll
            for (int q = 0; q < 4; q++) wgmma_weights<COLUMNS>(d, w[b % 2][q], x + 2 * q);
            wgmma_commit();
            wgmma_wait<1>();
            if ((b || u > at.first) && threadIdx.x % 128 == 0) barrier_arrive_here(at.x_empty + 8 * last);
            last = x_stage;
            if (++x_stage == a.x_depth) x_stage = 0, x_parity ^= 1;
        }
        __syncwarp(); /* all lanes have read the unit */
        if (threadIdx.x % 32 == 0) barrier_arrive_here(at.w_empty + 8 * w_stage);
        if (++w_stage == a.w_depth) w_stage = 0, w_parity ^= 1;
    }
    wgmma_wait<0>();
}

/* ---- results ---- */

enum { SKINNY_WIDTH = SKINNY_TILES * PACKED_ROWS, SKINNY_LINE = SKINNY_WIDTH + 4 };

__device__ __forceinline__ void put_outputs(const packed_part &to, const float sum[4], int row, int out) {
    float *at = to.out + row * to.out_stride + out;
    float4 v = make_float4(sum[0], sum[1], sum[2], sum[3]);
    if (out + 4 <= to.n_out && !(to.out_stride & 3) && !((uintptr_t)to.out & 15)) {
        if (to.bias) {
            v.x += __ldg(to.bias + out), v.y += __ldg(to.bias + out + 1);
            v.z += __ldg(to.bias + out + 2), v.w += __ldg(to.bias + out + 3);
        }
        if (to.add) {
            const float4 old = __ldcg((const float4 *)at);
            v.x += old.x, v.y += old.y, v.z += old.z, v.w += old.w;
        }
        *(float4 *)at = v;
        return;
    }
    for (int i = 0; i < 4 && out + i < to.n_out; i++) {
        const float value = sum[i] + (to.bias ? __ldg(to.bias + out + i) : 0);
        at[i] = to.add ? __ldcg(at + i) + value : value;
    }
}

/* Sums of all blocks lie at the same place of their shared memory; each block stores its share of the rows. */
__device__ __forceinline__ void skinny_store(const k_skinny_args &a, uint32_t sums, const skinny_place &at) {
    const int first = at.rank * a.weights.n_rows / at.share, n = (at.rank + 1) * a.weights.n_rows / at.share - first;
    for (int i = threadIdx.x; i < n * (SKINNY_WIDTH / 4); i += SKINNY_GROUPS * 128) {
        const int row = first + i / (SKINNY_WIDTH / 4), column = i % (SKINNY_WIDTH / 4) * 4;
        int t = at.tile + column / PACKED_ROWS;
        if (t >= a.weights.n_tiles) continue;
        float sum[4] = {0, 0, 0, 0};
        for (int s = 0; s < at.share; s++) {
            const float4 v = load_cluster16(sums + (row * SKINNY_LINE + column) * 4, s);
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
        const float scale = __ldcg(a.row_scale + row);
        for (int j = 0; j < 4; j++) sum[j] *= scale;
        const packed_part *to = find_part(a.weights, &t);
        put_outputs(*to, sum, row, t * PACKED_ROWS + column % PACKED_ROWS);
    }
}

template <int COLUMNS> __device__ __forceinline__ void put_sums(uint32_t sums, const float d[COLUMNS / 2]) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) {
        const int row = i / 4 * 8 + 2 * t + i % 2, column = warp * PACKED_ROWS + g + i % 4 / 2 * 8;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(sums + (row * SKINNY_LINE + column) * 4), "f"(d[i]) : "memory");
    }
}

template <class UNITS, int COLUMNS> __device__ __forceinline__ void skinny90(const k_skinny_args &a) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
    const UNITS units(a.weights);
    const skinny_place at(a, base, units.slot_bytes(), COLUMNS);
    const bool feeds = threadIdx.x >= SKINNY_GROUPS * 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < a.w_depth; i++)
            barrier_init(at.w_full + 8 * i, 1), barrier_init(at.w_empty + 8 * i, SKINNY_GROUPS * 4);
        for (int i = 0; i < a.x_depth; i++)
            barrier_init(at.x_full + 8 * i, 1), barrier_init(at.x_empty + 8 * i, SKINNY_GROUPS);
        barriers_made();
    }
    __syncthreads();
    let_next_start();
    float d[COLUMNS / 2];
    if (feeds) {
        skinny_feed(a, units, at, COLUMNS);
    } else {
        skinny_multiply<UNITS, COLUMNS>(d, a, units, at);
        wait_for_previous(); /* for what is added to */
    }
    __syncthreads(); /* the rings are free */
    if (!feeds) put_sums<COLUMNS>(base, d);
    cluster_sync();
    if (!feeds) skinny_store(a, base, at);
    __syncwarp();
    cluster_meet(); /* nobody leaves while others still read here */
}

#endif
