/* skinny90.cu — the instances of skinny90.cuh; other architectures get kernels that do nothing and are never launched.
 */
#include "skinny90.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define BODY(columns, ...) skinny90<__VA_ARGS__, columns>(a);
#else
#define BODY(columns, ...)
#endif
#define ONE(name, columns, ...)                                                                                        \
    extern "C" __global__ void __launch_bounds__(SKINNY_THREADS, 1)                                                    \
        k_skinny_##name##_##columns(const __grid_constant__ k_skinny_args a) {                                         \
        BODY(columns, __VA_ARGS__)                                                                                     \
    }
#define ALL(name, ...) ONE(name, 32, __VA_ARGS__) ONE(name, 64, __VA_ARGS__) ONE(name, 128, __VA_ARGS__)

ALL(mixed, mixed_units)
#define X(bits, group, scales) ALL(bits##_##group##_##scales, same_units<bits, group, PACKED_##scales>)
PACKED_SAMES(X)
#undef X
