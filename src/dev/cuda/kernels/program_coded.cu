/* program_coded.cu — program.cu for caches of codes.
 *
 * A kernel of its own: with the functions of both kinds of caches in one, ptxas had too few registers for some of
 * either.
 */
#if __CUDA_ARCH__ >= 900 || !defined(__CUDACC__)
#include "program_plain.cuh"

extern "C" __global__ void __launch_bounds__(PROGRAM_THREADS, 1)
    k_program_plain_coded(const __grid_constant__ k_program_args a) {
    run_program<plain_family, coded_caches>(a);
}
#else
#include "../program_kargs.h"

extern "C" __global__ void k_program_plain_coded(const __grid_constant__ k_program_args) {}
#endif
