/* exl3.c — ExLlamaV3's format, a trellis code (after QTIP, Tseng et al. 2024): W = diag(suh) H T H diag(svh), with H
 * the orthogonal Hadamard matrix of each 128 inputs or outputs.
 *
 * Parts: trellis [n_in / 16][n_out / 16][16 bits] of words of 16 bits; suh, float16 [n_in] or signs, a bit each; svh
 * likewise [n_out]. T lies in tiles of 16 x 16. A tile is a ring of 256 x `bits` bits; the state of weight i is the 16
 * bits that end where its own end, and a hash of the state is the weight. The tricky thing: a row of W takes the work
 * of 128 (`unpack_rows`), so nobody should ask for one alone: a model's weights are unpacked once, while it loads. */
#include "exl3.h"
#include "bits.h"
#include <math.h>

enum { TRELLIS, IN_SCALES, OUT_SCALES, SIDE = 16, BLOCK = QUANT_BLOCK_ROWS, CODEBOOKS = 3 };

/* ---- codebooks ---- */

/* Two float16 out of the halves of a word, added as float16. */
static float sum_of_halves(uint32_t x) {
    const uint32_t y = (x & 0x8fff8fff) ^ 0x3b603b60;
    return quant_f16_to_f32(quant_f32_to_f16(quant_f16_to_f32((uint16_t)y) + quant_f16_to_f32((uint16_t)(y >> 16))));
}

float exl3_value(int codebook, uint32_t state) {
    if (codebook == 0) return sum_of_halves(state * 89226354u + 64248484u);
    if (codebook == 1) return sum_of_halves(state * 0xCBAC1FEDu);
    const uint32_t x = state * 0x83DCD12Du, s = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
    const float value = quant_f16_to_f32((uint16_t)(0x6400 + s)), slope = quant_f16_to_f32(0x1eee);
    return quant_f16_to_f32(quant_f32_to_f16(value * slope + quant_f16_to_f32(0xc931))); /* exact before the rounding */
}

/* ---- tiles ---- */

/* Bit `at` of the ring and the 15 before it. Words of 32 bits are read from their highest bit. */
static uint32_t state_at(const uint8_t *tile, unsigned bits, unsigned i) {
    const unsigned ring = 256 * bits, begin = ((i + 1) * bits + ring - 16) % ring, word = begin / 32;
    const uint64_t two = (uint64_t)bits_u32(tile, word) << 32 | bits_u32(tile, (word + 1) % (8 * bits));
    return (uint32_t)(two >> (48 - begin % 32)) & 0xFFFF;
}

/* Into T[k][n] of a block. */
static void decode_tile(float (*to)[BLOCK], const uint8_t *tile, unsigned bits, int codebook) {
    static const uint8_t rows[8] = {0, 1, 8, 9, 0, 1, 8, 9};
    for (unsigned i = 0; i < SIDE * SIDE; i++) {
        const unsigned t = i / 8, j = i % 8, row = 2 * (t % 4) + rows[j], column = t / 4 + (j >= 4 ? 8 : 0);
        to[row][column] = exl3_value(codebook, state_at(tile, bits, i));
    }
}

/* ---- blocks ---- */

static void hadamard_rows(float (*x)[BLOCK]) {
    for (int half = 1; half < BLOCK; half *= 2)
        for (int i = 0; i < BLOCK; i += 2 * half)
            for (int k = i; k < i + half; k++)
                for (int n = 0; n < BLOCK; n++) {
                    const float a = x[k][n], b = x[k + half][n];
                    x[k][n] = a + b;
                    x[k + half][n] = a - b;
                }
}

static void hadamard_columns(float *x) {
    for (int half = 1; half < BLOCK; half *= 2)
        for (int i = 0; i < BLOCK; i += 2 * half)
            for (int k = i; k < i + half; k++) {
                const float a = x[k], b = x[k + half];
                x[k] = a + b;
                x[k + half] = a - b;
            }
}

/* A scale, or a sign where only those are stored. */
static float scale_at(const quant_matrix *m, int part, int64_t n, int64_t i) {
    if (m->part_bytes[part] == (size_t)n * 2) return bits_f16(m->parts[part], (size_t)i);
    return bits_u16(m->parts[part], (size_t)(i / 16)) >> i % 16 & 1 ? -1 : 1;
}

/* W of inputs [k, k + 128) and outputs [row, row + 128), inputs first. */
static void decode_block(float (*w)[BLOCK], const quant_matrix *m, int64_t row, int64_t k) {
    const size_t tile_bytes = (size_t)(2 * SIDE * m->bits);
    for (int64_t a = 0; a < BLOCK / SIDE; a++)
        for (int64_t b = 0; b < BLOCK / SIDE; b++) {
            const size_t tile = (size_t)((k / SIDE + a) * (m->n_out / SIDE) + row / SIDE + b);
            decode_tile((float(*)[BLOCK]) & w[a * SIDE][b * SIDE],
                        (const uint8_t *)m->parts[TRELLIS] + tile * tile_bytes, (unsigned)m->bits, m->codebook);
        }
    hadamard_rows(w);
    for (int i = 0; i < BLOCK; i++) {
        const float in = scale_at(m, IN_SCALES, m->n_in, k + i) / BLOCK; /* both matrices are over the root of 128 */
        hadamard_columns(w[i]);
        for (int n = 0; n < BLOCK; n++) w[i][n] *= in * scale_at(m, OUT_SCALES, m->n_out, row + n);
    }
}

static void unpack_rows(float *out, const quant_matrix *m, int64_t row) {
    float w[BLOCK][BLOCK];
    for (int64_t k = 0; k < m->n_in; k += BLOCK) {
        decode_block(w, m, row, k);
        for (int n = 0; n < BLOCK; n++)
            for (int i = 0; i < BLOCK; i++) out[n * m->n_in + k + i] = w[i][n];
    }
}

static void unpack(float *out, const quant_matrix *m, int64_t row) {
    float w[BLOCK][BLOCK];
    for (int64_t k = 0; k < m->n_in; k += BLOCK) {
        decode_block(w, m, row / BLOCK * BLOCK, k);
        for (int i = 0; i < BLOCK; i++) out[k + i] = w[i][row % BLOCK];
    }
}

/* ---- checking ---- */

static bool is_scales(const quant_matrix *m, int part, int64_t n) {
    return m->part_bytes[part] == (size_t)n * 2 || m->part_bytes[part] == (size_t)n / 8;
}

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    if (m->n_in % BLOCK || m->n_out % BLOCK)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %lld x %lld weights, both must be multiples of %d", name,
                       (long long)m->n_out, (long long)m->n_in, BLOCK);
    if (m->bits < 1 || m->bits > 8 || m->codebook < 0 || m->codebook >= CODEBOOKS)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %d bits, codebook %d, allowed are 1 to 8, 0 to %d", name, m->bits,
                       m->codebook, CODEBOOKS - 1);
    const size_t wanted = (size_t)m->n_out * (size_t)m->n_in / 8 * (size_t)m->bits;
    if (m->part_bytes[TRELLIS] == wanted && is_scales(m, IN_SCALES, m->n_in) && is_scales(m, OUT_SCALES, m->n_out))
        return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0,
                   "%s: %zu bytes of trellis, %zu of suh and %zu of svh; the first should be %zu", name,
                   m->part_bytes[TRELLIS], m->part_bytes[IN_SCALES], m->part_bytes[OUT_SCALES], wanted);
}

const quant_type quant_exl3 = {.id = QUANT_EXL3,
                               .name = "exl3",
                               .bits_per_weight = 4,
                               .unpack_row = unpack,
                               .unpack_rows = unpack_rows,
                               .check = check};
