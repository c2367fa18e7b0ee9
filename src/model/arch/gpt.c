/* gpt.c — GPT-NeoX and Pythia, Falcon, GPT-2: LayerNorm with biases, q k v in one matrix, no gate. */
#include "families.h"
#include "base/json.h"

/* ---- GPT-NeoX ---- */

static const config_key neox_keys[] = {
    ARCH_SIZES,
    ARCH_EPS("layer_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_GELU),
    ARCH_TIED(false),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("attention_bias", true),
    ARCH_BOOL("use_parallel_residual", is_parallel, true),
    {.key = NULL},
};

#define NEOX(name) "gpt_neox.layers.%d." name
#define NEOX_QKV(slot, dim, part)                                                                                      \
    { SLOT_W##slot, NEOX("attention.query_key_value.weight"), dim, DIM_HIDDEN, NEED_ALWAYS, part, 0 }
#define NEOX_QKV_B(slot, dim, part)                                                                                    \
    { SLOT_B##slot, NEOX("attention.query_key_value.bias"), dim, DIM_NONE, NEED_QKV_BIAS, part, 0 }

static const slot_row neox_slots[] = {
    {SLOT_EMBED, "gpt_neox.embed_in.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_HEAD, "embed_out.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "gpt_neox.final_layer_norm.weight", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FINAL_NORM_B, "gpt_neox.final_layer_norm.bias", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, NEOX("input_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM_B, NEOX("input_layernorm.bias"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM, NEOX("post_attention_layernorm.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM_B, NEOX("post_attention_layernorm.bias"), NEED_ALWAYS),
    NEOX_QKV(Q, DIM_Q, PART_GROUP_Q),
    NEOX_QKV(K, DIM_KV, PART_GROUP_K),
    NEOX_QKV(V, DIM_KV, PART_GROUP_V),
    NEOX_QKV_B(Q, DIM_Q, PART_GROUP_Q),
    NEOX_QKV_B(K, DIM_KV, PART_GROUP_K),
    NEOX_QKV_B(V, DIM_KV, PART_GROUP_V),
    {SLOT_WO, NEOX("attention.dense.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_BO, NEOX("attention.dense.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0},
    {SLOT_W_UP, NEOX("mlp.dense_h_to_4h.weight"), DIM_FFN, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_B_UP, NEOX("mlp.dense_h_to_4h.bias"), DIM_FFN, DIM_NONE, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_W_DOWN, NEOX("mlp.dense_4h_to_h.weight"), DIM_HIDDEN, DIM_FFN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_B_DOWN, NEOX("mlp.dense_4h_to_h.bias"), DIM_HIDDEN, DIM_NONE, NEED_ALWAYS, PART_ALL, 0},
    {.pattern = NULL},
};

const arch_row arch_gpt_neox = {
    .hf_name = "GPTNeoXForCausalLM",
    .keys = neox_keys,
    .slots = neox_slots,
    .rope_theta = 10000,
    .has_partial_rotation = true,
    .partial_rotation = 0.25,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .layers = arch_plain_layers,
    .about = "q, k, v woven by head; parallel blocks with a norm each",
};

/* ---- Falcon ---- */

static const config_key falcon_keys[] = {
    ARCH_NEEDED("num_hidden_layers", n_layers, SHAPE_MAX_LAYERS),
    ARCH_NEEDED("hidden_size", hidden, SHAPE_MAX_HIDDEN),
    ARCH_NEEDED("num_attention_heads", n_heads, SHAPE_MAX_HEADS),
    ARCH_NEEDED("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY),
    {"ffn_hidden_size", KEY_INT, ARCH_FIELD(ffn), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_FFN, 0},
    {"num_kv_heads", KEY_INT, ARCH_FIELD(n_kv_heads), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_HEADS, 0},
    ARCH_EPS("layer_norm_epsilon", 1e-5),
    ARCH_ACT("activation", ACT_GELU),
    ARCH_TIED(true),
    ARCH_CONTEXT(2048),
    ARCH_QKVO_BIAS("bias", false),
    ARCH_BOOL("bias", mlp_bias, false),
    ARCH_BOOL("parallel_attn", is_parallel, true),
    {.key = NULL},
};

#define FALCON(name) "transformer.h.%d." name
#define FALCON_QKV(slot, dim, part)                                                                                    \
    { SLOT_W##slot, FALCON("self_attention.query_key_value.weight"), dim, DIM_HIDDEN, NEED_ALWAYS, part, 0 }
#define FALCON_QKV_B(slot, dim, part)                                                                                  \
    { SLOT_B##slot, FALCON("self_attention.query_key_value.bias"), dim, DIM_NONE, NEED_QKV_BIAS, part, 0 }

static const slot_row falcon_slots[] = {
    {SLOT_EMBED, "transformer.word_embeddings.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_HEAD, "lm_head.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "transformer.ln_f.weight", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FINAL_NORM_B, "transformer.ln_f.bias", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, FALCON("input_layernorm.weight"), NEED_ONE_INPUT),
    ARCH_VECTOR(SLOT_ATTN_NORM_B, FALCON("input_layernorm.bias"), NEED_ONE_INPUT),
    ARCH_VECTOR(SLOT_ATTN_NORM, FALCON("ln_attn.weight"), NEED_TWO_INPUTS),
    ARCH_VECTOR(SLOT_ATTN_NORM_B, FALCON("ln_attn.bias"), NEED_TWO_INPUTS),
    ARCH_VECTOR(SLOT_FFN_NORM, FALCON("ln_mlp.weight"), NEED_TWO_INPUTS),
    ARCH_VECTOR(SLOT_FFN_NORM_B, FALCON("ln_mlp.bias"), NEED_TWO_INPUTS),
    ARCH_VECTOR(SLOT_FFN_NORM, FALCON("post_attention_layernorm.weight"), NEED_SEQUENTIAL),
    ARCH_VECTOR(SLOT_FFN_NORM_B, FALCON("post_attention_layernorm.bias"), NEED_SEQUENTIAL),
    FALCON_QKV(Q, DIM_Q, PART_GROUP_Q),
    FALCON_QKV(K, DIM_KV, PART_GROUP_K),
    FALCON_QKV(V, DIM_KV, PART_GROUP_V),
    FALCON_QKV_B(Q, DIM_Q, PART_GROUP_Q),
    FALCON_QKV_B(K, DIM_KV, PART_GROUP_K),
    FALCON_QKV_B(V, DIM_KV, PART_GROUP_V),
    {SLOT_WO, FALCON("self_attention.dense.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_BO, FALCON("self_attention.dense.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0},
    {SLOT_W_UP, FALCON("mlp.dense_h_to_4h.weight"), DIM_FFN, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_B_UP, FALCON("mlp.dense_h_to_4h.bias"), DIM_FFN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0},
    {SLOT_W_DOWN, FALCON("mlp.dense_4h_to_h.weight"), DIM_HIDDEN, DIM_FFN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_B_DOWN, FALCON("mlp.dense_4h_to_h.bias"), DIM_HIDDEN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0},
    {.pattern = NULL},
};

/* Three generations: one KV head for all, one for each head, and (40B) groups with two norms. */
static qp_status falcon_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    bool is_new = false, is_multi_query = true, has_alibi = false;
    ERR_TRY(hfconfig_bool(c, "alibi", &has_alibi, err));
    ERR_TRY(hfconfig_bool(c, "new_decoder_architecture", &is_new, err));
    ERR_TRY(hfconfig_bool(c, "multi_query", &is_multi_query, err));
    if (has_alibi) return err_set(err, QP_UNSUPPORTED, 0, "%s: \"alibi\" is true, allowed is false", hfconfig_where(c));
    int64_t n_norms = is_new ? 2 : 1;
    ERR_TRY(hfconfig_int(c, "num_ln_in_parallel_attn", 1, 2, &n_norms, err));
    if (!is_new) s->n_kv_heads = is_multi_query ? 1 : s->n_heads;
    if (is_new) s->is_parallel = true;
    s->has_one_norm = n_norms == 1;
    if (!s->ffn) s->ffn = 4 * s->hidden;
    return QP_OK;
}

const arch_row arch_falcon = {
    .hf_name = "FalconForCausalLM",
    .keys = falcon_keys,
    .slots = falcon_slots,
    .rope_theta = 10000,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .adjust = falcon_adjust,
    .layers = arch_plain_layers,
    .about = "one KV head or groups, parallel blocks; ALiBi is refused",
};

/* ---- GPT-2 ---- */

static const config_key gpt2_keys[] = {
    ARCH_NEEDED("n_layer", n_layers, SHAPE_MAX_LAYERS),
    ARCH_NEEDED("n_embd", hidden, SHAPE_MAX_HIDDEN),
    ARCH_NEEDED("n_head", n_heads, SHAPE_MAX_HEADS),
    ARCH_NEEDED("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY),
    {"n_inner", KEY_INT, ARCH_FIELD(ffn), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_FFN, 0},
    ARCH_INT("n_positions", trained_context, 1, SHAPE_MAX_POSITIONS, 1024),
    ARCH_INT("n_positions", learned_positions, 1, SHAPE_MAX_POSITIONS, 1024),
    ARCH_EPS("layer_norm_epsilon", 1e-5),
    ARCH_ACT("activation_function", ACT_GELU_TANH),
    ARCH_TIED(true),
    {.key = NULL},
};

#define GPT2(name) "transformer.h.%d." name
#define GPT2_QKV(slot, dim, part)                                                                                      \
    {SLOT_W##slot, GPT2("attn.c_attn.weight"), dim, DIM_HIDDEN, NEED_ALWAYS, part, SLOT_TRANSPOSED}, {                 \
        SLOT_B##slot, GPT2("attn.c_attn.bias"), dim, DIM_NONE, NEED_ALWAYS, part, 0                                    \
    }
#define GPT2_LINEAR(slot, name, rows, cols)                                                                            \
    {SLOT_W##slot, GPT2(name ".weight"), rows, cols, NEED_ALWAYS, PART_ALL, SLOT_TRANSPOSED}, {                        \
        SLOT_B##slot, GPT2(name ".bias"), rows, DIM_NONE, NEED_ALWAYS, PART_ALL, 0                                     \
    }

static const slot_row gpt2_slots[] = {
    {SLOT_EMBED, "transformer.wte.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_POSITIONS, "transformer.wpe.weight", DIM_POSITIONS, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},
    {SLOT_HEAD, "lm_head.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0},
    ARCH_VECTOR(SLOT_FINAL_NORM, "transformer.ln_f.weight", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FINAL_NORM_B, "transformer.ln_f.bias", NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM, GPT2("ln_1.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_ATTN_NORM_B, GPT2("ln_1.bias"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM, GPT2("ln_2.weight"), NEED_ALWAYS),
    ARCH_VECTOR(SLOT_FFN_NORM_B, GPT2("ln_2.bias"), NEED_ALWAYS),
    GPT2_QKV(Q, DIM_Q, PART_STACK_Q),
    GPT2_QKV(K, DIM_KV, PART_STACK_K),
    GPT2_QKV(V, DIM_KV, PART_STACK_V),
    GPT2_LINEAR(O, "attn.c_proj", DIM_HIDDEN, DIM_Q),
    GPT2_LINEAR(_UP, "mlp.c_fc", DIM_FFN, DIM_HIDDEN),
    GPT2_LINEAR(_DOWN, "mlp.c_proj", DIM_HIDDEN, DIM_FFN),
    {.pattern = NULL},
};

static qp_status gpt2_adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    bool is_scaled = true;
    ERR_TRY(hfconfig_bool(c, "scale_attn_weights", &is_scaled, err));
    if (!is_scaled) s->attention_scale = 1;
    if (!s->ffn) s->ffn = 4 * s->hidden;
    return QP_OK;
}

static qp_status gpt2_layers(model_shape *s, const hfconfig *c, qp_error *err) {
    bool by_index = false;
    ERR_TRY(hfconfig_bool(c, "scale_attn_by_inverse_layer_idx", &by_index, err));
    arch_all_plain(s);
    for (int i = 0; i < s->n_layers && by_index; i++)
        s->layers[i].attention_scale = s->attention_scale / (float)(i + 1);
    return QP_OK;
}

const arch_row arch_gpt2 = {
    .hf_name = "GPT2LMHeadModel",
    .keys = gpt2_keys,
    .slots = gpt2_slots,
    .has_no_rope = true,
    .norm = NORM_LAYER,
    .has_norm_bias = true,
    .adjust = gpt2_adjust,
    .layers = gpt2_layers,
    .about = "learned positions, transposed weights",
};
