/* hf_nested.c — see hf_nested.h. A row of `families` is a model_type of transformers with the family that has the same
 * text model, and its config class's defaults as far as they differ from what the family falls back to. */
#include "hf_nested.h"
#include "base/json.h"
#include <string.h>

#define QWEN2_VL                                                                                                       \
    "{\"hidden_size\":8192,\"intermediate_size\":29568,\"num_hidden_layers\":80,\"num_attention_heads\":64,"           \
    "\"num_key_value_heads\":8,\"vocab_size\":152064,\"rms_norm_eps\":1e-5,\"rope_theta\":1000000}"

static const struct {
    const char *model_type, *family, *defaults;
} families[] = {
    {"llama", "LlamaForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":11008,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"vocab_size\":32000}"},
    {"mistral", "MistralForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"num_key_value_heads\":8,\"vocab_size\":32000,\"max_position_embeddings\":131072}"},
    {"ministral3", "Ministral3ForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":34,\"num_attention_heads\":32,"
     "\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_size\":131072,\"max_position_embeddings\":262144,"
     "\"rms_norm_eps\":1e-5}"},
    {"qwen2", "Qwen2ForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":22016,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"vocab_size\":151936}"},
    {"qwen2_vl_text", "Qwen2ForCausalLM", QWEN2_VL},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", QWEN2_VL},
    {"qwen3", "Qwen3ForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":22016,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"vocab_size\":151936}"},
    {"qwen3_vl_text", "Qwen3ForCausalLM",
     "{\"hidden_size\":4096,\"intermediate_size\":22016,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"vocab_size\":151936,\"max_position_embeddings\":128000,\"rope_theta\":500000}"},
    {"gemma3_text", "Gemma3ForCausalLM",
     "{\"hidden_size\":2304,\"intermediate_size\":9216,\"num_hidden_layers\":26,\"num_attention_heads\":8,"
     "\"num_key_value_heads\":4,\"head_dim\":256,\"vocab_size\":262208}"},
    {"phi3", "Phi3ForCausalLM",
     "{\"hidden_size\":3072,\"intermediate_size\":8192,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
     "\"vocab_size\":32064}"},
    {"llama4_text", "Llama4ForCausalLM",
     "{\"hidden_size\":5120,\"intermediate_size\":8192,\"num_hidden_layers\":48,\"num_attention_heads\":40,"
     "\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_size\":202048}"},
};

enum { N_FAMILIES = sizeof families / sizeof *families };

/* Models that put a text model of one of these families, unchanged, behind their eyes or ears. */
static const char *const wholes[] = {
    "Gemma3ForConditionalGeneration",         "Idefics3ForConditionalGeneration",
    "InternVLForConditionalGeneration",       "Llama4ForConditionalGeneration",
    "LlavaForConditionalGeneration",          "LlavaNextForConditionalGeneration",
    "LlavaNextVideoForConditionalGeneration", "LlavaOnevisionForConditionalGeneration",
    "Mistral3ForConditionalGeneration",       "Qwen2AudioForConditionalGeneration",
    "Qwen2VLForConditionalGeneration",        "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",        "SmolVLMForConditionalGeneration",
    "VipLlavaForConditionalGeneration",       "VoxtralForConditionalGeneration",
};

/* The row, or N_FAMILIES. */
static size_t row_of(const json_t *text) {
    const char *type = json_string_value(json_object_get(text, "model_type"));
    size_t i = 0;
    while (type && i < N_FAMILIES && strcmp(families[i].model_type, type) != 0) i++;
    return type ? i : N_FAMILIES;
}

qp_status hf_nested_fill(json_t *text, qp_error *err) {
    const size_t i = row_of(text);
    json_t *defaults;
    if (i == N_FAMILIES) return QP_OK;
    ERR_TRY(json_parse(&defaults, families[i].defaults, strlen(families[i].defaults), families[i].model_type, err));
    const int failed = json_object_update_missing(text, defaults);
    json_decref(defaults);
    return failed ? err_no_memory(err, 0, "text_config") : QP_OK;
}

const char *hf_nested_family(const char *whole, const json_t *text) {
    const char *family = json_string_value(json_array_get(json_object_get(text, "architectures"), 0));
    const size_t i = row_of(text);
    size_t w = 0;
    while (w < sizeof wholes / sizeof *wholes && strcmp(wholes[w], whole) != 0) w++;
    if (w == sizeof wholes / sizeof *wholes) return NULL;
    return i < N_FAMILIES ? families[i].family : family;
}
