/* flash90.cu — the instances of flash90.cuh; other architectures get kernels that do nothing and are never launched. */
#include "flash90.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define BODY(dim) flash90<dim>(a);
#else
#define BODY(dim)
#endif
#define KERNEL(dim)                                                                                                    \
    extern "C" __global__ void __launch_bounds__(FLASH_THREADS, 1)                                                     \
        k_flash_##dim(const __grid_constant__ k_decode_args a) {                                                       \
        BODY(dim)                                                                                                      \
    }

KERNEL(64)
KERNEL(128)
