/* tokenizer_json.c — any bytes as tokenizer.json, tokenizer.model or a .tiktoken file: an error or a tokenizer
 * that encodes, decodes and streams without harm. The first byte chooses the format. */
#include "base/mem.h"
#include "text/detok.h"
#include "text/tok.h"
#include <stdlib.h>

enum { MAX_INPUT = 1 << 16 };

static const char sample[] = "Hello <s> w\xc3\xb6rld's  123\n\xe4\xbd\xa0\xe5\xa5\xbd e\xcc\x81 \xf0\x9f\x98\x80</s>";

/* What a tokenizer of unknown quality makes of a text, in every way. */
static void use(const tok *t) {
    int32_t *ids;
    size_t n;
    qp_error err;
    for (unsigned flags = 0; flags < 4; flags++) {
        if (tok_encode(t, span_of(sample), flags, &ids, &n, &err)) continue;
        strbuf text = {.limit = 1 << 24};
        (void)tok_decode(t, ids, n, flags & 1, &text, &err);
        strbuf_free(&text);
        detok *d;
        span chunk;
        bool has_text;
        if (detok_new(&d, t, flags & 1, &err) == QP_OK) {
            for (size_t i = 0; i < n && i < 64; i++)
                if (detok_next(d, ids[i], &chunk, &has_text, &err)) break;
            (void)detok_flush(d, &chunk, &err);
            detok_free(d);
        }
        mem_free(ids);
    }
    for (int32_t id = -1; id <= tok_size(t) && id < 300; id++) {
        const span piece = tok_piece(t, id), bytes = tok_bytes(t, id);
        if ((piece.at == NULL) != (bytes.at == NULL)) abort();
        if (piece.at && tok_id(t, piece) < 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tok *t = NULL;
    qp_error err;
    if (size < 1 || size > MAX_INPUT) return 0;
    const char *text = (const char *)data + 1;
    qp_status status;
    if (data[0] % 8 == 1)
        status = tok_new_spm(&t, text, size - 1, NULL, 0, &err);
    else if (data[0] % 8 == 2)
        status = tok_new_tiktoken(&t, text, size - 1, "cl100k_base", NULL, 0, &err);
    else if (data[0] % 8 == 3)
        status = tok_new_json(&t, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"[UNK]\":1}}}", 55, text,
                              size - 1, &err);
    else
        status = tok_new_json(&t, text, size - 1, NULL, 0, &err);
    if ((status == QP_OK) != (t != NULL)) abort();
    if (t) use(t);
    tok_free(t);
    return 0;
}
