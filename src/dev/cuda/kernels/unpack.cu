/* unpack.cu — the instances of unpack.cuh: packed weights as blocks for gemm90.cu. */
#include "unpack.cuh"

#define KERNEL(name, args) extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ args a)

KERNEL(k_unpack_mixed, k_unpack_args) { unpack_mixed(a); }
#define X(bits, group, scales)                                                                                         \
    KERNEL(k_unpack_##bits##_##group##_##scales, k_unpack_args) { unpack_same<bits, group, PACKED_##scales>(a); }
PACKED_SAMES(X)
#undef X
