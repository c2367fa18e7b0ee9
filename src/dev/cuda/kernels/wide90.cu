/* wide90.cu — the instances of wide90.cuh; other architectures get kernels that do nothing and are never launched. */
#include "wide90.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define BODY(gated, ...) wide90<__VA_ARGS__, gated>(a);
#else
#define BODY(gated, ...)
#endif
#define ONE(name, gated, ...)                                                                                          \
    extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1)                                                      \
        k_wide_##name(const __grid_constant__ k_wide_args a) {                                                         \
        BODY(gated, __VA_ARGS__)                                                                                       \
    }

ONE(mixed, false, mixed_units)
#define X(bits, group, scales) ONE(bits##_##group##_##scales, false, same_units<bits, group, PACKED_##scales>)
PACKED_SAMES(X)
#undef X
#define X(bits, group, scales) ONE(gated_##bits##_##group##_##scales, true, same_units<bits, group, PACKED_##scales>)
PACKED_GATES(X)
#undef X
