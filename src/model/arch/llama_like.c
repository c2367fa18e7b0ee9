/* llama_like.c — families that are Llama but for one or two things: SmolLM3 (layers without rotation), Seed-OSS and
 * InternLM 2 and 3 (q, k, v woven by group; biases), ERNIE 4.5 (rotation of neighbours), Hunyuan (norm of q and k
 * behind the rotation). */
#include "families.h"

/* ---- SmolLM3 ---- */

static const config_key smollm3_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(4),
    ARCH_CONTEXT(32768),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    {.key = NULL},
};

/* Windows, where they are used, are for the layers without rotation. */
static qp_status smollm3_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t interval = 4;
    int window;
    bool is_used = false;
    ERR_TRY(hfconfig_int(c, "no_rope_layer_interval", 1, SHAPE_MAX_LAYERS, &interval, err));
    ERR_TRY(hfconfig_bool(c, "use_sliding_window", &is_used, err));
    ERR_TRY(arch_window(&window, c, 0, err));
    ERR_TRY(arch_layers_by_type(s, c, is_used ? window : 0, SHAPE_MAX_LAYERS, err));
    ERR_TRY(arch_mark_no_rope(s, c, "no_rope_layers", (int)interval, err));
    const json_t *types = hfconfig_value(c, "layer_types");
    for (int i = 0; i < s->n_layers && is_used && !types; i++)
        if (s->layers[i].rope == SHAPE_NO_ROPE) s->layers[i].window = window;
    return QP_OK;
}

const arch_row arch_smollm3 = {
    .hf_name = "SmolLM3ForCausalLM",
    .keys = smollm3_keys,
    .slots = arch_llama_slots,
    .rope_theta = 2000000,
    .layers = smollm3_layers,
    .about = "every fourth layer (`no_rope_layers`) without rotation",
};

/* ---- Seed-OSS ---- */

static const config_key seed_oss_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(8),
    ARCH_HEAD_DIM(128),
    ARCH_CONTEXT(524288),
    ARCH_BOOL("attention_bias", qkv_bias, true),
    ARCH_BOOL("attention_out_bias", o_bias, false),
    ARCH_BOOL("mlp_bias", mlp_bias, false),
    {.key = NULL},
};

const arch_row arch_seed_oss = {
    .hf_name = "SeedOssForCausalLM",
    .keys = seed_oss_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .about = "biases of q, k, v and of the output apart",
};

/* ---- ERNIE 4.5 ---- */

static const config_key ernie_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(true),
    ARCH_KV_HEADS(2),
    ARCH_HEAD_DIM(128),
    ARCH_CONTEXT(131072),
    ARCH_QKVO_BIAS("use_bias", false),
    ARCH_BOOL("use_bias", mlp_bias, false),
    {.key = NULL},
};

const arch_row arch_ernie = {
    .hf_name = "Ernie4_5ForCausalLM",
    .keys = ernie_keys,
    .slots = arch_llama_slots,
    .rope_theta = 500000,
    .has_rope_pairs = true,
    .about = "rotation of neighbours, one key for all biases",
};

/* ---- Hunyuan ---- */

static const config_key hunyuan_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(0), ARCH_HEAD_DIM(0), ARCH_CONTEXT(2048), ARCH_QKVO_BIAS("attention_bias", false),
    {.key = NULL},
};

static const slot_row hunyuan_slots[] = {
    ARCH_SLOT_LLAMA,
    ARCH_SLOT_QK_NORMS("self_attn.query_layernorm.weight", "self_attn.key_layernorm.weight", DIM_HEAD, DIM_HEAD),
    {.pattern = NULL},
};

const arch_row arch_hunyuan = {
    .hf_name = "HunYuanDenseV1ForCausalLM",
    .keys = hunyuan_keys,
    .slots = hunyuan_slots,
    .rope_theta = 10000,
    .qk_norm = QK_NORM_HEADS_LAST,
    .about = "norm of q and k behind the rotation, dynamic rope by `alpha`",
};

/* ---- InternLM 2 ---- */

static const config_key internlm2_keys[] = {
    ARCH_LLAMA_KEYS, ARCH_KV_HEADS(0), ARCH_HEAD_DIM(0), ARCH_CONTEXT(2048), ARCH_QKVO_BIAS("bias", true),
    {.key = NULL},
};

#define WQKV(slot, dim, part)                                                                                          \
    {SLOT_W##slot, ARCH_LAYER("attention.wqkv.weight"), dim, DIM_HIDDEN, NEED_ALWAYS, part, 0}, {                      \
        SLOT_B##slot, ARCH_LAYER("attention.wqkv.bias"), dim, DIM_NONE, NEED_QKV_BIAS, part, 0                         \
    }

static const slot_row internlm2_slots[] = {
    {SLOT_EMBED, "model.tok_embeddings.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_HEAD, "output.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "model.norm.weight", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, ARCH_LAYER("attention_norm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM, ARCH_LAYER("ffn_norm.weight"), NEED_ALWAYS),
    WQKV(Q, DIM_Q, PART_GROUP_Q),
    WQKV(K, DIM_KV, PART_GROUP_K),
    WQKV(V, DIM_KV, PART_GROUP_V),
    {SLOT_WO, ARCH_LAYER("attention.wo.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_BO, ARCH_LAYER("attention.wo.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0},
    {SLOT_W_GATE, ARCH_LAYER("feed_forward.w1.weight"), DIM_FFN, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_W_UP, ARCH_LAYER("feed_forward.w3.weight"), DIM_FFN, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_W_DOWN, ARCH_LAYER("feed_forward.w2.weight"), DIM_HIDDEN, DIM_FFN, NEED_ALWAYS, PART_ALL, 0},
    {.pattern = NULL},
};

const arch_row arch_internlm2 = {
    .hf_name = "InternLM2ForCausalLM",
    .keys = internlm2_keys,
    .slots = internlm2_slots,
    .rope_theta = 10000,
    .about = "q, k, v woven by group, names of its own",
};

/* ---- InternLM 3 ---- */

static const config_key internlm3_keys[] = {
    ARCH_LLAMA_KEYS,
    ARCH_KV_HEADS(2),
    ARCH_HEAD_DIM(0),
    ARCH_CONTEXT(32768),
    ARCH_BOOL("qkv_bias", qkv_bias, false),
    ARCH_BOOL("bias", o_bias, false),
    ARCH_BOOL("bias", mlp_bias, false),
    {.key = NULL},
};

const arch_row arch_internlm3 = {
    .hf_name = "InternLM3ForCausalLM",
    .keys = internlm3_keys,
    .slots = arch_llama_slots,
    .rope_theta = 10000,
    .about = "biases by `qkv_bias` and `bias`",
};
