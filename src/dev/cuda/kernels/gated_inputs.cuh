/* gated_inputs.cuh — what a gate makes of an expert's inputs, where the product behind it reads them.
 *
 * Used by experts_few.cuh and experts_many.cuh: neither waits for a kernel that does nothing else. */
#ifndef KERNELS_GATED_INPUTS_CUH
#define KERNELS_GATED_INPUTS_CUH

#include "../fast_kargs.h"
#include "ptx.cuh"

/* Comparisons, not minima, so that NaN stays NaN. */
__device__ __forceinline__ float gated_input(const k_gated_inputs &a, float gate, float up) {
    gate = gate > a.limit ? a.limit : gate;
    up = up < -a.limit ? -a.limit : up > a.limit ? a.limit : up;
    return __fdividef(gate, 1 + exp2_fast(gate * a.alpha * -1.44269504f)) * (up + a.more);
}

#endif
