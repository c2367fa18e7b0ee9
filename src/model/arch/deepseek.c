/* deepseek.c — DeepSeek V2 and V3 and MiniCPM3: latent attention; the first two with experts in groups.
 *
 * The tricky thing is YaRN with "mscale_all_dim": the reference puts half of its factor into cos and sin (where it
 * cancels against "mscale") and the other half, squared, into the scale of the scores. */
#include "families.h"
#include "base/json.h"
#include <string.h>

/* ---- what they share ---- */

#define LATENT_KEYS(kv, nope, rope, v)                                                                                 \
    {"q_lora_rank", KEY_INT, ARCH_FIELD(q_rank), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_RANK, 0},                              \
        ARCH_INT("kv_lora_rank", kv_rank, 1, SHAPE_MAX_HEAD_DIM, kv),                                                  \
        ARCH_INT("qk_nope_head_dim", nope_dim, 1, SHAPE_MAX_HEAD_DIM, nope),                                           \
        ARCH_INT("qk_rope_head_dim", rope_dim, 2, SHAPE_MAX_HEAD_DIM, rope),                                           \
        ARCH_INT("v_head_dim", v_dim, 1, SHAPE_MAX_HEAD_DIM, v), ARCH_QKVO_BIAS("attention_bias", false)

#define ATTN(name) ARCH_LAYER("self_attn." name)
#define LATENT_SLOTS                                                                                                   \
    {SLOT_WQ, ATTN("q_proj.weight"), DIM_Q, DIM_HIDDEN, NEED_NO_Q_RANK, PART_ALL, 0},                                  \
        {SLOT_WQ_DOWN, ATTN("q_a_proj.weight"), DIM_Q_RANK, DIM_HIDDEN, NEED_Q_RANK, PART_ALL, 0},                     \
        {SLOT_BQ_DOWN, ATTN("q_a_proj.bias"), DIM_Q_RANK, DIM_NONE, NEED_Q_RANK_BIAS, PART_ALL, 0},                    \
        {SLOT_Q_DOWN_NORM, ATTN("q_a_layernorm.weight"), DIM_Q_RANK, DIM_NONE, NEED_Q_RANK, PART_ALL, 0},              \
        {SLOT_WQ, ATTN("q_b_proj.weight"), DIM_Q, DIM_Q_RANK, NEED_Q_RANK, PART_ALL, 0},                               \
        {SLOT_WKV_DOWN, ATTN("kv_a_proj_with_mqa.weight"), DIM_LATENT, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},          \
        {SLOT_BKV_DOWN, ATTN("kv_a_proj_with_mqa.bias"), DIM_LATENT, DIM_NONE, NEED_QKV_BIAS, PART_ALL, 0},            \
        {SLOT_KV_DOWN_NORM, ATTN("kv_a_layernorm.weight"), DIM_KV_RANK, DIM_NONE, NEED_ALWAYS, PART_ALL, 0},           \
        {SLOT_WK_UP, ATTN("kv_b_proj.weight"), DIM_KV_RANK, DIM_NOPE, NEED_ALWAYS, PART_HEAD_K, 0},                    \
        {SLOT_WV_UP, ATTN("kv_b_proj.weight"), DIM_V_HEAD, DIM_KV_RANK, NEED_ALWAYS, PART_HEAD_V, 0},                  \
        {SLOT_WO, ATTN("o_proj.weight"), DIM_HIDDEN, DIM_O, NEED_ALWAYS, PART_ALL, 0}, {                               \
        SLOT_BO, ATTN("o_proj.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0                                   \
    }

static double yarn_growth(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static qp_status scale_scores(model_shape *s, const hfconfig *c, qp_error *err) {
    hf_rope rope;
    ERR_TRY(hfconfig_rope(c, NULL, 10000, s->trained_context, &rope, err));
    const double growth =
        rope.kind == HF_ROPE_DEFAULT || rope.mscale_all_dim == 0 ? 1 : yarn_growth(rope.factor, rope.mscale_all_dim);
    s->attention_scale = (float)(growth * growth / sqrt(s->nope_dim + s->rope_dim));
    return QP_OK;
}

/* ---- DeepSeek ---- */

#define EXPERT_KEYS(n, chosen, width, factor)                                                                          \
    ARCH_EXPERTS("n_routed_experts", n), ARCH_EXPERTS_TOO("num_local_experts"), ARCH_TOP_K(chosen),                    \
        ARCH_INT("moe_intermediate_size", expert_ffn, 1, SHAPE_MAX_FFN, width),                                        \
        ARCH_REAL("routed_scaling_factor", route.scale, 1e-9, 1e9, factor),                                            \
        {"n_group", KEY_INT, ARCH_FIELD(route.n_groups), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_EXPERTS, 0}, {                 \
        "topk_group", KEY_INT, ARCH_FIELD(route.groups), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_EXPERTS, 0                     \
    }
#define EXPERT_SLOTS                                                                                                   \
    ARCH_SLOT_QWEN_EXPERTS,                                                                                            \
        ARCH_SLOT_SHARED("mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",                   \
                         "mlp.shared_experts.down_proj.weight")

static const config_key v2_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_CONTEXT(2048), LATENT_KEYS(512, 128, 64, 128), EXPERT_KEYS(64, 6, 1407, 1), {.key = NULL},
};

static const slot_row v2_slots[] = {
    ARCH_SLOT_EMBED,     ARCH_SLOT_FINAL, ARCH_SLOT_NORMS,   LATENT_SLOTS,
    ARCH_SLOT_LLAMA_MLP, EXPERT_SLOTS,    {.pattern = NULL},
};

static qp_status read_shared(model_shape *s, const hfconfig *c, int64_t fallback, qp_error *err) {
    int64_t n = json_is_null(hfconfig_value(c, "n_shared_experts")) ? 0 : fallback;
    ERR_TRY(hfconfig_int(c, "n_shared_experts", 0, 64, &n, err));
    s->shared_ffn = (int)n * s->expert_ffn;
    return QP_OK;
}

static qp_status v2_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    const char *method = "greedy";
    ERR_TRY(hfconfig_text(c, "topk_method", &method, err));
    if (strcmp(method, "group_limited_greedy")) s->route.n_groups = s->route.groups = 0;
    s->route.group_best = 1;
    ERR_TRY(read_shared(s, c, 2, err));
    return scale_scores(s, c, err);
}

static qp_status deepseek_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t dense = 0, step = 1;
    ERR_TRY(hfconfig_int(c, "first_k_dense_replace", 0, SHAPE_MAX_LAYERS, &dense, err));
    ERR_TRY(hfconfig_int(c, "moe_layer_freq", 1, SHAPE_MAX_LAYERS, &step, err));
    return arch_mark_experts(s, c, (int)dense, (int)step, NULL, err);
}

const arch_row arch_deepseek2 = {
    .hf_name = "DeepseekV2ForCausalLM",
    .keys = v2_keys,
    .slots = v2_slots,
    .rope_theta = 10000,
    .has_rope_pairs = true,
    .adjust = v2_adjust,
    .layers = deepseek_layers,
    .about = "latent attention, experts with a shared one",
};

static const config_key v3_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_CONTEXT(4096),
    LATENT_KEYS(512, 128, 64, 128),
    EXPERT_KEYS(256, 8, 2048, 2.5),
    ARCH_BOOL("norm_topk_prob", route.normalize, true),
    ARCH_BOOL("rope_interleave", rope_pairs, true),
    {.key = NULL},
};

static const slot_row v3_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    LATENT_SLOTS,
    ARCH_SLOT_LLAMA_MLP,
    EXPERT_SLOTS,
    {SLOT_ROUTE_BIAS, ARCH_LAYER("mlp.gate.e_score_correction_bias"), DIM_EXPERTS, DIM_NONE, NEED_ROUTE_BIAS, PART_ALL,
     0},
    {.pattern = NULL},
};

static qp_status v3_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    s->route.sigmoid = s->has_route_bias = true;
    s->route.group_best = 2;
    s->route.floor = 1e-20f;
    ERR_TRY(read_shared(s, c, 1, err));
    return scale_scores(s, c, err);
}

static const char *const v3_aliases[] = {"DeepseekV3ForConditionalGeneration", NULL};

const arch_row arch_deepseek3 = {
    .hf_name = "DeepseekV3ForCausalLM",
    .aliases = v3_aliases,
    .keys = v3_keys,
    .slots = v3_slots,
    .rope_theta = 10000,
    .has_rope_pairs = true,
    .adjust = v3_adjust,
    .layers = deepseek_layers,
    .about = "latent attention, experts chosen in groups by sigmoid and bias",
};

/* ---- MiniCPM3 ---- */

static const config_key minicpm3_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(true),
    ARCH_CONTEXT(32768),
    LATENT_KEYS(256, 64, 32, 0),
    ARCH_REAL("scale_emb", embed_scale, 1e-9, 1e9, 12),
    {.key = NULL},
};

static const slot_row minicpm3_slots[] = {ARCH_SLOT_EMBED, ARCH_SLOT_FINAL,     ARCH_SLOT_NORMS,
                                          LATENT_SLOTS,    ARCH_SLOT_LLAMA_MLP, {.pattern = NULL}};

static qp_status minicpm3_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    double depth = json_is_null(hfconfig_value(c, "scale_depth")) ? sqrt(s->n_layers) : 1.4;
    double base = json_is_null(hfconfig_value(c, "dim_model_base")) ? s->hidden : 256;
    ERR_TRY(hfconfig_real(c, "scale_depth", 1e-9, 1e9, &depth, err));
    ERR_TRY(hfconfig_real(c, "dim_model_base", 1, 1e9, &base, err));
    s->residual_scale = (float)(depth / sqrt(s->n_layers));
    s->logit_scale = (float)(base / s->hidden);
    if (!s->v_dim) s->v_dim = s->hidden / s->n_heads;
    return QP_OK;
}

const arch_row arch_minicpm3 = {
    .hf_name = "MiniCPM3ForCausalLM",
    .keys = minicpm3_keys,
    .slots = minicpm3_slots,
    .rope_theta = 10000,
    .adjust = minicpm3_adjust,
    .about = "latent attention, multipliers by depth and width",
};
