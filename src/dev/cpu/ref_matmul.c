/* ref_matmul.c — matrix products in plain C with double sums: the oracle of every other kernel.
 *
 * Works for every format that has an unpack_row. */
#include "cpu.h"
#include <string.h>

static size_t packed_bytes(int n_rows, int64_t n_in) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)n_in, (size_t)n_rows, &bytes)) return SIZE_MAX;
    return __builtin_mul_overflow(bytes, sizeof(float), &bytes) ? SIZE_MAX : bytes;
}

static void pack(void *to, const float *x, int64_t x_stride, int n_rows, int64_t n_in, int begin, int end) {
    for (int row = begin; row < end; row++)
        memcpy((float *)to + row * n_in, x + row * x_stride, (size_t)n_in * sizeof(float));
}

/* The unpacked row. */
static size_t scratch_bytes(int64_t n_in) { return (size_t)n_in * sizeof(float); }

static double dot(const float *w, const float *x, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += (double)w[k] * (double)x[k];
    return sum;
}

static void put(const cpu_matmul_block *b, int64_t row, int64_t column, double sum) {
    float *out = b->out + row * b->out_stride + column;
    if (b->bias) sum += (double)b->bias[column];
    if (b->add) sum += (double)*out;
    *out = (float)sum;
}

static void run(const cpu_matmul_block *b) {
    const int64_t n_in = b->w->n_in;
    float *unpacked = b->scratch;
    const bool is_plain = b->w->type->id < QUANT_PLAIN_COUNT;
    const quant_matrix plain = quant_plain(b->w->type, b->w->n_out, n_in, b->w->data, 0);
    const quant_matrix *m = is_plain ? &plain : &b->w->stored;
    for (int64_t column = b->column; column < b->column + b->n_columns; column++) {
        m->type->unpack_row(unpacked, m, column);
        for (int row = b->row; row < b->row + b->n_rows; row++)
            put(b, row, column, dot(unpacked, (const float *)b->x + row * n_in, n_in));
    }
}

static const cpu_matmul_kernel kernel = {
    .stream_rows = 1,
    .stream_step = 1,
    .row_step = 16,
    .panel = 16,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .run = run,
};

const cpu_matmul_ops cpu_matmul_ref = {
    .exact = {[QUANT_F32] = &kernel, [QUANT_F16] = &kernel, [QUANT_BF16] = &kernel},
    .unpacked = &kernel,
};
