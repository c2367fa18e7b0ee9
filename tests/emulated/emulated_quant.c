/* emulated_quant.c — the AMX kernels of src/dev/cpu/amxint8_quant.c on emulated tiles, for cpu_quant_test.c. */
#include "emulated_tiles.h"

#define cpu_quant_amxint8 cpu_quant_emulated
#include "dev/cpu/amxint8_quant.c"
