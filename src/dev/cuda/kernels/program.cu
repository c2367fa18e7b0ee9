/* program.cu — the instances of program.cuh: the formats whose values are a code minus its middle, times a scale.
 *
 * GPUs before sm_90 have no copies in bulk: they get kernels that do nothing and are never launched. */
#if __CUDA_ARCH__ >= 900 || !defined(__CUDACC__) /* tests run it without a GPU */
#include "program.cuh"

struct plain_family {
    static __device__ __forceinline__ void product(int stage, int kind, uint32_t turn) {
        switch (kind) {
#define X(bits, group, scales)                                                                                         \
    case PROGRAM_KIND(bits, group, PACKED_##scales):                                                                   \
        return run_product<same_units<bits, group, PACKED_##scales>>(stage, turn);
            PROGRAM_PLAIN(X)
#undef X
        default:
            return run_product<mixed_units>(stage, turn);
        }
    }
};

extern "C" __global__ void __launch_bounds__(PROGRAM_THREADS, 1)
    k_program_plain(const __grid_constant__ k_program_args a) {
    run_program<plain_family>(a);
}
#else
#include "../program_kargs.h"

extern "C" __global__ void k_program_plain(const __grid_constant__ k_program_args) {}
#endif
