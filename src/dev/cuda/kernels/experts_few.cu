/* experts_few.cu — the instances of experts_few.cuh: few rows times the packed weights of their experts. */
#include "experts_few.cuh"

/* Grid: [parts of an expert's tiles][shares of the lists]; 256 or 512 threads. */
#define KERNEL(name)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(512, 1) name(const __grid_constant__ k_packed_experts_args a)

KERNEL(k_experts_few_mixed) { experts_few<mixed_units>(a); }
#define X(bits, group, scales)                                                                                         \
    KERNEL(k_experts_few_##bits##_##group##_##scales) { experts_few<same_units<bits, group, PACKED_##scales>>(a); }
PACKED_SAMES(X)
#undef X
