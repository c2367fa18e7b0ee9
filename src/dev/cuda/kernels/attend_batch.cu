/* attend_batch.cu — the instances of attend_batch.cuh. */
#include "attend_batch.cuh"

#define KERNEL(dim)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(128, 4) k_batch_##dim(const __grid_constant__ k_batch_args a) {       \
        attend_batch<dim>(a);                                                                                          \
    }

KERNEL(64)
KERNEL(128)
extern "C" __global__ void k_batch_merge(const __grid_constant__ k_decode_args a) { merge_batch(a); }
