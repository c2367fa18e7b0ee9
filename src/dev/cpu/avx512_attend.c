/* avx512_attend.c — attention over one page in 512-bit registers; the walk is page_attend.inc.
 *
 * 8 x 2 or 4 x 4 sums, two or four vectors of keys or values and an element of a query fit the 32 registers. */
#include "cpu.h"
#include "dev/kv_quant.h"
#include "avx512_vec.h"
#include <float.h>

enum { TILE_ROWS = 8, TILE_VECS = 4, FEW_ROWS = 4 };

#include "page_attend.inc"

const cpu_attend_ops cpu_attend_avx512 = {
    .page_f16 = page_f16, .page_f32 = page_f32, .page_quantised = page_quantised, .merge = merge};
