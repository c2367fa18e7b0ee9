/* activate.cuh — the activation functions, by the numbers of enum activation. Used by rows.cu and blocks.cuh. */
#ifndef DEV_CUDA_KERNELS_ACTIVATE_CUH
#define DEV_CUDA_KERNELS_ACTIVATE_CUH

static __device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static __device__ float activate(int act, float x) {
    const float relu = x < 0 ? 0 : x;
    switch (act) {
    case 0:
        return x / (1 + expf(-x));
    case 1:
        return x * 0.5f * erfcf(-x * 0.70710678f);
    case 2:
        return x / (1 + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
    case 3:
        return relu;
    case 4:
        return relu * relu;
    case 5:
        return x / (1 + expf(-1.702f * x));
    default:
        return sigmoid(x);
    }
}

#endif
