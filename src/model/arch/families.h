/* families.h — the rows that the files of this folder fill, and what several families share. */
#ifndef MODEL_ARCH_FAMILIES_H
#define MODEL_ARCH_FAMILIES_H

#include "model/arch.h"
#include <math.h>

extern const arch_row arch_llama, arch_mistral, arch_ministral, arch_ministral3, arch_arcee, arch_orion, arch_smollm3,
    arch_seed_oss, arch_ernie, arch_hunyuan, arch_internlm2, arch_internlm3;       /* llama.c, llama_like.c */
extern const arch_row arch_qwen2, arch_qwen3, arch_qwen2_moe, arch_qwen3_moe;      /* qwen.c */
extern const arch_row arch_mixtral;                                                /* mixtral.c */
extern const arch_row arch_gemma, arch_gemma2, arch_gemma3;                        /* gemma.c */
extern const arch_row arch_phi, arch_phi3;                                         /* phi.c */
extern const arch_row arch_cohere, arch_cohere2;                                   /* cohere.c */
extern const arch_row arch_olmo, arch_olmo2, arch_olmo3, arch_olmoe;               /* olmo.c */
extern const arch_row arch_gpt_neox, arch_falcon, arch_gpt2;                       /* gpt.c */
extern const arch_row arch_stablelm, arch_starcoder2, arch_nemotron, arch_apertus; /* plain.c */
extern const arch_row arch_granite, arch_granite_moe, arch_granite_shared, arch_hyperclova, arch_minicpm;
extern const arch_row arch_deepseek2, arch_deepseek3, arch_minicpm3; /* deepseek.c */
extern const arch_row arch_glm, arch_glm4, arch_glm4_moe;            /* glm.c */
extern const arch_row arch_gpt_oss, arch_llama4, arch_exaone4;       /* gpt_oss.c, llama4.c, exaone.c */

/* In the order in which they are shown. */
#define ARCH_ROWS                                                                                                      \
    &arch_llama, &arch_mistral, &arch_ministral, &arch_ministral3, &arch_arcee, &arch_orion, &arch_smollm3,            \
        &arch_seed_oss, &arch_ernie, &arch_hunyuan, &arch_internlm2, &arch_internlm3, &arch_qwen2, &arch_qwen3,        \
        &arch_qwen2_moe, &arch_qwen3_moe, &arch_mixtral, &arch_gemma, &arch_gemma2, &arch_gemma3, &arch_phi,           \
        &arch_phi3, &arch_cohere, &arch_cohere2, &arch_olmo, &arch_olmo2, &arch_olmo3, &arch_olmoe, &arch_gpt_neox,    \
        &arch_falcon, &arch_gpt2, &arch_stablelm, &arch_starcoder2, &arch_nemotron, &arch_apertus, &arch_granite,      \
        &arch_granite_moe, &arch_granite_shared, &arch_hyperclova, &arch_minicpm, &arch_deepseek2, &arch_deepseek3,    \
        &arch_minicpm3, &arch_glm, &arch_glm4, &arch_glm4_moe, &arch_gpt_oss, &arch_llama4, &arch_exaone4

/* ---- keys ---- */

#define ARCH_FIELD(field) offsetof(model_shape, field)
#define ARCH_INT(key, field, lowest, highest, fallback)                                                                \
    { key, KEY_INT, ARCH_FIELD(field), 0, lowest, highest, fallback }
#define ARCH_NEEDED(key, field, highest)                                                                               \
    { key, KEY_INT, ARCH_FIELD(field), KEY_NEEDED, 1, highest, 0 }
#define ARCH_REAL(key, field, lowest, highest, fallback)                                                               \
    { key, KEY_REAL, ARCH_FIELD(field), 0, lowest, highest, fallback }
#define ARCH_BOOL(key, field, fallback)                                                                                \
    { key, KEY_BOOL, ARCH_FIELD(field), 0, 0, 0, fallback }
#define ARCH_ACT(key, fallback)                                                                                        \
    { key, KEY_ACTIVATION, ARCH_FIELD(act), 0, 0, 0, fallback }

/* Sizes without which nothing can be loaded are needed; the rest falls back as the reference does. */
#define ARCH_SIZES                                                                                                     \
    ARCH_NEEDED("num_hidden_layers", n_layers, SHAPE_MAX_LAYERS),                                                      \
        ARCH_NEEDED("hidden_size", hidden, SHAPE_MAX_HIDDEN),                                                          \
        ARCH_NEEDED("num_attention_heads", n_heads, SHAPE_MAX_HEADS),                                                  \
        ARCH_NEEDED("intermediate_size", ffn, SHAPE_MAX_FFN),                                                          \
        ARCH_NEEDED("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY)
#define ARCH_TIED(fallback) ARCH_BOOL("tie_word_embeddings", tied, fallback)
#define ARCH_EPS(key, fallback) ARCH_REAL(key, norm_eps, 1e-30, 0.5, fallback)

/* Keys that mean the same in all families of the Llama layout. */
#define ARCH_LLAMA_KEYS ARCH_SIZES, ARCH_EPS("rms_norm_eps", 1e-6), ARCH_ACT("hidden_act", ACT_SILU), ARCH_TIED(false)

/* Where they are absent the families differ; 0 stands for "derive it". */
#define ARCH_KV_HEADS(fallback)                                                                                        \
    { "num_key_value_heads", KEY_INT, ARCH_FIELD(n_kv_heads), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_HEADS, fallback }
#define ARCH_HEAD_DIM(fallback)                                                                                        \
    { "head_dim", KEY_INT, ARCH_FIELD(head_dim), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_HEAD_DIM, fallback }
#define ARCH_CONTEXT(fallback) ARCH_INT("max_position_embeddings", trained_context, 1, SHAPE_MAX_POSITIONS, fallback)
/* One key for the biases of all four projections. */
#define ARCH_QKVO_BIAS(key, fallback) ARCH_BOOL(key, qkv_bias, fallback), ARCH_BOOL(key, o_bias, fallback)

#define ARCH_EXPERTS(key, fallback) ARCH_INT(key, route.n_experts, 1, SHAPE_MAX_EXPERTS, fallback)
#define ARCH_EXPERTS_TOO(key)                                                                                          \
    { key, KEY_INT, ARCH_FIELD(route.n_experts), KEY_KEEP, 1, SHAPE_MAX_EXPERTS, 0 }
#define ARCH_TOP_K(fallback) ARCH_INT("num_experts_per_tok", route.top_k, 1, SHAPE_MAX_EXPERTS, fallback)
#define ARCH_EXPERT_FFN(key) ARCH_NEEDED(key, expert_ffn, SHAPE_MAX_FFN)

/* ---- slots ---- */

#define ARCH_LAYER(name) "model.layers.%d." name
#define ARCH_SLOT_EMBED                                                                                                \
    {SLOT_EMBED, "model.embed_tokens.weight", DIM_VOCAB, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0}, {                      \
        SLOT_HEAD, "lm_head.weight", DIM_VOCAB, DIM_HIDDEN, NEED_UNTIED, PART_ALL, 0                                   \
    }
#define ARCH_VECTOR(slot, name, need)                                                                                  \
    { slot, name, DIM_HIDDEN, DIM_NONE, need, PART_ALL, 0 }
#define ARCH_SLOT_FINAL ARCH_VECTOR(SLOT_FINAL_NORM, "model.norm.weight", NEED_ALWAYS)
#define ARCH_SLOT_NORMS                                                                                                \
    ARCH_VECTOR(SLOT_ATTN_NORM, ARCH_LAYER("input_layernorm.weight"), NEED_ALWAYS),                                    \
        ARCH_VECTOR(SLOT_FFN_NORM, ARCH_LAYER("post_attention_layernorm.weight"), NEED_TWO_NORMS)
#define ARCH_SLOT_NORM_BIASES                                                                                          \
    ARCH_VECTOR(SLOT_FINAL_NORM_B, "model.norm.bias", NEED_NORM_BIAS),                                                 \
        ARCH_VECTOR(SLOT_ATTN_NORM_B, ARCH_LAYER("input_layernorm.bias"), NEED_NORM_BIAS),                             \
        ARCH_VECTOR(SLOT_FFN_NORM_B, ARCH_LAYER("post_attention_layernorm.bias"), NEED_TWO_NORM_BIASES)
#define ARCH_SLOT_ATTENTION                                                                                            \
    {SLOT_WQ, ARCH_LAYER("self_attn.q_proj.weight"), DIM_Q, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},                     \
        {SLOT_WK, ARCH_LAYER("self_attn.k_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0},                \
        {SLOT_WV, ARCH_LAYER("self_attn.v_proj.weight"), DIM_KV, DIM_HIDDEN, NEED_ALWAYS, PART_ALL, 0}, {              \
        SLOT_WO, ARCH_LAYER("self_attn.o_proj.weight"), DIM_HIDDEN, DIM_Q, NEED_ALWAYS, PART_ALL, 0                    \
    }
#define ARCH_SLOT_QKV_BIASES                                                                                           \
    {SLOT_BQ, ARCH_LAYER("self_attn.q_proj.bias"), DIM_Q, DIM_NONE, NEED_QKV_BIAS, PART_ALL, 0},                       \
        {SLOT_BK, ARCH_LAYER("self_attn.k_proj.bias"), DIM_KV, DIM_NONE, NEED_QKV_BIAS, PART_ALL, 0}, {                \
        SLOT_BV, ARCH_LAYER("self_attn.v_proj.bias"), DIM_KV, DIM_NONE, NEED_QKV_BIAS, PART_ALL, 0                     \
    }
#define ARCH_SLOT_QKVO_BIASES                                                                                          \
    ARCH_SLOT_QKV_BIASES, {                                                                                            \
        SLOT_BO, ARCH_LAYER("self_attn.o_proj.bias"), DIM_HIDDEN, DIM_NONE, NEED_O_BIAS, PART_ALL, 0                   \
    }
#define ARCH_SLOT_QK_NORMS(q, k, q_dim, k_dim)                                                                         \
    {SLOT_Q_NORM, ARCH_LAYER(q), q_dim, DIM_NONE, NEED_QK_NORM, PART_ALL, 0}, {                                        \
        SLOT_K_NORM, ARCH_LAYER(k), k_dim, DIM_NONE, NEED_QK_NORM, PART_ALL, 0                                         \
    }
#define ARCH_SLOT_MLP(gate, up, down)                                                                                  \
    {SLOT_W_GATE, ARCH_LAYER(gate), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_ALL, 0},                                     \
        {SLOT_W_UP, ARCH_LAYER(up), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_ALL, 0}, {                                   \
        SLOT_W_DOWN, ARCH_LAYER(down), DIM_HIDDEN, DIM_FFN, NEED_DENSE, PART_ALL, 0                                    \
    }
#define ARCH_SLOT_MLP_BIASES                                                                                           \
    {SLOT_B_GATE, ARCH_LAYER("mlp.gate_proj.bias"), DIM_FFN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0},                    \
        {SLOT_B_UP, ARCH_LAYER("mlp.up_proj.bias"), DIM_FFN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0}, {                  \
        SLOT_B_DOWN, ARCH_LAYER("mlp.down_proj.bias"), DIM_HIDDEN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0                \
    }
#define ARCH_SLOT_LLAMA_MLP ARCH_SLOT_MLP("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight")
/* Gate above up in one matrix. */
#define ARCH_SLOT_FUSED_MLP(gate_up, down)                                                                             \
    {SLOT_W_GATE, ARCH_LAYER(gate_up), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_FIRST_HALF, 0},                           \
        {SLOT_W_UP, ARCH_LAYER(gate_up), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_SECOND_HALF, 0}, {                      \
        SLOT_W_DOWN, ARCH_LAYER(down), DIM_HIDDEN, DIM_FFN, NEED_DENSE, PART_ALL, 0                                    \
    }
/* down(act(up(x))), with biases where the shape has them; names without ".weight" and ".bias". */
#define ARCH_SLOT_PLAIN_MLP(up, down)                                                                                  \
    {SLOT_W_UP, ARCH_LAYER(up ".weight"), DIM_FFN, DIM_HIDDEN, NEED_DENSE, PART_ALL, 0},                               \
        {SLOT_W_DOWN, ARCH_LAYER(down ".weight"), DIM_HIDDEN, DIM_FFN, NEED_DENSE, PART_ALL, 0},                       \
        {SLOT_B_UP, ARCH_LAYER(up ".bias"), DIM_FFN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0}, {                          \
        SLOT_B_DOWN, ARCH_LAYER(down ".bias"), DIM_HIDDEN, DIM_NONE, NEED_MLP_BIAS, PART_ALL, 0                        \
    }
/* A tensor for each projection of each expert. */
#define ARCH_SLOT_EXPERTS(router, gate, up, down)                                                                      \
    {SLOT_ROUTER, ARCH_LAYER(router), DIM_EXPERTS, DIM_HIDDEN, NEED_EXPERTS, PART_ALL, 0},                             \
        {SLOT_EXPERT_GATE, ARCH_LAYER(gate), DIM_EXPERT_FFN, DIM_HIDDEN, NEED_EXPERTS, PART_ALL, 0},                   \
        {SLOT_EXPERT_UP, ARCH_LAYER(up), DIM_EXPERT_FFN, DIM_HIDDEN, NEED_EXPERTS, PART_ALL, 0}, {                     \
        SLOT_EXPERT_DOWN, ARCH_LAYER(down), DIM_HIDDEN, DIM_EXPERT_FFN, NEED_EXPERTS, PART_ALL, 0                      \
    }
#define ARCH_SLOT_QWEN_EXPERTS                                                                                         \
    ARCH_SLOT_EXPERTS("mlp.gate.weight", "mlp.experts.%d.gate_proj.weight", "mlp.experts.%d.up_proj.weight",           \
                      "mlp.experts.%d.down_proj.weight")
#define ARCH_SLOT_SHARED(gate, up, down)                                                                               \
    {SLOT_SHARED_GATE, ARCH_LAYER(gate), DIM_SHARED_FFN, DIM_HIDDEN, NEED_SHARED, PART_ALL, 0},                        \
        {SLOT_SHARED_UP, ARCH_LAYER(up), DIM_SHARED_FFN, DIM_HIDDEN, NEED_SHARED, PART_ALL, 0}, {                      \
        SLOT_SHARED_DOWN, ARCH_LAYER(down), DIM_HIDDEN, DIM_SHARED_FFN, NEED_SHARED, PART_ALL, 0                       \
    }

/* The Llama layout: norm before attention, norm before a gated feed-forward; biases where the shape has them. */
#define ARCH_SLOT_LLAMA                                                                                                \
    ARCH_SLOT_EMBED, ARCH_SLOT_FINAL, ARCH_SLOT_NORMS, ARCH_SLOT_ATTENTION, ARCH_SLOT_QKVO_BIASES,                     \
        ARCH_SLOT_LLAMA_MLP, ARCH_SLOT_MLP_BIASES
extern const slot_row arch_llama_slots[];

/* ---- hooks that several families share ---- */

/* The first `dense` layers have one feed-forward block, the others experts, every `step`-th of them counted so that the
 * last of a group has; `listed` (may be NULL) is a key with layers that have one block. */
qp_status arch_mark_experts(model_shape *s, const hfconfig *c, int dense, int step, const char *listed, qp_error *err);
/* All layers have experts. */
qp_status arch_all_experts(model_shape *s, const hfconfig *c, qp_error *err);
void arch_all_plain(model_shape *s);
qp_status arch_plain_layers(model_shape *s, const hfconfig *c, qp_error *err);
/* Layers where the list of 0 and 1 under `key` has 0, else every `interval`-th, are not rotated. */
qp_status arch_mark_no_rope(model_shape *s, const hfconfig *c, const char *key, int interval, qp_error *err);
/* A window on all layers; 4096 where the config says nothing. */
qp_status arch_mistral_layers(model_shape *s, const hfconfig *c, qp_error *err);

#endif
