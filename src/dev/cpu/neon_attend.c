/* neon_attend.c — attention over one page in the 128-bit registers of 64-bit ARM; the walk is page_attend.inc.
 *
 * 6 x 4 sums, four vectors of keys (a whole group of slots) or values and an element of a query fit the 32 registers.
 */
#include "cpu.h"
#include "dev/kv_quant.h"
#include "neon_vec.h"
#include <float.h>

enum { TILE_ROWS = 6, TILE_VECS = 4, FEW_ROWS = TILE_ROWS };

#include "page_attend.inc"

const cpu_attend_ops cpu_attend_neon = {
    .page_f16 = page_f16, .page_f32 = page_f32, .page_quantised = page_quantised, .merge = merge};
