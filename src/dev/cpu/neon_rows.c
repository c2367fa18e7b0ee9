/* neon_rows.c — embedding, norm, rotation and gates in the 128-bit registers of 64-bit ARM; what they do is
 * row_ops.inc. */
#include "cpu.h"
#include "neon_vec.h"
#include "row_ops.inc"

const cpu_row_ops cpu_row_neon = ROW_OPS;
