/* program_token.cuh — the new token of a program's row: its key and value on their way into the page, and into groups
 * of tokens that were fetched before they were there.
 *
 * Used by program_attend.cuh. What is stored is what rope.cu stores, bit for bit. A cache below says how its groups are
 * fetched, scored and mixed (attend_decode.cuh, attend_coded.cuh), and how the new token comes into them. Codes are
 * made by a warp for each block of 32 elements, all of which turn the whole head: so nobody waits for another. They
 * stand in shared memory as a value stands in a page, [blocks][scale, codes], keys as well. */
#ifndef KERNELS_PROGRAM_TOKEN_CUH
#define KERNELS_PROGRAM_TOKEN_CUH

#include "attend_coded.cuh"
#include "program_tell.cuh"
#include "rope.cuh"

/* A new key or value: where it is kept, and where it goes. */
struct token_place {
    const uint8_t *fresh;
    uint8_t *page;   /* of the KV head */
    int slot, piece; /* of the page; the warp's block */
};

/* ---- float16 ---- */

template <int DIM> struct plain_cache {
    static constexpr bool IS_ROTATED = false;
    static constexpr int KEYS = PAGE_GROUP * DIM * 2, VALUES = KEYS, TOKEN_WARPS = program_token_warps(DIM, 16);
    static constexpr int HEADS = PROGRAM_MOST_HEADS;                                  /* of a fragment */
    static constexpr int FRESH_KEY = DIM * 2, QUERIES = program_query_bytes(DIM, 16); /* bytes */
    typedef head_state<DIM> state;

    static __device__ __forceinline__ void fetch_keys(uint32_t to, const uint8_t *k) {
        ::fetch_keys<DIM>(to, k, evict_first());
    }
    static __device__ __forceinline__ void fetch_values(uint32_t to, const uint8_t *v) {
        ::fetch_values<DIM>(to, v, evict_first());
    }
    struct scores {
        float of[2][4];
    };
    /* A turned query as rows g and g + 8 of fragments, lane by lane two of its pairs. */
    static __device__ __forceinline__ void put_query(uint32_t queries, float *head, int g, float q_scale, float scale) {
#pragma unroll
        for (int i = 0; i < DIM / 2; i += 32) {
            const int pair = i + lane_now();
            float2 v = *(const float2 *)(head + 2 * pair);
            v.x = __fmul_rn(v.x, q_scale), v.y = __fmul_rn(v.y, q_scale);
            uint32_t q[2];
            pack_query(q, v, scale);
            store_shared8(queries + (pair / 8 * 32 + g * 4 + pair % 4) * 16 + pair % 8 / 4 * 8, q[0], q[1]);
        }
    }
    static __device__ __forceinline__ scores score(uint32_t keys, uint32_t queries) {
        scores s = {};
        queries += lane_now() * 16;
        score_group<DIM>(s.of, keys, [&](uint32_t q[4], int i) {
            const uint4 v = load_shared16(queries + i * 512);
            q[0] = v.x, q[1] = v.y, q[2] = v.z, q[3] = v.w;
        });
        return s;
    }
    static __device__ __forceinline__ void clear_unseen(uint32_t values, int first, int seen, int pos) {
        ::clear_unseen<DIM>(values - KEYS, first, seen, pos);
    }
    static __device__ __forceinline__ void mix(state &h, scores &s, uint32_t values, int first, int seen, int pos,
                                               float cap) {
        mix_group(h, s.of, values, first, seen, pos, cap);
    }
    static __device__ __forceinline__ void leave(const state &h, float *found, int warp, int heads) {
        leave_heads<DIM>(h, found, warp, heads);
    }

    static __device__ __forceinline__ void put(uint32_t (*place)(int, int), uint32_t to, const uint8_t *fresh,
                                               int token) {
        const int lane = lane_now();
#pragma unroll
        for (int i = 0; i < DIM; i += 32)
            store_shared2(to + place(i + lane, token), ((const f16 *)fresh)[i + lane].bits);
        __syncwarp();
    }
    static __device__ __forceinline__ uint32_t key_place(int d, int token) {
        return key_at(d, token / 8) + token % 8 * 2;
    }
    static __device__ __forceinline__ uint32_t value_place(int d, int token) {
        return value_at<DIM>(token, d / 8) + d % 8 * 2;
    }
    static __device__ __forceinline__ void put_key(uint32_t keys, const uint8_t *fresh, int token) {
        put(key_place, keys, fresh, token);
    }
    static __device__ __forceinline__ void put_value(uint32_t values, const uint8_t *fresh, int token) {
        put(value_place, values, fresh, token);
    }

    /* The new token's key, or its value: kept, and from there into the page. */
    static __device__ __forceinline__ void keep(uint8_t *fresh, const float *head) {
        const int lane = lane_now();
#pragma unroll
        for (int i = 0; i < DIM; i += 32) put_float((f16 *)fresh + i + lane, head[i + lane]);
    }
    static __device__ __forceinline__ void keep_key(uint8_t *fresh, int, float *head) { keep(fresh, head); }
    static __device__ __forceinline__ void keep_value(uint8_t *fresh, int, float *head) { keep(fresh, head); }
    static __device__ __forceinline__ void store_key(const token_place &at) {
        const int lane = lane_now();
        uint8_t *to = at.page + at.slot / PAGE_GROUP * KEYS + at.slot % PAGE_GROUP * sizeof(f16);
#pragma unroll
        for (int i = 0; i < DIM; i += 32)
            *(f16 *)(to + (i + lane) * PAGE_GROUP * sizeof(f16)) = ((const f16 *)at.fresh)[i + lane];
    }
    static __device__ __forceinline__ void store_value(const token_place &at) {
        const int lane = lane_now();
        if (lane < DIM / 4) ((uint2 *)at.page)[at.slot * (DIM / 4) + lane] = ((const uint2 *)at.fresh)[lane];
    }
};

/* ---- codes ---- */

/* A head in shared memory times `before`, by the Hadamard matrix without its factor, times `after`; by one warp. */
template <int DIM> __device__ __forceinline__ void rotate_head(float *head, float before, float after) {
    const int lane = lane_now();
    float4 *at = (float4 *)head + lane;
    float4 v = {0, 0, 0, 0};
    if (lane < DIM / 4) v = *at;
    float x[4] = {__fmul_rn(v.x, before), __fmul_rn(v.y, before), __fmul_rn(v.z, before), __fmul_rn(v.w, before)};
    rotate_lanes(x, DIM);
    if (lane < DIM / 4)
        *at =
            make_float4(__fmul_rn(x[0], after), __fmul_rn(x[1], after), __fmul_rn(x[2], after), __fmul_rn(x[3], after));
    __syncwarp();
}

/* The digits of a KV head's queries in shared memory, [blocks][halves][lanes], and scales of all heads behind them. */
template <int DIM, int HALVES> struct shared_queries {
    uint32_t at;
    __device__ __forceinline__ uint32_t operand(int b, int h) const { return at + (b * HALVES + h) * 256; }
    __device__ __forceinline__ uint32_t scale_at(int head) const { return operand(DIM / 32, 0) + head * 4; }
    __device__ __forceinline__ uint2 digits(int b, int h) const { return load_shared8(operand(b, h) + lane_now() * 8); }
    __device__ __forceinline__ float scale(int h) const {
        return __uint_as_float(load_shared4(scale_at(4 * h + lane_now() % 4)));
    }
};

template <int DIM, int KEY_BITS, int VALUE_BITS, int HALVES>
struct coded_cache : public coded_group<DIM, KEY_BITS, VALUE_BITS, HALVES> {
    typedef coded_group<DIM, KEY_BITS, VALUE_BITS, HALVES> group;
    typedef shared_queries<DIM, HALVES> heads;
    static constexpr bool IS_ROTATED = true;
    static constexpr int HEADS = 4 * HALVES;
    static constexpr int TOKEN_WARPS = program_token_warps(DIM, KEY_BITS);
    static constexpr int FRESH_BLOCK = coded_value_block(KEY_BITS), FRESH_KEY = DIM / 32 * FRESH_BLOCK;
    static constexpr int QUERIES = program_query_bytes(DIM, KEY_BITS); /* of two halves */
    static_assert(QUERIES >= DIM * 8 * HALVES + 4 * PROGRAM_MOST_HEADS, "there is room");
    struct scores {
        float of[HALVES][2];
    };

    /* A turned query, rotated, lane by lane two of its pairs. */
    static __device__ __forceinline__ void put_query(uint32_t queries, float *head, int g, float q_scale, float scale) {
        const heads to = {queries};
        const int lane = lane_now(), half = g / 4;
        float2 x[DIM / 64];
        float most = 0;
        rotate_head<DIM>(head, q_scale, 1);
        scale = __fmul_rn(scale, rotation_scale(DIM));
#pragma unroll
        for (int i = 0; i < DIM / 64; i++) {
            x[i] = *(const float2 *)(head + 2 * (32 * i + lane));
            x[i].x = __fmul_rn(x[i].x, scale), x[i].y = __fmul_rn(x[i].y, scale);
            most = max_nan(most, max_nan(fabsf(x[i].x), fabsf(x[i].y)));
        }
        const query_scale of(warp_most(most), KEY_BITS);
#pragma unroll
        for (int i = 0; i < DIM / 64; i++) {
            const int in_block = lane % 16; /* the pair's number */
            const uint32_t at = to.operand(2 * i + lane / 16, half) + (g % 4 * 8 + in_block % 4) * 8 + in_block / 4 * 2;
            store_shared2(at, (uint16_t)digit_pair(x[i].x, x[i].y, of.inverse, false));
            store_shared2(at + 32, (uint16_t)digit_pair(x[i].x, x[i].y, of.inverse, true));
        }
        if (lane == 0) store_shared4(to.scale_at(g), __float_as_uint(of.scale));
    }
    static __device__ __forceinline__ scores score(uint32_t keys, uint32_t queries) {
        scores s;
        group::score(s.of, keys, heads{queries});
        return s;
    }
    static __device__ __forceinline__ void mix(typename group::state &h, scores &s, uint32_t values, int first,
                                               int seen, int pos, float cap) {
        group::mix(h, s.of, values, first, seen, pos, cap);
    }

    static __device__ __forceinline__ void put_key(uint32_t keys, const uint8_t *fresh, int token) {
        const int lane = lane_now();
#pragma unroll
        for (int b = 0; b < DIM / 32; b++) {
            const uint8_t *from = fresh + b * FRESH_BLOCK;
            const uint32_t to = keys + b * group::KEY_BLOCK;
            if (lane < 4 * KEY_BITS) store_shared1(to + 2 * PAGE_GROUP + lane * PAGE_GROUP + token, from[2 + lane]);
            if (lane == 0) store_shared2(to + 2 * token, *(const uint16_t *)from);
        }
        __syncwarp();
    }
    static __device__ __forceinline__ void put_value(uint32_t values, const uint8_t *fresh, int token) {
        const int lane = lane_now();
#pragma unroll
        for (int i = 0; i < group::ROW / 2; i += 32)
            if (i + lane < group::ROW / 2)
                store_shared2(values + token * group::ROW + 2 * (i + lane), ((const uint16_t *)fresh)[i + lane]);
        __syncwarp();
    }

    /* Block `piece` of the head, coded, to where it is kept, and from there into the page. */
    template <int BITS> static __device__ __forceinline__ void keep(uint8_t *fresh, int piece, float *head) {
        rotate_head<DIM>(head, 1, 1 / sqrtf((float)DIM));
        uint8_t *block = fresh + piece * coded_value_block(BITS);
        const int lane = lane_now();
        int code;
        const f16 scale = quantise<BITS>(&code, head[piece * 32 + lane]);
        if (lane == 0) *(f16 *)block = scale;
        put_code<BITS>(block + 2, 1, code);
    }
    static __device__ __forceinline__ void keep_key(uint8_t *fresh, int piece, float *head) {
        keep<KEY_BITS>(fresh, piece, head);
    }
    static __device__ __forceinline__ void keep_value(uint8_t *fresh, int piece, float *head) {
        keep<VALUE_BITS>(fresh, piece, head);
    }
    static __device__ __forceinline__ void store_key(const token_place &at) {
        const uint8_t *block = at.fresh + at.piece * FRESH_BLOCK;
        const int lane = lane_now(), token = at.slot % PAGE_GROUP;
        uint8_t *to = at.page + at.slot / PAGE_GROUP * group::KEYS + at.piece * group::KEY_BLOCK;
        if (lane < 4 * KEY_BITS) to[2 * PAGE_GROUP + lane * PAGE_GROUP + token] = block[2 + lane];
        if (lane == 0) ((f16 *)to)[token] = *(const f16 *)block;
    }
    static __device__ __forceinline__ void store_value(const token_place &at) {
        const uint8_t *block = at.fresh + at.piece * group::VALUE_BLOCK;
        const int lane = lane_now();
        uint8_t *to = at.page + at.slot * group::ROW + at.piece * group::VALUE_BLOCK;
        if (lane < group::VALUE_BLOCK / 2) ((uint16_t *)to)[lane] = ((const uint16_t *)block)[lane];
    }
};

#endif
