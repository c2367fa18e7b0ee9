/* unpack.cuh — packed weights as float16 in the blocks that gemm90.cuh multiplies.
 *
 * Used where a step has so many rows that reading weights twice does not matter. A code becomes a float16 by its bits
 * (0x6400 | code is 1024 + code), so that taking the zero off is exact and only the product with the scale rounds. */
#ifndef KERNELS_UNPACK_CUH
#define KERNELS_UNPACK_CUH

#include "gemm90.cuh"
#include "heads.cuh"
#include "matvec.cuh"

/* A group's scales for rows g and g + 8, as float16 in pairs; zero: 1024 more than the zero. */
struct unit_scales {
    half2 d[2], min[2], zero[2];
    __device__ __forceinline__ void set(const group_scale &s, float unit) {
        d[0] = __float2half2_rn(s.d.x * unit), d[1] = __float2half2_rn(s.d.y * unit);
        min[0] = __float2half2_rn(-s.min.x * unit), min[1] = __float2half2_rn(-s.min.y * unit);
        zero[0] = __float2half2_rn(1024.0f + s.zero[0]), zero[1] = __float2half2_rn(1024.0f + s.zero[1]);
    }
};

/* Four codes, a byte each, as float16. */
template <int SCALES>
__device__ __forceinline__ void code_values(half2 v[2], uint32_t codes, half2 zero, half2 d, half2 min) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t whole = __byte_perm(codes, 0x64646464u, i ? 0x4342 : 0x4140);
        const half2 code = __hsub2(*reinterpret_cast<const half2 *>(&whole), zero);
        v[i] = SCALES == PACKED_MIN || SCALES == PACKED_SUPER_MIN ? __hfma2(code, d, min) : __hmul2(code, d);
    }
}

/* Four codes of a row, of inputs k .. k + 3 of block row `row`. */
template <int SCALES>
__device__ __forceinline__ void store_codes(uint8_t *out, int n_blocks, int row, int k, uint32_t codes, half2 zero,
                                            half2 d, half2 min) {
    half2 v[2];
    code_values<SCALES>(v, codes, zero, d, min);
    uint8_t *at =
        out + ((size_t)(row / 128) * n_blocks + k / 64) * GEMM_BLOCK + swizzled(row % 128, k % 64 / 8) + k % 8 * 2;
    *(uint2 *)at = *reinterpret_cast<const uint2 *>(v);
}

/* By one warp; unit: its first byte in global memory. */
template <int BITS, int GROUP, int SCALES>
__device__ __forceinline__ void unpack_unit(const uint8_t *unit, uint8_t *shared_scales, const k_unpack_args &a,
                                            int tile, int u, int zero) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    constexpr int SCALE_BYTES = packed_scale_bytes(SCALES, GROUP), F = Code<BITS>::factor;
    uint32_t w[4 * BITS];
#pragma unroll
    for (int i = 0; i < BITS; i++) {
        const uint4 line = __ldcs((const uint4 *)(unit + i * 512) + lane);
        w[4 * i] = line.x, w[4 * i + 1] = line.y, w[4 * i + 2] = line.z, w[4 * i + 3] = line.w;
    }
    __syncwarp();
    for (int i = lane * 16; i < SCALE_BYTES; i += 512)
        *(uint4 *)(shared_scales + i) = __ldcs((const uint4 *)(unit + BITS * 512 + i));
    __syncwarp();
    const uint32_t scales = shared_address(shared_scales);
#pragma unroll
    for (int b = 0; b < 4; b++) {
        uint32_t c[2][4];
        Code<BITS>::unpack(w + b * BITS, c);
#pragma unroll
        for (int q = 0; q < 4; q++) { /* 16 inputs each */
            unit_scales s;
            s.set(read_scale<SCALES, GROUP>(scales, (b * 64 + q * 16) / GROUP, g, zero), a.weights.unit);
#pragma unroll
            for (int e = 0; e < 2; e++)
                store_codes<SCALES>(a.out, a.n_blocks, tile * PACKED_ROWS + g + 8 * e,
                                    u * PACKED_UNIT + b * 64 + q * 16 + 4 * t,
                                    c[q / 2][q % 2 * 2 + e] / (q / 2 ? F : 1), s.zero[e], s.d[e], s.min[e]);
        }
    }
}

template <int BITS, int GROUP, int SCALES> __device__ __forceinline__ void unpack_same(const k_unpack_args &a) {
    __shared__ __align__(16) uint8_t scales[8][packed_scale_bytes(SCALES, GROUP)];
    constexpr int BYTES = packed_unit_bytes(BITS, SCALES, GROUP);
    const int warp = threadIdx.x / 32, n_units = a.weights.n_units;
    let_next_start();
    wait_for_previous(); /* whoever reads the blocks of the last time */
    for (int64_t i = (int64_t)blockIdx.x * 8 + warp; i < (int64_t)a.n_tiles * n_units; i += gridDim.x * 8) {
        const int tile = (int)(i / n_units), u = (int)(i % n_units);
        const uint8_t *unit = a.weights.parts[0].tiles + ((size_t)(a.first_tile + tile) * n_units + u) * BYTES;
        unpack_unit<BITS, GROUP, SCALES>(unit, scales[warp], a, tile, u, a.weights.zero);
    }
}

__device__ __forceinline__ void unpack_mixed(const k_unpack_args &a) {
    __shared__ __align__(16) uint8_t scales[8][packed_scale_bytes(PACKED_PLAIN, 32)];
    const int warp = threadIdx.x / 32, n_units = a.weights.n_units;
    let_next_start();
    wait_for_previous();
    for (int64_t i = (int64_t)blockIdx.x * 8 + warp; i < (int64_t)a.n_tiles * n_units; i += gridDim.x * 8) {
        const int tile = (int)(i / n_units), u = (int)(i % n_units);
        const packed_unit is = a.weights.units[u];
        const uint8_t *unit =
            a.weights.parts[0].tiles + (size_t)(a.first_tile + tile) * a.weights.tile_bytes + is.offset;
        switch (is.kind) {
#define X(bits, group)                                                                                                 \
    case PACKED_KIND(bits, group):                                                                                     \
        unpack_unit<bits, group, PACKED_PLAIN>(unit, scales[warp], a, tile, u, 1 << (bits - 1));                       \
        break;
            PACKED_MIXES(X)
#undef X
        }
    }
}

#endif
