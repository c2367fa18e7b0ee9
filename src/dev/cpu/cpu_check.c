/* cpu_check.c — the self-test before a level is trusted: does this machine multiply as the scalar code does?
 *
 * Called when a device opens, for the kernels that round activations, those of packed weights too: they use units (AMX
 * tiles) that a kernel, a hypervisor or a compiler may support only half. Small odd sizes run through every path in
 * well under a millisecond. */
#include "cpu_trial.h"
#include "pack.h"
#include "base/mem.h"
#include <math.h>

enum { N_IN = 75, N_OUT = 35, MOST_ROWS = 53 };
static const int row_counts[] = {1, 3, MOST_ROWS};

/* The product of the first n_rows of x. */
static qp_status multiply(const cpu_matmul_kernel *kernel, const dev_weight *w, const float *x, int n_rows, float *out,
                          qp_error *err) {
    cpu_trial t;
    const qp_status status = cpu_trial_open(&t, kernel, w, n_rows, err);
    if (status == QP_OK) {
        cpu_trial_pack(&t, x, n_rows);
        cpu_trial_run(&t, n_rows, (cpu_ways){0}, out);
    }
    cpu_trial_close(&t);
    return status;
}

/* ---- weights of 16 bits ---- */

typedef struct float_trial {
    uint16_t weights[N_OUT * N_IN];
    float x[MOST_ROWS * N_IN], out[MOST_ROWS * N_OUT], expected[MOST_ROWS * N_OUT];
} float_trial;

/* Multiples of 1/64 below 1, which BF16 holds: the products are exact and only their sums are rounded. */
static float draw_small(uint32_t *state) { return (float)((int)(cpu_trial_draw(state) >> 25) - 64) / 64; }

static void fill(float_trial *t, quant_id type) {
    uint32_t state = 1;
    for (int i = 0; i < N_OUT * N_IN; i++) {
        const float weight = draw_small(&state);
        t->weights[i] = type == QUANT_F16 ? quant_f32_to_f16(weight) : quant_f32_to_bf16(weight);
    }
    for (int i = 0; i < MOST_ROWS * N_IN; i++) t->x[i] = draw_small(&state);
}

static void look(bool *right, const float_trial *t, int n_rows) {
    for (int i = 0; i < n_rows * N_OUT; i++)
        if (!(fabsf(t->out[i] - t->expected[i]) <= 1e-4f)) *right = false;
}

static dev_weight stored_rows(const float_trial *t, quant_id type) {
    return (dev_weight){.type = quant_type_of(type), .n_out = N_OUT, .n_in = N_IN, .data = t->weights};
}

/* The kernel's product with w is ref's with these rows. */
static qp_status try_floats(bool *right, const cpu_matmul_kernel *kernel, const dev_weight *w, const dev_weight *rows,
                            float_trial *t, qp_error *err) {
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        ERR_TRY(multiply(cpu_matmul_ref.exact[rows->type->id], rows, t->x, row_counts[i], t->expected, err));
        ERR_TRY(multiply(kernel, w, t->x, row_counts[i], t->out, err));
        look(right, t, row_counts[i]);
    }
    return QP_OK;
}

/* Float16 weights that a level lays out in an order of its own. */
static qp_status try_woven(bool *right, const cpu_weaving *weaving, float_trial *t, qp_error *err) {
    fill(t, QUANT_F16);
    const dev_weight rows = stored_rows(t, QUANT_F16);
    const size_t bytes = weaving->bytes(N_OUT, N_IN);
    void *to = mem_big(bytes);
    if (!to) return err_no_memory(err, bytes, "the self-test of the matrix products");
    weaving->weave(to, &rows, 0, N_OUT);
    dev_weight woven = rows;
    woven.type = quant_type_of(QUANT_BF16);
    woven.data = to;
    const qp_status status = try_floats(right, weaving->kernel, &woven, &rows, t, err);
    mem_big_free(to, bytes);
    return status;
}

static qp_status check_floats(bool *right, const cpu_matmul_kernel *kernel, quant_id type, qp_error *err) {
    float_trial *t = MEM_NEW(float_trial);
    if (!t) return err_no_memory(err, sizeof *t, "the self-test of the matrix products");
    fill(t, type);
    const dev_weight rows = stored_rows(t, type);
    qp_status status = try_floats(right, kernel, &rows, &rows, t, err);
    if (status == QP_OK && kernel->weaving) status = try_woven(right, kernel->weaving, t, err);
    mem_free(t);
    return status;
}

/* ---- packed weights ---- */

enum { PACKED_IN = 96, BLOCK = 32, BLOCK_BYTES = 2 + BLOCK };

/* Whole numbers up to PACK_MOST, one of it in every block: rounding to 8 bits changes none of them. */
typedef struct packed_trial {
    uint8_t weights[N_OUT * PACKED_IN / BLOCK * BLOCK_BYTES]; /* Q8_0 */
    float x[MOST_ROWS * PACKED_IN], out[MOST_ROWS * N_OUT], row[PACKED_IN];
} packed_trial;

static void fill_packed(packed_trial *t) {
    uint32_t state = 1;
    for (int i = 0; i < MOST_ROWS * PACKED_IN; i++) {
        const float drawn = (float)((int)(cpu_trial_draw(&state) >> 24) - 128) * 0.87f;
        t->x[i] = i % BLOCK ? rintf(drawn) : PACK_MOST;
    }
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

static qp_status try_packed(bool *right, const cpu_matmul_kernel *kernel, packed_trial *t, qp_error *err) {
    dev_weight w;
    ERR_TRY(cpu_trial_weight(&w, QUANT_Q8_0, N_OUT, PACKED_IN, t->weights, sizeof t->weights, err));
    qp_status status = QP_OK;
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts && status == QP_OK; i++) {
        status = multiply(kernel, &w, t->x, row_counts[i], t->out, err);
        if (status == QP_OK) compare_packed(right, t, &w, row_counts[i]);
    }
    pack_free(&w);
    return status;
}

static qp_status check_packed(bool *right, const cpu_matmul_kernel *kernel, qp_error *err) {
    packed_trial *t = MEM_NEW(packed_trial);
    if (!t) return err_no_memory(err, sizeof *t, "the self-test of the matrix products");
    fill_packed(t);
    const qp_status status = try_packed(right, kernel, t, err);
    mem_free(t);
    return status;
}

qp_status cpu_matmul_check(bool *right, const cpu_matmul_ops *ops, qp_error *err) {
    *right = true;
    if (ops->grouped) ERR_TRY(check_packed(right, ops->grouped, err));
    if (ops->prompts) ERR_TRY(check_packed(right, ops->prompts, err));
    for (quant_id type = QUANT_F16; type <= QUANT_BF16; type++) {
        const cpu_matmul_kernel *fast = ops->fast[type];
        if (fast) ERR_TRY(check_floats(right, fast, type, err));
    }
    return QP_OK;
}
