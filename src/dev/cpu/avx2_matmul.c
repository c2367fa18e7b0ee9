/* avx2_matmul.c — matrix products with float32 activations in 256-bit registers, by fused multiply-adds.
 *
 * The walk over tiles is tiles_matmul.inc; here is only what a vector is. 4 x 3 sums, 3 inputs and a weight fill the
 * 16 registers. */
#include "avx2_sum.h"
#include "coded.h"
#include "cpu.h"
#include <string.h>

typedef float elem;
typedef __m256 vec;
typedef __m256 acc;
enum { LANES = 8, TILE_ROWS = 4, TILE_COLS = 3, PANEL_TILES = 32, STREAMS = 4, AS_CODED = 0, PARKS_SUMS = 0 };

static inline vec vec_load(const elem *from) { return _mm256_loadu_ps(from); }
static inline acc acc_zero(void) { return _mm256_setzero_ps(); }
static inline acc acc_add_scaled(acc a, acc sum, float scale) { return _mm256_fmadd_ps(sum, _mm256_set1_ps(scale), a); }
static inline acc vec_mac(acc a, vec x, vec w) { return _mm256_fmadd_ps(x, w, a); }

static inline vec from_16(quant_id type, const void *at) {
    const __m128i bits = _mm_loadu_si128(at);
    if (type == QUANT_F16) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/* The eighth bit becomes the sixteenth, the others keep together below the fifteenth. */
static inline vec from_e4m3(__m128i codes) {
    const __m128i bits = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7);
    return _mm256_cvtph_ps(_mm_and_si128(bits, _mm_set1_epi16((short)0xBFFF)));
}

static inline vec from_e5m2(__m128i codes) { return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 8)); }

static inline vec from_8(quant_id type, const void *at, coded_by by) {
    const __m128i codes = _mm_loadl_epi64(at);
    return _mm256_mul_ps(type == QUANT_FP8_E4M3 ? from_e4m3(codes) : from_e5m2(codes), _mm256_set1_ps(by.scale));
}

/* Picks of eight floats look at three bits of each lane alone; the fourth, as its sign, chooses between two of them. */
static inline vec from_4(const void *at, coded_by by) {
    int32_t eight;
    memcpy(&eight, at, sizeof eight);
    const __m256i words = _mm256_set1_epi32(eight);
    const __m256i codes = _mm256_srlv_epi32(words, _mm256_set_epi32(24, 28, 16, 20, 8, 12, 0, 4));
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(by.coded->values), codes);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(by.coded->values + 8), codes);
    const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return _mm256_mul_ps(_mm256_blendv_ps(low, high, is_high), _mm256_set1_ps(by.scale));
}

static inline vec vec_weight(quant_id type, const uint8_t *row, int64_t k, coded_by by) {
    if (type == QUANT_F32) return _mm256_loadu_ps((const void *)(row + 4 * k));
    if (type == QUANT_NF4) return from_4(row + k / 2, by);
    if (is_coded(type)) return from_8(type, row + k, by);
    return from_16(type, row + 2 * k);
}

/* The first n lanes; the rest are zeros and their memory is not touched. */
static inline vec vec_weight_part(quant_id type, const uint8_t *row, int64_t k, int n, coded_by by) {
    _Alignas(32) uint8_t bytes[32] = {0};
    memcpy(bytes, row + bytes_of(type, k), bytes_of(type, n));
    return vec_weight(type, bytes, 0, by);
}

static inline float acc_sum(acc a) { return sum_across(sum_halves(a)); }
static inline void acc_sum_four(float *to, acc a, acc b, acc c, acc d) {
    const __m128 fours[4] = {sum_halves(a), sum_halves(b), sum_halves(c), sum_halves(d)};
    sum_four_across(to, fours);
}

static inline void pack_row(elem *to, const float *x, int64_t n) { memcpy(to, x, (size_t)n * sizeof *to); }

#include "tiles_matmul.inc"

TILES_KERNEL(f32, QUANT_F32);
TILES_KERNEL(f16, QUANT_F16);
TILES_KERNEL(bf16, QUANT_BF16);
TILES_KERNEL(e4m3, QUANT_FP8_E4M3);
TILES_KERNEL(e5m2, QUANT_FP8_E5M2);
TILES_KERNEL(table, QUANT_NF4);

#include "unpacked_matmul.inc"

const cpu_matmul_ops cpu_matmul_avx2 = {
    .exact = {[QUANT_F32] = &kernel_f32, [QUANT_F16] = &kernel_f16, [QUANT_BF16] = &kernel_bf16},
    .unpacked = &kernel_unpacked,
    .coded =
        {[QUANT_CODES_E4M3] = &kernel_e4m3, [QUANT_CODES_E5M2] = &kernel_e5m2, [QUANT_CODES_TABLE] = &kernel_table},
};
