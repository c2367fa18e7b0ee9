/* coded.c — the scales of floats by code as kernels read them, and who cannot be read so.
 *
 * Called by cpu.c while a model loads. Each task looks at the codes of some rows and writes the scales that begin
 * there. */
#include "coded.h"
#include "base/mem.h"
#include "quant/scaled.h"
#include <math.h>
#include <string.h>

enum { TASK_ROWS = 64, ALL_SHIFT = 62 };

/* What a code lacks that becomes a float by its bits. */
static float unit_of(quant_codes codes) { return codes == QUANT_CODES_E4M3 ? 0x1p8f : 1; }

/* What a code of 8 bits stands for as kernels read it, without its unit. */
static float float_of(quant_codes codes, uint8_t code) {
    return codes == QUANT_CODES_E4M3 ? scaled_e4m3(code) / unit_of(codes) : quant_f16_to_f32((uint16_t)(code << 8));
}

static void put_halves(cpu_coded *to) {
    for (int i = 0; i < CODED_SIZES; i++) {
        const uint16_t half = quant_f32_to_bf16(float_of(to->codes, (uint8_t)i));
        to->lower[i] = (uint8_t)half;
        to->upper[i] = (uint8_t)(half >> 8);
    }
}

/* By how much to shift what shares a scale with its n neighbours; false: that is no shift, or below `least`. */
static bool shift_of(int *out, int64_t group, int64_t n, int64_t least) {
    *out = ALL_SHIFT;
    if (group >= n) return true;
    if (group < least || group & (group - 1)) return false;
    *out = __builtin_ctzll((unsigned long long)group);
    return true;
}

typedef struct job {
    const quant_matrix *m;
    cpu_coded *to;
    atomic_bool is_unfit;
} job;

/* Kernels would make a number of e4m3's NaN. */
static bool row_is_fit(const job *j, int64_t row) {
    const uint8_t *codes = (const uint8_t *)j->m->parts[0] + row * j->m->n_in;
    return j->to->codes != QUANT_CODES_E4M3 || !scaled_e4m3_has_nan(codes, j->m->n_in);
}

/* The scales that begin in this row; false: one overflows. */
static bool put_scales(const job *j, int64_t row) {
    cpu_coded *to = j->to;
    if (row & (((int64_t)1 << to->row_shift) - 1)) return true;
    float *scales = to->scales + (row >> to->row_shift) * to->scales_of_row;
    bool is_fit = true;
    for (int64_t i = 0; i < to->scales_of_row; i++) {
        const float scale = j->m->type->scale(j->m, row, i << to->shift);
        scales[i] = scale * unit_of(to->codes);
        is_fit &= isfinite(scales[i]) || !isfinite(scale);
    }
    return is_fit;
}

static void open_rows(void *context, int64_t task, int worker) {
    job *j = context;
    const int64_t begin = task * TASK_ROWS, left = j->m->n_out - begin,
                  end = left < TASK_ROWS ? j->m->n_out : begin + TASK_ROWS;
    for (int64_t row = begin; row < end; row++)
        if (!row_is_fit(j, row) || !put_scales(j, row)) atomic_store(&j->is_unfit, true);
}

/* How many of n there are when each is shared. */
static int64_t shared(int64_t n, int shift) { return ((n - 1) >> shift) + 1; }

/* All but the scales; false: no kernel reads the matrix. */
static bool plan(cpu_coded *out, const quant_matrix *m, const cpu_matmul_kernel *const *kernels) {
    quant_coded is;
    if (!m->type->coded || !m->type->coded(&is, m) || !kernels[is.codes]) return false;
    *out = (cpu_coded){.codes = is.codes};
    memcpy(out->values, is.values, sizeof out->values);
    if (is.codes != QUANT_CODES_TABLE) put_halves(out);
    if (is.codes == QUANT_CODES_TABLE && m->n_in % CODED_STEP) return false;
    if (!shift_of(&out->shift, is.group, m->n_in, CODED_STEP)) return false;
    out->scales_of_row = shared(m->n_in, out->shift);
    return shift_of(&out->row_shift, is.row_group, m->n_out, 1);
}

qp_status coded_open(dev_weight *w, const cpu_matmul_kernel *const *kernels, pool *p, qp_error *err) {
    const quant_matrix *m = &w->stored;
    cpu_coded planned;
    if (!plan(&planned, m, kernels)) return QP_OK;
    const int64_t n_scales = shared(m->n_out, planned.row_shift) * planned.scales_of_row;
    const size_t bytes = sizeof planned + (size_t)n_scales * sizeof(float);
    job j = {.m = m, .to = mem_array(1, bytes)};
    if (!j.to) return err_no_memory(err, bytes, "the scales of a weight");
    memcpy(j.to, &planned, sizeof planned);
    pool_run(p, open_rows, &j, (m->n_out + TASK_ROWS - 1) / TASK_ROWS);
    if (j.is_unfit) {
        mem_free(j.to);
        return QP_OK;
    }
    w->owned = j.to;
    w->owned_bytes = bytes;
    return QP_OK;
}

void coded_close(dev_weight *w) {
    mem_free(w->owned);
    w->owned = NULL;
}
