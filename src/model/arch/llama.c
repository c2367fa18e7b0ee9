/* llama.c — the Llama layout (Touvron et al. 2023) and Mistral, which is Llama with a window on every layer. */
#include "families.h"
#include "base/json.h"

const slot_row arch_llama_slots[] = {
    {SLOT_EMBED, "model.embed_tokens.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_FINAL_NORM, "model.norm.weight", DIM_HIDDEN, DIM_NONE, NEED_ALWAYS},
    {SLOT_HEAD, "lm_head.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED},
    {SLOT_ATTN_NORM, "model.layers.%d.input_layernorm.weight", DIM_HIDDEN, DIM_NONE, NEED_ALWAYS},
    {SLOT_WQ, "model.layers.%d.self_attn.q_proj.weight", DIM_Q, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_WK, "model.layers.%d.self_attn.k_proj.weight", DIM_KV, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_WV, "model.layers.%d.self_attn.v_proj.weight", DIM_KV, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_WO, "model.layers.%d.self_attn.o_proj.weight", DIM_HIDDEN, DIM_Q, NEED_ALWAYS},
    {SLOT_BQ, "model.layers.%d.self_attn.q_proj.bias", DIM_Q, DIM_NONE, NEED_QKV_BIAS},
    {SLOT_BK, "model.layers.%d.self_attn.k_proj.bias", DIM_KV, DIM_NONE, NEED_QKV_BIAS},
    {SLOT_BV, "model.layers.%d.self_attn.v_proj.bias", DIM_KV, DIM_NONE, NEED_QKV_BIAS},
    {SLOT_BO, "model.layers.%d.self_attn.o_proj.bias", DIM_HIDDEN, DIM_NONE, NEED_O_BIAS},
    {SLOT_Q_NORM, "model.layers.%d.self_attn.q_norm.weight", DIM_HEAD, DIM_NONE, NEED_QK_NORM},
    {SLOT_K_NORM, "model.layers.%d.self_attn.k_norm.weight", DIM_HEAD, DIM_NONE, NEED_QK_NORM},
    {SLOT_FFN_NORM, "model.layers.%d.post_attention_layernorm.weight", DIM_HIDDEN, DIM_NONE, NEED_ALWAYS},
    {SLOT_W_GATE, "model.layers.%d.mlp.gate_proj.weight", DIM_FFN, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_W_UP, "model.layers.%d.mlp.up_proj.weight", DIM_FFN, DIM_HIDDEN, NEED_ALWAYS},
    {SLOT_W_DOWN, "model.layers.%d.mlp.down_proj.weight", DIM_HIDDEN, DIM_FFN, NEED_ALWAYS},
    {SLOT_B_GATE, "model.layers.%d.mlp.gate_proj.bias", DIM_FFN, DIM_NONE, NEED_MLP_BIAS},
    {SLOT_B_UP, "model.layers.%d.mlp.up_proj.bias", DIM_FFN, DIM_NONE, NEED_MLP_BIAS},
    {SLOT_B_DOWN, "model.layers.%d.mlp.down_proj.bias", DIM_HIDDEN, DIM_NONE, NEED_MLP_BIAS},
    {.pattern = NULL},
};

static const config_key llama_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(2048),
    {"attention_bias", KEY_BOOL, ARCH_FIELD(qkv_bias), 0, 0, 0, false},
    {"attention_bias", KEY_BOOL, ARCH_FIELD(o_bias), 0, 0, 0, false},
    {"mlp_bias", KEY_BOOL, ARCH_FIELD(mlp_bias), 0, 0, 0, false},
    {.key = NULL},
};

static const config_key mistral_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(8), ARCH_HEAD_DIM(0), ARCH_CONTEXT(131072), {.key = NULL},
};

/* A config that says nothing means 4096 here, and null means none. */
static qp_status mistral_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t window = json_is_null(hfconfig_value(c, "sliding_window")) ? 0 : 4096;
    ERR_TRY(hfconfig_int(c, "sliding_window", 1, SHAPE_MAX_POSITIONS, &window, err));
    arch_layers_alike(s, (int)window);
    return QP_OK;
}

const arch_row arch_llama = {
    .hf_name = "LlamaForCausalLM",
    .keys = llama_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
};

const arch_row arch_mistral = {
    .hf_name = "MistralForCausalLM",
    .keys = mistral_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .layers = mistral_layers,
};
