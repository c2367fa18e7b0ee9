/* tok_impl.h — the inside of a tokenizer, shared by the files that load one (tok_json.c, tok_spm.c, tok_tiktoken.c)
 * and those that use it (tok.c, encode.c, detok.c). */
#ifndef TEXT_TOK_IMPL_H
#define TEXT_TOK_IMPL_H

#include "added.h"
#include "bpe.h"
#include "decoder.h"
#include "norm.h"
#include "post.h"
#include "pretok.h"
#include "spmnorm.h"
#include "tok.h"
#include "unigram.h"
#include "wordmodel.h"

typedef enum tok_model { TOK_MODEL_NONE, TOK_MODEL_BPE, TOK_MODEL_UNIGRAM, TOK_MODEL_WORDS } tok_model;

struct tok {
    vocab words;
    added added;
    norm norm;
    spmnorm spm; /* of a tokenizer.model: takes norm's place */
    bool has_spm;
    bool keeps_config_ids; /* added_tokens_decoder's ids count, as the file has no added tokens of its own */
    pretok pretok;
    tok_model model;
    bpe bpe;
    unigram unigram;
    wordmodel word;
    post post;
    decoder decoder;
    char *bytes_pool; /* what tok_bytes gives, by id */
    uint32_t *bytes_at;
    int32_t n_ids;
    arena texts;
    span named_text[TOK_NAME_COUNT];
    int32_t named_id[TOK_NAME_COUNT];
};

/* An empty tokenizer. */
qp_status tok_start(tok **out, qp_error *err);
/* When all parts are read: the config, the added tokens' tries and the bytes of each token. */
qp_status tok_finish(tok *t, const char *config_text, size_t config_bytes, qp_error *err);
/* The id that the reference gives a token added now: the vocabulary's, or the next free one. */
int32_t tok_added_id(const tok *t, span content);
/* own_id: the id to take if the content has none yet and the id is free; -1: the reference's numbering. */
qp_status tok_add_token(tok *t, const json_t *json, int32_t own_id, qp_error *err);
/* The split pattern that a *.tiktoken file's name begins with, NULL: none. */
const char *tok_pattern_of_path(const char *path);
/* Reads tokenizer_config.json (tok_config.c). */
qp_status tok_read_config(tok *t, const char *text, size_t bytes, qp_error *err);
qp_status tok_make_bytes(tok *t, qp_error *err);

#endif
