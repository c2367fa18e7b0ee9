/* emulated_attend.c — the AMX kernels of src/dev/cpu/amx_attend.c on emulated tiles, for cpu_attend_test.c. */
#include "emulated_tiles.h"

#define cpu_attend_amx cpu_attend_emulated
#include "dev/cpu/amx_attend.c"
