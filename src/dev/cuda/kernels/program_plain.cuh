/* program_plain.cuh — the products of a program whose formats' values are a code minus its middle, or a float of 8
 * bits, times a scale.
 *
 * Used by program.cu and program_coded.cu, which have a kernel each. */
#ifndef KERNELS_PROGRAM_PLAIN_CUH
#define KERNELS_PROGRAM_PLAIN_CUH

#include "program.cuh"

struct plain_family {
    template <class UNITS> static __device__ __forceinline__ void one(int stage) {
        run_product<UNITS, row_dot<UNITS>>(stage);
    }
    template <class UNITS> static __device__ __forceinline__ void many(int stage) {
        run_product<UNITS, rows_dot<UNITS>>(stage);
    }
    /* All return whether it was one of theirs. */
#define X(bits, group, scales)                                                                                         \
    if (agreed(way == program_way(PROGRAM_PRODUCT, PROGRAM_KIND(bits, group, PACKED_##scales), 1)))                    \
        return one<same_units_one<bits, group>>(stage), true;
    static __device__ __forceinline__ bool common_row(int way, int stage) {
        PROGRAM_COMMON(X)
        if (agreed(way == program_way(PROGRAM_PRODUCT, 0, 1))) return one<mixed_units_one>(stage), true;
        return false;
    }
    static __device__ __forceinline__ bool rare_row(int way, int stage) {
        PROGRAM_RARE(X)
#undef X
#define X(bits, group, scales)                                                                                         \
    if (agreed(way == program_way(PROGRAM_PRODUCT, PROGRAM_KIND(bits, group, PACKED_##scales), 1)))                    \
        return run_product<same_units<bits, group, PACKED_##scales>,                                                   \
                           rows_dot<same_units<bits, group, PACKED_##scales>, block_meets>>(stage),                    \
               true;
        PROGRAM_FLOATS(X) /* as several do it, by blocks alone */
#undef X
        return false;
    }
    static __device__ __forceinline__ bool rows(int way, int stage) {
#define X(bits, group, scales)                                                                                         \
    if (agreed(way == program_way(PROGRAM_PRODUCT, PROGRAM_KIND(bits, group, PACKED_##scales), 0)))                    \
        return many<same_units<bits, group, PACKED_##scales>>(stage), true;
        PROGRAM_PLAIN(X)
        PROGRAM_FLOATS(X)
#undef X
        if (agreed(way == program_way(PROGRAM_PRODUCT, 0, 0))) return many<mixed_units>(stage), true;
        return false;
    }
};

#endif
