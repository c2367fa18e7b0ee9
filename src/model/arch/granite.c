/* granite.c — families of multipliers over the Llama layout: Granite with and without experts, HyperCLOVA X, MiniCPM.
 */
#include "families.h"
#include "base/json.h"

#define MULTIPLIER(key, field) ARCH_REAL(key, field, 1e-9, 1e9, 1)

/* ---- Granite ---- */

#define GRANITE_KEYS                                                                                                   \
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(0), ARCH_CONTEXT(2048), ARCH_QKVO_BIAS("attention_bias", false),                    \
        ARCH_BOOL("mlp_bias", mlp_bias, false), MULTIPLIER("embedding_multiplier", embed_scale),                       \
        MULTIPLIER("residual_multiplier", residual_scale), MULTIPLIER("attention_multiplier", attention_scale)

static const config_key granite_keys[] = {GRANITE_KEYS, {.key = NULL}};

/* Logits are divided by it. */
static qp_status divide_logits(model_shape *s, const hfconfig *c, qp_error *err) {
    double by = 1;
    ERR_TRY(hfconfig_real(c, "logits_scaling", 1e-9, 1e9, &by, err));
    s->logit_scale = (float)(1 / by);
    return QP_OK;
}

const arch_row arch_granite = {
    .hf_name = "GraniteForCausalLM",
    .keys = granite_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .adjust = divide_logits,
    .about = "multipliers of embedding, residual, attention and logits",
};

/* ---- with experts ---- */

#define EXPERT_KEYS                                                                                                    \
    GRANITE_KEYS, ARCH_EXPERT_FFN("intermediate_size"), ARCH_EXPERTS("num_local_experts", 8), ARCH_TOP_K(2)
#define EXPERT_SLOTS                                                                                                   \
    ARCH_SLOT_EMBED, ARCH_SLOT_FINAL, ARCH_SLOT_NORMS, ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES,                     \
        {SLOT_ROUTER,                                                                                                  \
         ARCH_LAYER("block_sparse_moe.router.layer.weight"),                                                           \
         DIM_EXPERTS,                                                                                                  \
         DIM_HIDDEN,                                                                                                   \
         NEED_EXPERTS,                                                                                                 \
         PART_ALL,                                                                                                     \
         0},                                                                                                           \
        {SLOT_EXPERT_GATE,                                                                                             \
         ARCH_LAYER("block_sparse_moe.input_linear.weight"),                                                           \
         DIM_EXPERT_FFN,                                                                                               \
         DIM_HIDDEN,                                                                                                   \
         NEED_EXPERTS,                                                                                                 \
         PART_FIRST_HALF,                                                                                              \
         0},                                                                                                           \
        {SLOT_EXPERT_UP,                                                                                               \
         ARCH_LAYER("block_sparse_moe.input_linear.weight"),                                                           \
         DIM_EXPERT_FFN,                                                                                               \
         DIM_HIDDEN,                                                                                                   \
         NEED_EXPERTS,                                                                                                 \
         PART_SECOND_HALF,                                                                                             \
         0},                                                                                                           \
    {                                                                                                                  \
        SLOT_EXPERT_DOWN, ARCH_LAYER("block_sparse_moe.output_linear.weight"), DIM_HIDDEN, DIM_EXPERT_FFN,             \
            NEED_EXPERTS, PART_ALL, 0                                                                                  \
    }

static const config_key granite_moe_keys[] = {EXPERT_KEYS, {.key = NULL}};
static const slot_row granite_moe_slots[] = {EXPERT_SLOTS, {.pattern = NULL}};

static qp_status granite_moe_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->route.normalize = true;
    return divide_logits(s, c, err);
}

const arch_row arch_granite_moe = {
    .hf_name = "GraniteMoeForCausalLM",
    .keys = granite_moe_keys,
    .slots = granite_moe_slots,
    .rope_theta = 10000,
    .adjust = granite_moe_adjust,
    .layers = arch_all_experts,
    .about = "Granite with experts",
};

static const config_key granite_shared_keys[] = {
    EXPERT_KEYS, ARCH_INT("shared_intermediate_size", shared_ffn, 0, SHAPE_MAX_FFN, 1024), {.key = NULL}};

#define SHARED_INPUT ARCH_LAYER("shared_mlp.input_linear.weight")
static const slot_row granite_shared_slots[] = {
    EXPERT_SLOTS,
    {SLOT_SHARED_GATE, SHARED_INPUT, DIM_SHARED_FFN, DIM_HIDDEN, NEED_SHARED, PART_FIRST_HALF, 0},
    {SLOT_SHARED_UP, SHARED_INPUT, DIM_SHARED_FFN, DIM_HIDDEN, NEED_SHARED, PART_SECOND_HALF, 0},
    {SLOT_SHARED_DOWN, ARCH_LAYER("shared_mlp.output_linear.weight"), DIM_HIDDEN, DIM_SHARED_FFN, NEED_SHARED, PART_ALL,
     0},
    {.pattern = NULL},
};

const arch_row arch_granite_shared = {
    .hf_name = "GraniteMoeSharedForCausalLM",
    .keys = granite_shared_keys,
    .slots = granite_shared_slots,
    .rope_theta = 10000,
    .adjust = granite_moe_adjust,
    .layers = arch_all_experts,
    .about = "Granite with experts and a shared one",
};

/* ---- HyperCLOVA X ---- */

static const config_key hyperclova_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    MULTIPLIER("embedding_multiplier", embed_scale),
    MULTIPLIER("residual_multiplier", residual_scale),
    ARCH_REAL("attention_multiplier", attention_scale, 1e-9, 1e9, 0),
    MULTIPLIER("logits_scaling", logit_scale),
    ARCH_BOOL("use_post_norm", norm_after, false),
    {.key = NULL},
};

static const slot_row hyperclova_slots[] = {
    ARCH_SLOT_LLAMA,
    ARCH_VECTOR(SLOT_ATTN_POST, ARCH_LAYER("post_norm1.weight"), NEED_POST_NORM),
    ARCH_VECTOR(SLOT_FFN_POST, ARCH_LAYER("post_norm2.weight"), NEED_POST_NORM),
    {.pattern = NULL},
};

const arch_row arch_hyperclova = {
    .hf_name = "HyperCLOVAXForCausalLM",
    .keys = hyperclova_keys,
    .slots = hyperclova_slots,
    .rope_theta = 10000,
    .about = "Granite's multipliers, norms behind the blocks where `use_post_norm`",
};

/* ---- MiniCPM ---- */

static const config_key minicpm_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(0),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", false),
    MULTIPLIER("scale_emb", embed_scale),
    {.key = NULL},
};

static qp_status minicpm_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    double depth = sqrt(s->n_layers), base = s->hidden;
    ERR_TRY(hfconfig_real(c, "scale_depth", 1e-9, 1e9, &depth, err));
    ERR_TRY(hfconfig_real(c, "dim_model_base", 1, 1e9, &base, err));
    s->residual_scale = (float)(depth / sqrt(s->n_layers));
    s->logit_scale = (float)(base / s->hidden);
    return QP_OK;
}

const arch_row arch_minicpm = {
    .hf_name = "MiniCPMForCausalLM",
    .keys = minicpm_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .adjust = minicpm_adjust,
    .about = "multipliers by depth and width",
};
