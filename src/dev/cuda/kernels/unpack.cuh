/* unpack.cuh — packed weights as float16 in the blocks that gemm90.cuh multiplies, and activations likewise.
 *
 * Used where a step has so many rows that reading weights twice does not matter. A code becomes a float16 by its bits
 * (0x6400 | code is 1024 + code), so that taking the zero off is exact and only the product with the scale rounds. */
#ifndef KERNELS_UNPACK_CUH
#define KERNELS_UNPACK_CUH

#include "gemm90.cuh"
#include "heads.cuh"
#include "matvec.cuh"

/* Four codes of a row, of inputs k .. k + 3 of block row `row`. */
__device__ __forceinline__ void store_codes(uint8_t *out, int n_blocks, int row, int k, uint32_t codes, half2 zero,
                                            half2 d, half2 min) {
    half2 v[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t whole = __byte_perm(codes, 0x64646464u, i ? 0x4342 : 0x4140);
        v[i] = __hfma2(__hsub2(*reinterpret_cast<const half2 *>(&whole), zero), d, min);
    }
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
            const group_scale s = read_scale<SCALES, GROUP>(scales, (b * 64 + q * 16) / GROUP, g, zero);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint32_t codes = c[q / 2][q % 2 * 2 + e] / (q / 2 ? F : 1);
                const float unit_of = a.weights.unit;
                const half2 d = __float2half2_rn((e ? s.d.y : s.d.x) * unit_of);
                const half2 min = __float2half2_rn(-(e ? s.min.y : s.min.x) * unit_of);
                store_codes(a.out, a.n_blocks, tile * PACKED_ROWS + g + 8 * e,
                            u * PACKED_UNIT + b * 64 + q * 16 + 4 * t, codes, __float2half2_rn(1024.0f + s.zero[e]), d,
                            min);
            }
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

/* One block of threads per row: times the power of two that brings its greatest below 2^14, as float16. */
__device__ __forceinline__ void put_blocks(const k_blocks_args &a) {
    __shared__ float most[8];
    const int row = blockIdx.x, warp = threadIdx.x / 32, width = a.n_blocks * 64;
    const float *x = a.x + row * a.x_stride;
    let_next_start();
    wait_for_previous();
    float m = 0;
    for (int k = threadIdx.x * 4; k < a.n_in; k += blockDim.x * 4)
        if (k + 4 <= a.n_in && !(a.x_stride & 3)) {
            const float4 v = __ldcg((const float4 *)(x + k));
            m = max_nan(m, max_nan(max_nan(fabsf(v.x), fabsf(v.y)), max_nan(fabsf(v.z), fabsf(v.w))));
        } else {
            for (int i = k; i < min(k + 4, a.n_in); i++) m = max_nan(m, fabsf(__ldcg(x + i)));
        }
#pragma unroll
    for (int o = 16; o; o >>= 1) m = max_nan(m, __shfl_xor_sync(~0u, m, o));
    if (threadIdx.x % 32 == 0) most[warp] = m;
    __syncthreads();
    for (int i = 0; i < 8; i++) m = max_nan(m, most[i]);
    const int exponent = m > 0 && m < INFINITY ? 13 - ilogbf(m) : 0;
    const float scale = ldexpf(1, min(exponent, 126));
    if (threadIdx.x == 0) a.row_scale[row] = 1 / scale;
    for (int k = threadIdx.x * 8; k < width; k += blockDim.x * 8) {
        float v[8];
        const packed_args from = {a.x, a.x_stride, a.order, a.n_in};
        read_inputs(v, from, row, k);
        uint4 out;
        out.x = pack_half(v[0] * scale, v[1] * scale), out.y = pack_half(v[2] * scale, v[3] * scale);
        out.z = pack_half(v[4] * scale, v[5] * scale), out.w = pack_half(v[6] * scale, v[7] * scale);
        *(uint4 *)(a.out + ((size_t)(row / 128) * a.n_blocks + k / 64) * GEMM_BLOCK + swizzled(row % 128, k % 64 / 8)) =
            out;
    }
}

#endif
