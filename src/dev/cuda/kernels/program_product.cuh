/* program_product.cuh — a product of a program: activations of a step's few rows become digits, tiles are multiplied,
 * and what follows the product (bias, residual, gate) happens where its sums meet.
 *
 * Used by program.cuh. Sums are those of matvec.cuh, slice by slice and in the same order, and norms those of rows.cu:
 * a row has the same bits either way. A step's time is that of its stages' longest way from an input to a result told:
 * whatever can be known before an input is heard, or before sums are there, is found before. */
#ifndef KERNELS_PROGRAM_PRODUCT_CUH
#define KERNELS_PROGRAM_PRODUCT_CUH

#include "activate.cuh"
#include "matvec.cuh"
#include "norm.cuh"
#include "unit_dot_one.cuh"
#include "program_tell.cuh"

enum {
    PROGRAM_BATCH = MATVEC_BATCH * PROGRAM_GROUPS,
    SUMS_BARRIER = 3, /* who finishes sums waits there for those who make their parts */
};

/* Where a product's activations and partial sums lie. */
struct product_room {
    uint32_t digits;
    float *scales, *part, *x, *weights, *squares; /* x: what is normed, then the norm's weights and sums of squares */
    int *sums;
};

template <int GROUP> __device__ __forceinline__ product_room make_product_room(const packed_args &a, uint8_t *scratch) {
    product_room r;
    r.digits = shared_address(scratch);
    r.scales = (float *)(scratch + matvec_x_bytes(a.n_rows, a.n_units));
    r.sums = (int *)(r.scales + a.n_rows * a.n_units * 2);
    r.part = (float *)((uint8_t *)r.scales + matvec_scale_bytes(a.n_rows, a.n_units, GROUP));
    r.squares = (float *)((uint8_t *)r.part + matvec_part_bytes(a.n_rows, PROGRAM_GROUPS));
    r.x = r.squares + a.n_rows * program_squares(a.n_units);
    r.weights = r.x + a.n_rows * a.n_in;
    return r;
}

/* ---- activations ---- */

/* Of pieces of rows, from k on. */
template <int GROUP, int PIECES>
__device__ __forceinline__ void put_digits(const packed_args &a, const product_room &r, const float v[PIECES][8],
                                           const int row[PIECES], const int k[PIECES], const bool is_any[PIECES]) {
    const int width = a.n_units * PACKED_UNIT;
    digit_row to[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++)
        to[p] = {r.digits + 2 * row[p] * (width + 64), (uint32_t)width + 64, r.scales + row[p] * a.n_units * 2,
                 r.sums + row[p] * (width / GROUP)};
    store_digits<GROUP, PIECES>(v, to, k, is_any);
}
template <int GROUP>
__device__ __forceinline__ void put_piece(const packed_args &a, const product_room &r, const float v[1][8], int row,
                                          int k) {
    const bool is_any = true;
    put_digits<GROUP, 1>(a, r, v, &row, &k, &is_any);
}

/* Eight inputs of a row at a time, thread after thread. */
struct piece {
    int row, k;
    __device__ __forceinline__ explicit piece(int width) : row(0), k(threadIdx.x * 8) { settle(width); }
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

/* Inputs of a piece, as read_inputs has them, all asked for at once. */
__device__ __forceinline__ void hear_inputs(float v[8], const packed_args &a, const piece &p, bool hears) {
    const float *x = a.x + p.row * a.x_stride;
    const bool is_straight = !a.order && p.k + 8 <= a.n_in && !(a.x_stride & 3);
    if (all_say(is_straight)) return hear_eight(v, x + p.k, x + p.k + 4, hears, true, true);
    if (hears) x = told_at(x);
    hear_words(v, hears, [&](int i) { return look_at(a, x, p.k + i); });
}

/* Rows that lie as the weights want them: pieces of a thread are heard together. MAY_GAP: their order may have whole
 * pieces of nothing, which nobody tells; which these are is asked for with the words. */
template <int GROUP, bool IS_ONE, int PIECES, bool MAY_GAP>
__device__ __forceinline__ void stage_straight(const program_stage &s, const product_room &r) {
    constexpr int STEP = PROGRAM_THREADS * 8;
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT, n_rows = IS_ONE ? 1 : a.n_rows;
    const bool has_gaps = MAY_GAP && agreed(a.n_in < width);
#pragma unroll 1
    for (int first = threadIdx.x * 8; first < n_rows * width; first += PIECES * STEP) {
        float v[PIECES][8];
        const float *low[PIECES], *high[PIECES];
        int row[PIECES] = {}, k[PIECES], order[PIECES];
        bool needs[PIECES];
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            k[i] = first + i * STEP, needs[i] = k[i] < n_rows * width;
            if (!IS_ONE)
                for (; needs[i] && k[i] >= width; row[i]++) k[i] -= width;
            low[i] = a.x + row[i] * a.x_stride + k[i], high[i] = low[i] + 4;
            order[i] = has_gaps && needs[i] ? __ldg(a.order + k[i]) : 0;
        }
        hear_pieces<PIECES>(v, low, high, s.hears, needs, needs, [&](int i) {
            if (MAY_GAP) find_now(order[i]);
            return MAY_GAP && order[i] < 0;
        });
        put_digits<GROUP, PIECES>(a, r, v, row, k, needs);
    }
}

/* Rows of inputs are whole warps of pieces. Loops over inputs are not unrolled: what runs once a stage must not push
 * the loop over units out of the instruction cache. */
template <int GROUP, bool IS_ONE>
__device__ __forceinline__ void stage_plain(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    constexpr int PIECES = IS_ONE ? 3 : 1;
    const int width = a.n_units * PACKED_UNIT;
    const bool is_whole = agreed(a.n_in == width && !a.order), is_placed = agreed(s.is_placed);
    if (IS_ONE && is_whole && agreed(program_keeps(1, a.n_units))) return stage_straight<GROUP, IS_ONE, 1, false>(s, r);
    if ((IS_ONE && is_whole) || is_placed) return stage_straight<GROUP, IS_ONE, PIECES, true>(s, r);
#pragma unroll 1
    for (piece p(width); p.row < a.n_rows; p.next(width)) {
        float v[1][8];
        hear_inputs(v[0], a, p, s.hears);
        put_piece<GROUP>(a, r, v, p.row, p.k);
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

/* Of blocks of inputs that are normed, of each of which a lane has those from k on, the sums of squares. */
template <int PIECES>
__device__ __forceinline__ void put_squares(const packed_args &a, const product_room &r, const float v[PIECES][8],
                                            const int row[PIECES], const int k[PIECES]) {
    float sums[PIECES];
    block_squares<PIECES>(sums, v);
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (threadIdx.x % 32 == 0 && k[i] < a.n_in)
            put_block(r.squares + row[i] * program_squares(a.n_units), k[i] / NORM_BLOCK, norm_blocks(a.n_in), sums[i]);
}

__device__ __forceinline__ float row_scale(const program_stage &s, const product_room &r, int row) {
    const packed_args &a = s.is.product;
    return norm_scale(add_blocks(r.squares + row * program_squares(a.n_units), norm_blocks(a.n_in)), a.n_in, s.eps);
}

/* Eight inputs of a row that is normed, in the order of the weights; norm: its weights, or NULL. */
__device__ __forceinline__ void norm_sorted(float v[8], const int order[8], const float *x, const float *norm,
                                            float scale) {
    float at[8], w[8];
#pragma unroll
    for (int i = 0; i < 8; i++) at[i] = x[max(order[i], 0)], w[i] = norm ? norm[max(order[i], 0)] : 1;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = order[i] < 0 ? 0 : __fmul_rn(__fmul_rn(at[i], scale), w[i]);
}

/* Packed inputs k .. k + 7 of a row that is normed. */
__device__ __forceinline__ void norm_inputs(float v[8], const program_stage &s, const product_room &r, int row, int k,
                                            float scale) {
    const packed_args &a = s.is.product;
    const float *x = r.x + row * a.n_in;
    if (a.order) {
        int order[8];
        read_order(order, a.order + k);
        return norm_sorted(v, order, x, s.norm_weight ? r.weights : NULL, scale);
    }
#pragma unroll
    for (int half = 0; half < 8; half += 4) {
        float4 w = {1, 1, 1, 1}, at = {};
        if (k + half < a.n_in) { /* rows are whole pieces of four */
            at = *(const float4 *)(x + k + half);
            if (s.norm_weight) w = *(const float4 *)(r.weights + k + half);
        }
        v[half] = __fmul_rn(__fmul_rn(at.x, scale), w.x), v[half + 1] = __fmul_rn(__fmul_rn(at.y, scale), w.y);
        v[half + 2] = __fmul_rn(__fmul_rn(at.z, scale), w.z), v[half + 3] = __fmul_rn(__fmul_rn(at.w, scale), w.w);
    }
}

/* Four weights of a norm. */
__device__ __forceinline__ float4 weights_at(const program_stage &s, int k) {
    return s.norm_weight && k < s.is.product.n_in ? __ldg((const float4 *)(s.norm_weight + k))
                                                  : make_float4(1, 1, 1, 1);
}

/* Where threads have few pieces they keep them in registers, and their weights, which come before they are heard. Rows
 * are the first ones: to look up which would be waited for. */
template <int GROUP> __device__ __forceinline__ void stage_kept(const program_stage &s, const product_room &r) {
    constexpr int PIECES = PROGRAM_PIECES;
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT, n = a.n_in;
    int row[PIECES], k[PIECES];
    float v[PIECES][8];
    float4 w[PIECES][2];
    const float *low[PIECES], *high[PIECES];
    bool is_any[PIECES], needs_low[PIECES], needs_high[PIECES];
    piece p(width);
#pragma unroll
    for (int i = 0; i < PIECES; i++, p.next(width)) {
        is_any[i] = p.row < a.n_rows;
        row[i] = is_any[i] ? p.row : 0, k[i] = is_any[i] ? p.k : n;
        needs_low[i] = k[i] < n, needs_high[i] = k[i] + 4 < n;
        low[i] = a.x + row[i] * a.x_stride + k[i], high[i] = low[i] + 4;
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++) w[i][0] = weights_at(s, k[i]), w[i][1] = weights_at(s, k[i] + 4);
    hear_pieces<PIECES>(v, low, high, s.hears, needs_low, needs_high);
    put_squares<PIECES>(a, r, v, row, k);
    __syncthreads();
    float scale = row_scale(s, r, row[0]);
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        if (i && row[i] != row[i - 1]) scale = row_scale(s, r, row[i]);
        const float weights[8] = {w[i][0].x, w[i][0].y, w[i][0].z, w[i][0].w,
                                  w[i][1].x, w[i][1].y, w[i][1].z, w[i][1].w};
#pragma unroll
        for (int j = 0; j < 8; j++) v[i][j] = __fmul_rn(__fmul_rn(v[i][j], scale), weights[j]);
    }
    put_digits<GROUP, PIECES>(a, r, v, row, k, is_any);
}

/* The same where weights have an order of their own: the thread's inputs go past shared memory, and what is asked for
 * in front of them is where it takes them from. */
template <int GROUP> __device__ __forceinline__ void stage_sorted(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int n = a.n_in;
    const piece p(a.n_units * PACKED_UNIT);
    const bool is_any = p.row < a.n_rows;
    const int row = is_any ? p.row : 0, k = is_any ? p.k : n;
    const bool needs_low = k < n, needs_high = k + 4 < n;
    const float *low = a.x + row * a.x_stride + k;
    int order[8];
    read_order(order, a.order + (is_any ? p.k : 0));
    fetch_weights(s, r.weights);
    float v[1][8], *x = r.x + row * n;
    hear_eight(v[0], low, low + 4, s.hears, needs_low, needs_high);
    if (needs_low) *(float4 *)(x + k) = make_float4(v[0][0], v[0][1], v[0][2], v[0][3]);
    if (needs_high) *(float4 *)(x + k + 4) = make_float4(v[0][4], v[0][5], v[0][6], v[0][7]);
    put_squares<1>(a, r, v, &row, &k);
    wait_copies<0>();
    __syncthreads();
    norm_sorted(v[0], order, x, s.norm_weight ? r.weights : NULL, row_scale(s, r, row));
    put_digits<GROUP, 1>(a, r, v, &row, &k, &is_any);
}

template <int GROUP> __device__ __forceinline__ void stage_normed(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int width = a.n_units * PACKED_UNIT, n = a.n_in;
    if (agreed(!s.norm_rows && program_keeps(a.n_rows, a.n_units)))
        return agreed(a.order) ? stage_sorted<GROUP>(s, r) : stage_kept<GROUP>(s, r);
    fetch_weights(s, r.weights);
    for (int row = 0; row < a.n_rows; row++) {
        const float *from = normed_row(s, row);
#pragma unroll 1
        for (int k = threadIdx.x * 8; k / NORM_BLOCK * NORM_BLOCK < n; k += PROGRAM_THREADS * 8) {
            float v[1][8], *x = r.x + row * n + k;
            hear_eight(v[0], from + k, from + k + 4, s.hears, k < n, k + 4 < n);
            put_squares<1>(a, r, v, &row, &k);
            if (k < n) *(float4 *)x = make_float4(v[0][0], v[0][1], v[0][2], v[0][3]);
            if (k + 4 < n) *(float4 *)(x + 4) = make_float4(v[0][4], v[0][5], v[0][6], v[0][7]);
        }
    }
    wait_copies<0>();
    __syncthreads();
#pragma unroll 1
    for (piece p(width); p.row < a.n_rows; p.next(width)) {
        float v[1][8];
        norm_inputs(v[0], s, r, p.row, p.k, row_scale(s, r, p.row));
        put_piece<GROUP>(a, r, v, p.row, p.k);
    }
}

/* ---- results ---- */

/* Partial sums of a result, from that of the first slice on. */
__device__ __forceinline__ float meet_slices(const float *from, int step) {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < PACKED_SLICES; s++) sum += from[s * step];
    return sum;
}

/* Result i of those of a batch: what can be known before its sums are there. */
struct output_place {
    int from;     /* its sum in the batch's partial ones */
    int out, row; /* of the part's, or of the gate's */
    int part;
    bool is_any;
};
template <bool IS_ONE>
__device__ __forceinline__ output_place find_output(const program_stage &s, int i, int tile, int count) {
    const packed_args &a = s.is.product;
    const int n_rows = IS_ONE ? 1 : a.n_rows, twice = s.gates ? 1 : 0, r = i % PACKED_ROWS;
    output_place o = {0, 0, 0, 0, i < (count >> twice) * n_rows * PACKED_ROWS};
    int n = o.is_any ? i / PACKED_ROWS : 0;
    if (!IS_ONE) o.row = n % n_rows, n /= n_rows;
    o.from = ((n << twice) * PACKED_SLICES * n_rows + o.row) * MATVEC_PART + r;
    int t = (tile >> twice) + n;
    if (!s.gates)
        for (; o.part < a.n_parts - 1 && t >= a.parts[o.part].n_tiles; o.part++) t -= a.parts[o.part].n_tiles;
    o.out = t * PACKED_ROWS + r;
    o.is_any = o.is_any && o.out < a.parts[o.part].n_out;
    if (!o.is_any) o.out = o.row = 0; /* whole warps do what follows; there is one */
    return o;
}

/* Whether there are results of `count` tiles from `first` on. */
template <bool IS_ONE> __device__ __forceinline__ bool has_outputs(const program_stage &s, int first, int count) {
    return first < (s.gates ? count / 2 : count) * (IS_ONE ? 1 : s.is.product.n_rows) * PACKED_ROWS;
}

/* A result, with what it is added to. Of a gated product even tiles are the gate's, the odd one behind each is what it
 * gates. */
template <bool IS_ONE> struct result {
    output_place o;
    int place; /* in a row of results of a gate, where the next product's order has them */
    float before;
    const float *before_at;

    /* Result i, or none; by all lanes of a warp. */
    __device__ __forceinline__ result(const program_stage &s, int i, int tile, int count)
        : o(find_output<IS_ONE>(s, i, tile, count)), place(o.out), before(0), before_at(s.before) {
        if (s.places) place = __ldg(s.places + o.out);
        const packed_part *parts = s.is.product.parts;
        if (!parts->add) return;
        before_at += o.row * parts[o.part].out_stride + o.out;
        before = ask(before_at, s.hears_before, o.is_any);
    }
    __device__ __forceinline__ void store(const program_stage &s, const float *part) {
        const packed_args &a = s.is.product;
        const packed_part &to = a.parts[o.part];
        const int step = (IS_ONE ? 1 : a.n_rows) * MATVEC_PART;
        const int64_t at = o.row * to.out_stride + o.out;
        float sum = finish_output(to, o.out, meet_slices(part + o.from, step), a.unit);
        if (s.gates) {
            const float *other = part + o.from + PACKED_SLICES * step;
            sum = __fmul_rn(activate(s.act, sum), finish_output(a.parts[1], o.out, meet_slices(other, step), a.unit));
        } else if (a.parts->add) {
            sum = __fadd_rn(hear_asked(before, before_at, s.hears_before, o.is_any), sum);
        }
        if (o.is_any) leave_result(s, o.part, to.out, at, s.gates ? o.row * s.told_stride + place : at, sum);
    }
};

/* ---- the stage ---- */

/* How a warp multiplies a step of several rows: lane 4 g + t has row t. */
template <class UNITS> struct rows_dot {
    static constexpr bool is_one = false;
    x_view x[1];
    __device__ __forceinline__ rows_dot(const packed_args &a, const product_room &r) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, width = a.n_units * PACKED_UNIT;
        const int column_row = min(g / 2, a.n_rows - 1), lane_row = min(t, a.n_rows - 1);
        x[0].digits = r.digits + (2 * column_row + g % 2) * (width + 64) + t * 16;
        x[0].scales = r.scales + lane_row * a.n_units * 2;
        x[0].sums = r.sums + lane_row * (width / UNITS::SUM);
    }
    __device__ __forceinline__ void add(float y[2], const UNITS &units, weight_ring &ring, int u) const {
        float all[1][2] = {{y[0], y[1]}};
        units.template dot<1>(all, ring.take(), x, u);
        y[0] = all[0][0], y[1] = all[0][1];
        __syncwarp();
        ring.pay();
    }
};

/* And of one row: lanes with t = 0 have it. */
template <class UNITS> struct row_dot {
    static constexpr bool is_one = true;
    x_part x;
    __device__ __forceinline__ row_dot(const packed_args &a, const product_room &r)
        : x(x_part::of<UNITS::SUM>(a, r.digits, r.scales, r.sums)) {}
    __device__ __forceinline__ void add(float y[2], const UNITS &units, weight_ring &ring, int u) const {
        const int bytes = ring.coming_bytes();
        units.dot_one(y, ring.take(), x, u, bytes, [&] { ring.pay(); });
    }
};

/* Apart from the others, so that each has the registers to itself. */
template <class UNITS, class DOT> __device__ __noinline__ void run_product(int index) {
    constexpr int GROUP = UNITS::SUM;
    constexpr bool IS_ONE = DOT::is_one;
    const program_stage &s = stage_of(index);
    const program_share &tiles = share_of(s.stream);
    const packed_args &a = s.is.product;
    const UNITS units(a);
    const product_room r = make_product_room<GROUP>(a, program_shared() + state_of().scratch);
    await_turn(s);
    int batch = tiles.first, count = min(tiles.end - batch, PROGRAM_BATCH);
    result<IS_ONE> mine(s, threadIdx.x, batch, count);
    if (s.is_normed)
        stage_normed<GROUP>(s, r);
    else
        stage_plain<GROUP, IS_ONE>(s, r);
    const int group = warp_group(), slice = warp_slice(), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_unit = packed_slice(slice, a.n_units), end_unit = packed_slice(slice + 1, a.n_units);
    const DOT dot(a, r);
    weight_ring ring;
    __syncthreads();
    while (count > 0) {
        for (int i = group; i < count; i += PROGRAM_GROUPS) {
            float y[2] = {0, 0};
            for (int u = first_unit; u < end_unit; u++) {
                dot.add(y, units, ring, u);
                ring.settle();
            }
            if (t < (IS_ONE ? 1 : a.n_rows)) {
                float *to = r.part + ((i * PACKED_SLICES + slice) * a.n_rows + t) * MATVEC_PART + g;
                to[0] = y[0], to[8] = y[1];
            }
        }
        const int first = threadIdx.x / 32 * 32;
        if (has_outputs<IS_ONE>(s, first, count)) {
            meet_threads<SUMS_BARRIER, PROGRAM_THREADS>();
            mine.store(s, r.part);
            for (int i = first + PROGRAM_THREADS; !IS_ONE && has_outputs<false>(s, i, count); i += PROGRAM_THREADS)
                result<IS_ONE>(s, i + lane, batch, count).store(s, r.part);
        } else {
            pass_threads<SUMS_BARRIER, PROGRAM_THREADS>();
        }
        batch += PROGRAM_BATCH, count = min(tiles.end - batch, PROGRAM_BATCH);
        if (count <= 0) break;
        mine = result<IS_ONE>(s, threadIdx.x, batch, count);
        __syncthreads();
    }
    ring.close();
}

#endif
