/* gpt_oss.c — gpt-oss: sinks, windows on every other layer, experts with biases and a clamped gate, gate and up woven.
 */
#include "families.h"

static const config_key keys[] = {
    ARCH_SIZES,
    ARCH_EXPERT_FFN("intermediate_size"),
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_TIED(false),
    ARCH_KV_HEADS(8),
    ARCH_HEAD_DIM(64),
    ARCH_CONTEXT(131072),
    ARCH_QKVO_BIAS("attention_bias", true),
    ARCH_EXPERTS("num_local_experts", 128),
    ARCH_EXPERTS_TOO("num_experts"),
    ARCH_TOP_K(4),
    ARCH_REAL("swiglu_limit", act_limit, 1e-3, 1e9, 7),
    ARCH_REAL("swiglu_alpha", act_alpha, 1e-3, 1e3, 1.702),
    {.key = NULL},
};

#define EXPERT(slot, name, rows, cols, part)                                                                           \
    { slot, ARCH_LAYER("mlp.experts." name), rows, cols, NEED_EXPERTS, part, SLOT_TRANSPOSED }

static const slot_row slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    {SLOT_SINKS, ARCH_LAYER("self_attn.sinks"), DIM_HEADS, DIM_NONE, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_ROUTER, ARCH_LAYER("mlp.router.weight"), DIM_EXPERTS, DIM_HIDDEN, NEED_EXPERTS, PART_ALL, 0},
    {SLOT_ROUTER_B, ARCH_LAYER("mlp.router.bias"), DIM_EXPERTS, DIM_NONE, NEED_EXPERTS, PART_ALL, 0},
    EXPERT(SLOT_EXPERT_GATE, "gate_up_proj", DIM_EXPERT_FFN, DIM_HIDDEN, PART_EVEN),
    EXPERT(SLOT_EXPERT_UP, "gate_up_proj", DIM_EXPERT_FFN, DIM_HIDDEN, PART_ODD),
    EXPERT(SLOT_EXPERT_DOWN, "down_proj", DIM_HIDDEN, DIM_EXPERT_FFN, PART_ALL),
    EXPERT(SLOT_EXPERT_GATE_B, "gate_up_proj_bias", DIM_EXPERT_FFN, DIM_NONE, PART_EVEN),
    EXPERT(SLOT_EXPERT_UP_B, "gate_up_proj_bias", DIM_EXPERT_FFN, DIM_NONE, PART_ODD),
    EXPERT(SLOT_EXPERT_DOWN_B, "down_proj_bias", DIM_HIDDEN, DIM_NONE, PART_ALL),
    {.pattern = NULL},
};

static qp_status adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->route.normalize = true;
    s->act_kind = FFN_ACT_CLAMPED;
    s->has_sinks = s->has_router_bias = s->has_expert_bias = true;
    return QP_OK;
}

static qp_status layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 128, err));
    ERR_TRY(arch_layers_by_pattern(s, c, window, 2, err));
    return arch_all_experts(s, c, err);
}

static const hf_rope rope = {.kind = HF_ROPE_YARN, .factor = 32, .original_max = 4096, .beta_fast = 32, .beta_slow = 1};

const arch_row arch_gpt_oss = {
    .hf_name = "GptOssForCausalLM",
    .keys = keys,
    .slots = slots,
    .rope_theta = 150000,
    .rope = &rope,
    .adjust = adjust,
    .layers = layers,
    .about = "sinks, a window on every other layer, clamped gates of experts",
};
