/* exaone.c — EXAONE 4: norms only behind the blocks, norm of each head of q and k, windows on three layers of four, and
 * rotation only on those. */
#include "families.h"
#include "base/json.h"
#include <string.h>

static const config_key keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(32),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(2048),
    {.key = NULL},
};

static const slot_row slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_VECTOR(SLOT_ATTN_POST, ARCH_LAYER("post_attention_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_POST, ARCH_LAYER("post_feedforward_layernorm.weight"), NEED_ALWAYS),
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QK_NORMS("self_attn.q_norm.weight", "self_attn.k_norm.weight", DIM_HEAD, DIM_HEAD),
    ARCH_SLOT_LLAMA_MLP,
    {.pattern = NULL},
};

static qp_status adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->norm_before = false;
    s->norm_after = true;
    return QP_OK;
}

/* "LLLG" says the same as 4. */
static qp_status read_pattern(int64_t *out, const hfconfig *c, qp_error *err) {
    const json_t *value = hfconfig_value(c, "sliding_window_pattern");
    *out = 4;
    if (!json_is_string(value)) return hfconfig_int(c, "sliding_window_pattern", 1, SHAPE_MAX_LAYERS, out, err);
    const size_t length = json_string_length(value);
    if (length > 0 && length < SHAPE_MAX_LAYERS && strspn(json_string_value(value), "L") == length - 1) {
        *out = (int64_t)length;
        return QP_OK;
    }
    return err_set(err, QP_BAD_FORMAT, 0, "%s: \"sliding_window_pattern\" is no number and not of the form \"LLLG\"",
                   hfconfig_where(c));
}

static qp_status layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    int64_t pattern;
    ERR_TRY(arch_window(&window, c, 4096, err));
    ERR_TRY(read_pattern(&pattern, c, err));
    ERR_TRY(arch_layers_by_pattern(s, c, window, (int)pattern, err));
    for (int i = 0; i < s->n_layers && window; i++)
        if (!s->layers[i].window) s->layers[i].rope = SHAPE_NO_ROPE;
    return QP_OK;
}

const arch_row arch_exaone4 = {
    .hf_name = "Exaone4ForCausalLM",
    .keys = keys,
    .slots = slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_HEADS,
    .adjust = adjust,
    .layers = layers,
    .about = "norms behind the blocks, layers without window are not rotated",
};
