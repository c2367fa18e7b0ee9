/* cohere.c — Command R and R7B: both blocks read one LayerNorm without bias, neighbours turn together, logits are
 * scaled; Cohere 2 slides on three layers of four and does not rotate the fourth. */
#include "families.h"
#include "base/json.h"

#define COMMON_KEYS                                                                                                    \
    ARCH_SIZES, ARCH_EPS("layer_norm_eps", 1e-5), ARCH_ACT("hidden_act", ACT_SILU), ARCH_TIED(true), ARCH_KV_HEADS(0), \
        ARCH_QKVO_BIAS("attention_bias", false), ARCH_REAL("logit_scale", logit_scale, -1e6, 1e6, 0.0625)
#define COMMON_SLOTS                                                                                                   \
    ARCH_SLOT_EMBED, ARCH_SLOT_FINAL, ARCH_VECTOR(SLOT_ATTN_NORM, ARCH_LAYER("input_layernorm.weight"), NEED_ALWAYS),  \
        ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES, ARCH_SLOT_LLAMA_MLP

static const config_key cohere_keys[] = {COMMON_KEYS, ARCH_CONTEXT(8192), {.key = NULL}};

static const slot_row cohere_slots[] = {
    COMMON_SLOTS,
    {SLOT_Q_NORM, ARCH_LAYER("self_attn.q_norm.weight"), DIM_Q, DIM_NONE, NEED_QK_NORM, PART_ALL, SLOT_BY_HEAD},
    {SLOT_K_NORM, ARCH_LAYER("self_attn.k_norm.weight"), DIM_KV, DIM_NONE, NEED_QK_NORM, PART_ALL, SLOT_BY_HEAD},
    {.pattern = NULL},
};

static qp_status parallel(model_shape *s, const hfconfig *c, qp_error *err) {
    bool has_norm = false;
    ERR_TRY(hfconfig_bool(c, "use_qk_norm", &has_norm, err));
    if (has_norm) s->qk_norm = QK_NORM_OWN;
    s->is_parallel = s->has_one_norm = true;
    return QP_OK;
}

const arch_row arch_cohere = {
    .hf_name = "CohereForCausalLM",
    .keys = cohere_keys,
    .slots = cohere_slots,
    .rope_theta = 10000,
    .has_rope_pairs = true,
    .norm = NORM_LAYER,
    .adjust = parallel,
    .about = "parallel blocks behind one LayerNorm without bias, scaled logits",
};

static const config_key cohere2_keys[] = {COMMON_KEYS, ARCH_HEAD_DIM(128), ARCH_CONTEXT(8192), {.key = NULL}};

static const slot_row cohere2_slots[] = {COMMON_SLOTS, {.pattern = NULL}};

static qp_status cohere2_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->is_parallel = s->has_one_norm = true;
    return QP_OK;
}

static qp_status cohere2_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t pattern = 4;
    int window;
    ERR_TRY(arch_window(&window, c, 4096, err));
    ERR_TRY(hfconfig_int(c, "sliding_window_pattern", 1, SHAPE_MAX_LAYERS, &pattern, err));
    ERR_TRY(arch_layers_by_pattern(s, c, window, (int)pattern, err));
    for (int i = 0; i < s->n_layers; i++)
        if (!s->layers[i].window) s->layers[i].rope = SHAPE_NO_ROPE;
    return QP_OK;
}

const arch_row arch_cohere2 = {
    .hf_name = "Cohere2ForCausalLM",
    .keys = cohere2_keys,
    .slots = cohere2_slots,
    .rope_theta = 10000,
    .has_rope_pairs = true,
    .norm = NORM_LAYER,
    .adjust = cohere2_adjust,
    .layers = cohere2_layers,
    .about = "Cohere with windows; layers without one are not rotated",
};
