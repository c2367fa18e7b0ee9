/* avx512bf16_matmul.c — BF16 weights times activations rounded to BF16, by dot products of pairs.
 *
 * The walk over tiles is tiles_matmul.inc; a vector is 32 BF16 values and nothing is widened. Exact precision and
 * the other formats keep the kernels of avx512. The instruction flushes subnormal numbers to zero. */
#include "avx512_acc.h"
#include "coded.h"
#include "cpu.h"
#include <string.h>

typedef uint16_t elem;
typedef __m512i vec;
enum { LANES = 32, TILE_ROWS = 4, TILE_COLS = 6, PANEL_TILES = 16, STREAMS = 8 };

static inline vec vec_load(const elem *from) { return _mm512_loadu_si512(from); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)w); }

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k, coded_by by) {
    return _mm512_loadu_si512(row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n, coded_by by) {
    return _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), row + 2 * k);
}

static inline void pack_row(elem *to, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
    if (i == n) return;
    const __mmask16 lanes = (__mmask16)((1u << (n - i)) - 1);
    _mm256_mask_storeu_epi16(to + i, lanes, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i)));
}

#include "tiles_matmul.inc"

TILES_KERNEL(bf16, QUANT_BF16);

const cpu_matmul_ops cpu_matmul_avx512bf16 = {.fast = {[QUANT_BF16] = &kernel_bf16}};
