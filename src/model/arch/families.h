/* families.h — the rows that the files of this folder fill, and what several families share. */
#ifndef MODEL_ARCH_FAMILIES_H
#define MODEL_ARCH_FAMILIES_H

#include "model/arch.h"

extern const arch_row arch_llama, arch_mistral; /* llama.c */
extern const arch_row arch_qwen2, arch_qwen3;   /* qwen.c */

/* Weights of the Llama layout: norm before attention, norm before a gated feed-forward; biases and q/k norms where the
 * shape has them. */
extern const slot_row arch_llama_slots[];

/* Keys that mean the same in all families of the Llama layout. Sizes without which nothing can be loaded are needed;
 * the rest falls back as the reference does. */
#define ARCH_FIELD(field) offsetof(model_shape, field)
#define ARCH_LLAMA_KEYS                                                                                                \
    {"num_hidden_layers", KEY_INT, ARCH_FIELD(n_layers), KEY_NEEDED, 1, SHAPE_MAX_LAYERS, 0},                          \
        {"hidden_size", KEY_INT, ARCH_FIELD(hidden), KEY_NEEDED, 1, SHAPE_MAX_HIDDEN, 0},                              \
        {"num_attention_heads", KEY_INT, ARCH_FIELD(n_heads), KEY_NEEDED, 1, SHAPE_MAX_HEADS, 0},                      \
        {"intermediate_size", KEY_INT, ARCH_FIELD(ffn), KEY_NEEDED, 1, SHAPE_MAX_FFN, 0},                              \
        {"vocab_size", KEY_INT, ARCH_FIELD(vocabulary), KEY_NEEDED, 1, SHAPE_MAX_VOCABULARY, 0},                       \
        {"rms_norm_eps", KEY_REAL, ARCH_FIELD(norm_eps), 0, 1e-30, 0.5, 1e-6},                                         \
        {"hidden_act", KEY_ACTIVATION, ARCH_FIELD(act), 0, 0, 0, ACT_SILU}, {                                          \
        "tie_word_embeddings", KEY_BOOL, ARCH_FIELD(tied), 0, 0, 0, false                                              \
    }

/* Where they are absent the families differ; 0 stands for "derive it". */
#define ARCH_KV_HEADS(fallback)                                                                                        \
    { "num_key_value_heads", KEY_INT, ARCH_FIELD(n_kv_heads), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_HEADS, fallback }
#define ARCH_HEAD_DIM(fallback)                                                                                        \
    { "head_dim", KEY_INT, ARCH_FIELD(head_dim), KEY_NULL_IS_ZERO, 1, SHAPE_MAX_HEAD_DIM, fallback }
#define ARCH_CONTEXT(fallback)                                                                                         \
    { "max_position_embeddings", KEY_INT, ARCH_FIELD(trained_context), 0, 1, SHAPE_MAX_POSITIONS, fallback }

#endif
