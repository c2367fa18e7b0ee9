/* gptq.c — GPTQ (2, 3, 4, 8 bits, both versions, any order of inputs) and AWQ (gemm and gemv layouts).
 *
 * Parts: qweight, qzeros, scales, and for GPTQ g_idx or nothing. A weight is scale (code - zero) of the group of its
 * input. GPTQ packs codes down the columns and zeros along them; AWQ packs both along the columns with interleaved
 * nibbles; its gemv variant packs rows. m->zero_add is what the stored zeros lack (GPTQ's first version: 1, and a field
 * of all ones is then 2^bits, not 0). The tricky thing: with act-order the groups are scattered over the inputs; where
 * they are complete, m->order sorts the inputs by group, so that kernels see groups side by side. */
#include "gptq.h"
#include "bits.h"
#include "base/mem.h"

enum { WEIGHT, ZEROS, SCALES, G_IDX };

/* Where AWQ keeps column 8 c + j of a word: nibble number lane[j]. */
static const uint8_t awq_lane[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static int64_t groups_of(const quant_matrix *m) { return (m->n_in + m->group - 1) / m->group; }

static float scale_at(const quant_matrix *m, size_t i) {
    if (m->scale_type == QUANT_F16) return bits_f16(m->parts[SCALES], i);
    if (m->scale_type == QUANT_BF16) return quant_bf16_to_f32(bits_u16(m->parts[SCALES], i));
    float value;
    memcpy(&value, (const uint8_t *)m->parts[SCALES] + 4 * i, 4);
    return value;
}

static uint16_t scale_f16(const quant_matrix *m, size_t i) {
    return m->scale_type == QUANT_F16 ? bits_u16(m->parts[SCALES], i) : quant_f32_to_f16(scale_at(m, i));
}

/* The reference multiplies in float16 where the scales are. */
static float weight_of(const quant_matrix *m, int difference, float scale) {
    const float value = (float)difference * scale;
    return m->scale_type == QUANT_F16 ? quant_f16_to_f32(quant_f32_to_f16(value)) : value;
}

static int64_t group_at(const quant_matrix *m, int64_t k) {
    return m->parts[G_IDX] ? bits_i32(m->parts[G_IDX], (size_t)k) : k / m->group;
}

/* ---- the three layouts: zero, scale and code ---- */

static int gptq_zero(const quant_matrix *m, int64_t g, int64_t column) {
    const size_t words = (size_t)(m->stored_out * m->bits / 32);
    return (int)bits_code(m->parts[ZEROS], (size_t)g * words, 1, (size_t)column, (unsigned)m->bits) + m->zero_add;
}

static int awq_nibble(const void *words, int64_t row, int64_t n_columns, int64_t column) {
    const uint32_t word = bits_u32(words, (size_t)(row * (n_columns / 8) + column / 8));
    return (int)(word >> 4 * awq_lane[column % 8] & 15);
}

/* Words of zeros in a row: as many as hold a nibble per group, rounded up more for short groups. */
static int64_t gemv_zero_words(const quant_matrix *m) {
    const int64_t words = (groups_of(m) + 7) / 8, step = m->group >= 128 ? 1 : m->group == 64 ? 2 : 4;
    return (words + step - 1) / step * step;
}

static int gemv_zero(const quant_matrix *m, int64_t g, int64_t row) {
    return (int)bits_code(m->parts[ZEROS], (size_t)(row * gemv_zero_words(m)), 1, (size_t)g, 4);
}

static size_t gemv_scale(const quant_matrix *m, int64_t g, int64_t row) {
    return (size_t)(row * gemv_zero_words(m) * 8 + g);
}

static void unpack_gptq(float *out, const quant_matrix *m, int64_t row) {
    for (int64_t k = 0; k < m->n_in; k++) {
        const int64_t g = group_at(m, k);
        const int code =
            (int)bits_code(m->parts[WEIGHT], (size_t)row, (size_t)m->stored_out, (size_t)k, (unsigned)m->bits);
        out[k] = weight_of(m, code - gptq_zero(m, g, row), scale_at(m, (size_t)(g * m->stored_out + row)));
    }
}

static void unpack_awq(float *out, const quant_matrix *m, int64_t row) {
    for (int64_t k = 0; k < m->n_in; k++) {
        const int64_t g = k / m->group;
        const int code = awq_nibble(m->parts[WEIGHT], k, m->stored_out, row);
        out[k] = weight_of(m, code - awq_nibble(m->parts[ZEROS], g, m->stored_out, row),
                           scale_at(m, (size_t)(g * m->stored_out + row)));
    }
}

static void unpack_gemv(float *out, const quant_matrix *m, int64_t row) {
    for (int64_t k = 0; k < m->n_in; k++) {
        const int64_t g = k / m->group;
        const int code = (int)bits_code(m->parts[WEIGHT], (size_t)(row * (m->n_in / 8)), 1, (size_t)k, 4);
        out[k] = weight_of(m, code - gemv_zero(m, g, row), scale_at(m, gemv_scale(m, g, row)));
    }
}

/* ---- checking ---- */

static size_t scale_bytes(const quant_matrix *m) { return m->scale_type == QUANT_F32 ? 4 : 2; }

static qp_status want_bytes(const quant_matrix *m, int part, const char *what, int64_t rows, int64_t row_bytes,
                            const char *name, qp_error *err) {
    if (m->part_bytes[part] == (size_t)(rows * row_bytes)) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s.%s: %zu bytes, expected %lld for %lld x %lld with %d bits, groups of %d",
                   name, what, m->part_bytes[part], (long long)(rows * row_bytes), (long long)m->n_out,
                   (long long)m->n_in, m->bits, m->group);
}

static qp_status check_numbers(const quant_matrix *m, const char *name, qp_error *err) {
    const bool bits_known = m->bits == 2 || m->bits == 3 || m->bits == 4 || m->bits == 8;
    if (!bits_known || (m->type != &quant_gptq && m->bits != 4))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: %s with %d bits, allowed are %s", name, m->type->name, m->bits,
                       m->type == &quant_gptq ? "2, 3, 4 and 8" : "4");
    if (m->n_in < 1 || m->n_in > INT32_MAX || m->n_in * m->bits % 32 || m->group < 1 || m->stored_out < m->n_out ||
        m->stored_out > INT32_MAX || m->stored_out * m->bits % 32)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: %lld inputs, %lld columns and groups of %d; their codes must fill words of 32 bits", name,
                       (long long)m->n_in, (long long)m->stored_out, m->group);
    return QP_OK;
}

static qp_status check_order(quant_matrix *m, const char *name, qp_error *err);

static qp_status check_gptq(quant_matrix *m, const char *name, qp_error *err) {
    ERR_TRY(check_numbers(m, name, err));
    const int64_t groups = groups_of(m), columns = m->stored_out;
    ERR_TRY(want_bytes(m, WEIGHT, "qweight", m->n_in * m->bits / 32, columns * 4, name, err));
    ERR_TRY(want_bytes(m, ZEROS, "qzeros", groups, columns * m->bits / 8, name, err));
    ERR_TRY(want_bytes(m, SCALES, "scales", groups, columns * (int64_t)scale_bytes(m), name, err));
    if (!m->parts[G_IDX]) return QP_OK;
    ERR_TRY(want_bytes(m, G_IDX, "g_idx", m->n_in, 4, name, err));
    return check_order(m, name, err);
}

static qp_status check_awq(quant_matrix *m, const char *name, qp_error *err) {
    ERR_TRY(check_numbers(m, name, err));
    const int64_t groups = groups_of(m), columns = m->stored_out;
    ERR_TRY(want_bytes(m, WEIGHT, "qweight", m->n_in, columns / 2, name, err));
    ERR_TRY(want_bytes(m, ZEROS, "qzeros", groups, columns / 2, name, err));
    return want_bytes(m, SCALES, "scales", groups, columns * (int64_t)scale_bytes(m), name, err);
}

static qp_status check_gemv(quant_matrix *m, const char *name, qp_error *err) {
    ERR_TRY(check_numbers(m, name, err));
    const int64_t words = gemv_zero_words(m);
    ERR_TRY(want_bytes(m, WEIGHT, "qweight", m->stored_out, m->n_in / 2, name, err));
    ERR_TRY(want_bytes(m, ZEROS, "qzeros", m->stored_out, words * 4, name, err));
    return want_bytes(m, SCALES, "scales", m->stored_out, words * 8 * (int64_t)scale_bytes(m), name, err);
}

/* ---- the order of inputs ---- */

/* Old writers left g_idx at zero, and without act-order it says what is known anyway. */
static bool is_sequential(const quant_matrix *m) {
    bool zeros = true, ascends = true;
    for (int64_t k = 0; k < m->n_in && (zeros || ascends); k++) {
        const int64_t g = bits_i32(m->parts[G_IDX], (size_t)k);
        zeros = zeros && !g;
        ascends = ascends && g == k / m->group;
    }
    return zeros || ascends;
}

/* Stable sort by group; `at` [groups] begins as the counts and becomes each group's next place. */
static void sort_by_group(quant_matrix *m, int32_t *at) {
    int32_t begin = 0;
    for (int64_t g = 0; g < groups_of(m); g++) {
        const int32_t count = at[g];
        at[g] = begin;
        begin += count;
    }
    for (int64_t k = 0; k < m->n_in; k++) m->order[at[group_at(m, k)]++] = (int32_t)k;
}

static bool groups_are_whole(const quant_matrix *m, const int32_t *counts) {
    const int64_t groups = groups_of(m);
    for (int64_t g = 0; g + 1 < groups; g++)
        if (counts[g] != m->group) return false;
    return true;
}

static qp_status check_order(quant_matrix *m, const char *name, qp_error *err) {
    const int64_t groups = groups_of(m);
    for (int64_t k = 0; k < m->n_in; k++)
        if (group_at(m, k) < 0 || group_at(m, k) >= groups)
            return err_set(err, QP_BAD_FORMAT, (uint64_t)k * 4, "%s.g_idx: input %lld is of group %lld of %lld", name,
                           (long long)k, (long long)group_at(m, k), (long long)groups);
    if (is_sequential(m)) {
        m->parts[G_IDX] = NULL;
        return QP_OK;
    }
    int32_t *counts = mem_zarray((size_t)groups, sizeof *counts);
    m->order = mem_array((size_t)m->n_in, sizeof *m->order);
    if (!counts || !m->order) {
        mem_free(counts);
        return err_no_memory(err, (size_t)m->n_in * sizeof *m->order, name);
    }
    for (int64_t k = 0; k < m->n_in; k++) counts[group_at(m, k)]++;
    if (groups_are_whole(m, counts))
        sort_by_group(m, counts);
    else
        quant_close(m); /* no order makes these groups whole */
    mem_free(counts);
    return QP_OK;
}

/* ---- as whole numbers ---- */

/* A zero of 256 fits no byte: 8 bits of the first version with a field of all ones. */
static bool zeros_fit(const quant_matrix *m) {
    if (m->bits < 8 || !m->zero_add) return true;
    const uint8_t *fields = m->parts[ZEROS];
    for (size_t i = 0; i < m->part_bytes[ZEROS]; i++)
        if (fields[i] == 255) return false;
    return true;
}

/* Whether all zeros are one number, as those of symmetric weights are. 8 fields fill `bits` bytes. */
static bool zeros_are_one(const quant_matrix *m) {
    const uint8_t *fields = m->parts[ZEROS];
    const size_t bytes = m->part_bytes[ZEROS], period = (size_t)m->bits, n = bytes * 8 / period;
    const uint32_t first = bits_code(fields, 0, 1, 0, (unsigned)m->bits);
    for (size_t i = 1; i < 8 && i < n; i++)
        if (bits_code(fields, 0, 1, i, (unsigned)m->bits) != first) return false;
    return bytes <= period || !memcmp(fields, fields + period, bytes - period);
}

static bool run(quant_run *out, const quant_matrix *m, int64_t k) {
    const int64_t whole = m->n_in / m->group * m->group;
    const bool is_one = zeros_are_one(m);
    *out = (quant_run){.begin = k,
                       .end = k < whole ? whole : m->n_in,
                       .bits = m->bits,
                       .group = k < whole ? m->group : (int)(m->n_in - whole),
                       .scales = is_one ? QUANT_SCALES_PLAIN : QUANT_SCALES_ZERO,
                       .zero = is_one ? (int)bits_code(m->parts[ZEROS], 0, 1, 0, (unsigned)m->bits) + m->zero_add : 0,
                       .unit = 1};
    return out->group % QUANT_TILE_DEPTH == 0 && (m->order || !m->parts[G_IDX]) && zeros_fit(m);
}

static int64_t rows_left(quant_tile *out, const quant_matrix *m, int64_t row) {
    if (m->n_out - row >= QUANT_TILE_ROWS) return QUANT_TILE_ROWS;
    memset(out, 0, sizeof *out);
    return m->n_out - row;
}

static void tile_gptq(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t n = rows_left(out, m, row), g = k / m->group;
    if (m->order)
        for (int64_t i = 0; i < QUANT_TILE_DEPTH; i++)
            for (int64_t c = 0; c < n; c++)
                out->code[c][i] = (uint8_t)bits_code(m->parts[WEIGHT], (size_t)(row + c), (size_t)m->stored_out,
                                                     (size_t)m->order[k + i], (unsigned)m->bits);
    else
        bits_codes(out->code, m->parts[WEIGHT], (size_t)(k * m->bits / 32 * m->stored_out + row), (size_t)m->stored_out,
                   (size_t)n, (unsigned)m->bits);
    for (int64_t c = 0; c < n && k % m->group == 0; c++) {
        out->d[0][c] = scale_f16(m, (size_t)(g * m->stored_out + row + c));
        out->min[0][c] = (uint8_t)gptq_zero(m, g, row + c);
    }
}

static void tile_awq(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t n = rows_left(out, m, row), g = k / m->group;
    for (int64_t i = 0; i < QUANT_TILE_DEPTH; i++)
        for (int64_t c = 0; c < n; c++)
            out->code[c][i] = (uint8_t)awq_nibble(m->parts[WEIGHT], k + i, m->stored_out, row + c);
    for (int64_t c = 0; c < n && k % m->group == 0; c++) {
        out->d[0][c] = scale_f16(m, (size_t)(g * m->stored_out + row + c));
        out->min[0][c] = (uint8_t)awq_nibble(m->parts[ZEROS], g, m->stored_out, row + c);
    }
}

static void tile_gemv(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t n = rows_left(out, m, row), g = k / m->group;
    for (int64_t c = 0; c < n; c++) {
        const size_t word = (size_t)((row + c) * (m->n_in / 8) + k / 8);
        for (size_t i = 0; i < QUANT_TILE_DEPTH; i++)
            out->code[c][i] = (uint8_t)bits_code(m->parts[WEIGHT], word, 1, i, 4);
        out->d[0][c] = scale_f16(m, gemv_scale(m, g, row + c));
        out->min[0][c] = (uint8_t)gemv_zero(m, g, row + c);
    }
}

const quant_type quant_gptq = {
    .id = QUANT_GPTQ,
    .name = "gptq",
    .bits_per_weight = 4.15625,
    .unpack_row = unpack_gptq,
    .check = check_gptq,
    .run = run,
    .tile = tile_gptq,
};

const quant_type quant_awq = {
    .id = QUANT_AWQ,
    .name = "awq",
    .bits_per_weight = 4.15625,
    .unpack_row = unpack_awq,
    .check = check_awq,
    .run = run,
    .tile = tile_awq,
};

const quant_type quant_awq_gemv = {
    .id = QUANT_AWQ_GEMV,
    .name = "awq-gemv",
    .bits_per_weight = 4.15625,
    .unpack_row = unpack_gemv,
    .check = check_gemv,
    .run = run,
    .tile = tile_gemv,
};
