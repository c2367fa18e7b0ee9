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
    {"silu", ACT_SILU},           {"swish", ACT_SILU},
    {"gelu", ACT_GELU},           {"gelu_python", ACT_GELU},
    {"gelu_new", ACT_GELU_TANH},  {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"gelu_fast", ACT_GELU_TANH}, {"gelu_accurate", ACT_GELU_TANH},
    {"relu", ACT_RELU},           {"relu2", ACT_RELU2},
    {"sigmoid", ACT_SIGMOID},     {"quick_gelu", ACT_QUICK_GELU},
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
    int64_t value = k->flags & KEY_KEEP ? *field : (int64_t)k->fallback;
    if ((k->flags & KEY_NULL_IS_ZERO) && json_is_null(hfconfig_value(c, k->key))) value = 0;
    ERR_TRY(hfconfig_int(c, k->key, (int64_t)k->lowest, (int64_t)k->highest, &value, err));
    *field = (int)value;
    return QP_OK;
}

static qp_status apply_real(const hfconfig *c, const config_key *k, float *field, qp_error *err) {
    double value = k->flags & KEY_KEEP ? (double)*field : k->fallback;
    if ((k->flags & KEY_NULL_IS_ZERO) && json_is_null(hfconfig_value(c, k->key))) value = 0;
    ERR_TRY(hfconfig_real(c, k->key, k->lowest, k->highest, &value, err));
    *field = (float)value;
    return QP_OK;
}

static qp_status apply_bool(const hfconfig *c, const config_key *k, bool *field, qp_error *err) {
    if (!(k->flags & KEY_KEEP)) *field = k->fallback != 0;
    return hfconfig_bool(c, k->key, field, err);
}

static qp_status apply_activation(const hfconfig *c, const config_key *k, activation *field, qp_error *err) {
    const char *name = NULL;
    if (!(k->flags & KEY_KEEP)) *field = (activation)k->fallback;
    ERR_TRY(hfconfig_text(c, k->key, &name, err));
    if (!name || shape_find_activation(field, name)) return QP_OK;
    char shown[48];
    return err_set(
        err, QP_UNSUPPORTED, 0,
        "%s: \"%s\" is \"%s\", allowed are silu, gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu, relu2, "
        "sigmoid",
        hfconfig_where(c), k->key, utf8_shown(shown, sizeof shown, name));
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

void shape_defaults(model_shape *s) {
    s->embed_scale = s->residual_scale = s->logit_scale = 1;
    s->norm_before = true;
    s->rank_eps = 1e-6f;
    s->route.scale = 1;
}

static qp_status derive_heads(model_shape *s, const char *where, qp_error *err) {
    if (!s->n_kv_heads) s->n_kv_heads = s->n_heads;
    if (s->kv_rank) s->head_dim = s->nope_dim + s->rope_dim;
    if (!s->head_dim && s->hidden % s->n_heads)
        return err_set(err, QP_BAD_FORMAT, 0,
                       "%s: \"hidden_size\" is %d, expected a multiple of \"num_attention_heads\" (%d)", where,
                       s->hidden, s->n_heads);
    if (!s->head_dim) s->head_dim = s->hidden / s->n_heads;
    if (!s->v_dim) s->v_dim = s->head_dim;
    if (!(s->attention_scale > 0)) s->attention_scale = (float)(1.0 / sqrt(s->head_dim));
    return QP_OK;
}

/* What the family's hook has left alone. */
static void settle_layers(model_shape *s, const arch_row *row) {
    for (int i = 0; i < s->n_layers; i++) {
        layer_kind *l = &s->layers[i];
        l->mixer = s->kv_rank ? MIXER_LATENT : MIXER_GQA;
        if (row->has_no_rope) l->rope = SHAPE_NO_ROPE;
        l->has_qk_norm = s->qk_norm == QK_NORM_UNIT_LAST ? l->rope != SHAPE_NO_ROPE : s->qk_norm != QK_NORM_NONE;
        if (!(l->attention_scale > 0)) l->attention_scale = s->attention_scale;
    }
}

static bool has_window(const model_shape *s) {
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].window) return true;
    return false;
}

bool shape_has_experts(const model_shape *s) {
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].ffn == FFN_EXPERTS) return true;
    return false;
}

int shape_common_window(const model_shape *s) {
    int widest = 0;
    for (int i = 0; i < s->n_layers; i++) {
        const layer_kind *l = &s->layers[i];
        const int window = l->window && l->chunk ? (l->window < l->chunk ? l->window : l->chunk) : l->window + l->chunk;
        if (!window) return 0;
        widest = window > widest ? window : widest;
    }
    return widest;
}

/* ---- rope ---- */

static qp_status settle_rope(model_shape *s, const arch_row *row, const hfconfig *c, qp_error *err) {
    hf_rope *r = &s->ropes[s->n_ropes];
    const int turned = s->kv_rank ? s->rope_dim : s->head_dim;
    if (r->partial == 0) r->partial = row->partial_rotation != 0 ? row->partial_rotation : 1;
    /* The reference's code of such a family never looks at it with plain rope, and breaks with any other kind. */
    if (!row->has_partial_rotation && r->kind == HF_ROPE_DEFAULT) r->partial = 1;
    if (!row->has_partial_rotation && r->partial != 1)
        return err_set(err, QP_UNSUPPORTED, 0, "%s: \"partial_rotary_factor\" is %g, %s with rope of kind %s allows 1",
                       hfconfig_where(c), r->partial, row->hf_name, hf_rope_kind_name(r->kind));
    const int rot_dims = (int)(turned * r->partial);
    if (s->n_ropes && rot_dims != s->rot_dims)
        return err_set(err, QP_UNSUPPORTED, 0, "%s: layers that turn %d and others that turn %d elements of a head",
                       hfconfig_where(c), s->rot_dims, rot_dims);
    s->rot_dims = rot_dims;
    s->n_ropes++;
    return QP_OK;
}

static qp_status read_rope(model_shape *s, const arch_row *row, const char *layer_type, const hfconfig *c,
                           qp_error *err) {
    hf_rope *r = &s->ropes[s->n_ropes];
    ERR_TRY(hfconfig_rope(c, layer_type, row->rope_theta, s->trained_context, r, err));
    if (row->rope && !hfconfig_rope_is_given(c)) {
        const hf_rope read = *r;
        *r = *row->rope;
        r->theta = read.theta;
        r->partial = read.partial;
        r->max_positions = read.max_positions;
    }
    return settle_rope(s, row, c, err);
}

/* That of the layers with a window, out of the one for all. */
static qp_status derive_window_rope(model_shape *s, const arch_row *row, const hfconfig *c, qp_error *err) {
    const hf_rope *r = &s->ropes[0];
    s->ropes[1] =
        (hf_rope){.kind = HF_ROPE_DEFAULT, .theta = r->theta, .partial = r->partial, .max_positions = r->max_positions};
    if (row->window_rope == WINDOW_ROPE_LOCAL) {
        s->ropes[1].theta = row->local_theta;
        ERR_TRY(hfconfig_real(c, "rope_local_base_freq", 1.0001, 1e15, &s->ropes[1].theta, err));
    }
    return settle_rope(s, row, c, err);
}

/* One for all layers, or, where the settings are a map or the family has two, another one for the layers with a
 * window. */
static qp_status read_ropes(model_shape *s, const arch_row *row, const hfconfig *c, qp_error *err) {
    const bool is_map = hfconfig_rope_is_map(c);
    if (row->has_no_rope) return QP_OK;
    ERR_TRY(read_rope(s, row, "full_attention", c, err));
    if (!has_window(s) || (!is_map && row->window_rope == WINDOW_ROPE_SAME)) return QP_OK;
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].window && s->layers[i].rope == 0) s->layers[i].rope = 1;
    return is_map ? read_rope(s, row, "sliding_attention", c, err) : derive_window_rope(s, row, c, err);
}

/* ---- reading ---- */

static qp_status find_row(const arch_row **row, const hfconfig *c, const char *as, qp_error *err) {
    const char *text = as ? NULL : hfconfig_text_family(c), *name = as;
    char shown[64], known[400];
    if (!as) ERR_TRY(hfconfig_architecture(c, &name, err));
    *row = arch_find(text ? text : name);
    if (*row) return QP_OK;
    arch_list(known, sizeof known);
    return err_set(err, QP_UNSUPPORTED, 0, "%s: the architecture \"%s\" is not supported, known are %s",
                   hfconfig_where(c), utf8_shown(shown, sizeof shown, name), known);
}

static void begin_shape(model_shape *s, const arch_row *row) {
    *s = (model_shape){
        .norm = row->norm, .norm_bias = row->has_norm_bias, .qk_norm = row->qk_norm, .rope_pairs = row->has_rope_pairs};
    shape_defaults(s);
    snprintf(s->architecture, sizeof s->architecture, "%s", row->hf_name);
}

qp_status shape_read_row(model_shape *out, const arch_row *row, const hfconfig *c, qp_error *err) {
    begin_shape(out, row);
    ERR_TRY(hf_quant_read(&out->quant, c, err));
    ERR_TRY(hfconfig_bool(c, "rope_pairs", &out->rope_pairs, err)); /* of GGUF files: see gguf_config.c */
    for (const config_key *k = row->keys; k->key; k++) ERR_TRY(apply_key(out, c, k, err));
    if (row->has_qkv_bias) out->qkv_bias = true;
    if (row->adjust) ERR_TRY(row->adjust(out, c, err));
    ERR_TRY(derive_heads(out, hfconfig_where(c), err));
    arch_layers_alike(out, 0);
    if (row->layers) ERR_TRY(row->layers(out, c, err));
    settle_layers(out, row);
    ERR_TRY(read_ropes(out, row, c, err));
    return shape_check(out, hfconfig_where(c), err);
}

qp_status shape_read_as(model_shape *out, const arch_row **row, const hfconfig *c, const char *as, qp_error *err) {
    *out = (model_shape){0};
    ERR_TRY(find_row(row, c, as, err));
    return shape_read_row(out, *row, c, err);
}

qp_status shape_read(model_shape *out, const arch_row **row, const hfconfig *c, qp_error *err) {
    return shape_read_as(out, row, c, NULL, err);
}

/* ---- checks for every shape, wherever it comes from ---- */

typedef struct range {
    const char *name;
    int value, lowest, highest;
} range;

static qp_status check_list(const range *fields, size_t n, const char *where, qp_error *err) {
    for (size_t i = 0; i < n; i++)
        if (fields[i].value < fields[i].lowest || fields[i].value > fields[i].highest)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: the %s is %d, allowed are %d to %d", where, fields[i].name,
                           fields[i].value, fields[i].lowest, fields[i].highest);
    return QP_OK;
}

static qp_status check_ranges(const model_shape *s, const char *where, qp_error *err) {
    const range fields[] = {
        {"number of layers", s->n_layers, 1, SHAPE_MAX_LAYERS},
        {"hidden size", s->hidden, 1, SHAPE_MAX_HIDDEN},
        {"number of heads", s->n_heads, 1, SHAPE_MAX_HEADS},
        {"number of key/value heads", s->n_kv_heads, 1, s->n_heads},
        {"head size", s->head_dim, 1, SHAPE_MAX_HEAD_DIM},
        {"size of a value", s->v_dim, 1, SHAPE_MAX_HEAD_DIM},
        {"feed-forward size", s->ffn, 1, SHAPE_MAX_FFN},
        {"vocabulary", s->vocabulary, 1, SHAPE_MAX_VOCABULARY},
        {"trained context", s->trained_context, 1, SHAPE_MAX_POSITIONS},
        {"number of rope settings", s->n_ropes, 0, SHAPE_MAX_ROPES},
        {"number of learned positions", s->learned_positions, 0, SHAPE_MAX_POSITIONS},
    };
    return check_list(fields, sizeof fields / sizeof *fields, where, err);
}

static qp_status check_latent(const model_shape *s, const char *where, qp_error *err) {
    if (!s->kv_rank) return QP_OK;
    const range fields[] = {
        {"rank of queries", s->q_rank, 0, SHAPE_MAX_RANK},
        {"rank of keys and values", s->kv_rank, 1, SHAPE_MAX_HEAD_DIM - s->rope_dim},
        {"part of a head without rotation", s->nope_dim, 1, SHAPE_MAX_HEAD_DIM},
        {"part of a head with rotation", s->rope_dim, 2, SHAPE_MAX_HEAD_DIM},
    };
    return check_list(fields, sizeof fields / sizeof *fields, where, err);
}

static qp_status check_experts(const model_shape *s, const char *where, qp_error *err) {
    const route_rule *r = &s->route;
    if (!shape_has_experts(s)) return QP_OK;
    const range fields[] = {
        {"number of experts", r->n_experts, 1, SHAPE_MAX_EXPERTS},
        {"number of experts per token", r->top_k, 1, r->n_experts},
        {"feed-forward size of an expert", s->expert_ffn, 1, SHAPE_MAX_FFN},
        {"feed-forward size of the shared expert", s->shared_ffn, 0, SHAPE_MAX_FFN},
        {"number of groups of experts", r->n_groups, 0, r->n_experts},
        {"number of groups per token", r->groups, r->n_groups > 1, r->n_groups},
    };
    ERR_TRY(check_list(fields, sizeof fields / sizeof *fields, where, err));
    if (r->n_groups > 1 && (r->n_experts % r->n_groups || r->n_experts / r->n_groups * r->groups < r->top_k))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %d experts in %d groups, of which %d are taken, for %d per token",
                       where, r->n_experts, r->n_groups, r->groups, r->top_k);
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
        if ((unsigned)l->mixer >= MIXER_COUNT || l->window < 0 || l->chunk < 0 || l->rope < SHAPE_NO_ROPE ||
            l->rope >= s->n_ropes)
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
    if (s->n_ropes && (s->rot_dims < 2 || s->rot_dims % 2 || s->rot_dims > s->head_dim))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: %d elements of a head turn, allowed are even numbers from 2 to %d",
                       where, s->rot_dims, s->head_dim);
    if (!(s->norm_eps > 0 && s->norm_eps < 1) || (unsigned)s->act >= ACT_COUNT || !(s->attention_scale > 0))
        return err_set(err, QP_BAD_FORMAT, 0, "%s: norm_eps %g, activation %d, attention scale %g", where,
                       (double)s->norm_eps, (int)s->act, (double)s->attention_scale);
    for (int i = 0; i < s->n_ropes; i++) ERR_TRY(check_rope(s, &s->ropes[i], where, err));
    ERR_TRY(check_latent(s, where, err));
    ERR_TRY(check_experts(s, where, err));
    return check_layers(s, where, err);
}
