/* cpu_check.c — the self-test before a level is trusted: does this machine multiply as the scalar code does?
 *
 * Called when a device opens, for the kernels that round activations, those of packed weights too: they use units (AMX
 * tiles) that a kernel, a hypervisor or a compiler may support only half. Small odd sizes run through every path in
 * well under a millisecond. */
#include "cpu.h"
#include "pack.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { N_IN = 75, N_OUT = 35, MOST_ROWS = 53 };

typedef struct trial {
    uint16_t weights[N_OUT * N_IN];
    float x[MOST_ROWS * N_IN], out[MOST_ROWS * N_OUT], expected[MOST_ROWS * N_OUT];
} trial;

/* Multiples of 1/64 below 1, which BF16 holds: the products are exact and only their sums are rounded. */
static void fill(trial *t) {
    uint32_t state = 1;
    for (int i = 0; i < N_OUT * N_IN; i++) {
        state = state * 1664525u + 1013904223u;
        t->weights[i] = quant_f32_to_bf16((float)((int)(state >> 25) - 64) / 64);
    }
    for (int i = 0; i < MOST_ROWS * N_IN; i++) {
        state = state * 1664525u + 1013904223u;
        t->x[i] = (float)((int)(state >> 25) - 64) / 64;
    }
}

static qp_status multiply(const cpu_matmul_kernel *kernel, const trial *t, float *out, int n_rows, qp_error *err) {
    const dev_weight w = {.type = quant_type_of(QUANT_BF16), .n_out = N_OUT, .n_in = N_IN, .data = t->weights};
    const size_t packed_bytes = kernel->packed_bytes(n_rows, N_IN), scratch_bytes = kernel->scratch_bytes(N_IN);
    void *packed = mem_big(packed_bytes), *scratch = mem_big(scratch_bytes);
    const bool ready = packed && scratch;
    if (ready) {
        kernel->pack(packed, t->x, N_IN, n_rows, N_IN, 0, n_rows);
        kernel->run(&(cpu_matmul_block){
            .w = &w,
            .x = packed,
            .n_packed = n_rows,
            .n_rows = n_rows,
            .n_columns = N_OUT,
            .out = out,
            .out_stride = N_OUT,
            .scratch = scratch,
        });
    }
    mem_big_free(packed, packed_bytes);
    mem_big_free(scratch, scratch_bytes);
    return ready ? QP_OK : err_no_memory(err, packed_bytes + scratch_bytes, "the self-test of the matrix products");
}

static qp_status compare(bool *right, const cpu_matmul_kernel *kernel, trial *t, int n_rows, qp_error *err) {
    ERR_TRY(multiply(cpu_matmul_ref.exact[QUANT_BF16], t, t->expected, n_rows, err));
    ERR_TRY(multiply(kernel, t, t->out, n_rows, err));
    for (int i = 0; i < n_rows * N_OUT; i++)
        if (!(fabsf(t->out[i] - t->expected[i]) <= 1e-4f)) *right = false;
    return QP_OK;
}

/* ---- packed weights ---- */

enum { PACKED_IN = 96, BLOCK = 32, BLOCK_BYTES = 2 + BLOCK, ONE_F16 = 0x3C00 };

/* Whole numbers up to PACK_MOST, one of it in every block: rounding to 8 bits changes none of them. */
typedef struct packed_trial {
    uint8_t weights[N_OUT * PACKED_IN / BLOCK * BLOCK_BYTES]; /* Q8_0 */
    float x[MOST_ROWS * PACKED_IN], out[MOST_ROWS * N_OUT], row[PACKED_IN];
} packed_trial;

static void fill_packed(packed_trial *t) {
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof t->weights; i++) {
        const size_t at = i % BLOCK_BYTES;
        state = state * 1664525u + 1013904223u;
        t->weights[i] = (uint8_t)(at == 0 ? ONE_F16 & 0xFF : at == 1 ? ONE_F16 >> 8 : state >> 24);
    }
    for (int i = 0; i < MOST_ROWS * PACKED_IN; i++) {
        state = state * 1664525u + 1013904223u;
        t->x[i] = i % BLOCK ? (float)((int)(state >> 24) - 128) * 0.87f : PACK_MOST;
        t->x[i] = rintf(t->x[i]);
    }
}

static qp_status multiply_packed(const cpu_matmul_kernel *kernel, packed_trial *t, const dev_weight *w, int n_rows,
                                 qp_error *err) {
    const size_t packed_bytes = kernel->packed_bytes(n_rows, PACKED_IN),
                 scratch_bytes = kernel->scratch_bytes(PACKED_IN);
    void *packed = mem_big(packed_bytes), *scratch = mem_big(scratch_bytes);
    const bool ready = packed && scratch;
    if (ready) {
        kernel->pack(packed, t->x, PACKED_IN, n_rows, PACKED_IN, 0, n_rows);
        kernel->run(&(cpu_matmul_block){.w = w,
                                        .x = packed,
                                        .n_packed = n_rows,
                                        .n_rows = n_rows,
                                        .n_columns = N_OUT,
                                        .out = t->out,
                                        .out_stride = N_OUT,
                                        .scratch = scratch});
    }
    mem_big_free(packed, packed_bytes);
    mem_big_free(scratch, scratch_bytes);
    return ready ? QP_OK : err_no_memory(err, packed_bytes + scratch_bytes, "the self-test of the matrix products");
}

/* Every sum is a whole number that floats hold. */
static void compare_packed(bool *right, packed_trial *t, const dev_weight *w, int n_rows) {
    for (int c = 0; c < N_OUT; c++) {
        w->type->unpack_row(t->row, &w->stored, c);
        for (int r = 0; r < n_rows; r++) {
            float sum = 0;
            for (int k = 0; k < PACKED_IN; k++) sum += t->row[k] * t->x[r * PACKED_IN + k];
            if (!(fabsf(t->out[r * N_OUT + c] - sum) <= 1)) *right = false;
        }
    }
}

static qp_status check_packed(bool *right, const cpu_matmul_kernel *kernel, packed_trial *t, pool *p, qp_error *err) {
    static const int rows[] = {1, 3, MOST_ROWS};
    const quant_type *type = quant_type_of(QUANT_Q8_0);
    dev_weight w = {.type = type, .n_out = N_OUT, .n_in = PACKED_IN};
    w.stored = (quant_matrix){.type = type, .n_out = N_OUT, .n_in = PACKED_IN, .parts = {t->weights}};
    w.stored.part_bytes[0] = sizeof t->weights;
    ERR_TRY(pack_weight(&w, p, NULL, err));
    qp_status status = QP_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == QP_OK; i++) {
        status = multiply_packed(kernel, t, &w, rows[i], err);
        if (status == QP_OK) compare_packed(right, t, &w, rows[i]);
    }
    pack_free(&w);
    return status;
}

static qp_status check_grouped(bool *right, const cpu_matmul_kernel *kernel, qp_error *err) {
    pool *p = NULL;
    packed_trial *t = MEM_NEW(packed_trial);
    if (!t) return err_no_memory(err, sizeof *t, "the self-test of the matrix products");
    fill_packed(t);
    qp_status status = pool_new(&p, 1, false, err);
    if (status == QP_OK) status = check_packed(right, kernel, t, p, err);
    pool_free(p);
    mem_free(t);
    return status;
}

qp_status cpu_matmul_check(bool *right, const cpu_matmul_ops *ops, qp_error *err) {
    *right = true;
    if (ops->grouped) ERR_TRY(check_grouped(right, ops->grouped, err));
    const cpu_matmul_kernel *kernel = ops->fast[QUANT_BF16];
    if (!kernel) return QP_OK;
    trial *t = MEM_NEW(trial);
    if (!t) return err_no_memory(err, sizeof *t, "the self-test of the matrix products");
    fill(t);
    static const int rows[] = {1, 3, MOST_ROWS};
    qp_status status = QP_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == QP_OK; i++)
        status = compare(right, kernel, t, rows[i], err);
    mem_free(t);
    return status;
}
