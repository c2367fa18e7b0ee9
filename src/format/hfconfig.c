/* hfconfig.c — config.json as a document: opening, nested text_config, typed and ranged keys, token ids.
 *
 * Called by model/shape.c and the API. hf_rope.c reads the rotary settings. The tricky thing is where a key is looked
 * for: in text_config first, even if it is null there, then outside. */
#include "hfconfig.h"
#include "hf_nested.h"
#include "gguf_meta.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <math.h>
#include <string.h>

enum { PATH_BYTES = 4096, CONFIG_LIMIT = 4 << 20 };

struct hfconfig {
    char *where;
    json_t *root;
    json_t *text; /* root's "text_config", or NULL */
};

void hfconfig_close(hfconfig *c) {
    if (!c) return;
    json_decref(c->root);
    mem_free(c->where);
    mem_free(c);
}

qp_status hfconfig_new(hfconfig **out, const char *text, size_t bytes, const char *where, qp_error *err) {
    *out = NULL;
    hfconfig *c = MEM_NEW(hfconfig);
    if (!c) return err_no_memory(err, sizeof *c, where);
    c->where = mem_copy_text(where, strlen(where));
    qp_status status = c->where ? json_parse(&c->root, text, bytes, where, err) : err_no_memory(err, 0, where);
    if (status == QP_OK && !json_is_object(c->root))
        status = err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object", where, json_kind(c->root));
    if (status == QP_OK) status = json_get_object(c->root, "text_config", &c->text, where, err);
    if (status == QP_OK && c->text) status = hf_nested_fill(c->text, err);
    if (status == QP_OK)
        *out = c;
    else
        hfconfig_close(c);
    return status;
}

static qp_status open_gguf(hfconfig **out, const char *path, qp_error *err) {
    gguf file;
    strbuf text = {0};
    ERR_TRY(gguf_open(&file, path, err));
    qp_status status = gguf_config(&text, &file, path, err);
    if (status == QP_OK) status = hfconfig_new(out, text.at, text.bytes, path, err);
    strbuf_free(&text);
    gguf_close(&file);
    return status;
}

qp_status hfconfig_open(hfconfig **out, const char *folder, qp_error *err) {
    char path[PATH_BYTES], *text;
    size_t bytes;
    *out = NULL;
    if (gguf_at(path, sizeof path, folder)) return open_gguf(out, path, err);
    ERR_TRY(file_join(path, sizeof path, folder, "config.json", err));
    ERR_TRY(file_read(&text, &bytes, path, CONFIG_LIMIT, err));
    const qp_status status = hfconfig_new(out, text, bytes, path, err);
    mem_free(text);
    return status;
}

const char *hfconfig_where(const hfconfig *c) { return c->where; }

/* ---- single keys ---- */

/* The object in which a key is to be looked up. Whether the output shares the embeddings is said by the whole. */
static const json_t *home_of(const hfconfig *c, const char *key) {
    if (!strcmp(key, "tie_word_embeddings") && json_object_get(c->root, key)) return c->root;
    return c->text && json_object_get(c->text, key) ? c->text : c->root;
}

const json_t *hfconfig_value(const hfconfig *c, const char *key) { return json_object_get(home_of(c, key), key); }

qp_status hfconfig_need(const hfconfig *c, const char *key, qp_error *err) {
    return json_need(home_of(c, key), key, c->where, err);
}

qp_status hfconfig_int(const hfconfig *c, const char *key, int64_t lowest, int64_t highest, int64_t *out,
                       qp_error *err) {
    return json_get_int(home_of(c, key), key, lowest, highest, out, c->where, err);
}

qp_status hfconfig_real(const hfconfig *c, const char *key, double lowest, double highest, double *out, qp_error *err) {
    return hf_get_real(home_of(c, key), key, lowest, highest, out, c->where, err);
}

qp_status hfconfig_bool(const hfconfig *c, const char *key, bool *out, qp_error *err) {
    return json_get_bool(home_of(c, key), key, out, c->where, err);
}

qp_status hfconfig_text(const hfconfig *c, const char *key, const char **out, qp_error *err) {
    return json_get_text(home_of(c, key), key, out, c->where, err);
}

qp_status hfconfig_array(const hfconfig *c, const char *key, json_t **out, qp_error *err) {
    return json_get_array(home_of(c, key), key, out, c->where, err);
}

qp_status hf_get_real(const json_t *object, const char *key, double lowest, double highest, double *out,
                      const char *where, qp_error *err) {
    double value = NAN;
    ERR_TRY(json_get_real(object, key, &value, where, err));
    if (isnan(value)) return QP_OK; /* absent: JSON has no such number */
    if (value < lowest || value > highest)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" is %g, allowed are %g to %g", where, key, value, lowest,
                       highest);
    *out = value;
    return QP_OK;
}

qp_status hfconfig_architecture(const hfconfig *c, const char **out, qp_error *err) {
    json_t *names;
    ERR_TRY(json_get_array(c->root, "architectures", &names, c->where, err));
    if (!names) ERR_TRY(hfconfig_array(c, "architectures", &names, err));
    if (!names) return json_need(c->root, "architectures", c->where, err);
    *out = json_string_value(json_array_get(names, 0));
    if (*out) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"architectures\" begins with %s, expected a string", c->where,
                   json_kind(json_array_get(names, 0)));
}

const char *hfconfig_text_family(const hfconfig *c) {
    const char *whole = json_string_value(json_array_get(json_object_get(c->root, "architectures"), 0));
    return whole && c->text ? hf_nested_family(whole, c->text) : NULL;
}

qp_status hfconfig_dtype(const hfconfig *c, const char **out, qp_error *err) {
    *out = NULL;
    ERR_TRY(hfconfig_text(c, "torch_dtype", out, err));
    return hfconfig_text(c, "dtype", out, err);
}

/* ---- token ids and sampling defaults ---- */

/* -1 means "none" in some published files. */
static qp_status get_id(const json_t *object, const char *key, int32_t *out, const char *where, qp_error *err) {
    int64_t id = *out;
    ERR_TRY(json_get_int(object, key, -1, INT32_MAX, &id, where, err));
    *out = (int32_t)id;
    return QP_OK;
}

/* One element of the list, through the getter's checks. */
static qp_status get_listed_id(const json_t *list, size_t i, const char *key, int32_t *out, const char *where,
                               qp_error *err) {
    json_t *box = json_pack("{sO}", key, json_array_get(list, i));
    if (!box) return err_no_memory(err, 0, where);
    qp_status status = json_need(box, key, where, err);
    if (status == QP_OK) status = get_id(box, key, out, where, err);
    json_decref(box);
    return status;
}

/* An integer or a list; replaces what was there if the key says anything. */
static qp_status get_eos(const json_t *object, hf_ids *ids, const char *where, qp_error *err) {
    static const char key[] = "eos_token_id";
    const json_t *value = json_object_get(object, key);
    int32_t id = -1;
    if (!value || json_is_null(value)) return QP_OK;
    ids->n_eos = 0;
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    if (n > HF_MAX_EOS)
        return err_set(err, QP_TOO_LARGE, 0, "%s: \"%s\" lists %zu ids, allowed are %d", where, key, n, HF_MAX_EOS);
    for (size_t i = 0; i < n; i++) {
        if (json_is_array(value))
            ERR_TRY(get_listed_id(value, i, key, &id, where, err));
        else
            ERR_TRY(get_id(object, key, &id, where, err));
        if (id >= 0) ids->eos[ids->n_eos++] = id;
    }
    return QP_OK;
}

static qp_status get_ids(const json_t *object, hf_ids *ids, const char *where, qp_error *err) {
    ERR_TRY(get_id(object, "bos_token_id", &ids->bos, where, err));
    ERR_TRY(get_id(object, "pad_token_id", &ids->pad, where, err));
    return get_eos(object, ids, where, err);
}

static qp_status get_sampling(const json_t *object, hf_sampling *s, const char *where, qp_error *err) {
    ERR_TRY(json_get_bool(object, "do_sample", &s->do_sample, where, err));
    ERR_TRY(hf_get_real(object, "temperature", 0, 1e6, &s->temperature, where, err));
    ERR_TRY(hf_get_real(object, "top_p", 0, 1, &s->top_p, where, err));
    ERR_TRY(hf_get_real(object, "min_p", 0, 1, &s->min_p, where, err));
    ERR_TRY(hf_get_real(object, "repetition_penalty", 0, 1e6, &s->repetition_penalty, where, err));
    return json_get_int(object, "top_k", 0, INT32_MAX, &s->top_k, where, err);
}

static qp_status get_generation(const json_t *object, hf_ids *ids, hf_sampling *sampling, const char *where,
                                qp_error *err) {
    if (!json_is_object(object))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object", where, json_kind(object));
    ERR_TRY(get_ids(object, ids, where, err));
    return get_sampling(object, sampling, where, err);
}

qp_status hf_generation_parse(const char *text, size_t bytes, const char *where, hf_ids *ids, hf_sampling *sampling,
                              qp_error *err) {
    json_t *root;
    ERR_TRY(json_parse(&root, text, bytes, where, err));
    const qp_status status = get_generation(root, ids, sampling, where, err);
    json_decref(root);
    return status;
}

qp_status hfconfig_generation(const hfconfig *c, const char *folder, hf_ids *ids, hf_sampling *sampling,
                              qp_error *err) {
    *ids = (hf_ids){.bos = -1, .pad = -1};
    *sampling = (hf_sampling){.temperature = -1, .top_p = -1, .min_p = -1, .repetition_penalty = -1, .top_k = -1};
    ERR_TRY(get_ids(c->root, ids, c->where, err));
    if (c->text) ERR_TRY(get_ids(c->text, ids, c->where, err));
    char path[PATH_BYTES], *text;
    size_t bytes;
    ERR_TRY(file_join(path, sizeof path, folder, "generation_config.json", err));
    if (!file_exists(path)) return QP_OK;
    ERR_TRY(file_read(&text, &bytes, path, CONFIG_LIMIT, err));
    const qp_status status = hf_generation_parse(text, bytes, path, ids, sampling, err);
    mem_free(text);
    return status;
}
