/* quant_matrix.c — any bytes as the parts of a quantised matrix: refused with words, or every row can be unpacked and
 * every tile read.
 *
 * Input: format, n_out, n_in / 8, columns, bits, group, zero, scale type; each part: two bytes of length, bytes. */
#include "base/mem.h"
#include "quant/quant.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 9 };

static void use_rows(const quant_matrix *m) {
    float *row = mem_array((size_t)m->n_in, sizeof *row);
    if (!row) abort();
    const int64_t step = m->type->unpack_rows ? 37 : 1; /* each is the work of many */
    for (int64_t i = 0; i < m->n_out; i += step) m->type->unpack_row(row, m, i);
    mem_free(row);
}

static void use_tiles(const quant_matrix *m) {
    quant_run r;
    quant_tile t;
    for (int64_t k = 0; k < m->n_in; k = r.end) {
        if (!m->type->run || !m->type->run(&r, m, k)) return;
        if (r.begin != k || r.end <= k || r.end > m->n_in) abort();
        for (int64_t at = k; at + QUANT_TILE_DEPTH <= r.end; at += QUANT_TILE_DEPTH)
            for (int64_t row = 0; row < m->n_out; row += QUANT_TILE_ROWS) m->type->tile(&t, m, &r, row, at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copies[QUANT_PARTS] = {0};
    if (size < HEADER) return 0;
    quant_matrix m = {.type = quant_type_of((quant_id)(data[0] % QUANT_COUNT)),
                      .n_out = data[1],
                      .n_in = data[2] * 8,
                      .stored_out = data[3],
                      .bits = data[4],
                      .group = data[5] | data[6] << 8,
                      .zero_add = data[7] & 1,
                      .row_group = data[7] >> 1,
                      .is_divided = data[7] & 1,
                      .codebook = data[7] >> 1,
                      .scale_type = (quant_id)(data[8] % QUANT_PLAIN_COUNT)};
    size_t at = HEADER;
    for (int i = 0; i < QUANT_PARTS && size - at >= 2; i++) {
        const size_t wanted = data[at] | (size_t)data[at + 1] << 8, left = size - at - 2;
        const size_t bytes = wanted < left ? wanted : left;
        if (!(copies[i] = malloc(bytes ? bytes : 1))) abort(); /* exactly as long: a read beyond it is seen */
        memcpy(copies[i], data + at + 2, bytes);
        m.parts[i] = bytes || i < 3 ? copies[i] : NULL;
        m.part_bytes[i] = bytes;
        at += 2 + bytes;
    }
    qp_error err = {0};
    const qp_status status = quant_open(&m, "fuzz", &err);
    if (status == QP_OK) {
        use_rows(&m);
        use_tiles(&m);
    } else if (err.code != status || !err.text[0]) {
        abort();
    }
    quant_close(&m);
    for (int i = 0; i < QUANT_PARTS; i++) free(copies[i]);
    return 0;
}
