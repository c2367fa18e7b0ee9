/* attend_decode.cu — the instances of attend_decode.cuh and attend_prefill.cuh. */
#include "attend_prefill.cuh"

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ k_decode_args a)

KERNEL(k_decode_64) { attend_decode<64>(a); }
KERNEL(k_decode_128) { attend_decode<128>(a); }
KERNEL(k_prefill_64) { attend_prefill<64>(a); }
KERNEL(k_prefill_128) { attend_prefill<128>(a); }
extern "C" __global__ void k_decode_merge(const __grid_constant__ k_decode_args a) { attend_merge(a); }
