/* safetensors_file.c — any bytes as a safetensors file: refused with words, or tensors that can be read to their last
 * byte, do not overlap and cover the data. */
#include "format/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensors(const safetensors *f, const uint8_t *data, size_t size) {
    volatile uint8_t last = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const ckpt_tensor *t = &f->tensors[i];
        size_t bytes = 0;
        if (t->data < data || t->bytes > (size_t)(data + size - t->data)) abort();
        if (!safetensors_size(&bytes, t->type, t->rank, t->shape) || bytes != t->bytes) abort();
        if (!t->name || strlen(t->name) > CKPT_MAX_NAME) abort();
        if (t->bytes) last = t->data[t->bytes - 1];
        total += t->bytes;
    }
    (void)last;
    if (total != f->data_bytes) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    safetensors f;
    qp_error err = {0};
    const qp_status status = safetensors_parse(&f, data, size, "fuzz", &err);
    if (status == QP_OK)
        check_tensors(&f, data, size);
    else if (err.code != status || !err.text[0] || err.offset > size + 8)
        abort();
    safetensors_close(&f);
    return 0;
}
