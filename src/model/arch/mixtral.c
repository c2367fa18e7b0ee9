/* mixtral.c — Mixtral (Jiang et al. 2024): Mistral with experts, whose weights are a softmax over the chosen. */
#include "families.h"

static const config_key keys[] = {
    ARCH_SIZES,
    ARCH_EXPERT_FFN("intermediate_size"),
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(8),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(131072),
    ARCH_EXPERTS("num_local_experts", 8),
    ARCH_EXPERTS_TOO("num_experts"),
    ARCH_TOP_K(2),
    {.key = NULL},
};

static const slot_row slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_EXPERTS("block_sparse_moe.gate.weight", "block_sparse_moe.experts.%d.w1.weight",
                      "block_sparse_moe.experts.%d.w3.weight", "block_sparse_moe.experts.%d.w2.weight"),
    {.pattern = NULL},
};

static qp_status adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->route.normalize = true;
    return QP_OK;
}

static qp_status layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 0, err));
    arch_layers_alike(s, window);
    return arch_all_experts(s, c, err);
}

const arch_row arch_mixtral = {
    .hf_name = "MixtralForCausalLM",
    .keys = keys,
    .slots = slots,
    .rope_theta = 1000000,
    .adjust = adjust,
    .layers = layers,
    .about = "experts over Mistral",
};
