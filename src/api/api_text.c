/* api_text.c — tokenizers and streaming detokenisers behind their public handles. */
#include "handles.h"
#include "base/mem.h"

qp_status qp_tokenizer_open(qp_tokenizer **out, const char *path, qp_error *err) {
    *out = NULL;
    if (!path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_tokenizer_open: no path");
    qp_tokenizer *t = MEM_NEW(qp_tokenizer);
    if (!t) return err_no_memory(err, sizeof *t, "a tokenizer");
    qp_status status = api_open_tok(&t->tok, path, err);
    if (status == QP_OK) status = shelf_open(&t->shelf, t->tok, err);
    if (status != QP_OK)
        qp_tokenizer_close(t);
    else
        *out = t;
    return status;
}

void qp_tokenizer_close(qp_tokenizer *t) {
    if (!t) return;
    shelf_close(t->shelf);
    tok_free(t->tok);
    mem_free(t);
}

int qp_tokenizer_size(const qp_tokenizer *t) { return tok_size(t->tok); }

qp_status qp_tokenize(const qp_tokenizer *t, const char *text, size_t text_bytes, unsigned flags, int32_t **ids,
                      size_t *count, qp_error *err) {
    return tok_encode(t->tok, (span){text, text_bytes}, flags, ids, count, err);
}

qp_status qp_detokenize(const qp_tokenizer *t, const int32_t *ids, size_t count, unsigned flags, char **text,
                        size_t *text_bytes, qp_error *err) {
    strbuf out = {0};
    *text = NULL;
    *text_bytes = 0;
    qp_status status = tok_decode(t->tok, ids, count, flags & QP_DETOKENIZE_SKIP_SPECIAL, &out, err);
    if (status == QP_OK) status = strbuf_status(&out, err, "decoded text");
    if (status == QP_OK && !(*text = strbuf_move(&out, text_bytes))) status = err_no_memory(err, 0, "decoded text");
    strbuf_free(&out);
    return status;
}

static int copy_piece(span piece, char *out, size_t capacity) {
    if (!piece.at || piece.bytes > INT32_MAX) return -1;
    if (capacity) memcpy(out, piece.at, piece.bytes < capacity ? piece.bytes : capacity);
    return (int)piece.bytes;
}

int qp_token_piece(const qp_tokenizer *t, int32_t id, char *out, size_t capacity, bool *is_special) {
    const span piece = tok_piece(t->tok, id);
    if (is_special) *is_special = piece.at && tok_is_special(t->tok, id);
    return copy_piece(piece, out, capacity);
}

int qp_token_bytes(const qp_tokenizer *t, int32_t id, char *out, size_t capacity) {
    return copy_piece(tok_bytes(t->tok, id), out, capacity);
}

int32_t qp_token_id(const qp_tokenizer *t, const char *piece) { return tok_id(t->tok, span_of(piece)); }

/* ---- streams ---- */

struct qp_detok_stream {
    detok *detok;
};

qp_status qp_detok_stream_new(qp_detok_stream **out, const qp_tokenizer *t, unsigned flags, qp_error *err) {
    *out = NULL;
    qp_detok_stream *s = MEM_NEW(qp_detok_stream);
    if (!s) return err_no_memory(err, sizeof *s, "a detokeniser");
    const qp_status status = detok_new(&s->detok, t->tok, flags & QP_DETOKENIZE_SKIP_SPECIAL, err);
    if (status != QP_OK)
        qp_detok_stream_free(s);
    else
        *out = s;
    return status;
}

void qp_detok_stream_free(qp_detok_stream *s) {
    if (!s) return;
    detok_free(s->detok);
    mem_free(s);
}

static void give_text(span from, const char **text, size_t *text_bytes) {
    *text = from.at ? from.at : "";
    *text_bytes = from.bytes;
}

qp_status qp_detok_stream_next(qp_detok_stream *s, int32_t id, const char **text, size_t *text_bytes, bool *has_text,
                               qp_error *err) {
    span shown = {0};
    *has_text = false;
    const qp_status status = detok_next(s->detok, id, &shown, has_text, err);
    give_text(shown, text, text_bytes);
    return status;
}

qp_status qp_detok_stream_end(qp_detok_stream *s, const char **text, size_t *text_bytes, qp_error *err) {
    span shown = {0};
    const qp_status status = detok_flush(s->detok, &shown, err);
    give_text(shown, text, text_bytes);
    return status;
}
