/* hooks.c — how layers differ, for several families. */
#include "families.h"
#include "base/json.h"

/* Whether the list under `key` names the layer; false without a list. */
static qp_status read_listed(bool *listed, const hfconfig *c, const char *key, int n, qp_error *err) {
    json_t *list = NULL;
    if (key) ERR_TRY(hfconfig_array(c, key, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= SHAPE_MAX_LAYERS)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\"[%zu] is %s, expected the number of a layer",
                           hfconfig_where(c), key, i, json_kind(item));
        if (layer < n) listed[layer] = true;
    }
    return QP_OK;
}

qp_status arch_mark_experts(model_shape *s, const hfconfig *c, int dense, int step, const char *listed, qp_error *err) {
    bool is_listed[SHAPE_MAX_LAYERS] = {false};
    ERR_TRY(read_listed(is_listed, c, listed, s->n_layers, err));
    for (int i = 0; i < s->n_layers; i++)
        if (i >= dense && (i + 1) % step == 0 && !is_listed[i]) s->layers[i].ffn = FFN_EXPERTS;
    return QP_OK;
}

qp_status arch_all_experts(model_shape *s, const hfconfig *c, qp_error *err) {
    return arch_mark_experts(s, c, 0, 1, NULL, err);
}

void arch_all_plain(model_shape *s) {
    for (int i = 0; i < s->n_layers; i++) s->layers[i].ffn = FFN_PLAIN;
}

qp_status arch_plain_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    arch_all_plain(s);
    return QP_OK;
}

qp_status arch_mark_no_rope(model_shape *s, const hfconfig *c, const char *key, int interval, qp_error *err) {
    json_t *list;
    ERR_TRY(hfconfig_array(c, key, &list, err));
    const size_t n = json_array_size(list);
    if (n && n != (size_t)s->n_layers)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: \"%s\" has %zu entries, expected one for each of %d layers",
                       hfconfig_where(c), key, n, s->n_layers);
    for (int i = 0; i < s->n_layers; i++) {
        const bool turns = n ? json_integer_value(json_array_get(list, (size_t)i)) != 0 : (i + 1) % interval != 0;
        if (!turns) s->layers[i].rope = SHAPE_NO_ROPE;
    }
    return QP_OK;
}

qp_status arch_mistral_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 4096, err));
    return arch_layers_by_type(s, c, window, 0, err);
}
