/* olmo.c — OLMo 1 (LayerNorm without weights, q, k and v held within a limit), 2 and 3 (norms only behind the blocks,
 * norm of all of q and of k), OLMoE. */
#include "families.h"
#include "base/json.h"

#define CLIP                                                                                                           \
    { "clip_qkv", KEY_REAL, ARCH_FIELD(qkv_limit), KEY_NULL_IS_ZERO, 1e-6, 1e9, 0 }
#define WIDE_NORMS ARCH_SLOT_QK_NORMS("self_attn.q_norm.weight", "self_attn.k_norm.weight", DIM_Q, DIM_KV)

/* ---- OLMo ---- */

static const config_key olmo_keys[] = {
    ARCH_SIZES,
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", false),
    CLIP,
    {.key = NULL},
};

static const slot_row olmo_slots[] = {
    ARCH_SLOT_EMBED, ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES, ARCH_SLOT_LLAMA_MLP, {.pattern = NULL}};

static qp_status olmo_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->norm_eps = 1e-5f;
    return QP_OK;
}

const arch_row arch_olmo = {
    .hf_name = "OlmoForCausalLM",
    .keys = olmo_keys,
    .slots = olmo_slots,
    .rope_theta = 10000,
    .norm = NORM_LAYER,
    .adjust = olmo_adjust,
    .about = "LayerNorm without weights, `clip_qkv`",
};

/* ---- OLMo 2 and 3 ---- */

static const config_key olmo2_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", false),
    {.key = NULL},
};

static const slot_row olmo2_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_VECTOR(SLOT_ATTN_POST, ARCH_LAYER("post_attention_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_POST, ARCH_LAYER("post_feedforward_layernorm.weight"), NEED_ALWAYS),
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    WIDE_NORMS,
    ARCH_SLOT_LLAMA_MLP,
    {.pattern = NULL},
};

static qp_status norm_behind(model_shape *s, const hfconfig *c, qp_error *err) {
    s->norm_before = false;
    s->norm_after = true;
    return QP_OK;
}

const arch_row arch_olmo2 = {
    .hf_name = "Olmo2ForCausalLM",
    .keys = olmo2_keys,
    .slots = olmo2_slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_WIDE,
    .adjust = norm_behind,
    .about = "norms only behind the blocks, norm of q and k over all heads",
};

static qp_status olmo3_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 4096, err));
    return arch_layers_by_pattern(s, c, window, 4, err);
}

const arch_row arch_olmo3 = {
    .hf_name = "Olmo3ForCausalLM",
    .keys = olmo2_keys,
    .slots = olmo2_slots,
    .rope_theta = 10000,
    .window_rope = WINDOW_ROPE_PLAIN,
    .qk_norm = QK_NORM_WIDE,
    .adjust = norm_behind,
    .layers = olmo3_layers,
    .about = "OLMo 2 with windows on three layers of four",
};

/* ---- OLMoE ---- */

static const config_key olmoe_keys[] = {
    ARCH_SIZES,
    ARCH_EXPERT_FFN("intermediate_size"),
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_CONTEXT(4096),
    ARCH_QKVO_BIAS("attention_bias", false),
    CLIP,
    ARCH_EXPERTS("num_experts", 64),
    ARCH_EXPERTS_TOO("num_local_experts"),
    ARCH_TOP_K(8),
    ARCH_BOOL("norm_topk_prob", route.normalize, false),
    {.key = NULL},
};

static const slot_row olmoe_slots[] = {
    ARCH_SLOT_EMBED,       ARCH_SLOT_FINAL, ARCH_SLOT_NORMS,        ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES, WIDE_NORMS,      ARCH_SLOT_QWEN_EXPERTS, {.pattern = NULL},
};

const arch_row arch_olmoe = {
    .hf_name = "OlmoeForCausalLM",
    .keys = olmoe_keys,
    .slots = olmoe_slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_WIDE,
    .layers = arch_all_experts,
    .about = "experts, norm of q and k over all heads",
};
