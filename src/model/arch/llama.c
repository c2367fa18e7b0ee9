/* llama.c — the Llama layout (Touvron et al. 2023) and its nearest relatives: Mistral and Ministral (a window), Arcee
 * (no gate), Orion (LayerNorm). */
#include "families.h"
#include "base/json.h"

const slot_row arch_llama_slots[] = {ARCH_SLOT_LLAMA, {.pattern = NULL}};

/* ---- Llama ---- */

static const config_key llama_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    {.key = NULL},
};

static const char *const llama_aliases[] = {"LLaMAForCausalLM", "YiForCausalLM", NULL};

const arch_row arch_llama = {
    .hf_name = "LlamaForCausalLM",
    .aliases = llama_aliases,
    .keys = llama_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .about = "the layout that most others vary",
};

/* ---- Mistral ---- */

static const config_key mistral_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(8), ARCH_HEAD_DIM(0), ARCH_CONTEXT(131072), {.key = NULL},
};

static qp_status mistral_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 4096, err));
    arch_layers_alike(s, window);
    return QP_OK;
}

const arch_row arch_mistral = {
    .hf_name = "MistralForCausalLM",
    .keys = mistral_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .layers = mistral_layers,
    .about = "a window on every layer, where the config has one",
};

const arch_row arch_ministral = {
    .hf_name = "MinistralForCausalLM",
    .keys = mistral_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .layers = arch_mistral_layers,
    .about = "windows by `layer_types`",
};

/* q grows with the logarithm of how often its position exceeds the length first trained at. */
static qp_status ministral3_tuning(model_shape *s, const hfconfig *c, qp_error *err) {
    const json_t *rope = hfconfig_value(c, "rope_parameters");
    const char *where = hfconfig_where(c);
    double scale = 0;
    int64_t floor = s->trained_context;
    ERR_TRY(hf_get_real(rope, "llama_4_scaling_beta", 0, 1e3, &scale, where, err));
    ERR_TRY(json_get_int(rope, "original_max_position_embeddings", 1, SHAPE_MAX_POSITIONS, &floor, where, err));
    s->tune_scale = (float)scale;
    s->tune_floor = (float)floor;
    return QP_OK;
}

static qp_status ministral3_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int window;
    ERR_TRY(arch_window(&window, c, 0, err));
    ERR_TRY(arch_layers_by_type(s, c, window, 0, err));
    for (int i = 0; i < s->n_layers; i++) s->layers[i].has_q_tuning = s->tune_scale != 0;
    return QP_OK;
}

static const char *const ministral3_aliases[] = {"Mistral3ForConditionalGeneration", NULL};

const arch_row arch_ministral3 = {
    .hf_name = "Ministral3ForCausalLM",
    .aliases = ministral3_aliases,
    .keys = mistral_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .adjust = ministral3_tuning,
    .layers = ministral3_layers,
    .about = "Mistral whose q may grow with its position (`llama_4_scaling_beta`)",
};

/* ---- Arcee ---- */

static const slot_row arcee_slots[] = {
    ARCH_SLOT_EMBED,     ARCH_SLOT_FINAL,       ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES, ARCH_SLOT_PLAIN_MLP("mlp.up_proj", "mlp.down_proj"),
    {.pattern = NULL},
};

static const config_key arcee_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_RELU2),
    ARCH_TIED(false),
    ARCH_KV_HEADS(0),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(4096),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    {.key = NULL},
};

const arch_row arch_arcee = {
    .hf_name = "ArceeForCausalLM",
    .keys = arcee_keys,
    .slots = arcee_slots,
    .rope_theta = 10000,
    .layers = arch_plain_layers,
    .about = "squared ReLU without a gate",
};

/* ---- Orion ---- */

static const slot_row orion_slots[] = {
    ARCH_SLOT_EMBED,     ARCH_SLOT_FINAL,       ARCH_SLOT_NORMS,     ARCH_SLOT_NORM_BIASES,
    ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES, ARCH_SLOT_LLAMA_MLP, {.pattern = NULL},
};

const arch_row arch_orion = {
    .hf_name = "OrionForCausalLM",
    .keys = llama_keys,
    .slots = orion_slots,
    .rope_theta = 10000,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .about = "Llama with LayerNorm",
};
