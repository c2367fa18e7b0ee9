/* program_product.cuh — a product of a program: activations of a step's few rows become digits, tiles are multiplied,
 * and what follows the product (bias, residual, gate) happens where its sums meet.
 *
 * Used by program.cuh. Sums are those of matvec.cuh, slice by slice and in the same order, and norms those of rows.cu:
 * a row has the same bits either way. A step's time is that of its stages' longest way from an input to a result told:
 * whatever can be known before an input is heard, or before sums are there, is found before. */
#ifndef KERNELS_PROGRAM_PRODUCT_CUH
#define KERNELS_PROGRAM_PRODUCT_CUH

#include "activate.cuh"
#include "unit_dot_one.cuh"
#include "program_meet.cuh"

/* ---- activations ---- */

/* Of pieces of rows, from the block's input k on. */
template <int GROUP, int PIECES>
__device__ __forceinline__ void put_digits(const product_room &r, const float v[PIECES][8], const int row[PIECES],
                                           const int k[PIECES], const bool is_any[PIECES]) {
    digit_row to[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++)
        to[p] = {r.digits + 2 * row[p] * r.row, (uint32_t)r.row, r.scales + row[p] * r.units * 2,
                 r.sums + row[p] * r.units * (PACKED_UNIT / GROUP)};
    store_digits<GROUP, PIECES>(v, to, k, is_any);
}
template <int GROUP>
__device__ __forceinline__ void put_piece(const product_room &r, const float v[1][8], int row, int k) {
    const bool is_any = true;
    put_digits<GROUP, 1>(r, v, &row, &k, &is_any);
}

/* Eight of the block's inputs of a row at a time, thread after thread. */
struct piece {
    int row, k;
    __device__ __forceinline__ explicit piece(int width) : row(width ? 0 : PROGRAM_ROWS), k(threadIdx.x * 8) {
        settle(width);
    }
    __device__ __forceinline__ void next(int width) { k += PROGRAM_THREADS * 8, settle(width); }
    __device__ __forceinline__ void settle(int width) {
        while (row < PROGRAM_ROWS && k >= width) k -= width, row++;
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

/* Inputs k .. k + 7 of a row, as read_inputs has them, all asked for at once. */
__device__ __forceinline__ void hear_inputs(float v[8], const packed_args &a, int row, int k, bool hears) {
    const float *x = a.x + row * a.x_stride;
    const bool is_straight = !a.order && k + 8 <= a.n_in && !(a.x_stride & 3);
    if (all_say(is_straight)) return hear_eight(v, x + k, x + k + 4, hears, true, true);
    if (hears) x = told_at(x);
    hear_words(v, hears, [&](int i) { return look_at(a, x, k + i); });
}

/* Rows that lie as the weights want them: pieces of a thread are heard together. Their order may have whole pieces of
 * nothing, which nobody tells; which these are is asked for with the words. */
template <int GROUP, bool IS_ONE, int PIECES>
__device__ __forceinline__ void stage_straight(const program_stage &s, const product_room &r) {
    constexpr int STEP = PROGRAM_THREADS * 8;
    const packed_args &a = s.is.product;
    const int width = r.width, n_rows = IS_ONE ? 1 : a.n_rows;
    const bool has_gaps = agreed(a.n_in < a.n_units * PACKED_UNIT);
#pragma unroll 1
    for (int first = threadIdx.x * 8; agreed(first < n_rows * width); first += PIECES * STEP) {
        float v[PIECES][8];
        const float *low[PIECES], *high[PIECES];
        int row[PIECES] = {}, k[PIECES], order[PIECES];
        bool needs[PIECES];
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            k[i] = first + i * STEP, needs[i] = k[i] < n_rows * width;
            if (!IS_ONE)
                for (; needs[i] && k[i] >= width; row[i]++) k[i] -= width;
            low[i] = a.x + row[i] * a.x_stride + r.first + k[i], high[i] = low[i] + 4;
            order[i] = has_gaps && needs[i] ? __ldg(a.order + r.first + k[i]) : 0;
        }
        hear_pieces<PIECES>(v, low, high, s.hears, needs, needs, units_ahead(s.asks), [&](int i) {
            find_now(order[i]);
            return order[i] < 0;
        });
        put_digits<GROUP, PIECES>(r, v, row, k, needs);
    }
}

/* One row's pieces as they come, PIECES of a thread at most: what leaves no choice is not looked for. */
template <int GROUP, int PIECES>
__device__ __forceinline__ void stage_whole(const program_stage &s, const product_room &r) {
    float v[PIECES][8];
    const float *low[PIECES], *high[PIECES];
    int row[PIECES] = {}, k[PIECES];
    bool needs[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        k[i] = (threadIdx.x + i * PROGRAM_THREADS) * 8, needs[i] = k[i] < r.width;
        low[i] = s.is.product.x + k[i], high[i] = low[i] + 4;
    }
    if (!agreed(needs[0])) return;
    hear_pieces<PIECES>(v, low, high, s.hears, needs, needs, units_ahead(s.asks));
    put_digits<GROUP, PIECES>(r, v, row, k, needs);
}

/* Rows of inputs are whole warps of pieces. Loops over inputs are not unrolled: what runs once a stage must not push
 * the loop over units out of the instruction cache. */
template <int GROUP, bool IS_ONE>
__device__ __forceinline__ void stage_plain(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    constexpr int PIECES = IS_ONE ? PROGRAM_MOST_PIECES : 1;
    const int width = r.width;
    const bool is_placed = agreed(s.is_placed);
    const bool is_whole = IS_ONE && agreed(a.n_in == a.n_units * PACKED_UNIT && !a.order);
    if (is_placed || is_whole) return stage_straight<GROUP, IS_ONE, PIECES>(s, r);
#pragma unroll 1
    for (piece p(width); p.row < a.n_rows; p.next(width)) {
        float v[1][8];
        hear_inputs(v[0], a, p.row, r.first + p.k, s.hears);
        put_piece<GROUP>(r, v, p.row, p.k);
    }
}

/* ---- norms ---- */

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

__device__ __forceinline__ float row_scale(const program_stage &s, const float *squares, int row) {
    const int n = s.is.product.n_in, blocks = norm_blocks(n);
    return norm_scale(add_blocks(squares + row * program_squares(blocks), blocks), n, s.eps);
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

/* Four inputs of a row that is normed. */
__device__ __forceinline__ void norm_four(float v[4], float scale, const float4 &w) {
    v[0] = __fmul_rn(__fmul_rn(v[0], scale), w.x), v[1] = __fmul_rn(__fmul_rn(v[1], scale), w.y);
    v[2] = __fmul_rn(__fmul_rn(v[2], scale), w.z), v[3] = __fmul_rn(__fmul_rn(v[3], scale), w.w);
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
        v[half] = at.x, v[half + 1] = at.y, v[half + 2] = at.z, v[half + 3] = at.w;
        norm_four(v + half, scale, w);
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
    const packed_args &a = s.is.product;
    const int n = a.n_in;
    const piece p(r.width);
    const bool is_any = p.row < a.n_rows;
    const squares_meeting met;
    if (threadIdx.x == CLERK * 32) met.expect(n, a.n_rows);
    if (!agreed(is_any)) return met.wait();
    const int row = is_any ? p.row : 0, k = is_any ? r.first + p.k : n;
    const bool needs_low = k < n, needs_high = k + 4 < n;
    const float *low = a.x + row * a.x_stride + k;
    const float4 w0 = weights_at(s, k), w1 = weights_at(s, k + 4);
    float v[1][8];
    hear_eight(v[0], low, low + 4, s.hears, needs_low, needs_high, units_ahead(s.asks));
    met.put(block_square(v[0]), row, k, is_any, n);
    met.wait();
    const float scale = row_scale(s, met.at, row);
    norm_four(v[0], scale, w0), norm_four(v[0] + 4, scale, w1);
    put_digits<GROUP, 1>(r, v, &row, &p.k, &is_any);
}

/* The same of one row, by a block alone: a warp has a block of inputs. */
template <int GROUP> __device__ __forceinline__ void stage_only_kept(const program_stage &s, const product_room &r) {
    const int k = threadIdx.x * 8, n = s.is.product.n_in;
    const float *low = s.is.product.x + k;
    const float4 w0 = weights_at(s, k), w1 = weights_at(s, k + 4);
    float v[1][8];
    hear_eight(v[0], low, low + 4, s.hears, k < n, k + 4 < n, units_ahead(s.asks));
    const float sum = block_square(v[0]);
    if (threadIdx.x % 32 == 0) r.squares[threadIdx.x / 32] = sum;
    __syncthreads();
    if (!agreed(k < r.width)) return;
    const float scale = norm_scale(add_blocks(r.squares, PROGRAM_WARPS), n, s.eps);
    norm_four(v[0], scale, w0), norm_four(v[0] + 4, scale, w1);
    const int row = 0;
    const bool is_any = k < r.width;
    put_digits<GROUP, 1>(r, v, &row, &k, &is_any);
}

/* One row whose weights have an order of their own, PIECES of a thread at most: heard as it comes and put where that
 * order has it. Told there it would be heard later: a line that many blocks write is looked for anew by all others
 * each time. Where threads have one piece it may be normed. The floats lie in front of all else in the scratch. */
template <int GROUP, int PIECES, bool IS_NORMED>
__device__ __forceinline__ void stage_scattered(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int n = a.n_in, width = r.width;
    const bool has_gaps = agreed(n < width);
    float v[PIECES][8];
    const float *low[PIECES], *high[PIECES];
    int row[PIECES] = {}, k[PIECES], places[PIECES][8], order[PIECES];
    bool hears[PIECES], needs[PIECES]; /* inputs, and what the weights' order has, come in whole pieces */
    float4 w[2];
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        k[i] = (threadIdx.x + i * PROGRAM_THREADS) * 8;
        hears[i] = k[i] < n, needs[i] = k[i] < width;
        low[i] = a.x + k[i], high[i] = low[i] + 4;
        read_order(places[i], a.places + (hears[i] ? k[i] : 0));
        order[i] = has_gaps && needs[i] ? __ldg(a.order + k[i]) : 0;
        if (IS_NORMED) w[0] = weights_at(s, k[i]), w[1] = weights_at(s, k[i] + 4);
    }
    const bool overlaps = agreed(s.room.digits < width * (int)sizeof(float)); /* digits go where others' floats are */
    hear_pieces<PIECES>(v, low, high, s.hears, hears, hears, units_ahead(s.asks));
    if (IS_NORMED) {
        const float sum = block_square(v[0]);
        if (threadIdx.x % 32 == 0) r.squares[threadIdx.x / 32] = sum;
        __syncthreads();
        const float scale = norm_scale(add_blocks(r.squares, PROGRAM_WARPS), n, s.eps);
        norm_four(v[0], scale, w[0]), norm_four(v[0] + 4, scale, w[1]);
    }
    float *x = r.part;
#pragma unroll
    for (int i = 0; i < PIECES; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (hears[i]) x[places[i][j]] = v[i][j];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const bool is_any = needs[i] && order[i] >= 0;
        const float4 none = {0, 0, 0, 0};
        const float4 first = is_any ? *(const float4 *)(x + k[i]) : none,
                     second = is_any ? *(const float4 *)(x + k[i] + 4) : none;
        v[i][0] = first.x, v[i][1] = first.y, v[i][2] = first.z, v[i][3] = first.w;
        v[i][4] = second.x, v[i][5] = second.y, v[i][6] = second.z, v[i][7] = second.w;
    }
    if (overlaps) __syncthreads();
    if (!agreed(needs[0])) return;
    put_digits<GROUP, PIECES>(r, v, row, k, needs);
}

/* Where weights have an order of their own a block needs all inputs, so it has all squares, too. */
__device__ __forceinline__ void keep_inputs(const packed_args &a, const product_room &r, const float v[1][8], int row,
                                            int k) {
    const int n = a.n_in, blocks = norm_blocks(n);
    float *x = r.x + row * n + k;
    if (k < n) *(float4 *)x = make_float4(v[0][0], v[0][1], v[0][2], v[0][3]);
    if (k + 4 < n) *(float4 *)(x + 4) = make_float4(v[0][4], v[0][5], v[0][6], v[0][7]);
    const float sum = block_square(v[0]);
    if (threadIdx.x % 32 == 0 && k < n)
        put_block(r.squares + row * program_squares(blocks), k / NORM_BLOCK, blocks, sum);
}

/* Where each thread has one piece at most: what is asked for in front of them is where it takes its own from. */
template <int GROUP> __device__ __forceinline__ void stage_sorted(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int n = a.n_in;
    const piece heard(a.n_units * PACKED_UNIT), p(r.width);
    const bool is_any = p.row < a.n_rows;
    const int row = is_any ? p.row : 0;
    const int from = heard.row < a.n_rows ? heard.row : 0, k = heard.row < a.n_rows ? heard.k : n;
    const float *low = a.x + from * a.x_stride + k;
    int order[8];
    read_order(order, a.order + (is_any ? r.first + p.k : 0));
    fetch_weights(s, r.weights);
    float v[1][8];
    hear_eight(v[0], low, low + 4, s.hears, k < n, k + 4 < n);
    keep_inputs(a, r, v, from, k);
    wait_copies<0>();
    __syncthreads();
    if (!agreed(is_any)) return;
    norm_sorted(v[0], order, r.x + row * n, s.norm_weight ? r.weights : NULL, row_scale(s, r.squares, row));
    put_digits<GROUP, 1>(r, v, &row, &p.k, &is_any);
}

/* However many pieces there are. */
template <int GROUP> __device__ __forceinline__ void stage_laid(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int width = r.width, n = a.n_in;
    fetch_weights(s, r.weights);
    for (int row = 0; row < a.n_rows; row++) {
        const float *from = normed_row(s, row);
#pragma unroll 1
        for (int k = threadIdx.x * 8; k / NORM_BLOCK * NORM_BLOCK < n; k += PROGRAM_THREADS * 8) {
            float v[1][8];
            hear_eight(v[0], from + k, from + k + 4, s.hears, k < n, k + 4 < n);
            keep_inputs(a, r, v, row, k);
        }
    }
    wait_copies<0>();
    __syncthreads();
    if (!width) return;
#pragma unroll 1
    for (piece p(width); p.row < a.n_rows; p.next(width)) {
        float v[1][8];
        norm_inputs(v[0], s, r, p.row, r.first + p.k, row_scale(s, r.squares, p.row));
        put_piece<GROUP>(r, v, p.row, p.k);
    }
}

/* Returns whether sums of squares have met so that they must be counted. */
template <int GROUP, class MEETS>
__device__ __forceinline__ bool stage_normed(const program_stage &s, const product_room &r) {
    const packed_args &a = s.is.product;
    const int units = a.order ? a.n_units : program_units(a.n_units, MEETS::blocks()); /* the same for all blocks */
    const bool is_laid = agreed(s.norm_rows || !program_keeps(a.n_rows * units * PACKED_UNIT)),
               is_sorted = agreed(a.order);
    if (is_laid)
        stage_laid<GROUP>(s, r);
    else if constexpr (!MEETS::IS_ALONE) {
        if (is_sorted)
            stage_sorted<GROUP>(s, r);
        else
            stage_kept<GROUP>(s, r);
    }
    return !MEETS::IS_ALONE && !is_laid && !is_sorted;
}

/* Likewise; common ways are told by one word. */
template <int GROUP, class MEETS>
__device__ __forceinline__ bool stage_inputs(const program_stage &s, const product_room &r) {
    const int way = s.staging;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_KEPT)) return stage_only_kept<GROUP>(s, r), false;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_WHOLE)) return stage_whole<GROUP, PROGRAM_MOST_PIECES>(s, r), false;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_ONLY)) return stage_whole<GROUP, 1>(s, r), false;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_SCATTERED_KEPT)) return stage_scattered<GROUP, 1, true>(s, r), false;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_SCATTERED))
        return stage_scattered<GROUP, PROGRAM_MOST_PIECES, false>(s, r), false;
    if (MEETS::IS_ALONE && agreed(way == PROGRAM_SCATTERED_ONLY)) return stage_scattered<GROUP, 1, false>(s, r), false;
    if (s.is_normed) return stage_normed<GROUP, MEETS>(s, r);
    stage_plain<GROUP, MEETS::IS_ALONE>(s, r);
    return false;
}

/* ---- results ---- */

/* Result i of those that the block finishes: what can be known before its sums are there. */
struct output_place {
    int from;     /* its sum in the batch's partial ones */
    int out, row; /* of the part's, or of the gate's */
    int part;
    bool is_any;
};
template <bool IS_ONE, class BATCH>
__device__ __forceinline__ output_place find_output(const program_stage &s, int i, const BATCH &batch) {
    const packed_args &a = s.is.product;
    const int n_rows = IS_ONE ? 1 : a.n_rows, twice = s.gates ? 1 : 0, r = i % PACKED_ROWS;
    output_place o = {0, 0, 0, 0, i < batch.mine(twice) * n_rows * PACKED_ROWS};
    int n = o.is_any ? i / PACKED_ROWS : 0;
    if (!IS_ONE) o.row = n % n_rows, n /= n_rows;
    o.from = ((n << twice) * PACKED_SLICES * n_rows + o.row) * MATVEC_PART + r % 8 * 2 + r / 8;
    int t = (batch.first >> twice) + (o.is_any ? batch.number(n) : 0);
    if (!s.gates)
        for (; o.part < a.n_parts - 1 && t >= a.parts[o.part].n_tiles; o.part++) t -= a.parts[o.part].n_tiles;
    o.out = t * PACKED_ROWS + r;
    o.is_any = o.is_any && o.out < a.parts[o.part].n_out;
    if (!o.is_any) o.out = o.row = 0; /* whole warps do what follows; there is one */
    return o;
}

/* Whether the block has results from `first` on. */
template <bool IS_ONE, class BATCH>
__device__ __forceinline__ bool has_outputs(const program_stage &s, int first, const BATCH &batch) {
    return first < batch.mine(s.gates ? 1 : 0) * (IS_ONE ? 1 : s.is.product.n_rows) * PACKED_ROWS;
}

/* A result, with what it is added to. Of a gated product even tiles are the gate's, the odd one behind each is what it
 * gates. */
template <bool IS_ONE> struct result {
    output_place o = {};
    int place = 0; /* in a row of results of a gate, where the next product's order has them */
    float before = 0;
    const float *before_at = NULL;

    /* Result i, or none; by all lanes of a warp. */
    template <class BATCH> __device__ __forceinline__ void find(const program_stage &s, int i, const BATCH &batch) {
        o = find_output<IS_ONE>(s, i, batch);
        place = o.out, before_at = s.before;
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
template <class UNITS, class MEETS = cluster_meets> struct rows_dot {
    typedef MEETS meets;
    x_view x[1];
    __device__ __forceinline__ rows_dot(const packed_args &a, const product_room &r) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int column_row = min(g / 2, a.n_rows - 1), lane_row = min(t, a.n_rows - 1);
        x[0].digits = r.digits + (2 * column_row + g % 2) * r.row + t * 16 - r.first;
        x[0].scales = r.scales + lane_row * r.units * 2 - r.first / PACKED_X_GROUP;
        x[0].sums = r.sums + lane_row * r.units * (PACKED_UNIT / UNITS::SUM) - r.first / UNITS::SUM;
    }
    __device__ __forceinline__ void add(float y[2], const UNITS &units, weight_ring &ring, int u) const {
        float all[1][2] = {{y[0], y[1]}};
        units.template dot<1>(all, ring.take(), x, u);
        y[0] = all[0][0], y[1] = all[0][1];
        ring.pay();
    }
};

/* And of one row: lanes with t = 0 have it. */
template <class UNITS> struct row_dot {
    typedef block_meets meets;
    x_part x;
    __device__ __forceinline__ row_dot(const packed_args &, const product_room &r)
        : x(x_part::of<UNITS::SUM>(r.first, r.row, r.digits, r.scales, r.sums)) {}
    __device__ __forceinline__ void add(float y[2], const UNITS &units, weight_ring &ring, int u) const {
        const int bytes = ring.coming_bytes();
        units.dot_one(y, ring.take(), x, u, bytes, [&] { ring.pay(); });
    }
};

/* Apart from the others, so that each has the registers to itself. The first warps have inputs, the last ones finish
 * results: where there are few of either, none has both. */
template <class UNITS, class DOT> __device__ __noinline__ void run_product(int index) {
    constexpr int GROUP = UNITS::SUM;
    typedef typename DOT::meets MEETS;
    constexpr bool IS_ONE = MEETS::IS_ALONE;
    const program_stage &s = stage_of(index);
    const program_share &tiles = share_of(s.stream);
    const packed_args &a = s.is.product;
    const UNITS units(a);
    const product_room r(s, tiles);
    await_turn(s);
    const int n_rows = IS_ONE ? 1 : a.n_rows, twice = s.gates ? 1 : 0, warp = threadIdx.x / 32;
    const int first = (PROGRAM_WARPS - 1 - warp) * 32, mine = first + threadIdx.x % 32;
    typename MEETS::batch batch(tiles, n_rows);
    if (warp == CLERK) batch.begin(n_rows, twice);
    result<IS_ONE> out;
    bool finishes = agreed(has_outputs<IS_ONE>(s, first, batch));
    if (finishes) out.find(s, mine, batch);
    const bool has_met = stage_inputs<GROUP, MEETS>(s, r);
    const DOT dot(a, r);
    weight_ring ring;
    const int first_unit = packed_slice(ring.w.slice, a.n_units), end_unit = packed_slice(ring.w.slice + 1, a.n_units);
    __syncthreads();
    if (threadIdx.x == 0 && has_met) state_of().norms++;
    for (;;) {
        for (int i = ring.w.group; i < batch.count; i += 1 << ring.w.group_shift) {
            float y[2] = {0, 0};
            for (int u = first_unit; u < end_unit; u++) {
                dot.add(y, units, ring, u);
                ring.settle();
            }
            batch.put(r.part, y, i, ring.w.slice, n_rows, twice, i == ring.w.group);
        }
        if (finishes) {
            batch.wait();
            out.store(s, r.part);
        } else {
            batch.pass(warp == CLERK);
        }
        if (!batch.next(tiles.end)) break;
        finishes = agreed(has_outputs<IS_ONE>(s, first, batch));
        if (finishes) out.find(s, mine, batch);
        __syncthreads();
        if (warp == CLERK) batch.begin(n_rows, twice);
    }
    batch.end();
    ring.close();
}

#endif
