/* kv.cuh — how keys and values of a head lie in a page: floats as they are, or codes with a scale per 32 (kv_quant.h).
 *
 * Read by attend.cu, written by rope.cu; both take one of the classes below as a parameter. Nothing but offsets is
 * decided here, and how a block of 32 numbers becomes codes: a warp has one number a lane. The tricky thing is that
 * codes narrower than a byte share it with others of the block that lie half or a quarter of it apart. */
#ifndef DEV_CUDA_KERNELS_KV_CUH
#define DEV_CUDA_KERNELS_KV_CUH

#include "kernel.cuh"

enum { KV_BLOCK = 32, KV_PIECE = 512 };

/* ---- the rotation of what is coded ---- */

/* Multiplies x [n], in shared memory, by the orthogonal Hadamard matrix in pieces that are powers of two, the largest
 * that fit first; by one warp. */
static __device__ void hadamard(float *x, int n) {
    const int lane = threadIdx.x % WARP;
    for (int piece = KV_PIECE; n > 0; x += piece, n -= piece) {
        while (piece > n) piece /= 2;
        for (int half = 1; half < piece; half *= 2) {
            for (int i = lane; i < piece / 2; i += WARP) {
                const int at = i / half * 2 * half + i % half;
                const float a = x[at], b = x[at + half];
                x[at] = __fadd_rn(a, b);
                x[at + half] = __fadd_rn(a, -b);
            }
            __syncwarp();
        }
        const float scale = 1 / sqrtf((float)piece);
        for (int i = lane; i < piece; i += WARP) x[i] = __fmul_rn(x[i], scale);
        __syncwarp();
    }
}

/* A key or a query: what is also a value, and what is not, each for itself. */
static __device__ void hadamard_key(const k_kv &kv, float *x) {
    const int first = kv.v ? kv.head_dim : kv.v_dim;
    hadamard(x, first);
    hadamard(x + first, kv.head_dim - first);
}

/* ---- floats ---- */

template <class T> struct plain_kv {
    static __device__ __forceinline__ int64_t key_head_bytes(int dim) { return (int64_t)K_PAGE * dim * (int)sizeof(T); }
    static __device__ __forceinline__ int64_t value_head_bytes(int dim) { return key_head_bytes(dim); }
    static __device__ __forceinline__ const T *key_at(const uint8_t *head, int dim, int slot, int d) {
        return (const T *)head + (slot / K_KEY_GROUP * (int64_t)dim + d) * K_KEY_GROUP + slot % K_KEY_GROUP;
    }
    static __device__ __forceinline__ float key(const uint8_t *head, int dim, int slot, int d) {
        return to_float(*key_at(head, dim, slot, d));
    }
    static __device__ __forceinline__ float value(const uint8_t *head, int dim, int slot, int d) {
        return to_float(((const T *)head)[(int64_t)slot * dim + d]);
    }
    static __device__ void put_key(uint8_t *head, const k_kv &kv, int slot, float *x) {
        for (int d = threadIdx.x % WARP; d < kv.head_dim; d += WARP)
            put_float((T *)key_at(head, kv.head_dim, slot, d), x[d]);
    }
    /* Of n tokens of a group: elements of neighbouring tokens are neighbours, so half a warp writes those of 16. */
    static __device__ void put_keys(uint8_t *head, const k_kv &kv, int slot, int n, float *x, int stride) {
        const int lane = threadIdx.x % WARP, token = n == 1 ? 0 : lane % K_KEY_GROUP;
        const int step = n == 1 ? WARP : WARP / K_KEY_GROUP;
        for (int d = n == 1 ? lane : lane / K_KEY_GROUP; token < n && d < kv.head_dim; d += step)
            put_float((T *)key_at(head, kv.head_dim, slot + token, d), x[token * stride + d]);
    }
    static __device__ void put_value(uint8_t *head, const k_kv &kv, int slot, const float *from, float *) {
        for (int d = threadIdx.x % WARP; d < kv.v_dim; d += WARP)
            put_float((T *)head + (int64_t)slot * kv.v_dim + d, from[d]);
    }
};

/* ---- codes ---- */

static __device__ __forceinline__ f16 load_half(const uint8_t *at) { return *(const f16 *)at; }

/* Code i of the n in a plane. */
template <int BITS> static __device__ __forceinline__ int code_at(const uint8_t *codes, int n, int i) {
    if (BITS == 8) return (int8_t)codes[i];
    const int low = codes[i % (n / 2)] >> (i / (n / 2) * 4) & 15;
    if (BITS == 4) return low - 8;
    return (low | (codes[n / 2 + i % (n / 4)] >> (i / (n / 4) * 2) & 3) << 4) - 32;
}

/* Rounds x / scale; returns the block's sum of squared errors, to all lanes. */
static __device__ float round_code(int *code, float x, float scale, int limit) {
    const float inverse = scale != 0 ? 1 / scale : 0, whole = 12582912.0f; /* 1.5 x 2^23: added and taken away */
    float c = __fadd_rn(__fadd_rn(__fmul_rn(x, inverse), whole), -whole);
    c = c > (float)limit ? (float)limit : c;
    c = c < (float)(-limit - 1) ? (float)(-limit - 1) : c;
    const float off = __fmaf_rn(-c, scale, x);
    *code = (int)c;
    return warp_sum(__fmul_rn(off, off));
}

/* The block's scale as it is stored, and this lane's code: kv_quant.c tells why several are tried. */
template <int BITS> static __device__ f16 quantise(int *code, float x) {
    const int limit = BITS == 8 ? 127 : BITS == 6 ? 31 : 7;
    const float most = warp_most(fabsf(x));
    const unsigned has_most = __ballot_sync(ALL_LANES, fabsf(x) == most), negative = __ballot_sync(ALL_LANES, x < 0);
    const bool is_negative = (negative & has_most & (0u - has_most)) != 0; /* the first of them */
    f16 best;
    put_float(&best, is_negative ? -most : most);
    *code = 1; /* of a block that is not finite: neither is what is read */
    if (!(most < INFINITY)) return best;
    float least = INFINITY;
    *code = 0;
    for (int i = 0; i < (BITS == 8 ? 1 : 3); i++) {
        const float share = i == 0 ? 1 : i == 1 ? 0.93f : 0.86f, extreme = is_negative ? -most : most;
        float wanted = __fmul_rn(-extreme / (float)(limit + 1), share);
        wanted = wanted > 65504 ? 65504 : wanted < -65504 ? -65504 : wanted;
        f16 scale;
        int some;
        put_float(&scale, wanted);
        const float error = round_code(&some, x, to_float(scale), limit);
        if (error > least) continue;
        least = error;
        best = scale;
        *code = some;
    }
    return best;
}

/* This lane's code into a plane in which codes lie `step` apart. */
template <int BITS> static __device__ void put_code(uint8_t *to, int step, int code) {
    const int lane = threadIdx.x % WARP, c = BITS == 4 ? code + 8 : code + 32;
    if (BITS == 8) {
        to[lane * step] = (uint8_t)code;
        return;
    }
    const int by8 = __shfl_xor_sync(ALL_LANES, c, 8), by16 = __shfl_xor_sync(ALL_LANES, c, 16);
    const int by24 = __shfl_xor_sync(ALL_LANES, c, 24);
    if (lane < 16) to[lane * step] = (uint8_t)((c & 15) | (by16 & 15) << 4);
    if (BITS == 6 && lane < 8)
        to[(16 + lane) * step] = (uint8_t)(c >> 4 | by8 >> 4 << 2 | by16 >> 4 << 4 | by24 >> 4 << 6);
}

template <int KEY_BITS, int VALUE_BITS> struct coded_kv {
    enum { KEY_BLOCK = K_KEY_GROUP * (2 + KV_BLOCK * KEY_BITS / 8), VALUE_BLOCK = 2 + KV_BLOCK * VALUE_BITS / 8 };
    static __device__ __forceinline__ int blocks(int dim) { return (dim + KV_BLOCK - 1) / KV_BLOCK; }
    static __device__ __forceinline__ int64_t key_head_bytes(int dim) {
        return (int64_t)(K_PAGE / K_KEY_GROUP) * KEY_BLOCK * blocks(dim);
    }
    static __device__ __forceinline__ int64_t value_head_bytes(int dim) {
        return (int64_t)K_PAGE * VALUE_BLOCK * blocks(dim);
    }
    static __device__ __forceinline__ const uint8_t *key_block(const uint8_t *head, int dim, int slot, int d) {
        return head + ((int64_t)(slot / K_KEY_GROUP) * blocks(dim) + d / KV_BLOCK) * KEY_BLOCK;
    }
    static __device__ __forceinline__ float key(const uint8_t *head, int dim, int slot, int d) {
        const uint8_t *block = key_block(head, dim, slot, d);
        const int in_group = slot % K_KEY_GROUP;
        const int code =
            code_at<KEY_BITS>(block + 2 * K_KEY_GROUP, KV_BLOCK * K_KEY_GROUP, d % KV_BLOCK * K_KEY_GROUP + in_group);
        return __fmul_rn(to_float(load_half(block + 2 * in_group)), (float)code);
    }
    static __device__ __forceinline__ float value(const uint8_t *head, int dim, int slot, int d) {
        const uint8_t *block = head + ((int64_t)slot * blocks(dim) + d / KV_BLOCK) * VALUE_BLOCK;
        return __fmul_rn(to_float(load_half(block)), (float)code_at<VALUE_BITS>(block + 2, KV_BLOCK, d % KV_BLOCK));
    }
    static __device__ void put_key(uint8_t *head, const k_kv &kv, int slot, float *x) {
        const int lane = threadIdx.x % WARP, dim = kv.head_dim, in_group = slot % K_KEY_GROUP;
        hadamard_key(kv, x);
        for (int b = 0; b < blocks(dim); b++) {
            uint8_t *block = (uint8_t *)key_block(head, dim, slot, b * KV_BLOCK);
            int code;
            const f16 scale = quantise<KEY_BITS>(&code, b * KV_BLOCK + lane < dim ? x[b * KV_BLOCK + lane] : 0);
            if (lane == 0) *(f16 *)(block + 2 * in_group) = scale;
            put_code<KEY_BITS>(block + 2 * K_KEY_GROUP + in_group, K_KEY_GROUP, code);
        }
    }
    static __device__ void put_keys(uint8_t *head, const k_kv &kv, int slot, int n, float *x, int stride) {
        for (int i = 0; i < n; i++) put_key(head, kv, slot + i, x + i * stride);
    }
    /* x: shared memory for a value */
    static __device__ void put_value(uint8_t *head, const k_kv &kv, int slot, const float *from, float *x) {
        const int lane = threadIdx.x % WARP, dim = kv.v_dim;
        for (int d = lane; d < dim; d += WARP) x[d] = from[d];
        __syncwarp();
        hadamard(x, dim);
        for (int b = 0; b < blocks(dim); b++) {
            uint8_t *block = head + ((int64_t)slot * blocks(dim) + b) * VALUE_BLOCK;
            int code;
            const f16 scale = quantise<VALUE_BITS>(&code, b * KV_BLOCK + lane < dim ? x[b * KV_BLOCK + lane] : 0);
            if (lane == 0) *(f16 *)block = scale;
            put_code<VALUE_BITS>(block + 2, 1, code);
        }
    }
};

#endif
