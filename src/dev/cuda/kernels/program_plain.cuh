/* program_plain.cuh — the products of a program whose formats' values are a code minus its middle, or a float of 8
 * bits, times a scale.
 *
 * Used by program.cu and program_coded.cu, which have a kernel each. */
#ifndef KERNELS_PROGRAM_PLAIN_CUH
#define KERNELS_PROGRAM_PLAIN_CUH

#include "program.cuh"

struct plain_family {
    template <class UNITS> static __device__ __forceinline__ void with(bool is_one, int stage) {
        if (agreed(is_one))
            run_product<UNITS, row_dot<UNITS>>(stage);
        else
            run_product<UNITS, rows_dot<UNITS>>(stage);
    }
    /* One row goes the way of several, by blocks alone. */
    template <class UNITS> static __device__ __forceinline__ void with_rows(bool is_one, int stage) {
        if (agreed(is_one))
            run_product<UNITS, rows_dot<UNITS, block_meets>>(stage);
        else
            run_product<UNITS, rows_dot<UNITS>>(stage);
    }
    static __device__ __forceinline__ void product(int stage, int kind, bool is_one) {
#define X(bits, group, scales)                                                                                         \
    if (agreed(kind == PROGRAM_KIND(bits, group, PACKED_##scales)))                                                    \
        return with<same_units_one<bits, group>>(is_one, stage);
        PROGRAM_PLAIN(X)
#undef X
#define X(bits, group, scales)                                                                                         \
    if (agreed(kind == PROGRAM_KIND(bits, group, PACKED_##scales)))                                                    \
        return with_rows<same_units<bits, group, PACKED_##scales>>(is_one, stage);
        PROGRAM_FLOATS(X)
#undef X
        with<mixed_units_one>(is_one, stage);
    }
};

#endif
