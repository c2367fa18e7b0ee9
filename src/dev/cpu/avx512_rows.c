/* avx512_rows.c — embedding, norm, rotation and gates in 512-bit registers; what they do is row_ops.inc. */
#include "cpu.h"
#include "avx512_vec.h"
#include "row_ops.inc"

const cpu_row_ops cpu_row_avx512 = ROW_OPS;
