/* emulated_prompts.c — the AMX kernels of src/dev/cpu/amx_quant.c on emulated tiles, for cpu_quant_test.c. */
#include "emulated_tiles.h"

#define cpu_quant_amx cpu_prompts_emulated
#include "dev/cpu/amx_quant.c"
