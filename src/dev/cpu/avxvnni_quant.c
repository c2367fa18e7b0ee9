/* avxvnni_quant.c — whole-number weights in 256-bit registers, four products and their sum per instruction: for
 * processors that have AVX-VNNI and not AVX-512 (Alder Lake and later cores for desktops and laptops).
 *
 * The walk is quant_matmul.inc, vectors are those of AVX2; here is only the product, in 32 bits at once. */
#include "avx2_quant.h"

enum { WIDE_OFFSET = 0 };

/* Codes without sign times four activations with one; `wide` codes need no care here. */
static inline ivec i_dot(ivec sum, ivec codes, const int8_t *x, bool wide) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_dpbusd_avx_epi32(sum, codes, _mm256_set1_epi32(four));
}

#include "quant_matmul.inc"
#include "quant_panel.inc"

const cpu_matmul_ops cpu_quant_avxvnni = {.grouped = &kernel_grouped};
