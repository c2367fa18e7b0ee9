/* blocks.cu — the instances of blocks.cuh: activations as blocks for the tensor cores. */
#include "blocks.cuh"

/* Grid: rows; threads: as many as BLOCKS_PIECES pieces of each reach over the row. */
#define KERNEL(name, kind)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCKS_THREADS) name(const __grid_constant__ k_blocks_args a) {       \
        put_blocks<kind>(a);                                                                                           \
    }

KERNEL(k_blocks, ROW_PLAIN)
KERNEL(k_blocks_norm, ROW_NORM)
KERNEL(k_blocks_gate_0, ROW_GATE + 0)
KERNEL(k_blocks_gate_1, ROW_GATE + 1)
KERNEL(k_blocks_gate_2, ROW_GATE + 2)
KERNEL(k_blocks_gate_3, ROW_GATE + 3)
KERNEL(k_blocks_gate_4, ROW_GATE + 4)
KERNEL(k_blocks_gate_5, ROW_GATE + 5)
KERNEL(k_blocks_gate_6, ROW_GATE + 6)
