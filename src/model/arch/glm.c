/* glm.c — GLM-4: partial rotation of neighbours, fused gate and up; GLM-4-0414 with norms on both sides of the blocks;
 * GLM-4.5 with experts as DeepSeek V3 has them. */
#include "families.h"

#define COMMON_KEYS(eps, context)                                                                                      \
    ARCH_SIZES, ARCH_EPS("rms_norm_eps", eps), ARCH_ACT("hidden_act", ACT_SILU), ARCH_TIED(false), ARCH_HEAD_DIM(128), \
        ARCH_CONTEXT(context)

static const config_key glm_keys[] = {
    COMMON_KEYS(1.5625e-7, 131072), ARCH_KV_HEADS(2), ARCH_BOOL("attention_bias", qkv_bias, true), {.key = NULL}};

static const slot_row glm_slots[] = {
    ARCH_SLOT_EMBED,     ARCH_SLOT_FINAL,      ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION, ARCH_SLOT_QKV_BIASES, ARCH_SLOT_FUSED_MLP("mlp.gate_up_proj.weight", "mlp.down_proj.weight"),
    {.pattern = NULL},
};

const arch_row arch_glm = {
    .hf_name = "GlmForCausalLM",
    .keys = glm_keys,
    .slots = glm_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.5,
    .has_rope_pairs = true,
    .about = "partial rotation of neighbours, fused gate and up",
};

static const config_key glm4_keys[] = {
    COMMON_KEYS(1.5625e-7, 131072), ARCH_KV_HEADS(2), ARCH_BOOL("attention_bias", qkv_bias, false), {.key = NULL}};

static const slot_row glm4_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_VECTOR(SLOT_ATTN_POST, ARCH_LAYER("post_self_attn_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_POST, ARCH_LAYER("post_mlp_layernorm.weight"), NEED_ALWAYS),
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKV_BIASES,
    ARCH_SLOT_FUSED_MLP("mlp.gate_up_proj.weight", "mlp.down_proj.weight"),
    {.pattern = NULL},
};

static qp_status norms_on_both_sides(model_shape *s, const hfconfig *c, qp_error *err) {
    s->norm_after = true;
    return QP_OK;
}

const arch_row arch_glm4 = {
    .hf_name = "Glm4ForCausalLM",
    .keys = glm4_keys,
    .slots = glm4_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.5,
    .has_rope_pairs = true,
    .adjust = norms_on_both_sides,
    .about = "GLM with norms on both sides of blocks",
};

/* ---- with experts ---- */

static const config_key glm4_moe_keys[] = {
    COMMON_KEYS(1e-5, 131072),
    ARCH_KV_HEADS(8),
    ARCH_BOOL("attention_bias", qkv_bias, false),
    ARCH_EXPERTS("n_routed_experts", 128),
    ARCH_EXPERTS_TOO("num_local_experts"),
    ARCH_TOP_K(8),
    ARCH_INT("moe_intermediate_size", expert_ffn, 1, SHAPE_MAX_FFN, 1408),
    ARCH_INT("n_group", route.n_groups, 1, SHAPE_MAX_EXPERTS, 1),
    ARCH_INT("topk_group", route.groups, 1, SHAPE_MAX_EXPERTS, 1),
    ARCH_REAL("routed_scaling_factor", route.scale, 1e-9, 1e9, 1),
    ARCH_BOOL("norm_topk_prob", route.normalize, true),
    {.key = NULL},
};

static const slot_row glm4_moe_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKV_BIASES,
    ARCH_SLOT_QK_NORMS("self_attn.q_norm.weight", "self_attn.k_norm.weight", DIM_HEAD, DIM_HEAD),
    ARCH_SLOT_LLAMA_MLP,
    ARCH_SLOT_QWEN_EXPERTS,
    ARCH_SLOT_SHARED("mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                     "mlp.shared_experts.down_proj.weight"),
    {SLOT_ROUTE_BIAS, ARCH_LAYER("mlp.gate.e_score_correction_bias"), DIM_EXPERTS, DIM_NONE, NEED_ROUTE_BIAS, PART_ALL,
     0},
    {.pattern = NULL},
};

static qp_status glm4_moe_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t shared = 1;
    bool has_norm = false;
    ERR_TRY(hfconfig_int(c, "n_shared_experts", 0, 64, &shared, err));
    ERR_TRY(hfconfig_bool(c, "use_qk_norm", &has_norm, err));
    s->shared_ffn = (int)shared * s->expert_ffn;
    s->qk_norm = has_norm ? QK_NORM_HEADS : QK_NORM_NONE;
    s->route.sigmoid = s->has_route_bias = true;
    s->route.group_best = 2;
    s->route.floor = 1e-20f;
    return QP_OK;
}

static qp_status glm4_moe_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t dense = 1;
    ERR_TRY(hfconfig_int(c, "first_k_dense_replace", 0, SHAPE_MAX_LAYERS, &dense, err));
    return arch_mark_experts(s, c, (int)dense, 1, NULL, err);
}

const arch_row arch_glm4_moe = {
    .hf_name = "Glm4MoeForCausalLM",
    .keys = glm4_moe_keys,
    .slots = glm4_moe_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.5,
    .adjust = glm4_moe_adjust,
    .layers = glm4_moe_layers,
    .about = "experts chosen by sigmoid and bias, a shared one",
};
