/* arch_table.c — the list of architectures, and what can be asked of any row.
 *
 * A new family adds its rows to the list below. The questions about weights (names, dimensions, which are needed) are
 * answered from the rows alone, so bind.c and `inspect` cannot disagree. */
#include "arch.h"
#include "arch/families.h"
#include "base/json.h"
#include "base/utf8.h"
#include <stdio.h>
#include <string.h>

static const arch_row *const rows[] = {&arch_llama, &arch_mistral, &arch_qwen2, &arch_qwen3};

enum { N_ROWS = sizeof rows / sizeof *rows };

const arch_row *arch_at(int index) { return index >= 0 && index < N_ROWS ? rows[index] : NULL; }

const arch_row *arch_find(const char *hf_name) {
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i]->hf_name, hf_name)) return rows[i];
    return NULL;
}

/* ---- slots ---- */

static const struct {
    const char *name;
    bool per_layer;
} slots[SLOT_COUNT] = {
#define X(name, per_layer) {#name, per_layer},
    SLOTS(X)
#undef X
};

const char *slot_name(slot s) { return (unsigned)s < SLOT_COUNT ? slots[s].name : "?"; }
bool slot_is_per_layer(slot s) { return (unsigned)s < SLOT_COUNT && slots[s].per_layer; }

int64_t shape_dim(const model_shape *s, dim d) {
    switch (d) {
    case DIM_NONE:
        return 0;
    case DIM_HIDDEN:
        return s->hidden;
    case DIM_Q:
        return (int64_t)s->n_heads * s->head_dim;
    case DIM_KV:
        return (int64_t)s->n_kv_heads * s->head_dim;
    case DIM_HEAD:
        return s->head_dim;
    case DIM_FFN:
        return s->ffn;
    case DIM_VOCAB:
        return s->vocabulary;
    }
    return 0;
}

bool shape_needs(const model_shape *s, slot_need need) {
    switch (need) {
    case NEED_ALWAYS:
        return true;
    case NEED_UNTIED:
        return !s->tied;
    case NEED_QKV_BIAS:
        return s->qkv_bias;
    case NEED_O_BIAS:
        return s->o_bias;
    case NEED_MLP_BIAS:
        return s->mlp_bias;
    case NEED_QK_NORM:
        return s->qk_norm;
    }
    return false;
}

qp_status slot_tensor_name(char *out, size_t capacity, const slot_row *row, int layer, qp_error *err) {
    const char *hole = strstr(row->pattern, "%d");
    const int before = hole ? (int)(hole - row->pattern) : (int)strlen(row->pattern);
    const int bytes = hole ? snprintf(out, capacity, "%.*s%d%s", before, row->pattern, layer, hole + 2)
                           : snprintf(out, capacity, "%s", row->pattern);
    if (bytes >= 0 && (size_t)bytes < capacity) return QP_OK;
    return err_set(err, QP_TOO_LARGE, 0, "%s: the tensor's name is longer than %zu bytes", row->pattern, capacity - 1);
}

/* The layer's number at *text, which moves behind it; -1 if it is not written as a number is. */
static int read_layer(const char **text) {
    const char *at = *text;
    int layer = 0;
    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9')) return -1;
    for (; *at >= '0' && *at <= '9'; at++) {
        layer = layer * 10 + (*at - '0');
        if (layer >= SHAPE_MAX_LAYERS) return -1;
    }
    *text = at;
    return layer;
}

static bool pattern_matches(const char *pattern, const char *name, int *layer) {
    const char *hole = strstr(pattern, "%d");
    *layer = 0;
    if (!hole) return !strcmp(pattern, name);
    const size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, name, before)) return false;
    name += before;
    *layer = read_layer(&name);
    return *layer >= 0 && !strcmp(name, hole + 2);
}

bool arch_match(const arch_row *row, const model_shape *s, const char *name, slot *out, int *layer) {
    for (const slot_row *r = row->slots; r->pattern; r++) {
        if (!pattern_matches(r->pattern, name, layer)) continue;
        *out = r->slot;
        return shape_needs(s, r->need) && *layer < s->n_layers;
    }
    return false;
}

size_t arch_unexpected(const arch_row *row, const model_shape *s, const checkpoint *c, const ckpt_tensor **out,
                       size_t capacity) {
    size_t n = 0;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const ckpt_tensor *t = checkpoint_at(c, i);
        slot found;
        int layer;
        if (arch_match(row, s, t->name, &found, &layer)) continue;
        if (n < capacity) out[n] = t;
        n++;
    }
    return n;
}

/* ---- how layers differ: for the families' layers() ---- */

void arch_layers_alike(model_shape *s, int window) {
    for (int i = 0; i < s->n_layers; i++) s->layers[i] = (layer_kind){MIXER_GQA, window, 0};
}

/* One entry of "layer_types". */
static qp_status layer_of_type(layer_kind *out, const json_t *type, int index, int window, const char *where,
                               qp_error *err) {
    const char *name = json_string_value(type);
    char shown[48];
    *out = (layer_kind){MIXER_GQA, 0, 0};
    if (!name)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\"[%d] is %s, expected a string", where, index,
                       json_kind(type));
    if (!strcmp(name, "full_attention")) return QP_OK;
    if (strcmp(name, "sliding_attention"))
        return err_set(err, QP_UNSUPPORTED, 0,
                       "%s: \"layer_types\"[%d] is \"%s\", allowed are full_attention, sliding_attention", where, index,
                       utf8_shown(shown, sizeof shown, name));
    out->window = window;
    if (window) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\"[%d] is sliding_attention, but no window is set", where,
                   index);
}

qp_status arch_layers_by_type(model_shape *s, const hfconfig *c, int window, int first, qp_error *err) {
    json_t *types;
    const char *where = hfconfig_where(c);
    ERR_TRY(hfconfig_array(c, "layer_types", &types, err));
    if (types && json_array_size(types) != (size_t)s->n_layers)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\" has %zu entries, expected one for each of %d layers",
                       where, json_array_size(types), s->n_layers);
    for (int i = 0; i < s->n_layers; i++) {
        if (types)
            ERR_TRY(layer_of_type(&s->layers[i], json_array_get(types, (size_t)i), i, window, where, err));
        else
            s->layers[i] = (layer_kind){MIXER_GQA, i >= first ? window : 0, 0};
    }
    return QP_OK;
}
