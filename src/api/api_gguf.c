/* api_gguf.c — tokenizers and chat templates by a model's path, whatever it is: a folder with files of their own, or a
 * GGUF file that has them inside.
 *
 * Called by the files of this folder. It is here that format/ and text/ meet: neither knows the other. */
#include "handles.h"
#include "format/gguf_meta.h"

enum { PATH_BYTES = 4096 };

static qp_status read_inside(gguf_tokenizer *out, const char *path, qp_error *err) {
    gguf file;
    ERR_TRY(gguf_open(&file, path, err));
    const qp_status status = gguf_tokenizer_read(out, &file, path, err);
    gguf_close(&file);
    return status;
}

qp_status api_open_tok(tok **out, const char *path, qp_error *err) {
    char file[PATH_BYTES];
    gguf_tokenizer t;
    *out = NULL;
    if (!gguf_at(file, sizeof file, path)) return tok_open(out, path, err);
    ERR_TRY(read_inside(&t, file, err));
    const qp_status status = t.is_spm ? tok_new_spm(out, t.model.at, t.model.bytes, t.config.at, t.config.bytes, err)
                                      : tok_new_json(out, t.model.at, t.model.bytes, t.config.at, t.config.bytes, err);
    gguf_tokenizer_free(&t);
    return status == QP_OK ? QP_OK : err_prefix(err, status, "%s", file);
}

qp_status api_open_chat(chat **out, const char *path, const char *name, qp_error *err) {
    char file[PATH_BYTES];
    gguf_tokenizer t;
    *out = NULL;
    if (!gguf_at(file, sizeof file, path)) return chat_open(out, path, name, err);
    ERR_TRY(read_inside(&t, file, err));
    const qp_status status = chat_new_config(out, t.config.at, t.config.bytes, file, name, err);
    gguf_tokenizer_free(&t);
    return status;
}
