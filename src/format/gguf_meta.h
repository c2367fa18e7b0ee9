/* gguf_meta.h — what other formats bring along as files, made out of a GGUF file's metadata: config.json, a tokenizer,
 * a chat template; and the names that tensors have elsewhere.
 *
 * Everything above reads one kind of document, wherever it came from. Called by hfconfig.c, checkpoint.c and the API.
 */
#ifndef FORMAT_GGUF_META_H
#define FORMAT_GGUF_META_H

#include "gguf.h"

/* The text of a config.json into *out (strbuf_free by the caller). QP_UNSUPPORTED names the architecture. */
qp_status gguf_config(strbuf *out, const gguf *g, const char *where, qp_error *err);

/* A tokenizer as a document that text/ reads. */
typedef struct gguf_tokenizer {
    bool is_spm; /* model: a SentencePiece tokenizer.model; else the text of a tokenizer.json */
    strbuf model;
    strbuf config; /* of a tokenizer_config.json, with the chat template */
} gguf_tokenizer;

/* QP_NO_FILE where the file has no tokenizer. */
qp_status gguf_tokenizer_read(gguf_tokenizer *out, const gguf *g, const char *where, qp_error *err);
void gguf_tokenizer_free(gguf_tokenizer *t);

/* The name that a tensor has in the Hugging Face layout of the Llama family; false where it has none. */
bool gguf_tensor_name(char *out, size_t capacity, const char *name);

#endif
