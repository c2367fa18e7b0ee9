/* tok.h — text to token ids and back: one handle over every kind of tokenizer file.
 *
 * tok_open reads tokenizer.json (with tokenizer_config.json beside it), tokenizer.model (SentencePiece) or *.tiktoken
 * into the same inner form: added tokens, normaliser, pre-tokeniser, model, post-processor, decoder. A tok is
 * immutable after opening, so any number of threads may share it. Ids follow the reference library `tokenizers`.
 *
 * The tricky thing: a piece, its text and its bytes are three things. tok_piece is the raw vocabulary entry ("Ġthe",
 * "<0xE2>"), tok_bytes what the token adds to a text (" the", 0xE2), and only tok_decode or a detok (detok.h) knows
 * what a row of tokens says together (leading spaces, broken characters). */
#ifndef TEXT_TOK_H
#define TEXT_TOK_H

#include "base/str.h"

typedef struct tok tok;

/* A model folder (tokenizer.json, else tokenizer.model, else the only *.tiktoken in it) or one such file. */
qp_status tok_open(tok **out, const char *path, qp_error *err);
/* From memory: the text of a tokenizer.json and, unless config_text is NULL, of a tokenizer_config.json. */
qp_status tok_new_json(tok **out, const char *text, size_t bytes, const char *config_text, size_t config_bytes,
                       qp_error *err);
/* From memory: a SentencePiece tokenizer.model. */
qp_status tok_new_spm(tok **out, const void *model, size_t bytes, const char *config_text, size_t config_bytes,
                      qp_error *err);
/* From memory: a .tiktoken file. The split pattern is known by name ("gpt2", "cl100k_base", "o200k_base", "llama3",
 * "qwen2", ...) or is a regular expression itself. Special tokens come from the config's added_tokens_decoder. */
qp_status tok_new_tiktoken(tok **out, const char *text, size_t bytes, const char *pattern, const char *config_text,
                           size_t config_bytes, qp_error *err);
void tok_free(tok *t);

/* Highest id + 1. */
int tok_size(const tok *t);
/* flags: QP_TOKENIZE_* of quipu.h. *ids is mem_free()d by the caller, never NULL on success. The text must be UTF-8;
 * bytes that are not become U+FFFD, as they would on their way into the reference. */
qp_status tok_encode(const tok *t, span text, unsigned flags, int32_t **ids, size_t *count, qp_error *err);
/* Appends the text of the ids. An id that is none of the tokenizer's contributes nothing, as in the reference. */
qp_status tok_decode(const tok *t, const int32_t *ids, size_t count, bool skip_special, strbuf *out, qp_error *err);

/* The raw vocabulary entry or added token; at == NULL: no such id. Borrowed. */
span tok_piece(const tok *t, int32_t id);
/* The bytes that the token adds in the middle of a text: byte-level decoded, byte fallback resolved, word marks turned
 * into spaces; not necessarily whole characters. at == NULL: no such id. Borrowed. */
span tok_bytes(const tok *t, int32_t id);
/* Whether the id is an added token marked special (hidden by skip_special). */
bool tok_is_special(const tok *t, int32_t id);
/* The id of an exact vocabulary entry or added token; -1: none. */
int32_t tok_id(const tok *t, span piece);

/* The tokens that tokenizer_config.json names. */
typedef enum tok_name { TOK_BOS, TOK_EOS, TOK_UNK, TOK_SEP, TOK_PAD, TOK_CLS, TOK_MASK, TOK_NAME_COUNT } tok_name;
/* -1: not named, or not in the vocabulary. */
int32_t tok_named_id(const tok *t, tok_name name);
/* Its text for chat templates, as the config gives it; at == NULL: not named. */
span tok_named_text(const tok *t, tok_name name);
/* "bos_token", "eos_token", ... : the key of tokenizer_config.json and the variable in chat templates. */
const char *tok_name_key(tok_name name);
static inline int32_t tok_bos(const tok *t) { return tok_named_id(t, TOK_BOS); }
static inline int32_t tok_eos(const tok *t) { return tok_named_id(t, TOK_EOS); }
static inline int32_t tok_pad(const tok *t) { return tok_named_id(t, TOK_PAD); }
/* Whether tok_encode without QP_TOKENIZE_NO_SPECIAL puts the bos / eos token around the text. */
bool tok_adds_bos(const tok *t);
bool tok_adds_eos(const tok *t);

#endif
