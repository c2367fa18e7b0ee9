/* qwen.c — Qwen2 (bias on q, k, v) and Qwen3 (RMS norm on each head of q and k) over the Llama layout. */
#include "families.h"
#include "base/json.h"

static const config_key qwen2_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(32), ARCH_HEAD_DIM(0), ARCH_CONTEXT(32768), {.key = NULL},
};

static const config_key qwen3_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(32),
    ARCH_HEAD_DIM(128),
    ARCH_CONTEXT(32768),
    {"attention_bias", KEY_BOOL, ARCH_FIELD(qkv_bias), 0, 0, 0, false},
    {"attention_bias", KEY_BOOL, ARCH_FIELD(o_bias), 0, 0, 0, false},
    {.key = NULL},
};

/* A window counts only with use_sliding_window; then the layers from max_window_layers on have it, unless layer_types
 * says which. */
static qp_status qwen_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    bool is_used = false;
    int64_t window = json_is_null(hfconfig_value(c, "sliding_window")) ? 0 : 4096, first = 28;
    ERR_TRY(hfconfig_bool(c, "use_sliding_window", &is_used, err));
    ERR_TRY(hfconfig_int(c, "sliding_window", is_used ? 1 : 0, SHAPE_MAX_POSITIONS, &window, err));
    ERR_TRY(hfconfig_int(c, "max_window_layers", 0, INT32_MAX, &first, err));
    return arch_layers_by_type(s, c, is_used ? (int)window : 0, (int)first, err);
}

const arch_row arch_qwen2 = {
    .hf_name = "Qwen2ForCausalLM",
    .keys = qwen2_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .has_qkv_bias = true,
    .layers = qwen_layers,
};

const arch_row arch_qwen3 = {
    .hf_name = "Qwen3ForCausalLM",
    .keys = qwen3_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .has_qk_norm = true,
    .layers = qwen_layers,
};
