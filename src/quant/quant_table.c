/* quant_table.c — the list of formats: one row each; and opening a matrix out of a file. */
#include "blocks.h"
#include "exl2.h"
#include "exl3.h"
#include "fp.h"
#include "gptq.h"
#include "mx.h"
#include "nf4.h"
#include "nv.h"
#include "scaled.h"
#include "base/mem.h"

static const quant_type *const table[QUANT_COUNT] = {[QUANT_F32] = &quant_f32,
                                                     [QUANT_F16] = &quant_f16,
                                                     [QUANT_BF16] = &quant_bf16,
                                                     [QUANT_EXL2] = &quant_exl2,
                                                     [QUANT_GPTQ] = &quant_gptq,
                                                     [QUANT_AWQ] = &quant_awq,
                                                     [QUANT_AWQ_GEMV] = &quant_awq_gemv,
                                                     [QUANT_FP8_E4M3] = &quant_fp8_e4m3,
                                                     [QUANT_FP8_E5M2] = &quant_fp8_e5m2,
                                                     [QUANT_INT] = &quant_int,
                                                     [QUANT_MXFP4_ROWS] = &quant_mxfp4_rows,
                                                     [QUANT_NVFP4] = &quant_nvfp4,
                                                     [QUANT_NF4] = &quant_nf4,
                                                     [QUANT_EXL3] = &quant_exl3,
#define X(id, format, name, n, size) [QUANT_##id] = &quant_##format,
                                                     BLOCK_FORMATS(X)
#undef X
};

const quant_type *quant_type_of(quant_id id) { return table[id]; }

const quant_type *quant_find(const char *name) {
    for (int i = 0; i < QUANT_COUNT; i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}

qp_status quant_open(quant_matrix *m, const char *name, qp_error *err) {
    size_t bytes = 0;
    m->order = NULL;
    if (m->n_out < 1 || m->n_in < 1 || m->n_in > INT32_MAX || m->n_out > INT32_MAX)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %lld x %lld weights, allowed are 1 x 1 and more", name,
                       (long long)m->n_out, (long long)m->n_in);
    if (m->type->check) {
        const qp_status status = m->type->check(m, name, err);
        if (status != QP_OK) quant_close(m);
        return status;
    }
    if (!m->type->bytes(&bytes, m->n_out, m->n_in))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rows of %lld weights do not fill blocks of %s", name,
                       (long long)m->n_in, m->type->name);
    if (m->part_bytes[0] == bytes) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: %zu bytes for %lld x %lld of %s, expected %zu", name, m->part_bytes[0],
                   (long long)m->n_out, (long long)m->n_in, m->type->name, bytes);
}

void quant_close(quant_matrix *m) {
    mem_free(m->order);
    m->order = NULL;
}

size_t quant_bytes(const quant_matrix *m) {
    size_t bytes = 0;
    for (int i = 0; i < QUANT_PARTS; i++) bytes += m->part_bytes[i];
    return bytes;
}
