/* experts_many.cu — the instances of experts_many.cuh: more rows times the packed weights of their experts. */
#include "experts_many.cuh"

/* Grid: rows. */
extern "C" __global__ void __launch_bounds__(256) k_expert_rows(const __grid_constant__ k_expert_rows_args a) {
    put_expert_row(a);
}

/* Grid: [EXPERTS_WARPS tiles][shares of the lists of so many rows]. */
#define ONE(name, columns, rows, ...)                                                                                  \
    extern "C" __global__ void __launch_bounds__(32 * EXPERTS_WARPS, 2)                                                \
        k_experts_many_##name##_##rows(const __grid_constant__ k_packed_experts_args a) {                              \
        experts_many<__VA_ARGS__, columns>(a);                                                                         \
    }
#define ALL(name, ...) ONE(name, 1, 8, __VA_ARGS__) ONE(name, 4, 32, __VA_ARGS__) ONE(name, 8, 64, __VA_ARGS__)

ALL(mixed, mixed_units)
#define X(bits, group, scales) ALL(bits##_##group##_##scales, same_units<bits, group, PACKED_##scales>)
PACKED_SAMES(X)
#undef X
