/* attend_coded.cuh — one query row against a paged cache of 8, 6 or 4 bits: attend_decode.cuh with codes unpacked on
 * the way.
 *
 * Instances are spelled in attend_coded.cu. The codes of a group of 16 tokens travel as they are; a warp turns them
 * into float16 in the order in which the products want them, a lane for an element of 16 keys or for a block of a
 * value. What is coded was rotated (kv_quant.h): so is the query, in the registers of its fragments, and the merged
 * result is rotated back. */
#ifndef KERNELS_ATTEND_CODED_CUH
#define KERNELS_ATTEND_CODED_CUH

#include "attend_decode.cuh"

/* Four codes, unsigned and `zero` too large, times their scales. 0x64 in front of a byte is 1024 + that byte. */
__device__ __forceinline__ uint2 scale_codes(uint32_t codes, int zero, half2 first, half2 second) {
    const uint32_t low = __byte_perm(codes, 0x64646464u, 0x4140), high = __byte_perm(codes, 0x64646464u, 0x4342);
    const half2 off = __half2half2(__int2half_rn(1024 + zero));
    const half2 a = __hmul2(__hsub2(*reinterpret_cast<const half2 *>(&low), off), first);
    const half2 b = __hmul2(__hsub2(*reinterpret_cast<const half2 *>(&high), off), second);
    return make_uint2(*reinterpret_cast<const uint32_t *>(&a), *reinterpret_cast<const uint32_t *>(&b));
}

template <int BITS> __device__ __forceinline__ int zero_of() { return BITS == 8 ? 128 : BITS == 6 ? 32 : 8; }

/* ---- keys: lane d has element d of the 16 tokens of a block ---- */

template <int BITS> __device__ __forceinline__ uint4 key_codes(const uint8_t *codes) {
    const int d = threadIdx.x % 32;
    if (BITS == 8) {
        const uint4 w = *(const uint4 *)(codes + d * 16);
        return make_uint4(w.x ^ 0x80808080u, w.y ^ 0x80808080u, w.z ^ 0x80808080u, w.w ^ 0x80808080u);
    }
    const uint4 l = *(const uint4 *)(codes + d % 16 * 16);
    const int by = d / 16 * 4;
    uint4 w =
        make_uint4(l.x >> by & 0x0F0F0F0Fu, l.y >> by & 0x0F0F0F0Fu, l.z >> by & 0x0F0F0F0Fu, l.w >> by & 0x0F0F0F0Fu);
    if (BITS == 4) return w;
    const uint4 h = *(const uint4 *)(codes + 256 + d % 8 * 16);
    const int up = d / 8 * 2;
    w.x |= (h.x >> up & 0x03030303u) << 4, w.y |= (h.y >> up & 0x03030303u) << 4;
    w.z |= (h.z >> up & 0x03030303u) << 4, w.w |= (h.w >> up & 0x03030303u) << 4;
    return w;
}

template <int DIM, int BITS> __device__ __forceinline__ void unpack_keys(uint8_t *out, const uint8_t *group) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < DIM / 32; b++) {
        const uint8_t *block = group + b * coded_key_block(BITS);
        const half2 *s = (const half2 *)block;
        const uint4 w = key_codes<BITS>(block + 32);
        const int z = zero_of<BITS>(), d = b * 32 + lane;
        const uint2 p0 = scale_codes(w.x, z, s[0], s[1]), p1 = scale_codes(w.y, z, s[2], s[3]);
        const uint2 p2 = scale_codes(w.z, z, s[4], s[5]), p3 = scale_codes(w.w, z, s[6], s[7]);
        *(uint4 *)(out + key_at(d, 0)) = make_uint4(p0.x, p0.y, p1.x, p1.y);
        *(uint4 *)(out + key_at(d, 1)) = make_uint4(p2.x, p2.y, p3.x, p3.y);
    }
}

/* ---- values: a lane has a block of 32 elements of one token ---- */

/* Bytes 4 i .. of what begins at an even address. */
__device__ __forceinline__ uint32_t word_at(const uint8_t *from, int i) {
    const uint16_t *at = (const uint16_t *)from + 2 * i;
    return at[0] | (uint32_t)at[1] << 16;
}

/* Word j of the block's 8, four codes each. */
template <int BITS> __device__ __forceinline__ uint32_t value_codes(const uint8_t *codes, int j) {
    if (BITS == 8) return word_at(codes, j) ^ 0x80808080u;
    const uint32_t low = word_at(codes, j % 4) >> (j / 4 * 4) & 0x0F0F0F0Fu;
    if (BITS == 4) return low;
    return low | (word_at(codes + 16, j % 2) >> (j / 2 * 2) & 0x03030303u) << 4;
}

template <int DIM, int BITS> __device__ __forceinline__ void unpack_values(uint8_t *out, const uint8_t *group) {
    constexpr int BLOCKS = DIM / 32;
#pragma unroll
    for (int i = 0; i < BLOCKS / 2; i++) {
        const int at = i * 32 + threadIdx.x % 32, token = at / BLOCKS, b = at % BLOCKS;
        const uint8_t *block = group + at * coded_value_block(BITS);
        const half2 s = __half2half2(*(const half *)block);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const uint2 x = scale_codes(value_codes<BITS>(block + 2, 2 * p), zero_of<BITS>(), s, s);
            const uint2 y = scale_codes(value_codes<BITS>(block + 2, 2 * p + 1), zero_of<BITS>(), s, s);
            *(uint4 *)(out + value_at<DIM>(token, b * 4 + p)) = make_uint4(x.x, x.y, y.x, y.y);
        }
    }
}

/* ---- queries ---- */

/* Read and rotated: bit 0 of an element's number is the half of a pair, bits 1 and 2 are the lane, bit 3 is h. */
template <int DIM>
__device__ __forceinline__ void read_rotated(uint32_t q[DIM / 16][4], const float *from, bool there, float scale) {
    const int t = threadIdx.x % 4;
    float x[DIM / 4];
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
    scale *= DIM == 64 ? 0.125f : 0.08838834764831845f;
#pragma unroll
    for (int i = 0; i < DIM / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float a = x[4 * i + 2 * h] * scale, b = x[4 * i + 2 * h + 1] * scale;
            q[i][2 * h] = pack_half(a, b);
            q[i][2 * h + 1] = pack_rest(a, b, q[i][2 * h]);
        }
}

/* ---- the kernel: the grid of attend_decode ---- */

template <int BYTES> __device__ __forceinline__ void fetch_bytes(uint32_t slot, const uint8_t *from, uint64_t policy) {
#pragma unroll
    for (int i = 0; i < (BYTES / 16 + 31) / 32; i++) {
        const int piece = i * 32 + threadIdx.x % 32;
        if (piece < BYTES / 16) copy_async16(slot + piece * 16, from + piece * 16, policy);
    }
}

template <int DIM, int KEY_BITS, int VALUE_BITS> __device__ __forceinline__ void attend_coded(const k_decode_args &a) {
    SHARED_MEMORY(shared);
    constexpr int KEYS = DIM / 32 * coded_key_block(KEY_BITS), VALUES = DIM / 2 * coded_value_block(VALUE_BITS);
    constexpr int SLOT = KEYS + VALUES, WARP_BYTES = ATTEND_RING * SLOT + PAGE_GROUP * DIM * 4;
    const int shares = a.n_heads / a.n_kv_heads, blocks = (shares + ATTEND_HEADS - 1) / ATTEND_HEADS;
    const int kv_head = blockIdx.y / blocks, block = blockIdx.y % blocks;
    const int head = kv_head * shares + block * ATTEND_HEADS,
              n_heads = min(ATTEND_HEADS, shares - block * ATTEND_HEADS);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    let_next_start();
    wait_for_previous();
    const k_span span = a.spans[blockIdx.z];
    if (span.n_rows != 1) return;
    const int row = span.row, pos = span.position, seen = first_seen(pos, a.window, a.chunk);
    const int page = seen / PAGE_TOKENS + blockIdx.x;
    if (page > pos / PAGE_TOKENS) return;
    const int first = max(seen - page * PAGE_TOKENS, 0) / PAGE_GROUP;
    const int end = min(pos - page * PAGE_TOKENS, PAGE_TOKENS - 1) / PAGE_GROUP + 1;
    const size_t at = (size_t)a.pages[span.pages + page] * a.page_stride;
    const uint8_t *k = a.k + at + (size_t)kv_head * (PAGE_TOKENS / PAGE_GROUP) * KEYS;
    const uint8_t *v = a.v + at + (size_t)kv_head * (PAGE_TOKENS / PAGE_GROUP) * VALUES;
    uint8_t *mine = shared + warp * WARP_BYTES, *halves = mine + ATTEND_RING * SLOT;
    const uint32_t ring = shared_address(mine);
    const uint64_t policy = evict_first();
    auto fetch = [&](int group, int slot) {
        if (group < end) {
            fetch_bytes<KEYS>(ring + slot * SLOT, k + (size_t)group * KEYS, policy);
            fetch_bytes<VALUES>(ring + slot * SLOT + KEYS, v + (size_t)group * VALUES, policy);
        }
        commit_copies();
    };
    const int turn = first / ATTEND_WARPS * ATTEND_WARPS + warp; /* turns do not depend on what is seen */
    const int begin = turn < first ? turn + ATTEND_WARPS : turn;
    fetch(begin, 0);
    fetch(begin + ATTEND_WARPS, 1);
    uint32_t q[DIM / 16][4];
    read_rotated<DIM>(q, a.q + ((size_t)row * a.n_heads + head + g) * DIM, g < n_heads, a.scale);
    head_state<DIM> h;
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) h.o[i][0] = h.o[i][1] = h.o[i][2] = h.o[i][3] = 0;
    h.max = -INFINITY, h.sum = 0;
    for (int group = begin, slot = 0; group < end; group += ATTEND_WARPS, slot ^= 1) {
        wait_copies<1>();
        __syncwarp();
        unpack_keys<DIM, KEY_BITS>(halves, mine + slot * SLOT);
        unpack_values<DIM, VALUE_BITS>(halves + PAGE_GROUP * DIM * 2, mine + slot * SLOT + KEYS);
        __syncwarp();
        fetch(group + 2 * ATTEND_WARPS, slot);
        clear_unseen<DIM>(shared_address(halves), page * PAGE_TOKENS + group * PAGE_GROUP, seen, pos);
        attend_group<DIM>(h, q, shared_address(halves), page * PAGE_TOKENS + group * PAGE_GROUP, seen, pos, a.cap);
        __syncwarp();
    }
    wait_copies<0>();
    __syncthreads();
    meet_warps<DIM>(h, (float *)shared, n_heads, [&](int n, int d, float o, float max, float total) {
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
    a.out[((size_t)span.row * a.n_heads + blockIdx.x) * dim + d] = x[d] * (dim == 64 ? 0.125f : 0.08838834764831845f);
}

#endif
