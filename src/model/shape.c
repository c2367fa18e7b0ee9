/* shape.c — config.json -> model_shape: the architecture's table of keys, then what no single key can tell.
 *
 * Called by opening a model and by `inspect`. Order: find the row by name, apply its keys, derive what is left open
 * (key/value heads, head size), windows by the family's hook, rope, then shape_check. */
#include "shape.h"
#include "arch.h"
#include "base/json.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- activations ---- */

/* The first name of each is the one shown. */
static const struct {
    const char *name;
    activation act;
} activations[] = {
    {"silu", ACT_SILU},          {"swish", ACT_SILU}, {"gelu", ACT_GELU}, {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"gelu_new", ACT_GELU_TANH}, {"relu", ACT_RELU},
};

bool shape_find_activation(activation *out, const char *name) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(activations[i].name, name)) return *out = activations[i].act, true;
    return false;
}

const char *shape_activation_name(activation act) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (activations[i].act == act) return activations[i].name;
    return "?";
}

/* ---- the table of keys ---- */

static qp_status apply_int(const hfconfig *c, const config_key *k, int *field, qp_error *err) {
    int64_t value = (int64_t)k->fallback;
    if ((k->flags & KEY_NULL_IS_ZERO) && json_is_null(hfconfig_value(c, k->key))) value = 0;
    ERR_TRY(hfconfig_int(c, k->key, (int64_t)k->lowest, (int64_t)k->highest, &value, err));
    *field = (int)value;
    return QP_OK;
}

static qp_status apply_real(const hfconfig *c, const config_key *k, float *field, qp_error *err) {
    double value = k->fallback;
    ERR_TRY(hfconfig_real(c, k->key, k->lowest, k->highest, &value, err));
    *field = (float)value;
    return QP_OK;
}

static qp_status apply_bool(const hfconfig *c, const config_key *k, bool *field, qp_error *err) {
    *field = k->fallback != 0;
    return hfconfig_bool(c, k->key, field, err);
}

static qp_status apply_activation(const hfconfig *c, const config_key *k, activation *field, qp_error *err) {
    const char *name = NULL;
    *field = (activation)k->fallback;
    ERR_TRY(hfconfig_text(c, k->key, &name, err));
    if (!name || shape_find_activation(field, name)) return QP_OK;
    char shown[48];
    return err_set(err, QP_UNSUPPORTED, 0,
                   "%s: \"%s\" is \"%s\", allowed are silu, gelu, gelu_new, gelu_pytorch_tanh, relu", hfconfig_where(c),
                   k->key, utf8_shown(shown, sizeof shown, name));
}

static qp_status apply_key(model_shape *s, const hfconfig *c, const config_key *k, qp_error *err) {
    void *field = (char *)s + k->field;
    if (k->flags & KEY_NEEDED) ERR_TRY(hfconfig_need(c, k->key, err));
    switch (k->kind) {
    case KEY_INT:
        return apply_int(c, k, field, err);
    case KEY_REAL:
        return apply_real(c, k, field, err);
    case KEY_BOOL:
        return apply_bool(c, k, field, err);
    case KEY_ACTIVATION:
        return apply_activation(c, k, field, err);
    }
    return err_set(err, QP_INTERNAL, 0, "key \"%s\" of no kind", k->key);
}

/* ---- what the keys leave open ---- */

static qp_status derive_heads(model_shape *s, const char *where, qp_error *err) {
    if (!s->n_kv_heads) s->n_kv_heads = s->n_heads;
    if (!s->head_dim && s->hidden % s->n_heads)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: \"hidden_size\" is %d, expected a multiple of \"num_attention_heads\" (%d)", where,
                       s->hidden, s->n_heads);
    if (!s->head_dim) s->head_dim = s->hidden / s->n_heads;
    s->attention_scale = (float)(1.0 / sqrt(s->head_dim));
    return QP_OK;
}

static bool has_window(const model_shape *s) {
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].window) return true;
    return false;
}

static qp_status read_rope(model_shape *s, const arch_row *row, const char *layer_type, const hfconfig *c,
                           qp_error *err) {
    hf_rope *r = &s->ropes[s->n_ropes];
    ERR_TRY(hfconfig_rope(c, layer_type, row->rope_theta, s->trained_context, r, err));
    /* The reference's code of such a family never looks at it with plain rope, and breaks with any other kind. */
    if (!row->has_partial_rotation && r->kind == HF_ROPE_DEFAULT) r->partial = 1;
    if (!row->has_partial_rotation && r->partial != 1)
        return err_set(err, QP_UNSUPPORTED, 0, "%s: \"partial_rotary_factor\" is %g, %s with rope of kind %s allows 1",
                       hfconfig_where(c), r->partial, row->hf_name, hf_rope_kind_name(r->kind));
    const int rot_dims = (int)(s->head_dim * r->partial);
    if (s->n_ropes && rot_dims != s->rot_dims)
        return err_set(err, QP_UNSUPPORTED, 0, "%s: layers that turn %d and others that turn %d elements of a head",
                       hfconfig_where(c), s->rot_dims, rot_dims);
    s->rot_dims = rot_dims;
    s->n_ropes++;
    return QP_OK;
}

/* One for all layers, or, where the settings are a map, another one for the layers with a window. */
static qp_status read_ropes(model_shape *s, const arch_row *row, const hfconfig *c, qp_error *err) {
    ERR_TRY(read_rope(s, row, "full_attention", c, err));
    if (!hfconfig_rope_is_map(c) || !has_window(s)) return QP_OK;
    for (int i = 0; i < s->n_layers; i++) s->layers[i].rope = s->layers[i].window > 0;
    return read_rope(s, row, "sliding_attention", c, err);
}

static qp_status find_row(const arch_row **row, const hfconfig *c, qp_error *err) {
    const char *name;
    char shown[64];
    ERR_TRY(hfconfig_architecture(c, &name, err));
    *row = arch_find(name);
    if (*row) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s: the architecture \"%s\" is not supported", hfconfig_where(c),
                   utf8_shown(shown, sizeof shown, name));
}

static qp_status refuse_quantized(const hfconfig *c, qp_error *err) {
    const json_t *settings = hfconfig_value(c, "quantization_config");
    if (!settings || json_is_null(settings)) return QP_OK;
    const char *method = json_string_value(json_object_get(settings, "quant_method"));
    char shown[48];
    return err_set(err, QP_UNSUPPORTED, 0, "%s: weights quantized by \"%s\" are not supported", hfconfig_where(c),
                   utf8_shown(shown, sizeof shown, method ? method : "?"));
}

qp_status shape_read(model_shape *out, const arch_row **row, const hfconfig *c, qp_error *err) {
    *out = (model_shape){0};
    ERR_TRY(find_row(row, c, err));
    ERR_TRY(refuse_quantized(c, err));
    snprintf(out->architecture, sizeof out->architecture, "%s", (*row)->hf_name);
    for (const config_key *k = (*row)->keys; k->key; k++) ERR_TRY(apply_key(out, c, k, err));
    if ((*row)->has_qkv_bias) out->qkv_bias = true;
    if ((*row)->has_qk_norm) out->qk_norm = true;
    ERR_TRY(derive_heads(out, hfconfig_where(c), err));
    if ((*row)->layers)
        ERR_TRY((*row)->layers(out, c, err));
    else
        arch_layers_alike(out, 0);
    ERR_TRY(read_ropes(out, *row, c, err));
    return shape_check(out, hfconfig_where(c), err);
}

/* ---- checks for every shape, wherever it comes from ---- */

static qp_status check_ranges(const model_shape *s, const char *where, qp_error *err) {
    const struct {
        const char *name;
        int value, highest;
    } fields[] = {
        {"number of layers", s->n_layers, SHAPE_MAX_LAYERS},
        {"hidden size", s->hidden, SHAPE_MAX_HIDDEN},
        {"number of heads", s->n_heads, SHAPE_MAX_HEADS},
        {"number of key/value heads", s->n_kv_heads, s->n_heads},
        {"head size", s->head_dim, SHAPE_MAX_HEAD_DIM},
        {"feed-forward size", s->ffn, SHAPE_MAX_FFN},
        {"vocabulary", s->vocabulary, SHAPE_MAX_VOCABULARY},
        {"trained context", s->trained_context, SHAPE_MAX_POSITIONS},
        {"number of rope settings", s->n_ropes, SHAPE_MAX_ROPES},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 1 || fields[i].value > fields[i].highest)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: the %s is %d, allowed are 1 to %d", where, fields[i].name,
                           fields[i].value, fields[i].highest);
    return QP_OK;
}

static qp_status check_rope(const model_shape *s, const hf_rope *r, const char *where, qp_error *err) {
    if (r->kind == HF_ROPE_LONGROPE && r->n_factors != s->rot_dims / 2)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: \"short_factor\" and \"long_factor\" have %d numbers, expected %d, half of what turns",
                       where, r->n_factors, s->rot_dims / 2);
    if (r->kind == HF_ROPE_DYNAMIC && s->rot_dims < 4)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: rope of kind dynamic needs at least 4 turned elements, found %d",
                       where, s->rot_dims);
    return QP_OK;
}

static qp_status check_layers(const model_shape *s, const char *where, qp_error *err) {
    for (int i = 0; i < s->n_layers; i++) {
        const layer_kind *l = &s->layers[i];
        if ((unsigned)l->mixer >= MIXER_COUNT || l->window < 0 || l->rope < 0 || l->rope >= s->n_ropes)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: layer %d has mixer %d, window %d and rope %d", where, i,
                           (int)l->mixer, l->window, l->rope);
    }
    return QP_OK;
}

qp_status shape_check(const model_shape *s, const char *where, qp_error *err) {
    ERR_TRY(check_ranges(s, where, err));
    if (s->n_heads % s->n_kv_heads)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %d heads cannot share %d key/value heads evenly", where, s->n_heads,
                       s->n_kv_heads);
    if (s->rot_dims < 2 || s->rot_dims % 2 || s->rot_dims > s->head_dim)
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %d elements of a head turn, allowed are even numbers from 2 to %d",
                       where, s->rot_dims, s->head_dim);
    if (!(s->norm_eps > 0 && s->norm_eps < 1) || (unsigned)s->act >= ACT_COUNT || !(s->attention_scale > 0))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: norm_eps %g, activation %d, attention scale %g", where,
                       (double)s->norm_eps, (int)s->act, (double)s->attention_scale);
    for (int i = 0; i < s->n_ropes; i++) ERR_TRY(check_rope(s, &s->ropes[i], where, err));
    return check_layers(s, where, err);
}
