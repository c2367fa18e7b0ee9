/* avx2_rows.c — embedding, norm, rotation and gates in 256-bit registers; what they do is row_ops.inc. */
#include "cpu.h"
#include "avx2_vec.h"
#include "row_ops.inc"

const cpu_row_ops cpu_row_avx2 = ROW_OPS;
