/* api_inspect.c — what a model folder holds, from its headers alone.
 *
 * Answers also where the engine cannot run the model: then "supported" is false and "problems" says why. */
#include "handles.h"
#include "base/cpuid.h"
#include "base/file.h"
#include "base/mem.h"
#include "dev/kv_quant.h"
#include "format/hf_quant.h"
#include "format/gguf.h"

typedef struct inspection {
    const char *path;
    hfconfig *config;
    checkpoint *checkpoint;
    model_shape shape;
    const arch_row *arch; /* NULL: not known */
    json_t *out, *problems;
} inspection;

static void add_problem(inspection *in, const char *text) { json_array_append_new(in->problems, json_string(text)); }

static void add(inspection *in, const char *key, json_t *value) { json_object_set_new(in->out, key, value); }

/* ---- config ---- */

static void add_shape(inspection *in) {
    const model_shape *s = &in->shape;
    add(in, "shape",
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:s,s:b,s:s,s:f}", "layers", s->n_layers, "hidden", s->hidden, "heads",
                  s->n_heads, "kv_heads", s->n_kv_heads, "head_dim", s->head_dim, "ffn", s->ffn, "vocabulary",
                  s->vocabulary, "activation", shape_activation_name(s->act), "tied_embeddings", s->tied, "rope",
                  s->n_ropes ? hf_rope_kind_name(s->ropes[0].kind) : "none", "rope_theta", s->ropes[0].theta));
    add(in, "trained_context", json_integer(s->trained_context));
    int windowed = 0, widest = 0;
    for (int i = 0; i < s->n_layers; i++) {
        windowed += s->layers[i].window > 0;
        widest = s->layers[i].window > widest ? s->layers[i].window : widest;
    }
    if (windowed) add(in, "sliding_window", json_pack("{s:i,s:i}", "tokens", widest, "layers", windowed));
}

static void inspect_config(inspection *in) {
    qp_error err;
    const char *name = NULL;
    if (hfconfig_architecture(in->config, &name, &err) == QP_OK) add(in, "architecture", json_string(name));
    if (shape_read(&in->shape, &in->arch, in->config, &err) == QP_OK) {
        add_shape(in);
        return;
    }
    in->arch = NULL;
    add_problem(in, err.text);
}

/* ---- weights ---- */

static int64_t n_elements(const ckpt_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* What the model computes with; stored words are no weights where these are quantized. */
static int64_t count_weights(const inspection *in) {
    int64_t n = 0;
    for (const slot_row *row = in->arch->slots; row->pattern; row++) {
        const int64_t cols = row->cols == DIM_NONE ? 1 : shape_dim(&in->shape, row->cols);
        const int64_t each = shape_dim(&in->shape, row->rows) * cols * slot_members(row->slot, &in->shape);
        const int layers = slot_is_per_layer(row->slot) ? in->shape.n_layers : 1;
        for (int layer = 0; layer < layers; layer++) n += shape_needs(&in->shape, row->need, layer) ? each : 0;
    }
    return n;
}

static void add_formats(inspection *in) {
    json_t *formats = json_object();
    int64_t elements = 0;
    for (size_t i = 0; i < checkpoint_count(in->checkpoint); i++) {
        const ckpt_tensor *t = checkpoint_at(in->checkpoint, i);
        const char *type = t->format ? t->format : dtype_name(t->type);
        json_t *row = json_object_get(formats, type);
        if (!row) json_object_set_new(formats, type, row = json_pack("{s:i,s:i}", "tensors", 0, "bytes", 0));
        json_object_set_new(row, "tensors", json_integer(json_integer_value(json_object_get(row, "tensors")) + 1));
        json_object_set_new(row, "bytes",
                            json_integer(json_integer_value(json_object_get(row, "bytes")) + (json_int_t)t->bytes));
        elements += n_elements(t);
    }
    add(in, "formats", formats);
    if (in->arch && in->shape.quant.method != HF_QUANT_NONE)
        add(in, "quantization", json_string(hf_quant_name(in->shape.quant.method)));
    if (in->arch && in->shape.quant.method != HF_QUANT_NONE) elements = count_weights(in);
    add(in, "parameters", json_integer(elements));
    const uint64_t bytes = checkpoint_bytes(in->checkpoint);
    add(in, "weight_bytes", json_integer((json_int_t)bytes));
    if (elements) add(in, "bits_per_weight", json_real(8.0 * (double)bytes / (double)elements));
}

static json_t *describe_tensor(const ckpt_tensor *t) {
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s,s:s,s:o,s:I}", "name", t->name, "type", t->format ? t->format : dtype_name(t->type), "shape",
                     shape, "bytes", (json_int_t)t->bytes);
}

static void add_tensors(inspection *in) {
    json_t *list = json_array();
    for (size_t i = 0; i < checkpoint_count(in->checkpoint); i++)
        json_array_append_new(list, describe_tensor(checkpoint_at(in->checkpoint, i)));
    add(in, "tensors", list);
}

/* Each weight of one row that the engine needs, asked for as opening would; false if one is wrong. */
static bool check_row(inspection *in, const tensor_source *t, const slot_row *row) {
    const int layers = slot_is_per_layer(row->slot) ? in->shape.n_layers : 1;
    const int members = slot_row_is_split(row) ? slot_members(row->slot, &in->shape) : 1;
    for (int layer = 0; layer < layers; layer++)
        for (int member = 0; shape_needs(&in->shape, row->need, layer) && member < members; member++) {
            qp_error err;
            if (tensors_check(t, row, layer, member, &err) == QP_OK) continue;
            add_problem(in, err.text);
            return false;
        }
    return true;
}

static void check_weights(inspection *in) {
    tensor_source t;
    tensors_open(&t, in->checkpoint, in->arch, &in->shape);
    const slot_row *row = in->arch->slots;
    while (row->pattern && check_row(in, &t, row)) row++; /* the first that is wrong says enough */
    tensors_close(&t);
}

static void add_unexpected(inspection *in) {
    const ckpt_tensor *first[8];
    const size_t n = arch_unexpected(in->arch, &in->shape, in->checkpoint, first, 8);
    json_t *names = json_array();
    for (size_t i = 0; i < n && i < 8; i++) json_array_append_new(names, json_string(first[i]->name));
    add(in, "unused_tensors", json_pack("{s:I,s:o}", "count", (json_int_t)n, "first", names));
}

static void inspect_weights(inspection *in, bool tensors) {
    qp_error err;
    if (checkpoint_open(&in->checkpoint, in->path, &err) != QP_OK) {
        in->checkpoint = NULL;
        add_problem(in, err.text);
        return;
    }
    json_t *files = json_array();
    for (int i = 0; i < checkpoint_n_files(in->checkpoint); i++)
        json_array_append_new(files, json_string(checkpoint_file_name(in->checkpoint, i)));
    add(in, "files", files);
    add_formats(in);
    if (in->arch) {
        check_weights(in);
        add_unexpected(in);
    }
    if (tensors) add_tensors(in);
}

/* ---- memory ---- */

static uint64_t cache_bytes(const model_shape *s, kv_type type, uint64_t tokens) {
    const store_shape shape = seq_store_shape(s, type);
    size_t page, bytes;
    const uint64_t pages = (tokens + DEV_PAGE_TOKENS - 1) / DEV_PAGE_TOKENS;
    return store_page_bytes(&shape, &page) && mem_mul(page, pages, &bytes) && bytes < INT64_MAX ? bytes : INT64_MAX;
}

/* Weights and cache of each type at some contexts, and whether this machine holds both. */
static void add_memory(inspection *in) {
    static const uint64_t contexts[] = {2048, 8192, 32768, 131072};
    const uint64_t weight_bytes = checkpoint_bytes(in->checkpoint), machine = cpu_memory_bytes();
    const uint64_t trained = (uint64_t)in->shape.trained_context;
    json_t *rows = json_array();
    for (size_t i = 0; i <= sizeof contexts / sizeof *contexts; i++) {
        const bool is_last = i == sizeof contexts / sizeof *contexts || contexts[i] >= trained;
        const uint64_t tokens = is_last ? trained : contexts[i];
        json_t *row = json_pack("{s:I}", "tokens", (json_int_t)tokens);
        for (kv_type type = 0; type < KV_TYPES; type++) {
            const uint64_t bytes = cache_bytes(&in->shape, type, tokens);
            char key[32];
            snprintf(key, sizeof key, "%s_bytes", kv_type_name(type));
            json_object_set_new(row, key, json_integer((json_int_t)bytes));
            snprintf(key, sizeof key, "%s_fits", kv_type_name(type));
            json_object_set_new(row, key, json_boolean(bytes < machine && weight_bytes < machine - bytes));
        }
        json_array_append_new(rows, row);
        if (is_last) break;
    }
    add(in, "memory",
        json_pack("{s:I,s:I,s:o}", "machine_bytes", (json_int_t)machine, "weight_bytes", (json_int_t)weight_bytes,
                  "cache", rows));
}

/* ---- text ---- */

static void inspect_text(inspection *in) {
    qp_error err;
    tok *t = NULL;
    const qp_status status = api_open_tok(&t, in->path, &err);
    if (status == QP_OK) {
        add(in, "tokenizer",
            json_pack("{s:i,s:b,s:b}", "size", tok_size(t), "adds_bos", tok_adds_bos(t), "adds_eos", tok_adds_eos(t)));
        tok_free(t);
    } else if (status == QP_NO_FILE) {
        add(in, "tokenizer", json_null());
    } else {
        add_problem(in, err.text);
    }
    chat *c = NULL;
    const qp_status has = api_open_chat(&c, in->path, NULL, &err);
    if (has != QP_OK && has != QP_NO_FILE) add_problem(in, err.text);
    add(in, "chat_template", json_boolean(has == QP_OK));
    chat_free(c);
}

static void inspect_ids(inspection *in) {
    hf_ids ids;
    hf_sampling sampling;
    qp_error err;
    if (hfconfig_generation(in->config, in->path, &ids, &sampling, &err) != QP_OK) {
        add_problem(in, err.text);
        return;
    }
    json_t *eos = json_array();
    for (int i = 0; i < ids.n_eos; i++) json_array_append_new(eos, json_integer(ids.eos[i]));
    add(in, "bos", ids.bos < 0 ? json_null() : json_integer(ids.bos));
    add(in, "eos", eos);
}

qp_status qp_inspect_json(char **json, const char *path, bool tensors, qp_error *err) {
    inspection in = {.path = path};
    *json = NULL;
    if (!path) return err_set(err, QP_BAD_ARGUMENT, 0, "qp_inspect_json: no path");
    char file[4096];
    if (!file_is_folder(path) && (!file_exists(path) || !gguf_at(file, sizeof file, path)))
        return err_set(err, file_exists(path) ? QP_BAD_ARGUMENT : QP_NO_FILE, 0,
                       "%s: a model folder in Hugging Face layout or a GGUF file is needed", path);
    ERR_TRY(hfconfig_open(&in.config, path, err));
    in.out = json_pack("{s:s}", "path", path);
    in.problems = json_array();
    inspect_config(&in);
    inspect_ids(&in);
    inspect_weights(&in, tensors);
    if (in.arch && in.checkpoint) add_memory(&in);
    inspect_text(&in);
    add(&in, "supported", json_boolean(!json_array_size(in.problems)));
    add(&in, "problems", in.problems);
    char *text = in.out ? json_dumps(in.out, JSON_INDENT(2)) : NULL;
    json_decref(in.out);
    if (in.checkpoint) checkpoint_close(in.checkpoint);
    hfconfig_close(in.config);
    if (text) *json = mem_copy_text(text, strlen(text));
    free(text);
    return *json ? QP_OK : err_no_memory(err, 0, "the inspection");
}
