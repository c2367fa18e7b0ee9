/* gguf_file.c — any bytes as a GGUF file: refused with words, or all of it can be read and made documents of. */
#include "format/gguf_meta.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const gguf *g) {
    for (size_t i = 0; i < g->n_values; i++) {
        const gguf_value *v = &g->values[i];
        const uint8_t *at = NULL;
        uint64_t n = 0;
        int64_t whole;
        double real;
        span text;
        volatile char last = 0;
        while (gguf_next_text(v, &at, &n, &text))
            if (text.bytes) last = text.at[text.bytes - 1];
        (void)last;
        gguf_int(v, v->count - 1, &whole);
        gguf_real(v, v->count - 1, &real);
    }
}

static void check_tensors(const gguf *g, const uint8_t *data, size_t size) {
    char name[CKPT_MAX_NAME];
    for (size_t i = 0; i < g->n_tensors; i++) {
        const ckpt_tensor *t = &g->tensors[i];
        if (t->bytes && (t->data < data || t->bytes > (size_t)(data + size - t->data))) abort();
        if (!t->name || !*t->name || t->rank < 1 || t->rank > CKPT_MAX_RANK) abort();
        gguf_tensor_name(name, sizeof name, t->name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gguf g;
    qp_error err = {0};
    const qp_status status = gguf_parse(&g, data, size, "fuzz", &err);
    if (status != QP_OK) {
        if (err.code != status || !err.text[0] || err.offset > size) abort();
        return 0;
    }
    check_values(&g);
    check_tensors(&g, data, size);
    strbuf config = {0};
    gguf_tokenizer t;
    gguf_config(&config, &g, "fuzz", NULL);
    strbuf_free(&config);
    if (gguf_tokenizer_read(&t, &g, "fuzz", NULL) == QP_OK) gguf_tokenizer_free(&t);
    gguf_close(&g);
    return 0;
}
