/* order.cuh — when a kernel that is launched `early` begins.
 *
 * Such a kernel may start before the one in front of it has ended (programmatic dependent launch), so it must wait
 * before it reads what that one wrote. A GPU older than Hopper knows nothing of this and starts nothing early. */
#ifndef DEV_CUDA_KERNELS_ORDER_CUH
#define DEV_CUDA_KERNELS_ORDER_CUH

/* What follows may start while this grid still runs. */
static __device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* What came before has finished and is visible. */
static __device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* For kernels that have nothing to do beforehand. */
static __device__ __forceinline__ void take_turn() {
    let_next_start();
    wait_for_previous();
}

#endif
