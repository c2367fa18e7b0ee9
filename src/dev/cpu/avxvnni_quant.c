/* avxvnni_quant.c — whole-number weights in 256-bit registers, four products and their sum per instruction: for
 * processors that have AVX-VNNI and not AVX-512 (Alder Lake and later cores for desktops and laptops).
 *
 * The walk is quant_matmul.inc, vectors are those of AVX2; here is only the product, in 32 bits at once. */
#include "avx2_quant.h"

enum { WIDE_OFFSET = 0, STARTS_LATE = 0 };

typedef ivec dots;
static inline dots dots_begin(ivec start) { return start; }
/* Codes without sign times four activations with one. */
static inline void dots_add(dots *sum, ivec codes, ivec in, int j, int bits) {
    *sum = _mm256_dpbusd_avx_epi32(*sum, codes, in);
}
static inline ivec dots_end(const dots *sum) { return *sum; }

#include "avx2_quant.inc"

const cpu_matmul_ops cpu_quant_avxvnni = {.grouped = &kernel_grouped};
