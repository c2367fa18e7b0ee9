/* program_product.cuh — a product of a program: activations of a step's few rows become digits, tiles are multiplied,
 * and what follows the product (bias, residual, gate) happens where its sums meet.
 *
 * Used by program.cuh. Sums are those of matvec.cuh, slice by slice and in the same order, and norms those of rows.cu:
 * a row has the same bits either way. */
#ifndef KERNELS_PROGRAM_PRODUCT_CUH
#define KERNELS_PROGRAM_PRODUCT_CUH

#include "activate.cuh"
#include "matvec.cuh"
#include "unit_dot_one.cuh"
#include "program_tell.cuh"

enum {
    PROGRAM_BATCH = MATVEC_BATCH * PROGRAM_GROUPS,
    NORM_THREADS = 256,
    SUMS_BARRIER = 3, /* who finishes sums waits there for those who make their parts */
};

/* Where a product's activations and partial sums lie. */
struct product_room {
    uint32_t digits;
    float *scales, *part, *x, *weights; /* x: what is normed, and the norm's weights */
    int *sums;
};

template <int GROUP> __device__ __forceinline__ product_room make_product_room(const packed_args &a, uint8_t *scratch) {
    product_room r;
    r.digits = shared_address(scratch);
    r.scales = (float *)(scratch + matvec_x_bytes(a.n_rows, a.n_units));
    r.sums = (int *)(r.scales + a.n_rows * a.n_units * 2);
    r.part = (float *)((uint8_t *)r.scales + matvec_scale_bytes(a.n_rows, a.n_units, GROUP));
    r.x = (float *)((uint8_t *)r.part + matvec_part_bytes(a.n_rows, PROGRAM_GROUPS));
    r.weights = r.x + a.n_rows * a.n_in;
    return r;
}

/* ---- activations ---- */

template <int GROUP>
__device__ __forceinline__ void put_digits(const packed_args &a, const product_room &r, const float v[8], int row,
                                           int k) {
    const int width = a.n_units * PACKED_UNIT;
    store_digits<GROUP>(v, k, r.digits + 2 * row * (width + 64), width + 64, r.scales + row * a.n_units * 2,
                        r.sums + row * (width / GROUP));
}

/* Eight inputs of a row at a time, thread after thread. */
struct piece {
    int row, k;
    __device__ __forceinline__ piece() : row(0), k(threadIdx.x * 8) {}
    __device__ __forceinline__ void next(int width) { k += PROGRAM_THREADS * 8, settle(width); }
    __device__ __forceinline__ void settle(int width) {
        while (k >= width) k -= width, row++;
    }
};

/* Input k of the activations from x on, in the order that the weights have. */
__device__ __forceinline__ uint32_t look_at(const packed_args &a, const float *x, int k) {
    const int from = a.order ? __ldg(a.order + k) : k < a.n_in ? k : -1;
    return from < 0 ? 0 : load_relaxed4(x + from);
}

__device__ __forceinline__ void read_order(int to[8], const int32_t *order) {
    const uint4 low = __ldg((const uint4 *)order), high = __ldg((const uint4 *)order + 1);
    to[0] = (int)low.x, to[1] = (int)low.y, to[2] = (int)low.z, to[3] = (int)low.w;
    to[4] = (int)high.x, to[5] = (int)high.y, to[6] = (int)high.z, to[7] = (int)high.w;
}

/* Inputs of a piece that were told in the order of the weights; where these have none nobody tells anything. */
__device__ __forceinline__ void hear_placed(float v[8], const packed_args &a, const piece &p) {
    const float *x = told_at(a.x + p.row * a.x_stride + p.k);
    int order[8];
    read_order(order, a.order + p.k);
    uint4 words[2];
    uint32_t *word = (uint32_t *)words;
    look_together([&] {
        words[0] = load_relaxed16(x), words[1] = load_relaxed16(x + 4);
        bool is_unsaid = false;
#pragma unroll
        for (int i = 0; i < 8; i++) is_unsaid = is_unsaid || (word[i] == (uint32_t)UNSAID && order[i] >= 0);
        return !is_unsaid;
    });
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = order[i] < 0 ? 0 : __uint_as_float(word[i]);
}

/* Inputs of a piece, as read_inputs has them, all asked for at once. */
__device__ __forceinline__ void hear_inputs(float v[8], const packed_args &a, const piece &p, bool hears) {
    const float *x = a.x + p.row * a.x_stride;
    const bool is_straight = !a.order && p.k + 8 <= a.n_in && !(a.x_stride & 3);
    if (all_say(is_straight)) return hear_eight(v, x + p.k, x + p.k + 4, hears, true, true);
    if (hears) x = told_at(x);
    look_together([&] {
        bool is_unsaid = false;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const uint32_t word = look_at(a, x, p.k + i);
            is_unsaid = is_unsaid || word == (uint32_t)UNSAID;
            v[i] = __uint_as_float(word);
        }
        return !hears || !is_unsaid;
    });
}

/* Rows of inputs are whole warps of pieces. Loops over inputs are not unrolled: what runs once a stage must not push
 * the loop over units out of the instruction cache. */
template <int GROUP> __device__ __forceinline__ void stage_plain(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT;
    piece p;
    p.settle(width);
#pragma unroll 1
    for (; p.row < a.n_rows; p.next(width)) {
        float v[8];
        if (s.is_placed)
            hear_placed(v, a, p);
        else
            hear_inputs(v, a, p, s.hears);
        put_digits<GROUP>(a, r, v, p.row, p.k);
    }
}

/* The weights of a norm into shared memory, while others finish the stage before. */
__device__ __forceinline__ void fetch_weights(const program_stage &s, float *to) {
    if (!s.norm_weight) return;
    const uint32_t at = shared_address(to);
    const uint64_t policy = evict_first();
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < s.is.product.n_in; i += PROGRAM_THREADS * 4)
        copy_async16(at + i * 4, s.norm_weight + i, policy);
    commit_copies();
}

__device__ __forceinline__ const float *normed_row(const program_stage &s, int row) {
    return s.is.product.x + (s.norm_rows ? __ldg(s.norm_rows + row) : row) * s.is.product.x_stride;
}

/* Inputs into shared memory, all threads at once. */
__device__ __forceinline__ void read_rows(const program_stage &s, float *x) {
    const int n = s.is.product.n_in;
    for (int row = 0; row < s.is.product.n_rows; row++) {
        const float *from = normed_row(s, row);
#pragma unroll 1
        for (int first = 0; first < n; first += PROGRAM_THREADS * 8) {
            const int i = first + threadIdx.x * 4, other = i + PROGRAM_THREADS * 4;
            float v[8];
            hear_eight(v, from + i, from + other, s.hears, i < n, other < n);
            if (i < n) *(float4 *)(x + row * n + i) = make_float4(v[0], v[1], v[2], v[3]);
            if (other < n) *(float4 *)(x + row * n + other) = make_float4(v[4], v[5], v[6], v[7]);
        }
    }
}

/* The sums of rows' squares: 256 threads a row, as k_norm has. */
__device__ __forceinline__ void add_squares(const packed_args &a, const float *x, float *sums) {
    const int t = threadIdx.x % NORM_THREADS, n = a.n_in;
    for (int row = threadIdx.x / NORM_THREADS; row < a.n_rows; row += PROGRAM_THREADS / NORM_THREADS) {
        float sum = 0;
#pragma unroll 8
        for (int i = t; i < n; i += NORM_THREADS) sum = __fmaf_rn(x[row * n + i], x[row * n + i], sum);
        sum = warp_sum(sum);
        if (t % 32 == 0) sums[row * 8 + t / 32] = sum;
    }
}

__device__ __forceinline__ float norm_scale(const float *sums, int n, float eps) {
    float sum = sums[0];
#pragma unroll
    for (int i = 1; i < NORM_THREADS / 32; i++) sum = __fadd_rn(sum, sums[i]);
    return 1 / sqrtf(sum / (float)n + eps);
}

/* Packed inputs k .. k + 7 of a row that is normed. */
__device__ __forceinline__ void norm_inputs(float v[8], const program_stage &s, const product_room &r, int row, int k,
                                            float scale) {
    const packed_args &a = s.is.product;
    const float *x = r.x + row * a.n_in;
#pragma unroll
    for (int half = 0; half < 8; half += 4) {
        float4 w = {1, 1, 1, 1}, at = {};
        if (!a.order && k + half < a.n_in) { /* rows are whole pieces of four */
            at = *(const float4 *)(x + k + half);
            if (s.norm_weight) w = *(const float4 *)(r.weights + k + half);
        }
        v[half] = __fmul_rn(__fmul_rn(at.x, scale), w.x), v[half + 1] = __fmul_rn(__fmul_rn(at.y, scale), w.y);
        v[half + 2] = __fmul_rn(__fmul_rn(at.z, scale), w.z), v[half + 3] = __fmul_rn(__fmul_rn(at.w, scale), w.w);
    }
    if (!a.order) return;
    int order[8];
    read_order(order, a.order + k);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int from = order[j];
        const float w = from < 0 || !s.norm_weight ? 1 : r.weights[from];
        v[j] = from < 0 ? 0 : __fmul_rn(__fmul_rn(x[from], scale), w);
    }
}

/* Four weights of a norm. */
__device__ __forceinline__ float4 weights_at(const program_stage &s, int k) {
    return s.norm_weight && k < s.is.product.n_in ? __ldg((const float4 *)(s.norm_weight + k))
                                                  : make_float4(1, 1, 1, 1);
}

/* Where no thread has more than one piece it keeps that in registers, and its weights, which come before it is heard.
 */
template <int GROUP>
__device__ __forceinline__ void stage_one_piece(const program_stage &s, const product_room &r, float *sums) {
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT, n = a.n_in;
    piece p;
    p.settle(width);
    const bool is_any = p.row < a.n_rows, has_low = is_any && p.k < n, has_high = is_any && p.k + 4 < n;
    const float4 w = weights_at(s, p.k), other = weights_at(s, p.k + 4);
    await_turn(s);
    const float *from = normed_row(s, is_any ? p.row : 0) + p.k;
    float v[8], *x = r.x + p.row * n + p.k;
    hear_eight(v, from, from + 4, s.hears, has_low, has_high);
    if (has_low) *(float4 *)x = make_float4(v[0], v[1], v[2], v[3]);
    if (has_high) *(float4 *)(x + 4) = make_float4(v[4], v[5], v[6], v[7]);
    __syncthreads();
    add_squares(a, r.x, sums);
    __syncthreads();
    if (!is_any) return;
    const float scale = norm_scale(sums + p.row * 8, n, s.eps);
    const float weights[8] = {w.x, w.y, w.z, w.w, other.x, other.y, other.z, other.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = __fmul_rn(__fmul_rn(v[i], scale), weights[i]);
    put_digits<GROUP>(a, r, v, p.row, p.k);
}

template <int GROUP>
__device__ __forceinline__ void stage_normed(const program_stage &s, const product_room &r, float *sums) {
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT;
    if (!a.order && a.n_rows * width <= PROGRAM_THREADS * 8) return stage_one_piece<GROUP>(s, r, sums);
    fetch_weights(s, r.weights);
    await_turn(s);
    read_rows(s, r.x);
    __syncthreads();
    add_squares(a, r.x, sums);
    wait_copies<0>();
    __syncthreads();
    piece p;
    p.settle(width);
#pragma unroll 1
    for (; p.row < a.n_rows; p.next(width)) {
        float v[8];
        norm_inputs(v, s, r, p.row, p.k, norm_scale(sums + p.row * 8, a.n_in, s.eps));
        put_digits<GROUP>(a, r, v, p.row, p.k);
    }
}

/* ---- results ---- */

__device__ __forceinline__ float meet_slices(const packed_args &a, const float *part, int n, int row, int r) {
    const float *from = part + (n * PACKED_SLICES * a.n_rows + row) * MATVEC_PART + r;
    float sum = 0;
#pragma unroll
    for (int s = 0; s < PACKED_SLICES; s++) sum += from[s * a.n_rows * MATVEC_PART];
    return sum;
}

/* Value i of those of a batch from `tile` on. */
struct output_place {
    int n, row, r, part, out;
    int64_t at; /* in the part's results */
};
__device__ __forceinline__ output_place find_output(const packed_args &a, int i, int tile) {
    output_place o;
    o.r = i % PACKED_ROWS, o.n = i / PACKED_ROWS, o.row = 0;
    if (a.n_rows > 1) o.row = o.n % a.n_rows, o.n /= a.n_rows;
    int t = tile + o.n;
    for (o.part = 0; t >= a.parts[o.part].n_tiles; o.part++) t -= a.parts[o.part].n_tiles;
    o.out = t * PACKED_ROWS + o.r;
    o.at = o.row * a.parts[o.part].out_stride + o.out;
    return o;
}

/* What value i of a batch's is added to; all lanes of the warp ask. */
__device__ __forceinline__ float read_before(const program_stage &s, int i, int tile, int count) {
    const packed_args &a = s.is.product;
    if (!a.parts[0].add) return 0;
    const bool is_any = i < count * a.n_rows * PACKED_ROWS;
    const output_place o = find_output(a, is_any ? i : 0, tile);
    return hear(s.before + o.at, s.hears_before, is_any && o.out < a.parts[o.part].n_out);
}

__device__ __forceinline__ void store_outputs(const program_stage &s, const float *part, int tile, int count,
                                              float before) {
    const packed_args &a = s.is.product;
    const int n = count * a.n_rows * PACKED_ROWS;
    for (int first = threadIdx.x / 32 * 32; first < n; first += PROGRAM_THREADS) { /* whole warps */
        const int i = first + threadIdx.x % 32;
        if (i != (int)threadIdx.x) before = read_before(s, i, tile, count);
        if (i >= n) continue;
        const output_place o = find_output(a, i, tile);
        const packed_part &to = a.parts[o.part];
        if (o.out >= to.n_out) continue;
        const float sum = finish_output(to, o.out, meet_slices(a, part, o.n, o.row, o.r), a.unit);
        leave_result(s, o.part, to.out, o.at, o.at, to.add ? __fadd_rn(before, sum) : sum);
    }
}

/* Even tiles are the gate's, the odd one behind each is what it gates. */
__device__ __forceinline__ void store_gated(const program_stage &s, const float *part, int tile, int count) {
    const packed_args &a = s.is.product;
    for (int i = threadIdx.x; i < count / 2 * a.n_rows * PACKED_ROWS; i += PROGRAM_THREADS) {
        const int r = i % PACKED_ROWS;
        int n = i / PACKED_ROWS, row = 0;
        if (a.n_rows > 1) row = n % a.n_rows, n /= a.n_rows;
        const int out = (tile / 2 + n) * PACKED_ROWS + r;
        const packed_part &gate = a.parts[0], &up = a.parts[1];
        if (out >= gate.n_out) continue;
        const int64_t place = find_place(s, row, out);
        const float g = finish_output(gate, out, meet_slices(a, part, 2 * n, row, r), a.unit);
        const float u = finish_output(up, out, meet_slices(a, part, 2 * n + 1, row, r), a.unit);
        leave_result(s, 0, gate.out, row * gate.out_stride + out, place, __fmul_rn(activate(s.act, g), u));
    }
}

/* Of `count` tiles: whether the thread's warp has some of their results. */
__device__ __forceinline__ bool has_outputs(const program_stage &s, int count) {
    return (int)threadIdx.x / 32 * 32 < (s.gates ? count / 2 : count) * s.is.product.n_rows * PACKED_ROWS;
}

/* ---- the stage ---- */

/* How a warp multiplies a step of several rows: lane 4 g + t has row t. */
template <class UNITS> struct rows_dot {
    x_view x[1];
    __device__ __forceinline__ rows_dot(const packed_args &a, const product_room &r) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, width = a.n_units * PACKED_UNIT;
        const int column_row = min(g / 2, a.n_rows - 1), lane_row = min(t, a.n_rows - 1);
        x[0].digits = r.digits + (2 * column_row + g % 2) * (width + 64) + t * 16;
        x[0].scales = r.scales + lane_row * a.n_units * 2;
        x[0].sums = r.sums + lane_row * (width / UNITS::SUM);
    }
    __device__ __forceinline__ void add(float y[2], UNITS &units, uint32_t unit, int u, int) const {
        float all[1][2] = {{y[0], y[1]}};
        units.template dot<1>(all, unit, x, u);
        y[0] = all[0][0], y[1] = all[0][1];
    }
};

/* And of one row: lanes with t = 0 have it. */
template <class UNITS> struct row_dot {
    x_part x;
    __device__ __forceinline__ row_dot(const packed_args &a, const product_room &r)
        : x(r.digits, a.n_units * PACKED_UNIT + 64, r.scales, r.sums) {}
    /* next: which unit the warp multiplies then. */
    __device__ __forceinline__ void add(float y[2], UNITS &units, uint32_t unit, int u, int next) const {
        units.dot_one(y, unit, x, u, next);
    }
};

/* Apart from the others, so that each has the registers to itself. */
template <class UNITS, class DOT> __device__ __noinline__ void run_product(int index) {
    constexpr int GROUP = UNITS::SUM;
    const program_stage &s = stage_of(index);
    const program_share &tiles = share_of(s.stream);
    const packed_args &a = s.is.product;
    UNITS units(a);
    const product_room r = make_product_room<GROUP>(a, program_shared() + state_of().scratch);
    if (s.is_normed) {
        stage_normed<GROUP>(s, r, state_of().sums);
    } else {
        await_turn(s);
        stage_plain<GROUP>(s, r);
    }
    const int group = warp_group(), slice = warp_slice(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_unit = packed_slice(slice, a.n_units), end_unit = packed_slice(slice + 1, a.n_units);
    const DOT dot(a, r);
    weight_ring ring;
    if (first_unit < end_unit) units.expect(first_unit);
    __syncthreads();
    for (int batch = tiles.first; batch < tiles.end; batch += PROGRAM_BATCH) {
        const int count = min(tiles.end - batch, PROGRAM_BATCH);
        const float before = s.gates || !has_outputs(s, count) ? 0 : read_before(s, threadIdx.x, batch, count);
        bool owes = false; /* a slot that has been read: others wait for sums, nobody for what this is filled with */
        for (int i = group; i < count; i += PROGRAM_GROUPS) {
            float y[2] = {0, 0};
            for (int u = first_unit; u < end_unit; u++) {
                if (owes) ring.pay();
                owes = true;
                dot.add(y, units, ring.take(), u, u + 1 < end_unit ? u + 1 : first_unit);
            }
            if (t < a.n_rows) {
                float *to = r.part + ((i * PACKED_SLICES + slice) * a.n_rows + t) * MATVEC_PART + g;
                to[0] = y[0], to[8] = y[1];
            }
        }
        if (has_outputs(s, count)) {
            meet_threads<SUMS_BARRIER, PROGRAM_THREADS>();
            if (s.gates)
                store_gated(s, r.part, batch, count);
            else
                store_outputs(s, r.part, batch, count, before);
        } else {
            pass_threads<SUMS_BARRIER, PROGRAM_THREADS>();
        }
        if (owes) ring.pay();
        if (batch + PROGRAM_BATCH < tiles.end) __syncthreads();
    }
    ring.close();
}

#endif
