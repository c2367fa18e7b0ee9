/* program.cu — program.cuh for the formats whose values are a code minus its middle, times a scale, and float16 caches.
 *
 * GPUs before sm_90 have no copies in bulk: they get kernels that do nothing and are never launched. */
#if __CUDA_ARCH__ >= 900 || !defined(__CUDACC__) /* tests run it without a GPU */
#include "program_plain.cuh"

extern "C" __global__ void __launch_bounds__(PROGRAM_THREADS, 1)
    k_program_plain(const __grid_constant__ k_program_args a) {
    run_program<plain_family, plain_caches>(a);
}
#else
#include "../program_kargs.h"

extern "C" __global__ void k_program_plain(const __grid_constant__ k_program_args) {}
#endif
