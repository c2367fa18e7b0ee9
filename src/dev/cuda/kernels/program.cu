/* program.cu — the instances of program.cuh: the formats whose values are a code minus its middle, times a scale.
 *
 * GPUs before sm_90 have no copies in bulk: they get kernels that do nothing and are never launched. */
#if __CUDA_ARCH__ >= 900 || !defined(__CUDACC__) /* tests run it without a GPU */
#include "program.cuh"

struct plain_family {
    template <class UNITS> static __device__ __forceinline__ void with(bool is_one, int stage) {
        if (agreed(is_one))
            run_product<UNITS, row_dot<UNITS>>(stage);
        else
            run_product<UNITS, rows_dot<UNITS>>(stage);
    }
    static __device__ __forceinline__ void product(int stage, int kind, bool is_one) {
#define X(bits, group, scales)                                                                                         \
    if (agreed(kind == PROGRAM_KIND(bits, group, PACKED_##scales)))                                                    \
        return with<same_units_one<bits, group>>(is_one, stage);
        PROGRAM_PLAIN(X)
#undef X
        with<mixed_units_one>(is_one, stage);
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
