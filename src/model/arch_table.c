/* arch_table.c — the list of architectures, and what is asked of it as a whole.
 *
 * A new family adds its rows to the list below. */
#include "arch.h"
#include "arch/families.h"
#include "base/json.h"
#include "base/utf8.h"
#include "naming.h"
#include "quantised.h"
#include <stdio.h>
#include <string.h>

static const arch_row *const rows[] = {ARCH_ROWS};

enum { N_ROWS = sizeof rows / sizeof *rows };

const arch_row *arch_at(int index) { return index >= 0 && index < N_ROWS ? rows[index] : NULL; }

static bool is_named(const arch_row *row, const char *name) {
    if (!strcmp(row->hf_name, name)) return true;
    for (const char *const *alias = row->aliases; alias && *alias; alias++)
        if (!strcmp(*alias, name)) return true;
    return false;
}

const arch_row *arch_find(const char *hf_name) {
    for (int i = 0; i < N_ROWS; i++)
        if (is_named(rows[i], hf_name)) return rows[i];
    return NULL;
}

/* "LlamaForCausalLM" as "Llama". */
static int short_length(const char *name) {
    const char *end = strstr(name, "ForCausalLM");
    return end ? (int)(end - name) : (int)strlen(name);
}

void arch_list(char *out, size_t capacity) {
    size_t used = 0;
    *out = '\0';
    for (int i = 0; i < N_ROWS && used < capacity; i++) {
        const int n = snprintf(out + used, capacity - used, "%s%.*s", i ? ", " : "", short_length(rows[i]->hf_name),
                               rows[i]->hf_name);
        used += n > 0 ? (size_t)n : 0;
    }
}

size_t arch_unexpected(const arch_row *row, const model_shape *s, const checkpoint *c, const ckpt_tensor **out,
                       size_t capacity) {
    const naming how = naming_find(c, row);
    size_t n = 0;
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const ckpt_tensor *t = checkpoint_at(c, i);
        char stored[CKPT_MAX_NAME + 8], name[CKPT_MAX_NAME];
        slot found;
        int layer;
        quantised_plain_name(stored, sizeof stored, t->name);
        if (names_plain(name, sizeof name, how, stored) && arch_match(row, s, name, &found, &layer)) continue;
        if (n < capacity) out[n] = t;
        n++;
    }
    return n;
}

/* ---- how layers differ: for the families' layers() ---- */

void arch_layers_alike(model_shape *s, int window) {
    for (int i = 0; i < s->n_layers; i++) s->layers[i] = (layer_kind){.window = window};
}

/* What the names in "layer_types" say. */
static const struct {
    const char *name;
    bool is_full, is_chunked;
} layer_types[] = {
    {"full_attention", true, false}, {"sliding_attention", false, false}, {"chunked_attention", false, true}};

/* One entry of "layer_types". */
static qp_status layer_of_type(layer_kind *out, const json_t *type, int index, int window, const char *where,
                               qp_error *err) {
    const char *name = json_string_value(type);
    char shown[48];
    *out = (layer_kind){0};
    if (!name)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\"[%d] is %s, expected a string", where, index,
                       json_kind(type));
    size_t i = 0;
    while (i < sizeof layer_types / sizeof *layer_types && strcmp(layer_types[i].name, name)) i++;
    if (i == sizeof layer_types / sizeof *layer_types)
        return err_set(err, QP_UNSUPPORTED, 0,
                       "%s: \"layer_types\"[%d] is \"%s\", allowed are full_attention, sliding_attention, "
                       "chunked_attention",
                       where, index, utf8_shown(shown, sizeof shown, name));
    if (layer_types[i].is_full) return QP_OK;
    *(layer_types[i].is_chunked ? &out->chunk : &out->window) = window;
    if (window) return QP_OK;
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\"[%d] is %s, but no window is set", where, index, name);
}

/* False where the config has no such list. */
static qp_status read_layer_types(bool *found, model_shape *s, const hfconfig *c, int window, qp_error *err) {
    json_t *types;
    const char *where = hfconfig_where(c);
    ERR_TRY(hfconfig_array(c, "layer_types", &types, err));
    *found = types != NULL;
    if (types && json_array_size(types) != (size_t)s->n_layers)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"layer_types\" has %zu entries, expected one for each of %d layers",
                       where, json_array_size(types), s->n_layers);
    for (int i = 0; types && i < s->n_layers; i++)
        ERR_TRY(layer_of_type(&s->layers[i], json_array_get(types, (size_t)i), i, window, where, err));
    return QP_OK;
}

qp_status arch_layers_by_type(model_shape *s, const hfconfig *c, int window, int first, qp_error *err) {
    bool found;
    ERR_TRY(read_layer_types(&found, s, c, window, err));
    for (int i = 0; i < s->n_layers && !found; i++) s->layers[i] = (layer_kind){.window = i >= first ? window : 0};
    return QP_OK;
}

qp_status arch_layers_by_pattern(model_shape *s, const hfconfig *c, int window, int pattern, qp_error *err) {
    bool found;
    ERR_TRY(read_layer_types(&found, s, c, window, err));
    for (int i = 0; i < s->n_layers && !found; i++)
        s->layers[i] = (layer_kind){.window = pattern > 0 && (i + 1) % pattern ? window : 0};
    return QP_OK;
}

qp_status arch_window(int *out, const hfconfig *c, int fallback, qp_error *err) {
    int64_t window = json_is_null(hfconfig_value(c, "sliding_window")) ? 0 : fallback;
    ERR_TRY(hfconfig_int(c, "sliding_window", 1, SHAPE_MAX_POSITIONS, &window, err));
    *out = (int)window;
    return QP_OK;
}
