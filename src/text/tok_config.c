/* tok_config.c — added tokens, tokenizer_config.json, and what is worked out when all parts are read. */
#include "tok_impl.h"
#include <stdlib.h>

#define WHERE "tokenizer_config.json"

/* ---- added tokens ---- */

/* The reference does not take the file's ids: a token of the vocabulary keeps its id, others are numbered on. */
int32_t tok_added_id(const tok *t, span content) {
    const added_token *known = added_by_text(&t->added, content);
    if (known) return known->id;
    const int32_t id = vocab_id(&t->words, content);
    if (id >= 0) return id;
    const int32_t size = (int32_t)t->words.n_entries, highest = t->added.n ? t->added.highest : -1;
    return highest >= size || (size == 0 && highest >= 0) ? highest + 1 : size;
}

qp_status tok_add_token(tok *t, const json_t *json, int32_t own_id, qp_error *err) {
    added_token token = {.normalized = true};
    const json_t *content = json_object_get(json, "content");
    if (!json_is_string(content))
        return err_set(err, QP_BAD_FORMAT, 0, "added token: \"content\" is %s, expected a string", json_kind(content));
    token.content = (span){json_string_value(content), json_string_length(content)};
    if (!token.content.bytes) return QP_OK;
    ERR_TRY(json_get_bool(json, "special", &token.special, "added token", err));
    token.normalized = !token.special;
    ERR_TRY(json_get_bool(json, "normalized", &token.normalized, "added token", err));
    ERR_TRY(json_get_bool(json, "single_word", &token.single_word, "added token", err));
    ERR_TRY(json_get_bool(json, "lstrip", &token.lstrip, "added token", err));
    ERR_TRY(json_get_bool(json, "rstrip", &token.rstrip, "added token", err));
    token.id = tok_added_id(t, token.content);
    if (own_id >= 0 && tok_id(t, token.content) < 0 && !tok_piece(t, own_id).at) token.id = own_id;
    if (token.id >= VOCAB_MAX_ID) return err_set(err, QP_TOO_LARGE, 0, "added token: id %d", token.id);
    return added_put(&t->added, &token, err);
}

/* ---- tokenizer_config.json ---- */

/* "bos_token": "<s>" or {"content": "<s>", ...} */
static span config_text(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    return json_is_string(value) ? (span){json_string_value(value), json_string_length(value)} : (span){0};
}

/* A token that the config names is found in texts as well, even where the tokenizer's file forgot to say so. */
static qp_status mark_special(tok *t, span content, qp_error *err) {
    if (!content.bytes || added_by_text(&t->added, content)) return QP_OK;
    const int32_t id = vocab_id(&t->words, content);
    if (id < 0) return QP_OK;
    const added_token token = {.content = content, .id = id, .special = true};
    return added_put(&t->added, &token, err);
}

static qp_status read_names(tok *t, const json_t *config, qp_error *err) {
    for (int i = 0; i < TOK_NAME_COUNT; i++) {
        const span text = config_text(config, tok_name_key((tok_name)i));
        if (!text.at) continue;
        const char *copy = arena_text(&t->texts, text.at, text.bytes);
        if (!copy) return err_no_memory(err, text.bytes, WHERE);
        t->named_text[i] = (span){copy, text.bytes};
        ERR_TRY(mark_special(t, text, err));
        t->named_id[i] = tok_id(t, text);
    }
    const json_t *more = json_object_get(config, "additional_special_tokens");
    for (size_t i = 0; i < json_array_size(more); i++) {
        const json_t *item = json_array_get(more, i);
        if (json_is_object(item)) item = json_object_get(item, "content");
        if (json_is_string(item))
            ERR_TRY(mark_special(t, (span){json_string_value(item), json_string_length(item)}, err));
    }
    return QP_OK;
}

typedef struct numbered {
    int32_t id;
    const json_t *token;
} numbered;

static int by_id(const void *a, const void *b) {
    const int32_t x = ((const numbered *)a)->id, y = ((const numbered *)b)->id;
    return (x > y) - (x < y);
}

static int32_t id_of(const char *key) {
    char *end;
    const long id = strtol(key, &end, 10);
    return *key && !*end && id >= 0 && id < VOCAB_MAX_ID ? (int32_t)id : -1;
}

/* {"0": {"content": ...}, ...} in the order of the ids. */
static qp_status read_added_decoder(tok *t, const json_t *all, qp_error *err) {
    const char *key;
    json_t *token;
    size_t n = 0;
    numbered *list = mem_array(json_object_size(all), sizeof *list);
    if (!list) return err_no_memory(err, json_object_size(all) * sizeof *list, WHERE);
    json_object_foreach((json_t *)(uintptr_t)all, key, token) list[n++] = (numbered){id_of(key), token};
    qsort(list, n, sizeof *list, by_id);
    qp_status status = QP_OK;
    for (size_t i = 0; i < n && status == QP_OK; i++)
        status = tok_add_token(t, list[i].token, t->keeps_config_ids ? list[i].id : -1, err);
    mem_free(list);
    return status;
}

qp_status tok_read_config(tok *t, const char *text, size_t bytes, qp_error *err) {
    json_t *config, *all = NULL;
    ERR_TRY(json_parse(&config, text, bytes, WHERE, err));
    qp_status status = QP_OK;
    if (!json_is_object(config))
        status = err_set(err, QP_BAD_FORMAT, 0, WHERE ": %s, expected an object", json_kind(config));
    if (status == QP_OK) status = json_get_object(config, "added_tokens_decoder", &all, WHERE, err);
    if (status == QP_OK && all) status = read_added_decoder(t, all, err);
    if (status == QP_OK) status = read_names(t, config, err);
    json_decref(config);
    return status;
}

/* ---- when all parts are read ---- */

typedef struct normalizing {
    const tok *t;
    norm_scratch scratch;
} normalizing;

static qp_status normalize_content(void *context, span content, span *out, qp_error *err) {
    normalizing *n = context;
    bool unused;
    if (!n->t->has_spm) return norm_run(&n->t->norm, &n->scratch, content, out, &unused, err);
    *out = content;
    return QP_OK;
}

qp_status tok_finish(tok *t, const char *config, size_t config_bytes, qp_error *err) {
    normalizing n = {.t = t};
    if (config) ERR_TRY(tok_read_config(t, config, config_bytes, err));
    t->n_ids = t->words.n_ids;
    if (t->added.n && t->added.highest >= t->n_ids) t->n_ids = t->added.highest + 1;
    const qp_status status = added_finish(&t->added, normalize_content, &n, err);
    norm_scratch_free(&n.scratch);
    return status == QP_OK ? tok_make_bytes(t, err) : status;
}
