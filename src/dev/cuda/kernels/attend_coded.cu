/* attend_coded.cu — the instances of attend_coded.cuh. */
#include "attend_coded.cuh"

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(128, 3) name(const __grid_constant__ k_decode_args a)

KERNEL(k_decode_64_q8) { attend_coded<64, 8, 8>(a); }
KERNEL(k_decode_64_q6) { attend_coded<64, 6, 6>(a); }
KERNEL(k_decode_64_q4) { attend_coded<64, 6, 4>(a); }
KERNEL(k_decode_128_q8) { attend_coded<128, 8, 8>(a); }
KERNEL(k_decode_128_q6) { attend_coded<128, 6, 6>(a); }
KERNEL(k_decode_128_q4) { attend_coded<128, 6, 4>(a); }
KERNEL(k_decode_coded_merge) { attend_coded_merge(a); }
