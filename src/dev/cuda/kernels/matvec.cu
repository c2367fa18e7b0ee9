/* matvec.cu — the instances of matvec.cuh: few rows times packed weights. */
#include "matvec.cuh"

/* Grid: [shares of the tiles][rows / rows_each]; 256 or 512 threads. */
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(512, 1) name(const __grid_constant__ packed_args a)

KERNEL(k_matvec_mixed) { matvec<mixed_units, 1>(a); }
#define X(bits, group, scales)                                                                                         \
    KERNEL(k_matvec_##bits##_##group##_##scales) { matvec<same_units<bits, group, PACKED_##scales>, 1>(a); }
PACKED_SAMES(X)
#undef X
