/* rope.cuh — a head of q or k on its way from its product into attention: norm and rotation; kv.cuh has the pages.
 *
 * Included by rope.cu and program_attend.cuh, which must agree bit for bit. A warp for each head, which waits in shared
 * memory between its steps. */
#ifndef DEV_CUDA_KERNELS_ROPE_CUH
#define DEV_CUDA_KERNELS_ROPE_CUH

#include "kv.cuh"
#include "ptx.cuh"

enum { NORM_NONE, NORM_FIRST, NORM_LAST }; /* enum head_norm */

static __device__ void norm_head(float *head, int dim, const float *weight, float eps) {
    const int lane = lane_now();
    float sum = 0;
    for (int i = lane; i < dim; i += WARP) sum = __fmaf_rn(head[i], head[i], sum);
    const float scale = 1 / sqrtf(warp_sum(sum) / (float)dim + eps);
    for (int i = lane; i < dim; i += WARP) head[i] = __fmul_rn(__fmul_rn(head[i], scale), weight ? weight[i] : 1);
    __syncwarp();
}

static __device__ void turn_head(float *head, const float *cosines, const float *sines, int half, int pairs) {
    for (int i = lane_now(); i < half; i += WARP) {
        float *x = &head[pairs ? 2 * i : i], *y = pairs ? x + 1 : x + half;
        const float a = *x, b = *y, c = cosines[i], s = sines[i];
        *x = __fmaf_rn(a, c, -__fmul_rn(b, s));
        *y = __fmaf_rn(b, c, __fmul_rn(a, s));
    }
    __syncwarp();
}

#endif
