/* avx2_attend.c — attention over one page in 256-bit registers; the walk is page_attend.inc.
 *
 * 6 x 2 or 3 x 4 sums, two or four vectors of keys or values and an element of a query fit the 16 registers. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include "avx2_vec.h"
#include <float.h>

enum { TILE_ROWS = 6, TILE_VECS = 4, FEW_ROWS = 3 };

#include "page_attend.inc"

const cpu_attend_ops cpu_attend_avx2 = {
    .page_f16 = page_f16, .page_f32 = page_f32, .page_quantised = page_quantised, .merge = merge};
