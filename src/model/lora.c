/* lora.c — adapters out of PEFT folders.
 *
 * Called by the API, read by forward.c. A pair is found by the name of the weight that it changes, so that every
 * architecture's row serves adapters too, fused projections included: of B the rows are taken that the slot has.
 *
 * The tricky thing is the scale: alpha / r, or alpha / sqrt(r) with rsLoRA (Kalajdzievski 2023), where r and alpha may
 * differ by module; it is multiplied into B once. */
#include "lora.h"
#include "tensors.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "format/safetensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096, CONFIG_LIMIT = 1 << 20 };

/* What lora_open's steps have in common. */
typedef struct reading {
    const char *where; /* adapter_config.json */
    json_t *config;
    safetensors file;
    bool *is_used; /* [file.n_tensors] */
    const model_shape *shape;
    bool is_rs;
    int64_t rank;
    double alpha;
} reading;

/* ---- the config ---- */

/* Settings that would change the result; what they must be to be ignored. */
static const char *const refused[] = {"use_dora",
                                      "lora_bias",
                                      "modules_to_save",
                                      "layer_replication",
                                      "target_parameters",
                                      "use_qalora",
                                      "trainable_token_indices",
                                      "use_bdlora",
                                      "alora_invocation_tokens"};

static bool is_nothing(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) || (json_is_array(value) && !json_array_size(value));
}

static qp_status check_config(const reading *r, qp_error *err) {
    const char *kind = "LORA", *bias = "none";
    char shown[48];
    ERR_TRY(json_get_text(r->config, "peft_type", &kind, r->where, err));
    ERR_TRY(json_get_text(r->config, "bias", &bias, r->where, err));
    if (strcmp(kind, "LORA"))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: \"peft_type\" is \"%s\", allowed is LORA", r->where,
                       utf8_shown(shown, sizeof shown, kind));
    if (strcmp(bias, "none"))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: \"bias\" is \"%s\", allowed is none", r->where,
                       utf8_shown(shown, sizeof shown, bias));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!is_nothing(json_object_get(r->config, refused[i])))
            return err_set(err, QP_UNSUPPORTED, 0, "%s: \"%s\" is set, allowed is only an adapter without it", r->where,
                           refused[i]);
    return QP_OK;
}

static qp_status read_config(reading *r, qp_error *err) {
    if (!json_is_object(r->config))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: is %s, expected an object", r->where, json_kind(r->config));
    ERR_TRY(check_config(r, err));
    r->rank = 8;
    r->alpha = 8;
    ERR_TRY(json_get_int(r->config, "r", 1, LORA_MAX_RANK, &r->rank, r->where, err));
    ERR_TRY(json_get_real(r->config, "lora_alpha", &r->alpha, r->where, err));
    return json_get_bool(r->config, "use_rslora", &r->is_rs, r->where, err);
}

/* A pattern names the end of a module's path; the reference takes the first that matches. Those that are expressions
 * would need its engine. */
static qp_status pick_pattern(const reading *r, const char *key, const char *module, double *value, qp_error *err) {
    const char *pattern;
    json_t *patterns, *item;
    ERR_TRY(json_get_object(r->config, key, &patterns, r->where, err));
    json_object_foreach(patterns, pattern, item) {
        char shown[64];
        if (strpbrk(pattern, "*+?()[]{}|^$\\") || !json_is_number(item))
            return err_set(err, QP_UNSUPPORTED, 0, "%s: \"%s\" has \"%s\", allowed are names of modules with a number",
                           r->where, key, utf8_shown(shown, sizeof shown, pattern));
        const size_t length = strlen(pattern), all = strlen(module);
        if (length > all || strcmp(module + all - length, pattern)) continue;
        if (length < all && module[all - length - 1] != '.') continue;
        *value = json_number_value(item);
        return QP_OK;
    }
    return QP_OK;
}

/* ---- tensors ---- */

/* "...MODULE.lora_A.weight", also as older files name it; NULL if there is none. */
static const ckpt_tensor *find(reading *r, const char *module, char half) {
    static const char *const forms[] = {"base_model.model.%s.lora_%c.weight",
                                        "base_model.model.%s.lora_%c.default.weight"};
    for (size_t i = 0; i < r->file.n_tensors; i++)
        for (int f = 0; f < 2; f++) {
            char name[CKPT_MAX_NAME + 64];
            snprintf(name, sizeof name, f ? forms[1] : forms[0], module, half);
            if (strcmp(r->file.tensors[i].name, name)) continue;
            r->is_used[i] = true;
            return &r->file.tensors[i];
        }
    return NULL;
}

static const quant_type *type_of(const ckpt_tensor *t) {
    return t->type == DTYPE_F32    ? quant_type_of(QUANT_F32)
           : t->type == DTYPE_F16  ? quant_type_of(QUANT_F16)
           : t->type == DTYPE_BF16 ? quant_type_of(QUANT_BF16)
                                   : NULL;
}

static qp_status check_tensor(const ckpt_tensor *t, int64_t rows, int64_t cols, qp_error *err) {
    if (!type_of(t))
        return err_set(err, QP_UNSUPPORTED, 0, "%s: elements of type %s, allowed are F32, F16 and BF16", t->name,
                       dtype_name(t->type));
    if (t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: rank %d, [%lld, %lld], expected [%lld, %lld]", t->name, t->rank,
                   (long long)(t->rank ? t->shape[0] : 1), (long long)(t->rank > 1 ? t->shape[1] : 1), (long long)rows,
                   (long long)cols);
}

/* Row `row` of a tensor times `scale`. The bytes may lie at any address. */
static void read_row(float *out, const ckpt_tensor *t, int64_t row, float scale) {
    const int64_t n = t->shape[1];
    const size_t each = (size_t)dtype_bits(t->type) / 8;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        float value;
        memcpy(&bits, t->data + ((size_t)row * (size_t)n + (size_t)i) * each, each);
        memcpy(&value, &bits, sizeof value);
        if (t->type != DTYPE_F32)
            value = t->type == DTYPE_F16 ? quant_f16_to_f32((uint16_t)bits) : quant_bf16_to_f32((uint16_t)bits);
        out[i] = value * scale;
    }
}

/* A matrix of the device, which may read `data` where it is. */
static qp_status open_matrix(device *dev, dev_weight *out, const float *data, int64_t n_out, int64_t n_in,
                             qp_error *err) {
    const size_t bytes = (size_t)n_out * (size_t)n_in * sizeof *data;
    const quant_matrix m = quant_plain(quant_type_of(QUANT_F32), n_out, n_in, data, bytes);
    ERR_TRY(dev->ops->weight_open(dev, out, &m, err));
    return dev->ops->weight_pack(dev, out, err);
}

static lora_pair *add_pair(lora *l, int layer, slot s, qp_error *err) {
    if (l->n_pairs == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 64;
        void *more = mem_resize(l->pairs, (size_t)capacity, sizeof *l->pairs);
        if (!more) return err_no_memory(err, 0, "the list of an adapter's weights"), NULL;
        l->pairs = more;
        l->capacity = capacity;
    }
    l->index[layer * SLOT_COUNT + (int)s] = l->n_pairs;
    l->pairs[l->n_pairs] = (lora_pair){.dev = l->split.dev[dev_share_of(&l->split, layer)]};
    return &l->pairs[l->n_pairs++];
}

static qp_status fill_pair(lora_pair *p, const reading *r, const slot_row *row, const ckpt_tensor *a,
                           const ckpt_tensor *b, double scale, qp_error *err) {
    const int64_t rank = a->shape[0], n_in = a->shape[1], n_out = shape_dim(r->shape, row->rows);
    p->rows = mem_array((size_t)rank * (size_t)n_in, sizeof(float));
    p->cols = mem_array((size_t)n_out * (size_t)rank, sizeof(float));
    if (!p->rows || !p->cols) return err_no_memory(err, 0, "an adapter's weights");
    for (int64_t i = 0; i < rank; i++) read_row(p->rows + i * n_in, a, i, 1);
    for (int64_t i = 0; i < n_out; i++)
        read_row(p->cols + i * rank, b, tensors_stored_row(r->shape, row, i), (float)scale);
    ERR_TRY(open_matrix(p->dev, &p->a, p->rows, rank, n_in, err));
    return open_matrix(p->dev, &p->b, p->cols, n_out, rank, err);
}

static qp_status read_pair(lora *l, reading *r, const slot_row *row, int layer, const char *module, qp_error *err) {
    const ckpt_tensor *a = find(r, module, 'A'), *b = find(r, module, 'B');
    double rank = (double)r->rank, alpha = r->alpha;
    if (!a && !b) return QP_OK;
    if (!a || !b)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: the adapter has lora_%c for it, but no lora_%c", module,
                       a ? 'A' : 'B', a ? 'B' : 'A');
    ERR_TRY(pick_pattern(r, "rank_pattern", module, &rank, err));
    ERR_TRY(pick_pattern(r, "alpha_pattern", module, &alpha, err));
    if (!(rank >= 1 && rank <= LORA_MAX_RANK))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: the rank of %s is %g, allowed are 1 to %d", r->where, module, rank,
                       LORA_MAX_RANK);
    ERR_TRY(check_tensor(a, (int64_t)rank, shape_dim(r->shape, row->cols), err));
    ERR_TRY(check_tensor(b, tensors_stored_rows(r->shape, row), (int64_t)rank, err));
    lora_pair *p = add_pair(l, layer, row->slot, err);
    return p ? fill_pair(p, r, row, a, b, alpha / (r->is_rs ? sqrt(rank) : rank), err) : QP_NO_MEMORY;
}

static qp_status read_row_of_slots(lora *l, reading *r, const slot_row *row, qp_error *err) {
    static const char suffix[] = ".weight";
    if (slot_count(row->slot) != SLOT_PER_LAYER || row->cols == DIM_NONE) return QP_OK;
    for (int layer = 0; layer < l->n_layers; layer++) {
        char module[CKPT_MAX_NAME];
        if (!shape_needs(r->shape, row->need, layer)) continue;
        ERR_TRY(slot_tensor_name(module, sizeof module, row, layer, 0, err));
        const size_t n = strlen(module);
        if (n > strlen(suffix) && !strcmp(module + n - strlen(suffix), suffix)) module[n - strlen(suffix)] = '\0';
        ERR_TRY(read_pair(l, r, row, layer, module, err));
    }
    return QP_OK;
}

static qp_status read_all(lora *l, reading *r, const arch_row *arch, qp_error *err) {
    for (const slot_row *row = arch->slots; row->pattern; row++) ERR_TRY(read_row_of_slots(l, r, row, err));
    for (size_t i = 0; i < r->file.n_tensors; i++) {
        const ckpt_tensor *t = &r->file.tensors[i];
        if (!r->is_used[i])
            return err_set(err, QP_UNSUPPORTED, 0, "%s: this model has no such weight that an adapter can change",
                           t->name);
        l->identity = hash_bytes(t->data, t->bytes, hash_bytes(t->name, strlen(t->name), l->identity));
    }
    const double scale[] = {r->alpha, (double)r->rank, r->is_rs};
    l->identity = hash_bytes(scale, sizeof scale, l->identity) | 1;
    return QP_OK;
}

/* ---- front ---- */

static qp_status read_folder(lora *l, reading *r, const arch_row *arch, const char *folder, qp_error *err) {
    char path[PATH_BYTES], config[PATH_BYTES];
    ERR_TRY(file_join(config, sizeof config, folder, "adapter_config.json", err));
    ERR_TRY(file_join(path, sizeof path, folder, "adapter_model.safetensors", err));
    r->where = config;
    ERR_TRY(json_load_path(&r->config, config, CONFIG_LIMIT, err));
    ERR_TRY(read_config(r, err));
    ERR_TRY(safetensors_open(&r->file, path, err));
    r->is_used = mem_zarray(r->file.n_tensors + 1, sizeof *r->is_used);
    const qp_status status = r->is_used ? read_all(l, r, arch, err) : err_no_memory(err, 0, "an adapter");
    safetensors_close(&r->file);
    mem_free(r->is_used);
    return status;
}

static lora *new_lora(const dev_split *split, int n_layers, qp_error *err) {
    lora *l = MEM_NEW(lora);
    const size_t n = (size_t)n_layers * SLOT_COUNT;
    int *index = mem_array(n, sizeof *index);
    if (!l || !index) {
        mem_free(l);
        mem_free(index);
        return err_no_memory(err, n * sizeof *index, "an adapter"), NULL;
    }
    for (size_t i = 0; i < n; i++) index[i] = -1;
    l->split = *split;
    for (int i = 0; i < split->n; i++) dev_hold(split->dev[i]);
    l->n_layers = n_layers;
    l->index = index;
    atomic_init(&l->owners, 1);
    return l;
}

qp_status lora_open(lora **out, const dev_split *split, const arch_row *arch, const model_shape *shape,
                    const char *folder, qp_error *err) {
    *out = NULL;
    lora *l = new_lora(split, shape->n_layers, err);
    if (!l) return QP_NO_MEMORY;
    reading r = {.shape = shape};
    const qp_status status = read_folder(l, &r, arch, folder, err);
    json_decref(r.config);
    if (status == QP_OK)
        *out = l;
    else
        lora_close(l);
    return status;
}

void lora_hold(lora *l) { atomic_fetch_add(&l->owners, 1); }

void lora_close(lora *l) {
    if (!l || atomic_fetch_sub(&l->owners, 1) > 1) return;
    for (int i = 0; i < l->n_pairs; i++) {
        device *dev = l->pairs[i].dev;
        if (l->pairs[i].a.type) dev->ops->weight_close(dev, &l->pairs[i].a);
        if (l->pairs[i].b.type) dev->ops->weight_close(dev, &l->pairs[i].b);
        mem_free(l->pairs[i].rows);
        mem_free(l->pairs[i].cols);
    }
    mem_free(l->pairs);
    mem_free(l->index);
    for (int i = 0; i < l->split.n; i++) dev_close(l->split.dev[i]);
    mem_free(l);
}

const lora_pair *lora_find(const lora *l, int layer, slot s) {
    const int i = l->index[layer * SLOT_COUNT + (int)s];
    return i < 0 ? NULL : &l->pairs[i];
}

uint64_t lora_set_identity(const lora_set *set) {
    uint64_t h = 0;
    for (int i = 0; i < set->n; i++) {
        const double scale = (double)set->scales[i];
        h = hash_bytes(&scale, sizeof scale, hash_bytes(&set->adapters[i]->identity, sizeof h, h));
    }
    return h;
}
