/* tok.c — the tokenizer's handle: opening by path, looking tokens up, ids to text. */
#include "tok_impl.h"
#include "base/file.h"
#include <stdio.h>

qp_status tok_start(tok **out, qp_error *err) {
    *out = MEM_NEW(tok);
    if (!*out) return err_no_memory(err, sizeof **out, "tokenizer");
    for (int i = 0; i < TOK_NAME_COUNT; i++) (*out)->named_id[i] = -1;
    return QP_OK;
}

void tok_free(tok *t) {
    if (!t) return;
    vocab_free(&t->words);
    added_free(&t->added);
    norm_free(&t->norm);
    spmnorm_free(&t->spm);
    pretok_free(&t->pretok);
    bpe_free(&t->bpe);
    unigram_free(&t->unigram);
    mem_free(t->word.prefix);
    post_free(&t->post);
    decoder_free(&t->decoder);
    mem_free(t->bytes_pool);
    mem_free(t->bytes_at);
    arena_free(&t->texts);
    mem_free(t);
}

/* ---- looking up ---- */

int tok_size(const tok *t) { return t->n_ids; }

span tok_piece(const tok *t, int32_t id) {
    const added_token *token = added_by_id(&t->added, id);
    return token ? token->content : vocab_piece(&t->words, id);
}

span tok_bytes(const tok *t, int32_t id) {
    if (!tok_piece(t, id).at) return (span){0};
    return (span){t->bytes_pool + t->bytes_at[id], t->bytes_at[id + 1] - t->bytes_at[id]};
}

bool tok_is_special(const tok *t, int32_t id) {
    const added_token *token = added_by_id(&t->added, id);
    return token && token->special;
}

int32_t tok_id(const tok *t, span piece) {
    const added_token *token = added_by_text(&t->added, piece);
    return token ? token->id : vocab_id(&t->words, piece);
}

int32_t tok_named_id(const tok *t, tok_name name) { return t->named_id[name]; }
span tok_named_text(const tok *t, tok_name name) { return t->named_text[name]; }

const char *tok_name_key(tok_name name) {
    static const char *const keys[TOK_NAME_COUNT] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                     "pad_token", "cls_token", "mask_token"};
    return keys[name];
}

bool tok_adds_bos(const tok *t) {
    return t->named_id[TOK_BOS] >= 0 && post_begins_with(&t->post, t->named_id[TOK_BOS]);
}
bool tok_adds_eos(const tok *t) { return t->named_id[TOK_EOS] >= 0 && post_ends_with(&t->post, t->named_id[TOK_EOS]); }

/* ---- ids to text ---- */

/* What decoders see of an id; at == NULL: nothing, as it is none or hidden. */
static span shown(const tok *t, int32_t id, bool skip_special) {
    const added_token *token = added_by_id(&t->added, id);
    if (!token) return vocab_piece(&t->words, id);
    return skip_special && token->is_hidden ? (span){0} : token->shown;
}

/* Byte-level texts are the tokens' bytes side by side. */
static qp_status decode_bytes(const tok *t, const int32_t *ids, size_t count, bool skip_special, strbuf *out,
                              qp_error *err) {
    strbuf bytes = {0};
    for (size_t i = 0; i < count; i++) {
        if (!shown(t, ids[i], skip_special).at) continue;
        const span text = tok_bytes(t, ids[i]);
        strbuf_add(&bytes, text.at, text.bytes);
    }
    decoder_add_lossy(out, bytes.at ? bytes.at : "", bytes.bytes);
    const bool failed = bytes.failed || out->failed;
    strbuf_free(&bytes);
    return failed ? err_no_memory(err, count, "decoding") : QP_OK;
}

qp_status tok_decode(const tok *t, const int32_t *ids, size_t count, bool skip_special, strbuf *out, qp_error *err) {
    if (decoder_is_byte_level(&t->decoder)) return decode_bytes(t, ids, count, skip_special, out, err);
    pieces p = {0};
    for (size_t i = 0; i < count; i++) {
        const span text = shown(t, ids[i], skip_special);
        if (text.at) pieces_add(&p, text);
    }
    const qp_status status = decoder_run(&t->decoder, &p, out, err);
    pieces_free(&p);
    return status;
}

/* ---- opening by path ---- */

enum { MAX_FILE = 1 << 30, MAX_CONFIG = 64 << 20, MAX_PATH = 4096 };

static bool ends_with(const char *path, const char *end) {
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

/* tokenizer_config.json in the same folder; *text NULL where there is none. */
static qp_status read_config(const char *path, char **text, size_t *bytes, qp_error *err) {
    char folder[MAX_PATH], config[MAX_PATH];
    *text = NULL;
    *bytes = 0;
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 1;
    if (n >= sizeof folder)
        return err_set(err, QP_TOO_LARGE, 0, "%.200s...: the path is longer than %zu bytes", path, sizeof folder - 1);
    memcpy(folder, slash ? path : ".", n);
    folder[n] = 0;
    ERR_TRY(file_join(config, sizeof config, folder, "tokenizer_config.json", err));
    return file_exists(config) ? file_read(text, bytes, config, MAX_CONFIG, err) : QP_OK;
}

static qp_status open_mapped(tok **out, const char *path, const file_map *map, const char *config, size_t config_bytes,
                             qp_error *err) {
    if (ends_with(path, ".model")) return tok_new_spm(out, map->at, map->bytes, config, config_bytes, err);
    if (ends_with(path, ".tiktoken"))
        return tok_new_tiktoken(out, (const char *)map->at, map->bytes, tok_pattern_of_path(path), config, config_bytes,
                                err);
    return tok_new_json(out, (const char *)map->at, map->bytes, config, config_bytes, err);
}

static qp_status open_file(tok **out, const char *path, qp_error *err) {
    file_map map;
    char *config;
    size_t config_bytes;
    ERR_TRY(file_map_open(&map, path, err));
    qp_status status = QP_OK;
    if (map.bytes > MAX_FILE)
        status = err_set(err, QP_TOO_LARGE, 0, "%s: %zu bytes, at most %d are allowed", path, map.bytes, MAX_FILE);
    if (status == QP_OK) status = read_config(path, &config, &config_bytes, err);
    if (status == QP_OK) {
        status = open_mapped(out, path, &map, config, config_bytes, err);
        if (status != QP_OK) err_prefix(err, status, "%s", path);
        mem_free(config);
    }
    file_map_close(&map);
    return status;
}

qp_status tok_open(tok **out, const char *path, qp_error *err) {
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    char file[MAX_PATH];
    *out = NULL;
    if (!file_is_folder(path)) return open_file(out, path, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ERR_TRY(file_join(file, sizeof file, path, names[i], err));
        if (file_exists(file)) return open_file(out, file, err);
    }
    ERR_TRY(file_find(file, sizeof file, path, ".tiktoken", err));
    if (*file) return open_file(out, file, err);
    return err_set(err, QP_NO_FILE, 0, "%s: no tokenizer.json, tokenizer.model or *.tiktoken in this folder", path);
}
