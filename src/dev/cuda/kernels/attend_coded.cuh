/* attend_coded.cuh — one query row against a paged cache of 8, 6 or 4 bits: attend_decode.cuh with codes unpacked on
 * the way.
 *
 * Instances are spelled in attend_coded.cu; program_attend.cuh does the same inside a program, with the same bits. The
 * codes of a group of 16 tokens travel as they are and become the products' first operands in registers. Keys stay
 * whole numbers: a transposing load brings two elements of two tokens to each lane, one instruction puts four elements
 * of a token together, and the query is two digits of 8 bits, in two columns. A key's scales multiply the sums of a
 * block of 32 elements, a value's scale its codes, which become float16. What is coded was rotated (kv_quant.h): so is
 * the query, in registers, and the merged result is rotated back.
 *
 * A product has 8 columns: four heads, each with two digits, or with the high part of its probabilities and the rest.
 * So there are two halves of heads, and a program that has four at most does one.
 *
 * The trick: the order of tokens and of outputs is free as long as both products agree. Lane 4 g + t has the scores of
 * tokens 2 g and 2 g + 1, and once they are turned round (transpose_halves) those of 4 t .. 4 t + 3, whose values it
 * reads. */
#ifndef KERNELS_ATTEND_CODED_CUH
#define KERNELS_ATTEND_CODED_CUH

#include "attend_decode.cuh"

/* ---- pairs of codes as pairs of float16 ---- */

__device__ __forceinline__ uint32_t half_bits(half2 v) { return *reinterpret_cast<const uint32_t *>(&v); }
__device__ __forceinline__ half2 half_pair(const uint32_t &v) { return *reinterpret_cast<const half2 *>(&v); }

/* Four codes, a byte each, as pairs of float16: 0x64 in front of a byte is 1024 + that byte. zeros: 1024 + the zero of
 * codes that are unsigned, twice. */
__device__ __forceinline__ void raise_codes(uint32_t &even, uint32_t &odd, uint32_t w, uint32_t zeros) {
    even = half_bits(__hsub2(half_pair(__byte_perm(w, 0x64646464u, 0x4240)), half_pair(zeros)));
    odd = half_bits(__hsub2(half_pair(__byte_perm(w, 0x64646464u, 0x4341)), half_pair(zeros)));
}
/* Codes of 8 bits, which are stored with their sign, and of 6. */
template <int BITS> __device__ __forceinline__ void unpack_codes(uint32_t &even, uint32_t &odd, uint32_t w) {
    raise_codes(even, odd, BITS == 8 ? w ^ 0x80808080u : w, BITS == 8 ? 0x64806480u : 0x64206420u);
}
/* Codes of 4 bits: v[0], v[1] of the lower halves of bytes, v[2], v[3] of the upper ones, which come 16 times too large
 * and become what they are without a loss. */
__device__ __forceinline__ void unpack_halves(uint32_t v[4], uint32_t w) {
    raise_codes(v[0], v[1], w & 0x0F0F0F0Fu, 0x64086408u);
    const uint32_t upper = w & 0xF0F0F0F0u;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t raised = __byte_perm(upper, 0x64646464u, i ? 0x4341 : 0x4240);
        v[2 + i] =
            half_bits(__hfma2(half_pair(raised), half_pair(0x2C002C00u), half_pair(0xD480D480u))); /* / 16 - 72 */
    }
}
/* Codes of 6 bits: the lower 4 are half a byte of `low`, the upper 2 a quarter of a byte of `high`. */
__device__ __forceinline__ uint32_t join_codes(uint32_t low, uint32_t high) {
    return (low & 0x0F0F0F0Fu) | (high & 0x30303030u);
}

/* Likewise for keys, as signed bytes that are four times the code; both arguments stand two bits higher. */
__device__ __forceinline__ uint32_t join_signed(uint32_t low, uint32_t high) {
    return ((low & 0x3C3C3C3Cu) | (high & 0xC0C0C0C0u)) ^ 0x80808080u;
}

/* ---- queries as two digits of 8 bits ---- */

/* A head's elements are multiplied by `inverse` and rounded, and a score by `scale`, of keys of so many bits. What is
 * no number makes none of the scores. */
struct query_scale {
    float inverse, scale;
    __device__ __forceinline__ query_scale(float most, int key_bits)
        : inverse(most > 1e-30f ? __fdividef(32512.0f, most) : 0), /* 127 x 256 */
          scale(__fmul_rn(most, (key_bits == 8 ? 1.0f : 0.25f) / 32512)) {}
};

/* Digits of two elements, in the two lower bytes: the higher ones, and the lower ones. */
__device__ __forceinline__ uint32_t digit_pair(float x, float y, float inverse, bool is_low) {
    const int shift = is_low ? 0 : 128, i = __float2int_rn(__fmul_rn(x, inverse)) + shift;
    const int j = __float2int_rn(__fmul_rn(y, inverse)) + shift;
    return __byte_perm((uint32_t)i, (uint32_t)j, is_low ? 0x0040 : 0x0051);
}

/* A sum of products with higher digits and one with lower ones, which began with MMA_START: its bits are 1.5 x 2^23. */
enum { MMA_START = 0x4B400000 };
__device__ __forceinline__ float join_sums(int high, int low) {
    const float none = 12582912.0f;
    return __fmaf_rn(__fadd_rn(__uint_as_float((uint32_t)high), -none), 256,
                     __fadd_rn(__uint_as_float((uint32_t)low), -none));
}

/* ---- a group of 16 tokens in shared memory ---- */

/* Running softmaxes of HALVES times four heads, one a lane of a quad and half. Of each tile of outputs the lane has
 * rows g and g + 8, each twice: of the high part of the probabilities, and of the rest. */
template <int DIM, int HALVES> struct coded_state {
    float o[HALVES][DIM / 16][4];
    float max[HALVES], sum[HALVES]; /* sum: of this lane's tokens only */

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
#pragma unroll
            for (int i = 0; i < DIM / 16; i++) o[h][i][0] = o[h][i][1] = o[h][i][2] = o[h][i][3] = 0;
            max[h] = -INFINITY, sum[h] = 0;
        }
    }
    /* What half h has found before is multiplied. */
    __device__ __forceinline__ void fade(int h, float by) {
#pragma unroll
        for (int i = 0; i < DIM / 16; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) o[h][i][j] *= by;
    }
    /* Scores p of tokens `first` and the next one become weights: b gets them as a second operand of tokens 4 t, 4 t +
     * 2, 4 t + 1, 4 t + 3. Tokens outside [seen, pos] do not count. Returns what was found before must be multiplied
     * by. */
    __device__ __forceinline__ float weigh(uint32_t b[2], float p[2], int h, int first, int seen, int pos, float cap) {
        float most = max[h];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (cap != 0) p[i] = cap * tanhf(p[i] / cap);
            p[i] = first + i < seen || first + i > pos ? -INFINITY : p[i] * 1.44269504f;
            most = fmaxf(most, p[i]);
        }
#pragma unroll
        for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
        const float base = most == -INFINITY ? 0 : most, fade = exp2_fast(max[h] - base);
        max[h] = most, sum[h] *= fade;
#pragma unroll
        for (int i = 0; i < 2; i++) p[i] = exp2_fast(p[i] - base), sum[h] += p[i];
        const uint32_t high = pack_half(p[0], p[1]), rest = pack_rest(p[0], p[1], high);
        b[0] = transpose_halves(__byte_perm(high, rest, 0x5410));
        b[1] = transpose_halves(__byte_perm(high, rest, 0x7632));
        return fade;
    }
};

template <int DIM, int KEY_BITS, int VALUE_BITS, int HALVES> struct coded_group {
    static constexpr int BLOCKS = DIM / 32, KEY_BLOCK = coded_key_block(KEY_BITS);
    static constexpr int VALUE_BLOCK = coded_value_block(VALUE_BITS), ROW = BLOCKS * VALUE_BLOCK; /* of a token */
    static constexpr int KEYS = BLOCKS * KEY_BLOCK, VALUES = PAGE_GROUP * ROW;
    typedef coded_state<DIM, HALVES> state;

    template <int BYTES> static __device__ __forceinline__ void fetch(uint32_t to, const uint8_t *from) {
        const int lane = lane_now();
        const uint64_t policy = evict_first();
        to += lane * 16, from += lane * 16;
#pragma unroll
        for (int i = 0; i < BYTES; i += 512)
            if (i + 512 <= BYTES || i + lane * 16 < BYTES) copy_async16(to + i, from + i, policy);
    }
    static __device__ __forceinline__ void fetch_keys(uint32_t to, const uint8_t *k) { fetch<KEYS>(to, k); }
    static __device__ __forceinline__ void fetch_values(uint32_t to, const uint8_t *v) { fetch<VALUES>(to, v); }

    /* Elements 8 i + 2 t and the next one (i: 0 .. 3) of a block of keys, each of tokens 2 g and 2 g + 1. */
    static __device__ __forceinline__ void load_block(uint32_t w[4], uint32_t rows) {
        load_transposed(w, rows);
        if (KEY_BITS == 8) return;
        const uint32_t high = w[2];
        w[2] = join_signed(w[0] >> 2, high << 2), w[3] = join_signed(w[1] >> 2, high);
        w[0] = join_signed(w[0] << 2, high << 6), w[1] = join_signed(w[1] << 2, high << 4);
    }

    /* Scores of tokens 2 g and 2 g + 1 for head t of each half. queries.digits(b, h): the second operand of block b,
     * queries.scale(h): query_scale of the lane's head. */
    template <class QUERIES>
    static __device__ __forceinline__ void score(float s[HALVES][2], uint32_t keys, const QUERIES &queries) {
        const uint32_t scales = keys + lane_now() / 4 * 4;
        const uint32_t rows = keys + 32 + min((int)lane_now(), KEY_BITS == 8 ? 31 : 23) * 16;
#pragma unroll
        for (int h = 0; h < HALVES; h++) s[h][0] = s[h][1] = 0;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint32_t w[4], k[4];
            load_block(w, rows + b * KEY_BLOCK);
            const uint32_t scale = load_shared4(scales + b * KEY_BLOCK);
#pragma unroll
            for (int i = 0; i < 4; i++) k[i] = __byte_perm(w[i / 2 * 2], w[i / 2 * 2 + 1], i % 2 ? 0x7531 : 0x6420);
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                const uint2 q = queries.digits(b, h);
                const float2 of = __half22float2(half_pair(scale));
                int c[4];
                mma_codes(c, k, q.x, q.y, MMA_START);
                s[h][0] = __fmaf_rn(of.x, join_sums(c[0], c[1]), s[h][0]);
                s[h][1] = __fmaf_rn(of.y, join_sums(c[2], c[3]), s[h][1]);
            }
        }
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int i = 0; i < 2; i++) s[h][i] = __fmul_rn(s[h][i], queries.scale(h));
    }

    /* Two bytes of each of two tokens that lie two apart. */
    static __device__ __forceinline__ uint32_t load_pair(uint32_t at) {
        return __byte_perm(load_shared2(at), load_shared2(at + 2 * ROW), 0x5410);
    }
    /* Elements 2 g, 2 g + 1, 16 + 2 g, 17 + 2 g of a block of values; block: of the first of two tokens. */
    static __device__ __forceinline__ void load_elements(uint32_t v[4], uint32_t block, int g) {
        const uint32_t x = load_pair(block + 2 + 2 * g);
        if (VALUE_BITS == 4) return unpack_halves(v, x);
        uint32_t first = x, last;
        if (VALUE_BITS == 8) {
            last = load_pair(block + 18 + 2 * g);
        } else {
            const uint32_t high = load_pair(block + 18 + g % 4 * 2) >> (g / 4 * 2);
            first = join_codes(x, high << 4), last = join_codes(x >> 4, high);
        }
        unpack_codes<VALUE_BITS>(v[0], v[1], first), unpack_codes<VALUE_BITS>(v[2], v[3], last);
    }

    /* What lies in slots that the query does not see may be anything: codes are numbers, but scales may be none. */
    static __device__ __forceinline__ void clear_unseen(uint32_t values, int first, int seen, int pos) {
        if (first >= seen && first + PAGE_GROUP - 1 <= pos) return;
        const int b0 = lane_now() / PAGE_GROUP, token = lane_now() % PAGE_GROUP;
        if (first + token < seen || first + token > pos)
            for (int b = b0; b < BLOCKS; b += 2) store_shared2(values + token * ROW + b * VALUE_BLOCK, 0);
        __syncwarp();
    }

    /* Token `first` is the group's; tokens outside [seen, pos] do not count. */
    static __device__ __forceinline__ void mix(state &h, float s[HALVES][2], uint32_t values, int first, int seen,
                                               int pos, float cap) {
        const int g = lane_now() / 4, t = lane_now() % 4;
        uint32_t p[HALVES][2];
#pragma unroll
        for (int i = 0; i < HALVES; i++) {
            const bool is_first = h.max[i] == -INFINITY; /* nothing was found yet */
            const float fade = h.weigh(p[i], s[i], i, first + 2 * g, seen, pos, cap);
            if (agreed(fade != 1 && !is_first)) h.fade(i, fade);
        }
        const uint32_t tokens = values + 4 * t * ROW;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint32_t v[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t block = tokens + i * ROW + b * VALUE_BLOCK, scales = load_pair(block);
                load_elements(v[i], block, g);
#pragma unroll
                for (int j = 0; j < 4; j++) v[i][j] = half_bits(__hmul2(half_pair(v[i][j]), half_pair(scales)));
            }
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const uint32_t a[4] = {v[0][2 * j], v[0][2 * j + 1], v[1][2 * j], v[1][2 * j + 1]};
#pragma unroll
                for (int i = 0; i < HALVES; i++) mma_half(h.o[i][2 * b + j], a, p[i][0], p[i][1]);
            }
        }
    }

    /* What a warp has found for up to `heads` heads goes into its place of [warp][heads][DIM], and maxima and sums
     * behind all of them. */
    static __device__ __forceinline__ void leave(const state &h, float *shared, int warp, int heads) {
        const int g = lane_now() / 4, t = lane_now() % 4;
        float *sums = shared + ATTEND_WARPS * heads * DIM;
#pragma unroll
        for (int i = 0; i < HALVES; i++) {
            const int at = warp * heads + 4 * i + t;
            float sum = h.sum[i];
#pragma unroll
            for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
            if (4 * i + t >= heads) continue;
            if (g == 0) sums[2 * at] = h.max[i], sums[2 * at + 1] = sum;
#pragma unroll
            for (int j = 0; j < DIM / 16; j++) {
                const float *x = h.o[i][j];
                *(float2 *)(shared + at * DIM + 16 * j + 2 * g) = make_float2(x[0] + x[1], x[2] + x[3]);
            }
        }
    }
};

/* ---- queries, results ---- */

/* The Hadamard matrix's factor for a head. */
__device__ __forceinline__ float rotation_scale(int dim) { return dim == 64 ? 0.125f : 0.08838834764831845f; }

/* Elements 4 i .. 4 i + 3 of a head in lane i, multiplied by the matrix without its factor. */
__device__ __forceinline__ void rotate_lanes(float x[4], int dim) {
    const int lane = lane_now();
    const float a = __fadd_rn(x[0], x[1]), b = __fadd_rn(x[0], -x[1]);
    const float c = __fadd_rn(x[2], x[3]), d = __fadd_rn(x[2], -x[3]);
    x[0] = __fadd_rn(a, c), x[1] = __fadd_rn(b, d), x[2] = __fadd_rn(a, -c), x[3] = __fadd_rn(b, -d);
#pragma unroll
    for (int step = 1; step < dim / 4; step *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float other = __shfl_xor_sync(~0u, x[i], step);
            x[i] = __fadd_rn(lane & step ? -x[i] : x[i], other);
        }
}

/* Read and rotated: bit 0 of an element's number is the half of a pair, bits 1 and 2 are the lane. */
template <int DIM> __device__ __forceinline__ void read_rotated(float x[DIM / 4], const float *from, bool there) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        float2 v = make_float2(0, 0);
        if (there) v = __ldcg((const float2 *)(from + 8 * i + 2 * t));
        x[2 * i] = v.x + v.y, x[2 * i + 1] = v.x - v.y;
    }
#pragma unroll
    for (int step = 1; step < 4; step *= 2)
#pragma unroll
        for (int i = 0; i < DIM / 4; i++) {
            const float other = __shfl_xor_sync(~0u, x[i], step);
            x[i] = t & step ? other - x[i] : x[i] + other;
        }
#pragma unroll
    for (int half = 2; half < DIM / 4; half *= 2)
#pragma unroll
        for (int i = 0; i < DIM / 4; i++)
            if (!(i & half)) {
                const float a = x[i], b = x[i + half];
                x[i] = a + b, x[i + half] = a - b;
            }
}

/* The digits of eight heads as second operands: columns 2 n and 2 n + 1 of a half are the digits of its head n. */
template <int DIM, int KEY_BITS> struct held_queries {
    uint2 operand[DIM / 32][2];
    float scales[2];

    __device__ __forceinline__ uint2 digits(int b, int h) const { return operand[b][h]; }
    __device__ __forceinline__ float scale(int h) const { return scales[h]; }
    /* Of n heads. */
    __device__ __forceinline__ held_queries(const float *from, int n, float by) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        by = __fmul_rn(by, rotation_scale(DIM));
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float x[DIM / 4], most = 0;
            read_rotated<DIM>(x, from + (4 * h + g / 2) * DIM, 4 * h + g / 2 < n);
#pragma unroll
            for (int i = 0; i < DIM / 4; i++) x[i] = __fmul_rn(x[i], by), most = max_nan(most, fabsf(x[i]));
#pragma unroll
            for (int step = 1; step < 4; step *= 2) most = max_nan(most, __shfl_xor_sync(~0u, most, step));
            const query_scale of(most, KEY_BITS);
            uint32_t pairs[DIM / 8];
#pragma unroll
            for (int i = 0; i < DIM / 8; i++) pairs[i] = digit_pair(x[2 * i], x[2 * i + 1], of.inverse, g & 1);
#pragma unroll
            for (int b = 0; b < DIM / 32; b++)
                operand[b][h] = make_uint2(__byte_perm(pairs[4 * b], pairs[4 * b + 1], 0x5410),
                                           __byte_perm(pairs[4 * b + 2], pairs[4 * b + 3], 0x5410));
            scales[h] = __shfl_sync(~0u, of.scale, 8 * t);
        }
    }
};

/* ---- the kernel: the grid of attend_decode ---- */

template <int DIM, int KEY_BITS, int VALUE_BITS> __device__ __forceinline__ void attend_coded(const k_decode_args &a) {
    SHARED_MEMORY(shared);
    typedef coded_group<DIM, KEY_BITS, VALUE_BITS, 2> group_of;
    constexpr int KEYS = group_of::KEYS, VALUES = group_of::VALUES, SLOT = KEYS + VALUES;
    const int shares = a.n_heads / a.n_kv_heads, blocks = (shares + ATTEND_HEADS - 1) / ATTEND_HEADS;
    const int kv_head = blockIdx.y / blocks, block = blockIdx.y % blocks;
    const int head = kv_head * shares + block * ATTEND_HEADS,
              n_heads = min(ATTEND_HEADS, shares - block * ATTEND_HEADS);
    const int warp = threadIdx.x / 32;
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.z];
    if (span.n_rows != 1) return;
    const int row = span.row, pos = span.position, seen = first_seen(pos, a.window, a.chunk);
    const row_splits splits(a, seen, pos, a.split_turns);
    if ((int)blockIdx.x >= splits.count) return;
    const uint32_t ring = shared_address(shared) + warp * ATTEND_RING * SLOT;
    group_walk now(splits, blockIdx.x, seen), ahead = now;
    auto fetch = [&](int slot) {
        if (ahead.is_any()) {
            const size_t page = (size_t)a.pages[span.pages + ahead.page()] * a.page_stride;
            const size_t group = (size_t)kv_head * (PAGE_TOKENS / PAGE_GROUP) + ahead.in_page();
            group_of::fetch_keys(ring + slot * SLOT, a.k + page + group * KEYS);
            group_of::fetch_values(ring + slot * SLOT + KEYS, a.v + page + group * VALUES);
            ahead.next();
        }
        commit_copies();
    };
    fetch(0);
    fetch(1);
    const held_queries<DIM, KEY_BITS> queries(a.q + ((size_t)row * a.n_heads + head) * DIM, n_heads, a.scale);
    typename group_of::state h;
    h.clear();
    for (int slot = 0; now.is_any(); now.next(), slot ^= 1) {
        wait_copies<1>();
        __syncwarp();
        const uint32_t keys = ring + slot * SLOT, values = keys + KEYS;
        const int token = now.token();
        float scores[2][2];
        group_of::score(scores, keys, queries);
        group_of::clear_unseen(values, token, seen, pos);
        group_of::mix(h, scores, values, token, seen, pos, a.cap);
        __syncwarp();
        fetch(slot);
    }
    wait_copies<0>();
    __syncthreads();
    group_of::leave(h, (float *)shared, warp, ATTEND_HEADS);
    meet_warps<DIM>((const float *)shared, n_heads, [&](int n, int d, float o, float max, float total) {
        put_part<DIM>(a, head + n, d, o, max, total);
    });
}

/* attend_merge with the result rotated back: the block's threads are the elements of one head. */
__device__ __forceinline__ void attend_coded_merge(const k_decode_args &a) {
    __shared__ float x[128];
    const int d = threadIdx.x, dim = blockDim.x;
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.y];
    if (span.n_rows != 1) return;
    x[d] = merged_value(a, span);
    for (int half = 1; half < dim; half *= 2) {
        __syncthreads();
        const float mine = x[d], other = x[d ^ half];
        __syncthreads();
        x[d] = d & half ? other - mine : mine + other;
    }
    a.out[((size_t)span.row * a.n_heads + blockIdx.x) * dim + d] = x[d] * rotation_scale(dim);
}

#endif
