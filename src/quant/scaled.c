/* scaled.c — codes row by row and a grid of scales: FP8 (per tensor, per channel, in blocks of 128 x 128) and whole
 * numbers as compressed-tensors stores them (8 bits with sign, or 4 packed into words).
 *
 * Parts: codes [n_out, n_in], scales [n_out / row_group, n_in / group] rounded up. A weight is code times scale. FP8
 * codes are floats of 8 bits: e4m3 has no infinities and its NaN is 0x7F; e5m2 is a float16 cut short. The tricky
 * thing: whole numbers and e4m3 have a description as runs, but only while the scales fit float16. As floats by code
 * both kinds of FP8 have one whatever their scales are. */
#include "scaled.h"
#include "bits.h"
#include <math.h>

enum { CODES, SCALES };

static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static float float_at(const void *at, size_t i) {
    float value;
    memcpy(&value, (const uint8_t *)at + 4 * i, 4);
    return value;
}

static float scale_at(const quant_matrix *m, int64_t row, int64_t k) {
    const size_t i = (size_t)(row / m->row_group * divide_up(m->n_in, m->group) + k / m->group);
    if (m->scale_type == QUANT_F32) return float_at(m->parts[SCALES], i);
    const uint16_t half = bits_u16(m->parts[SCALES], i);
    return m->scale_type == QUANT_F16 ? quant_f16_to_f32(half) : quant_bf16_to_f32(half);
}

/* ---- codes ---- */

/* What e4m3 with this exponent and mantissa is worth; the greatest of both is no number. */
#define E4M3(sign, e, m) ((e) == 15 && (m) == 7 ? NAN : (sign)*0x1p-10f * (float)((e) ? (8 + (m)) << (e) : 2 * (m)))
#define E4M3_EIGHT(sign, e)                                                                                            \
    E4M3(sign, e, 0), E4M3(sign, e, 1), E4M3(sign, e, 2), E4M3(sign, e, 3), E4M3(sign, e, 4), E4M3(sign, e, 5),        \
        E4M3(sign, e, 6), E4M3(sign, e, 7)
#define E4M3_HALF(sign)                                                                                                \
    E4M3_EIGHT(sign, 0), E4M3_EIGHT(sign, 1), E4M3_EIGHT(sign, 2), E4M3_EIGHT(sign, 3), E4M3_EIGHT(sign, 4),           \
        E4M3_EIGHT(sign, 5), E4M3_EIGHT(sign, 6), E4M3_EIGHT(sign, 7), E4M3_EIGHT(sign, 8), E4M3_EIGHT(sign, 9),       \
        E4M3_EIGHT(sign, 10), E4M3_EIGHT(sign, 11), E4M3_EIGHT(sign, 12), E4M3_EIGHT(sign, 13), E4M3_EIGHT(sign, 14),  \
        E4M3_EIGHT(sign, 15)
static const float e4m3[256] = {E4M3_HALF(1), E4M3_HALF(-1)};

float scaled_e4m3(uint8_t code) { return e4m3[code]; }

static uint8_t byte_at(const quant_matrix *m, int64_t row, int64_t k) {
    return ((const uint8_t *)m->parts[CODES])[row * m->n_in + k];
}
/* Without sign, half of the range off. */
static uint8_t whole(const quant_matrix *m, int64_t row, int64_t k) {
    if (m->bits == 8) return byte_at(m, row, k) ^ 0x80;
    return (uint8_t)bits_code(m->parts[CODES], (size_t)(row * (m->n_in / 8)), 1, (size_t)k, 4);
}

static float e4m3_of(const quant_matrix *m, int64_t row, int64_t k) { return e4m3[byte_at(m, row, k)]; }
static float e5m2_of(const quant_matrix *m, int64_t row, int64_t k) {
    return quant_f16_to_f32((uint16_t)(byte_at(m, row, k) << 8));
}
static float int_of(const quant_matrix *m, int64_t row, int64_t k) {
    return (float)(whole(m, row, k) - (1 << (m->bits - 1)));
}

/* A scale at a time: finding one takes longer than many weights. */
static inline void unpack(float *out, const quant_matrix *m, int64_t row,
                          float (*code_of)(const quant_matrix *, int64_t, int64_t)) {
    for (int64_t k = 0; k < m->n_in;) {
        const float scale = scale_at(m, row, k);
        const int64_t end = m->n_in - k < m->group ? m->n_in : k + m->group;
        for (; k < end; k++) out[k] = code_of(m, row, k) * scale;
    }
}

static void unpack_e4m3(float *out, const quant_matrix *m, int64_t row) { unpack(out, m, row, e4m3_of); }
static void unpack_e5m2(float *out, const quant_matrix *m, int64_t row) { unpack(out, m, row, e5m2_of); }
static void unpack_int(float *out, const quant_matrix *m, int64_t row) { unpack(out, m, row, int_of); }

/* ---- checking ---- */

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    const size_t each = m->scale_type == QUANT_F32 ? 4 : 2;
    if (m->group < 1 || m->row_group < 1 || m->bits < 1 || m->n_in * m->bits % 32)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %lld inputs of %d bits, a scale for %d x %d weights", name,
                       (long long)m->n_in, m->bits, m->row_group, m->group);
    const size_t codes = (size_t)m->n_out * (size_t)(m->n_in * m->bits / 8);
    const size_t scales = (size_t)(divide_up(m->n_out, m->row_group) * divide_up(m->n_in, m->group)) * each;
    if (m->part_bytes[CODES] == codes && m->part_bytes[SCALES] == scales) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: %zu bytes of weights and %zu of scales, expected %zu and %zu", name,
                   m->part_bytes[CODES], m->part_bytes[SCALES], codes, scales);
}

static qp_status check_fp8(quant_matrix *m, const char *name, qp_error *err) {
    m->bits = 8;
    return check(m, name, err);
}

static qp_status check_int(quant_matrix *m, const char *name, qp_error *err) {
    if (m->bits == 4 || m->bits == 8) return check(m, name, err);
    return err_set(err, QP_UNSUPPORTED, 0, "%s: whole numbers of %d bits, allowed are 4 and 8", name, m->bits);
}

/* ---- as small numbers ---- */

/* Scales of float32 and bfloat16 can be too small or too large for a float16. */
static bool scales_fit(const quant_matrix *m, float least, float beyond) {
    for (int64_t row = 0; row < m->n_out; row += m->row_group)
        for (int64_t k = 0; k < m->n_in; k += m->group) {
            const float size = fabsf(scale_at(m, row, k));
            if (size != 0 && !(size >= least && size < beyond)) return false;
        }
    return true;
}

static bool run_int(quant_run *out, const quant_matrix *m, int64_t k) {
    *out = (quant_run){.begin = k,
                       .end = m->n_in,
                       .bits = m->bits,
                       .group = m->group,
                       .scales = QUANT_SCALES_PLAIN,
                       .zero = 1 << (m->bits - 1),
                       .unit = 1};
    return m->n_in % m->group == 0 && m->group % QUANT_TILE_DEPTH == 0 && scales_fit(m, 0x1p-14f, 65504);
}

/* How many rows of a tile there are; the others become zeros. */
static int64_t tile_rows(quant_tile *out, const quant_matrix *m, int64_t row) {
    const int64_t left = m->n_out - row, n = left < QUANT_TILE_ROWS ? left : QUANT_TILE_ROWS;
    if (n < QUANT_TILE_ROWS) memset(out, 0, sizeof *out);
    return n;
}

static void tile_int(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t n = tile_rows(out, m, row);
    for (int64_t c = 0; c < n; c++) {
        for (int64_t i = 0; i < QUANT_TILE_DEPTH; i++) out->code[c][i] = whole(m, row + c, k + i);
        out->d[0][c] = quant_f32_to_f16(scale_at(m, row + c, k));
    }
}

/* Scales are a hundredth and less, down to what float16 has few bits for: they are told 2^12 times as great. */
static const float E4M3_UNIT = 0x1p-12f;

/* A scale is told for so many inputs each, however few it was stored for. Scales that are smaller than float16's are
 * worth less than what weights of 16 bits would lose. */
static bool run_e4m3(quant_run *out, const quant_matrix *m, int64_t k) {
    enum { GROUP = 128 };
    *out = (quant_run){.begin = k,
                       .end = m->n_in,
                       .codes = QUANT_CODES_E4M3,
                       .bits = 8,
                       .group = GROUP,
                       .scales = QUANT_SCALES_PLAIN,
                       .unit = E4M3_UNIT};
    return m->n_in % QUANT_TILE_DEPTH == 0 && (m->group % GROUP == 0 || m->group >= m->n_in) &&
           scales_fit(m, 0, 65504 * E4M3_UNIT);
}

bool scaled_e4m3_has_nan(const uint8_t *codes, int64_t n) {
    bool has = false;
    for (int64_t i = 0; i < n; i++) has |= (codes[i] & 0x7F) == 0x7F;
    return has;
}

/* A group with a NaN has one as its scale: kernels need not know that there are codes which are none, and the row's
 * sums come out the same. */
static void tile_e4m3(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t n = tile_rows(out, m, row), left = r->end - k, ahead = left < r->group ? left : r->group;
    const bool begins_group = (k - r->begin) % r->group == 0;
    for (int64_t c = 0; c < n; c++) {
        const uint8_t *codes = (const uint8_t *)m->parts[CODES] + (row + c) * m->n_in + k;
        memcpy(out->code[c], codes, QUANT_TILE_DEPTH);
        const bool is_none = begins_group && scaled_e4m3_has_nan(codes, ahead);
        out->d[0][c] = quant_f32_to_f16(is_none ? NAN : scale_at(m, row + c, k) / E4M3_UNIT);
    }
}

/* ---- as floats by code ---- */

static bool coded_e4m3(quant_coded *out, const quant_matrix *m) {
    *out = (quant_coded){.codes = QUANT_CODES_E4M3, .group = m->group, .row_group = m->row_group};
    return true;
}

static bool coded_e5m2(quant_coded *out, const quant_matrix *m) {
    *out = (quant_coded){.codes = QUANT_CODES_E5M2, .group = m->group, .row_group = m->row_group};
    return true;
}

const quant_type quant_fp8_e4m3 = {.id = QUANT_FP8_E4M3,
                                   .name = "fp8_e4m3",
                                   .bits_per_weight = 8,
                                   .unpack_row = unpack_e4m3,
                                   .check = check_fp8,
                                   .run = run_e4m3,
                                   .tile = tile_e4m3,
                                   .coded = coded_e4m3,
                                   .scale = scale_at};
const quant_type quant_fp8_e5m2 = {.id = QUANT_FP8_E5M2,
                                   .name = "fp8_e5m2",
                                   .bits_per_weight = 8,
                                   .unpack_row = unpack_e5m2,
                                   .check = check_fp8,
                                   .coded = coded_e5m2,
                                   .scale = scale_at};
const quant_type quant_int = {.id = QUANT_INT,
                              .name = "int",
                              .bits_per_weight = 4.125,
                              .unpack_row = unpack_int,
                              .check = check_int,
                              .run = run_int,
                              .tile = tile_int};
