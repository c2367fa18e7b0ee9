/* emulated_matmul.c — the AMX kernels of src/dev/cpu/amx_matmul.c on emulated tiles, for cpu_matmul_test.c. */
#include "emulated_tiles.h"

#define cpu_matmul_amx cpu_matmul_emulated
#include "dev/cpu/amx_matmul.c"
