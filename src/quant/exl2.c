/* exl2.c — ExLlamaV2's format: groups of inputs of 2 to 8 bits, most important inputs first.
 *
 * Parts: q_weight [R, N], q_scale [G, N/8], q_scale_max [G], q_groups [2G], q_invperm [K]. Codes run down the columns;
 * groups come in descending width; input i is stored as row q_invperm[i]. The tricky thing: values are rounded to
 * float16 twice on their way, as the reference does, so the exact unpack does too; only the product of code and scale
 * is left unrounded where kernels multiply whole numbers. */
#include "exl2.h"
#include "bits.h"
#include "base/mem.h"

enum { WEIGHT, SCALE, SCALE_MAX, GROUPS, INVPERM };

static int64_t n_groups(const quant_matrix *m) { return (int64_t)(m->part_bytes[GROUPS] / 4); }
static unsigned width_of(const quant_matrix *m, int64_t g) { return bits_u16(m->parts[GROUPS], (size_t)g * 2); }
static int64_t first_word(const quant_matrix *m, int64_t g) { return bits_u16(m->parts[GROUPS], (size_t)g * 2 + 1); }

static int64_t n_words(const quant_matrix *m) {
    return m->stored_out ? (int64_t)(m->part_bytes[WEIGHT] / 4) / m->stored_out : 0;
}

/* Rows of group g; only the last may end with a part of a word's codes. */
static int64_t group_rows(const quant_matrix *m, int64_t g) {
    const int64_t end = g + 1 < n_groups(m) ? first_word(m, g + 1) : n_words(m);
    return (end - first_word(m, g)) * 32 / width_of(m, g);
}

/* float16 throughout: (s + 1)^2 is exact, the ceiling / 256 may become subnormal. */
static float ceiling_of(const quant_matrix *m, int64_t g) {
    return quant_f16_to_f32(quant_f32_to_f16(bits_f16(m->parts[SCALE_MAX], (size_t)g) / 256));
}

static uint16_t scale_at(const quant_matrix *m, int64_t g, int64_t column, float ceiling) {
    const uint32_t word = bits_u32(m->parts[SCALE], (size_t)(g * (m->stored_out / 8) + column / 8));
    const float s = (float)((word >> 4 * (column % 8) & 15) + 1);
    return quant_f32_to_f16(s * s * ceiling);
}

static void unpack(float *out, const quant_matrix *m, int64_t row) {
    int64_t k = 0;
    for (int64_t g = 0; g < n_groups(m); g++) {
        const unsigned width = width_of(m, g);
        const int64_t rows = group_rows(m, g), first = first_word(m, g) * m->stored_out + row;
        const float scale = quant_f16_to_f32(scale_at(m, g, row, ceiling_of(m, g))), zero = (float)(1 << (width - 1));
        for (int64_t r = 0; r < rows; r++, k++) {
            const uint32_t code = bits_code(m->parts[WEIGHT], (size_t)first, (size_t)m->stored_out, (size_t)r, width);
            out[m->order[k]] = quant_f16_to_f32(quant_f32_to_f16(((float)code - zero) * scale));
        }
    }
}

/* ---- checking ---- */

static qp_status check_sizes(const quant_matrix *m, const char *name, qp_error *err) {
    const size_t columns = (size_t)m->stored_out, groups = m->part_bytes[GROUPS] / 4;
    if (m->stored_out < m->n_out || m->stored_out % 32 || !columns || m->part_bytes[WEIGHT] % (4 * columns))
        return err_set(err, QP_BAD_FORMAT, 0, "%s.q_weight: %lld columns, expected %lld or more, a multiple of 32",
                       name, (long long)m->stored_out, (long long)m->n_out);
    if (!groups || m->part_bytes[GROUPS] % 4 || m->part_bytes[SCALE_MAX] != 2 * groups)
        return err_set(err, QP_BAD_FORMAT, 0, "%s.q_groups: %zu bytes, and q_scale_max %zu; expected 4 and 2 per group",
                       name, m->part_bytes[GROUPS], m->part_bytes[SCALE_MAX]);
    if (m->part_bytes[SCALE] / 4 != groups * (columns / 8) || m->part_bytes[SCALE] % 4)
        return err_set(err, QP_BAD_FORMAT, 0, "%s.q_scale: %zu bytes, expected %zu for %zu groups of %zu columns", name,
                       m->part_bytes[SCALE], groups * (columns / 8) * 4, groups, columns);
    if (m->part_bytes[INVPERM] != (size_t)m->n_in * 4)
        return err_set(err, QP_BAD_FORMAT, 0, "%s.q_invperm: %zu bytes, expected %zu for %lld inputs", name,
                       m->part_bytes[INVPERM], (size_t)m->n_in * 4, (long long)m->n_in);
    return QP_OK;
}

static bool is_width(unsigned width) { return width >= 2 && width <= 8 && width != 7; }

static qp_status check_groups(const quant_matrix *m, const char *name, qp_error *err) {
    int64_t rows = 0;
    for (int64_t g = 0; g < n_groups(m); g++) {
        const unsigned width = width_of(m, g);
        const int64_t end = g + 1 < n_groups(m) ? first_word(m, g + 1) : n_words(m), words = end - first_word(m, g);
        if (!is_width(width) || (g && width > width_of(m, g - 1)))
            return err_set(
                err, QP_BAD_FORMAT, (uint64_t)g * 4,
                "%s.q_groups: group %lld has %u bits, allowed are 2, 3, 4, 5, 6 and 8, none more than before", name,
                (long long)g, width);
        if (words <= 0 || words * 32 % width || (!g && first_word(m, 0)))
            return err_set(err, QP_BAD_FORMAT, (uint64_t)g * 4 + 2,
                           "%s.q_groups: group %lld begins at row %lld and ends at %lld of %lld", name, (long long)g,
                           (long long)first_word(m, g), (long long)end, (long long)n_words(m));
        rows += group_rows(m, g);
    }
    if (rows == m->n_in) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s.q_groups: %lld rows in all, expected %lld", name, (long long)rows,
                   (long long)m->n_in);
}

static qp_status make_order(quant_matrix *m, const char *name, qp_error *err) {
    m->order = mem_array((size_t)m->n_in, sizeof *m->order);
    if (!m->order) return err_no_memory(err, (size_t)m->n_in * sizeof *m->order, name);
    for (int64_t k = 0; k < m->n_in; k++) m->order[k] = -1;
    for (int64_t i = 0; i < m->n_in; i++) {
        const int64_t k = bits_i32(m->parts[INVPERM], (size_t)i);
        if (k < 0 || k >= m->n_in || m->order[k] >= 0)
            return err_set(err, QP_BAD_FORMAT, (uint64_t)i * 4,
                           "%s.q_invperm: input %lld is row %lld, expected each of 0 to %lld once", name, (long long)i,
                           (long long)k, (long long)m->n_in - 1);
        m->order[k] = (int32_t)i;
    }
    return QP_OK;
}

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    ERR_TRY(check_sizes(m, name, err));
    ERR_TRY(check_groups(m, name, err));
    return make_order(m, name, err);
}

/* ---- as whole numbers ---- */

/* The group that holds row k, and its first row. */
static int64_t find_group(const quant_matrix *m, int64_t k, int64_t *begin) {
    int64_t g = 0, at = 0;
    for (int64_t rows = group_rows(m, 0); at + rows <= k; rows = group_rows(m, g)) {
        at += rows;
        g++;
    }
    *begin = at;
    return g;
}

/* Neighbouring groups of the same width and length. */
static bool run(quant_run *out, const quant_matrix *m, int64_t k) {
    int64_t begin;
    const int64_t first = find_group(m, k, &begin), size = group_rows(m, first);
    const unsigned width = width_of(m, first);
    int64_t g = first, end = begin;
    for (; g < n_groups(m) && width_of(m, g) == width && group_rows(m, g) == size; g++) end += size;
    *out = (quant_run){.begin = k,
                       .end = end,
                       .bits = (int)width,
                       .group = (int)size,
                       .scales = QUANT_SCALES_PLAIN,
                       .zero = 1 << (width - 1),
                       .unit = 1,
                       .first = first};
    return size % QUANT_TILE_DEPTH == 0 && k == begin;
}

static void tile(quant_tile *out, const quant_matrix *m, const quant_run *r, int64_t row, int64_t k) {
    const int64_t left = m->n_out - row, n = left < QUANT_TILE_ROWS ? left : QUANT_TILE_ROWS;
    const int64_t word = first_word(m, r->first) + (k - r->begin) * r->bits / 32;
    if (n < QUANT_TILE_ROWS) memset(out, 0, sizeof *out);
    bits_codes(out->code, m->parts[WEIGHT], (size_t)(word * m->stored_out + row), (size_t)m->stored_out, (size_t)n,
               (unsigned)r->bits);
    if ((k - r->begin) % r->group) return;
    const int64_t g = r->first + (k - r->begin) / r->group;
    const float ceiling = ceiling_of(m, g);
    for (int64_t c = 0; c < n; c++) out->d[0][c] = scale_at(m, g, row + c, ceiling);
}

const quant_type quant_exl2 = {
    .id = QUANT_EXL2,
    .name = "exl2",
    .bits_per_weight = 4,
    .unpack_row = unpack,
    .check = check,
    .run = run,
    .tile = tile,
};
