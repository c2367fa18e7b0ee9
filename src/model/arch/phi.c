/* phi.c — Phi 1 to 2 (parallel blocks, LayerNorm, biases everywhere) and Phi 3 to 4 (fused projections, longrope). */
#include "families.h"
#include "base/json.h"

/* ---- Phi ---- */

static const config_key phi_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("layer_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_GELU_TANH),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_CONTEXT(2048),
    {.key = NULL},
};

static const slot_row phi_slots[] = {
    ARCH_SLOT_EMBED,
    {SLOT_HEAD_B, "lm_head.bias", DIM_VOCAB, DIM_NONE, NEED_HEAD_BIAS, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "model.final_layernorm.weight", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FINAL_NORM_B, "model.final_layernorm.bias", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, ARCH_LAYER("input_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM_B, ARCH_LAYER("input_layernorm.bias"), NEED_ALWAYS),
    {SLOT_WQ, ARCH_LAYER("self_attn.q_proj.weight"), DIM_Q, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_WK, ARCH_LAYER("self_attn.k_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_WV, ARCH_LAYER("self_attn.v_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_WO, ARCH_LAYER("self_attn.dense.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    ARCH_SLOT_QKV_BIASES,
    {SLOT_BO, ARCH_LAYER("self_attn.dense.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0},
    ARCH_SLOT_QK_NORMS("self_attn.q_layernorm.weight", "self_attn.k_layernorm.weight", DIM_HEAD, DIM_HEAD),
    {SLOT_Q_NORM_B, ARCH_LAYER("self_attn.q_layernorm.bias"), DIM_HEAD, DIM_NONE, NEED_QK_NORM, PART_ALL, 0},
    {SLOT_K_NORM_B, ARCH_LAYER("self_attn.k_layernorm.bias"), DIM_HEAD, DIM_NONE, NEED_QK_NORM, PART_ALL, 0},
    ARCH_SLOT_PLAIN_MLP("mlp.fc1", "mlp.fc2"),
    {.pattern = NULL},
};

static qp_status phi_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    bool has_norm = false;
    ERR_TRY(hfconfig_bool(c, "qk_layernorm", &has_norm, err));
    if (has_norm) s->qk_norm = QK_NORM_LAYER;
    s->is_parallel = s->has_one_norm = true;
    s->qkv_bias = s->o_bias = s->mlp_bias = true;
    s->head_bias = true;
    return QP_OK;
}

const arch_row arch_phi = {
    .hf_name = "PhiForCausalLM",
    .keys = phi_keys,
    .slots = phi_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.5,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .adjust = phi_adjust,
    .layers = arch_plain_layers,
    .about = "parallel blocks behind one LayerNorm, partial rotation, biases everywhere",
};

/* ---- Phi 3 ---- */

static const config_key phi3_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(4096),
    {.key = NULL},
};

static const slot_row phi3_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    {SLOT_WQ, ARCH_LAYER("self_attn.qkv_proj.weight"), DIM_Q, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_Q, 0},
    {SLOT_WK, ARCH_LAYER("self_attn.qkv_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_K, 0},
    {SLOT_WV, ARCH_LAYER("self_attn.qkv_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_STACK_V, 0},
    {SLOT_WO, ARCH_LAYER("self_attn.o_proj.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    ARCH_SLOT_FUSED_MLP("mlp.gate_up_proj.weight", "mlp.down_proj.weight"),
    {.pattern = NULL},
};

static qp_status phi3_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 0, err));
    arch_layers_alike(s, window);
    return QP_OK;
}

const arch_row arch_phi3 = {
    .hf_name = "Phi3ForCausalLM",
    .keys = phi3_keys,
    .slots = phi3_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .layers = phi3_layers,
    .about = "fused projections, longrope; Phi-4 too",
};
