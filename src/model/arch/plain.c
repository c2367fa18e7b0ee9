/* plain.c — StableLM, StarCoder2, Nemotron and Apertus: LayerNorms, blocks without a gate, odd activations. */
#include "families.h"
#include "base/json.h"
#include "base/utf8.h"
#include <string.h>

/* ---- StableLM ---- */

static const config_key stablelm_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("layer_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(32),
    ARCH_CONTEXT(4096),
    ARCH_BOOL("use_qkv_bias", qkv_bias, false),
    ARCH_BOOL("use_parallel_residual", is_parallel, false),
    {.key = NULL},
};

static const slot_row stablelm_slots[] = {
    ARCH_SLOT_EMBED,     ARCH_SLOT_FINAL,      ARCH_SLOT_NORMS,     ARCH_SLOT_NORM_BIASES,
    ARCH_SLOT_ATTENTION, ARCH_SLOT_QKV_BIASES, ARCH_SLOT_LLAMA_MLP, {.pattern = NULL},
};

static qp_status stablelm_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    bool has_norm = false;
    ERR_TRY(hfconfig_bool(c, "qk_layernorm", &has_norm, err));
    s->has_one_norm = s->is_parallel;
    if (!has_norm) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s: \"qk_layernorm\" is true, allowed is false", hfconfig_where(c));
}

const arch_row arch_stablelm = {
    .hf_name = "StableLmForCausalLM",
    .keys = stablelm_keys,
    .slots = stablelm_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.25,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .adjust = stablelm_adjust,
    .about = "LayerNorm, partial rotation; `qk_layernorm` is refused",
};

/* ---- StarCoder2 ---- */

static const config_key starcoder2_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("norm_epsilon", 1e-5),
    ARCH_ACT("hidden_act", ACT_GELU_TANH),
    ARCH_TIED(true),
    ARCH_KV_HEADS(2),
    ARCH_CONTEXT(4096),
    ARCH_QKVO_BIAS("use_bias", true),
    ARCH_BOOL("use_bias", mlp_bias, true),
    {.key = NULL},
};

static const slot_row starcoder2_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_SLOT_NORM_BIASES,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    ARCH_SLOT_PLAIN_MLP("mlp.c_fc", "mlp.c_proj"),
    {.pattern = NULL},
};

static qp_status starcoder2_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 0, err));
    arch_layers_alike(s, window);
    arch_all_plain(s);
    return QP_OK;
}

const arch_row arch_starcoder2 = {
    .hf_name = "Starcoder2ForCausalLM",
    .keys = starcoder2_keys,
    .slots = starcoder2_slots,
    .rope_theta = 10000,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .layers = starcoder2_layers,
    .about = "LayerNorm, biases everywhere, no gate, a window",
};

/* ---- Nemotron ---- */

static const config_key nemotron_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_RELU2),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(4096),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    {.key = NULL},
};

#define LESS_ONE(slot, name)                                                                                           \
    { slot, name, DIM_HIDDEN, DIM_NONE, NEED_ALWAYS, PART_ALL, SLOT_PLUS_ONE }

static const slot_row nemotron_slots[] = {
    ARCH_SLOT_EMBED,
    LESS_ONE(SLOT_FINAL_NORM, "model.norm.weight"),
    LESS_ONE(SLOT_ATTN_NORM, ARCH_LAYER("input_layernorm.weight")),
    LESS_ONE(SLOT_FFN_NORM, ARCH_LAYER("post_attention_layernorm.weight")),
    ARCH_SLOT_NORM_BIASES,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    ARCH_SLOT_PLAIN_MLP("mlp.up_proj", "mlp.down_proj"),
    {.pattern = NULL},
};

const arch_row arch_nemotron = {
    .hf_name = "NemotronForCausalLM",
    .keys = nemotron_keys,
    .slots = nemotron_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.5,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .layers = arch_plain_layers,
    .about = "LayerNorm stored less one, squared ReLU, partial rotation",
};

/* ---- Apertus ---- */

static const config_key apertus_keys[] = {
    ARCH_SIZES,          ARCH_EPS("rms_norm_eps", 1e-5),          ARCH_TIED(false), ARCH_KV_HEADS(0), ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(65536), ARCH_QKVO_BIAS("attention_bias", false), {.key = NULL},
};

#define NUMBER(slot, name)                                                                                             \
    { slot, ARCH_LAYER("mlp.act_fn." name), DIM_ONE, DIM_NONE, NEED_ALWAYS, PART_ALL, 0 }

static const slot_row apertus_slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_VECTOR(SLOT_ATTN_NORM, ARCH_LAYER("attention_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM, ARCH_LAYER("feedforward_layernorm.weight"), NEED_ALWAYS),
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    ARCH_SLOT_QK_NORMS("self_attn.q_norm.weight", "self_attn.k_norm.weight", DIM_HEAD, DIM_HEAD),
    ARCH_SLOT_PLAIN_MLP("mlp.up_proj", "mlp.down_proj"),
    NUMBER(SLOT_ACT_ALPHA_P, "alpha_p"),
    NUMBER(SLOT_ACT_ALPHA_N, "alpha_n"),
    NUMBER(SLOT_ACT_BETA, "beta"),
    NUMBER(SLOT_ACT_EPS, "eps"),
    {.pattern = NULL},
};

static qp_status apertus_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    const char *name = "xielu";
    char shown[48];
    ERR_TRY(hfconfig_text(c, "hidden_act", &name, err));
    s->act_kind = FFN_ACT_XIELU;
    if (!strcmp(name, "xielu")) return QP_OK;
    return err_set(err, QP_UNSUPPORTED, 0, "%s: \"hidden_act\" is \"%s\", allowed is xielu", hfconfig_where(c),
                   utf8_shown(shown, sizeof shown, name));
}

static const hf_rope apertus_rope = {
    .kind = HF_ROPE_LLAMA3, .factor = 8, .original_max = 8192, .low_freq_factor = 1, .high_freq_factor = 4};

const arch_row arch_apertus = {
    .hf_name = "ApertusForCausalLM",
    .keys = apertus_keys,
    .slots = apertus_slots,
    .rope_theta = 12000000,
    .rope = &apertus_rope,
    .qk_norm = QK_NORM_HEADS,
    .adjust = apertus_adjust,
    .layers = arch_plain_layers,
    .about = "xIELU with learned slopes, norm of q and k, no gate",
};
