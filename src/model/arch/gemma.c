/* gemma.c — Gemma 1, 2 and 3 (text): norms stored less one, embeddings scaled by the root of the hidden size; from 2 on
 * norms on both sides of the blocks, windows on some layers, caps. */
#include "families.h"
#include "base/json.h"

#define NORM(slot, name)                                                                                               \
    { slot, name, DIM_HIDDEN, DIM_NONE, NEED_ALWAYS, PART_ALL, SLOT_PLUS_ONE }
#define HEAD_NORM(slot, name)                                                                                          \
    { slot, name, DIM_HEAD, DIM_NONE, NEED_QK_NORM, PART_ALL, SLOT_PLUS_ONE }
#define COMMON_SLOTS                                                                                                   \
    ARCH_SLOT_EMBED, NORM(SLOT_FINAL_NORM, "model.norm.weight"),                                                       \
        NORM(SLOT_ATTN_NORM, ARCH_LAYER("input_layernorm.weight")), ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES,        \
        ARCH_SLOT_LLAMA_MLP
#define SANDWICH_SLOTS                                                                                                 \
    NORM(SLOT_ATTN_POST, ARCH_LAYER("post_attention_layernorm.weight")),                                               \
        NORM(SLOT_FFN_NORM, ARCH_LAYER("pre_feedforward_layernorm.weight")),                                           \
        NORM(SLOT_FFN_POST, ARCH_LAYER("post_feedforward_layernorm.weight"))

/* ---- Gemma ---- */

#define COMMON_KEYS(kv_heads, dim, act_key)                                                                            \
    ARCH_SIZES, ARCH_EPS("rms_norm_eps", 1e-6), ARCH_ACT(act_key, ACT_GELU_TANH), ARCH_TIED(true),                     \
        ARCH_KV_HEADS(kv_heads), ARCH_HEAD_DIM(dim), ARCH_QKVO_BIAS("attention_bias", false)

static const config_key gemma_keys[] = {COMMON_KEYS(16, 256, "hidden_act"), ARCH_CONTEXT(8192), {.key = NULL}};

static const slot_row gemma_slots[] = {
    COMMON_SLOTS,
    NORM(SLOT_FFN_NORM, ARCH_LAYER("post_attention_layernorm.weight")),
    {.pattern = NULL},
};

static qp_status scale_embedding(model_shape *s, const hfconfig *c, qp_error *err) {
    s->embed_scale = (float)sqrt(s->hidden);
    return QP_OK;
}

const arch_row arch_gemma = {
    .hf_name = "GemmaForCausalLM",
    .keys = gemma_keys,
    .slots = gemma_slots,
    .rope_theta = 10000,
    .adjust = scale_embedding,
    .about = "norms stored less one, scaled embeddings, GELU gate",
};

/* ---- Gemma 2 ---- */

#define CAPS(attention, final)                                                                                         \
    {"attn_logit_softcapping", KEY_REAL, ARCH_FIELD(attention_cap), KEY_NULL_IS_ZERO, 1e-3, 1e6, attention}, {         \
        "final_logit_softcapping", KEY_REAL, ARCH_FIELD(logit_cap), KEY_NULL_IS_ZERO, 1e-3, 1e6, final                 \
    }

static const config_key gemma2_keys[] = {
    COMMON_KEYS(4, 256, "hidden_activation"), CAPS(50, 30), ARCH_CONTEXT(8192), {.key = NULL}};

static const slot_row gemma2_slots[] = {COMMON_SLOTS, SANDWICH_SLOTS, {.pattern = NULL}};

static qp_status sandwich(model_shape *s, const hfconfig *c, qp_error *err) {
    double by = 256;
    ERR_TRY(hfconfig_real(c, "query_pre_attn_scalar", 1e-3, 1e9, &by, err));
    s->attention_scale = (float)(1 / sqrt(by));
    s->norm_after = true;
    return scale_embedding(s, c, err);
}

/* Every other layer slides, the first included. */
static qp_status gemma2_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 4096, err));
    return arch_layers_by_pattern(s, c, window, 2, err);
}

const arch_row arch_gemma2 = {
    .hf_name = "Gemma2ForCausalLM",
    .keys = gemma2_keys,
    .slots = gemma2_slots,
    .rope_theta = 10000,
    .adjust = sandwich,
    .layers = gemma2_layers,
    .about = "caps of scores and logits, a window on every other layer, norms on both sides of blocks",
};

/* ---- Gemma 3 ---- */

#define OR(key, field, highest, fallback) ARCH_INT(key, field, 1, highest, fallback)

/* The text part of larger checkpoints leaves out what is the family's default. */
static const config_key gemma3_keys[] = {
    OR("num_hidden_layers", n_layers, SHAPE_MAX_LAYERS, 26),
    OR("hidden_size", hidden, SHAPE_MAX_HIDDEN, 2304),
    OR("num_attention_heads", n_heads, SHAPE_MAX_HEADS, 8),
    OR("intermediate_size", ffn, SHAPE_MAX_FFN, 9216),
    OR("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY, 262208),
    ARCH_EPS("rms_norm_eps", 1e-6),
    ARCH_ACT("hidden_activation", ACT_GELU_TANH),
    ARCH_TIED(true),
    ARCH_KV_HEADS(4),
    ARCH_HEAD_DIM(256),
    ARCH_QKVO_BIAS("attention_bias", false),
    CAPS(0, 0),
    ARCH_CONTEXT(131072),
    {.key = NULL},
};

static const slot_row gemma3_slots[] = {
    COMMON_SLOTS,
    SANDWICH_SLOTS,
    HEAD_NORM(SLOT_Q_NORM, ARCH_LAYER("self_attn.q_norm.weight")),
    HEAD_NORM(SLOT_K_NORM, ARCH_LAYER("self_attn.k_norm.weight")),
    {.pattern = NULL},
};

static qp_status gemma3_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    int64_t pattern = 6;
    ERR_TRY(arch_window(&window, c, 4096, err));
    ERR_TRY(hfconfig_int(c, "_sliding_window_pattern", 1, SHAPE_MAX_LAYERS, &pattern, err));
    ERR_TRY(hfconfig_int(c, "sliding_window_pattern", 1, SHAPE_MAX_LAYERS, &pattern, err));
    return arch_layers_by_pattern(s, c, window, (int)pattern, err);
}

static const char *const gemma3_aliases[] = {"Gemma3ForConditionalGeneration", "Gemma3TextModel", NULL};

const arch_row arch_gemma3 = {
    .hf_name = "Gemma3ForCausalLM",
    .aliases = gemma3_aliases,
    .keys = gemma3_keys,
    .slots = gemma3_slots,
    .rope_theta = 1000000,
    .window_rope = WINDOW_ROPE_LOCAL,
    .local_theta = 10000,
    .qk_norm = QK_NORM_HEADS,
    .adjust = sandwich,
    .layers = gemma3_layers,
    .about = "five layers with a window and a base of their own to one without, norm of q and k",
};
