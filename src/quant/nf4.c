/* nf4.c — bitsandbytes' 4 bits (NF4 of QLoRA, Dettmers et al. 2023, and FP4): a code picks one of 16 floats that stand
 * in the file, times the greatest magnitude of its block.
 *
 * Parts: codes, two in a byte, the first in the high half, over the whole matrix; the magnitudes of the blocks of
 * `group` weights, float32, or with `row_group` nested: a byte that picks one of 256 floats, times the magnitude of
 * its `row_group` blocks, plus `offset`; the 16 floats; nested magnitudes and their 256 floats. The 16 floats are no
 * whole numbers; as floats by code a matrix has a description where its rows are whole blocks. */
#include "nf4.h"
#include "bits.h"

enum { CODES, MOST, VALUES, NESTED_MOST, NESTED_VALUES };

static float float_at(const void *at, size_t i) {
    const uint32_t word = bits_u32(at, i);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float most_of(const quant_matrix *m, size_t block) {
    if (!m->row_group) return float_at(m->parts[MOST], block);
    const uint8_t code = ((const uint8_t *)m->parts[MOST])[block];
    return float_at(m->parts[NESTED_VALUES], code) * float_at(m->parts[NESTED_MOST], block / (size_t)m->row_group) +
           m->offset;
}

static void unpack(float *out, const quant_matrix *m, int64_t row) {
    const uint8_t *codes = m->parts[CODES];
    size_t known = SIZE_MAX;
    float most = 0;
    for (int64_t k = 0; k < m->n_in; k++) {
        const size_t i = (size_t)(row * m->n_in + k), block = i / (size_t)m->group;
        if (block != known) most = most_of(m, known = block);
        out[k] = float_at(m->parts[VALUES], codes[i / 2] >> (i % 2 ? 0 : 4) & 15) * most;
    }
}

static bool coded(quant_coded *out, const quant_matrix *m) {
    *out = (quant_coded){.codes = QUANT_CODES_TABLE, .group = m->group, .row_group = 1};
    for (size_t i = 0; i < 16; i++) out->values[i] = float_at(m->parts[VALUES], i);
    return m->n_in % m->group == 0 && m->n_in % 2 == 0;
}

static float scale(const quant_matrix *m, int64_t row, int64_t k) {
    return most_of(m, (size_t)(row * m->n_in + k) / (size_t)m->group);
}

static size_t divide_up(size_t n, size_t by) { return (n + by - 1) / by; }

static qp_status check(quant_matrix *m, const char *name, qp_error *err) {
    if (m->group < 1 || m->row_group < 0)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: blocks of %d weights, nested by %d", name, m->group, m->row_group);
    const size_t weights = (size_t)m->n_out * (size_t)m->n_in, blocks = divide_up(weights, (size_t)m->group);
    const size_t nested = m->row_group ? divide_up(blocks, (size_t)m->row_group) : 0;
    const size_t wanted[] = {divide_up(weights, 2), m->row_group ? blocks : 4 * blocks, 16 * sizeof(float), 4 * nested,
                             m->row_group ? 256 * sizeof(float) : 0};
    static const char *const parts[] = {"codes", "absmax", "quant_map", "nested_absmax", "nested_quant_map"};
    for (int i = 0; i < 5; i++)
        if (m->part_bytes[i] != wanted[i])
            return err_set(err, QP_BAD_FORMAT, 0, "%s: %zu bytes of %s for %zu weights in blocks of %d, expected %zu",
                           name, m->part_bytes[i], parts[i], weights, m->group, wanted[i]);
    return QP_OK;
}

const quant_type quant_nf4 = {.id = QUANT_NF4,
                              .name = "nf4",
                              .bits_per_weight = 4.127,
                              .unpack_row = unpack,
                              .check = check,
                              .coded = coded,
                              .scale = scale};
