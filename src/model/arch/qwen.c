/* qwen.c — Qwen2 (bias on q, k, v) and Qwen3 (RMS norm on each head of q and k) over the Llama layout, and both with
 * experts. */
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
    ARCH_QKVO_BIAS("attention_bias", false),
    {.key = NULL},
};

#define QK_NORMS ARCH_SLOT_QK_NORMS("self_attn.q_norm.weight", "self_attn.k_norm.weight", DIM_HEAD, DIM_HEAD)

static const slot_row qwen3_slots[] = {ARCH_SLOT_LLAMA, QK_NORMS, {.pattern = NULL}};

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
    .about = "bias on q, k and v",
};

const arch_row arch_qwen3 = {
    .hf_name = "Qwen3ForCausalLM",
    .keys = qwen3_keys,
    .slots = qwen3_slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_HEADS,
    .layers = qwen_layers,
    .about = "norm of each head of q and k",
};

/* ---- with experts ---- */

static const config_key qwen2_moe_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(16),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(32768),
    ARCH_BOOL("qkv_bias", qkv_bias, true),
    ARCH_EXPERTS("num_experts", 60),
    ARCH_EXPERTS_TOO("num_local_experts"),
    ARCH_TOP_K(4),
    ARCH_INT("moe_intermediate_size", expert_ffn, 1, SHAPE_MAX_FFN, 1408),
    ARCH_INT("shared_expert_intermediate_size", shared_ffn, 0, SHAPE_MAX_FFN, 5632),
    ARCH_BOOL("norm_topk_prob", route.normalize, false),
    {.key = NULL},
};

static const slot_row qwen2_moe_slots[] = {
    ARCH_SLOT_LLAMA,
    ARCH_SLOT_QWEN_EXPERTS,
    ARCH_SLOT_SHARED("mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight",
                     "mlp.shared_expert.down_proj.weight"),
    {SLOT_SHARED_SWITCH, ARCH_LAYER("mlp.shared_expert_gate.weight"), DIM_ONE, DIM_HIDDEN, NEED_SHARED_SWITCH, PART_ALL,
     0},
    {.pattern = NULL},
};

static const config_key qwen3_moe_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(4),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(32768),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_EXPERTS("num_experts", 128),
    ARCH_EXPERTS_TOO("num_local_experts"),
    ARCH_TOP_K(8),
    ARCH_INT("moe_intermediate_size", expert_ffn, 1, SHAPE_MAX_FFN, 768),
    ARCH_BOOL("norm_topk_prob", route.normalize, false),
    {.key = NULL},
};

static const slot_row qwen3_moe_slots[] = {ARCH_SLOT_LLAMA, QK_NORMS, ARCH_SLOT_QWEN_EXPERTS, {.pattern = NULL}};

static qp_status mark_experts(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t step = 1;
    ERR_TRY(hfconfig_int(c, "decoder_sparse_step", 1, SHAPE_MAX_LAYERS, &step, err));
    return arch_mark_experts(s, c, 0, (int)step, "mlp_only_layers", err);
}

/* 0: windows are not used. */
static qp_status used_window(int *out, const hfconfig *c, qp_error *err) {
    bool is_used = false;
    *out = 0;
    ERR_TRY(hfconfig_bool(c, "use_sliding_window", &is_used, err));
    return is_used ? arch_window(out, c, 4096, err) : QP_OK;
}

/* Where windows are used: every other layer below max_window_layers. */
static qp_status qwen2_moe_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    int64_t end = 28;
    ERR_TRY(used_window(&window, c, err));
    ERR_TRY(hfconfig_int(c, "max_window_layers", 0, INT32_MAX, &end, err));
    ERR_TRY(arch_layers_by_pattern(s, c, window, 2, err));
    const json_t *types = hfconfig_value(c, "layer_types");
    for (int i = 0; i < s->n_layers && (!types || json_is_null(types)); i++)
        if (i >= end) s->layers[i].window = 0;
    return mark_experts(s, c, err);
}

/* Where windows are used: all layers. */
static qp_status qwen3_moe_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(used_window(&window, c, err));
    arch_layers_alike(s, window);
    return mark_experts(s, c, err);
}

static qp_status has_switch(model_shape *s, const hfconfig *c, qp_error *err) {
    s->has_shared_switch = true;
    return QP_OK;
}

const arch_row arch_qwen2_moe = {
    .hf_name = "Qwen2MoeForCausalLM",
    .keys = qwen2_moe_keys,
    .slots = qwen2_moe_slots,
    .rope_theta = 10000,
    .adjust = has_switch,
    .layers = qwen2_moe_layers,
    .about = "experts, and a shared one behind a sigmoid",
};

const arch_row arch_qwen3_moe = {
    .hf_name = "Qwen3MoeForCausalLM",
    .keys = qwen3_moe_keys,
    .slots = qwen3_moe_slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_HEADS,
    .layers = qwen3_moe_layers,
    .about = "experts over Qwen3",
};
