/* api_adapter.c — adapters behind their public handles. */
#include "handles.h"
#include "base/file.h"
#include "base/mem.h"
#include <math.h>

qp_status qp_adapter_open(qp_adapter **out, const qp_model *m, const char *path, qp_error *err) {
    *out = NULL;
    if (!m || !path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_adapter_open: no model or path");
    if (!file_is_folder(path))
        return err_set(err, file_exists(path) ? QP_BAD_ARGUMENT : QP_NO_FILE, 0,
                       "%s: a folder as PEFT writes is needed", path);
    qp_adapter *a = MEM_NEW(qp_adapter);
    if (!a) return err_no_memory(err, sizeof *a, "an adapter");
    a->model = m->model;
    const qp_status status = lora_open(&a->lora, &m->model->split, m->model->arch, &m->model->shape, path, err);
    if (status != QP_OK) return mem_free(a), status;
    *out = a;
    return QP_OK;
}

void qp_adapter_close(qp_adapter *a) {
    if (!a) return;
    lora_close(a->lora);
    mem_free(a);
}

qp_status api_adapters(lora_set *out, const model *m, const qp_adapter_use *uses, size_t count, qp_error *err) {
    *out = (lora_set){0};
    if (count > LORA_MOST) return err_set(err, QP_TOO_LARGE, 0, "%zu adapters, allowed are 0 to %d", count, LORA_MOST);
    for (size_t i = 0; i < count; i++) {
        if (!uses[i].adapter || uses[i].adapter->model != m)
            return err_set(err, QP_BAD_ARGUMENT, i, "adapter %zu is of another model", i + 1);
        if (!isfinite(uses[i].scale))
            return err_set(err, QP_BAD_ARGUMENT, i, "the scale of adapter %zu is %g, a finite number is needed", i + 1,
                           (double)uses[i].scale);
        out->adapters[out->n] = uses[i].adapter->lora;
        out->scales[out->n++] = uses[i].scale;
    }
    return QP_OK;
}
