/* handles.h — what the opaque types of quipu.h are made of, for the files of this folder. */
#ifndef API_HANDLES_H
#define API_HANDLES_H

#include "format/hfconfig.h"
#include "gen/engine.h"
#include "gen/seq.h"
#include "gen/tokensets.h"
#include "text/chat.h"
#include "text/tok.h"

/* api_constraint.c: what constraints over one tokenizer share. */
typedef struct shelf shelf;
qp_status shelf_open(shelf **out, const tok *t, qp_error *err);
void shelf_close(shelf *s);
/* A job begins to follow the filter, if it is one of ours: whether threads besides the model's have its masks ready. */
void constraint_start(const qp_filter *f, bool is_ahead);

struct qp_model {
    model *model;
    qp_tokenizer *tokenizer; /* NULL: none */
    bool has_chat_template;
    int32_t eos[HF_MAX_EOS]; /* of generation_config.json, else the tokenizer's */
    int n_eos;
    int32_t bos;
    qp_log log;
};

struct qp_generator {
    const qp_model *model;
    engine *engine;
    token_sets sets;
    uint64_t max_length; /* 0: the cache's */
    bool has_spare_core; /* that no thread of the model keeps busy */
};

struct qp_adapter {
    lora *lora;
    const model *model;
};

/* What the caller names as what the engine takes; nothing is held yet. */
qp_status api_adapters(lora_set *out, const model *m, const qp_adapter_use *uses, size_t count, qp_error *err);

struct qp_tokenizer {
    tok *tok;
    shelf *shelf; /* of constraints */
};

/* Checks options and turns them into the model's. */
qp_status api_model_options(model_options *out, const qp_model_options *o, qp_error *err);

/* By a model's path: a folder or a GGUF file (api_gguf.c). */
qp_status api_open_tok(tok **out, const char *path, qp_error *err);
qp_status api_open_chat(chat **out, const char *path, const char *name, qp_error *err);

/* Copies the caller's options over zeros, as many bytes as the caller knows of: fields added later stay 0. */
#define API_OPTIONS(type, out, given)                                                                                  \
    type out = {0};                                                                                                    \
    api_copy_options(&out, sizeof out, (given), (given) ? (given)->size : 0)

static inline void api_copy_options(void *out, size_t known, const void *given, size_t size) {
    if (given && size) memcpy(out, given, size < known ? size : known);
}

#endif
