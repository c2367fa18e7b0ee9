/* llama4.c — Llama 4 (text): attention within chunks on rotated layers, none of either on every fourth, whose q grows
 * with its position; experts whose weight multiplies their input, and a shared one. */
#include "families.h"
#include "base/json.h"

static const config_key keys[] = {
    ARCH_NEEDED("num_hidden_layers", n_layers, SHAPE_MAX_LAYERS),
    ARCH_NEEDED("hidden_size", hidden, SHAPE_MAX_HIDDEN),
    ARCH_NEEDED("num_attention_heads", n_heads, SHAPE_MAX_HEADS),
    ARCH_NEEDED("vocab_size", vocabulary, SHAPE_MAX_VOCABULARY),
    ARCH_INT("intermediate_size_mlp", ffn, 1, SHAPE_MAX_FFN, 16384),
    ARCH_EXPERT_FFN("intermediate_size"),
    ARCH_NEEDED("intermediate_size", shared_ffn, SHAPE_MAX_FFN),
    ARCH_EPS("rms_norm_eps", 1e-5),
    ARCH_ACT("hidden_act", ACT_SILU),
    ARCH_TIED(false),
    ARCH_KV_HEADS(8),
    ARCH_HEAD_DIM(128),
    ARCH_CONTEXT(131072),
    ARCH_QKVO_BIAS("attention_bias", false),
    ARCH_EXPERTS("num_local_experts", 16),
    ARCH_TOP_K(1),
    {.key = NULL},
};

#define FFN(name) ARCH_LAYER("feed_forward." name)

static const slot_row slots[] = {
    ARCH_SLOT_EMBED,
    ARCH_SLOT_FINAL,
    ARCH_SLOT_NORMS,
    ARCH_SLOT_ATTENTION,
    ARCH_SLOT_QKVO_BIASES,
    ARCH_SLOT_MLP("feed_forward.gate_proj.weight", "feed_forward.up_proj.weight", "feed_forward.down_proj.weight"),
    {SLOT_ROUTER, FFN("router.weight"), DIM_EXPERTS, DIM_HIDDEN, NEED_EXPERTS, PART_ALL, 0},
    {SLOT_EXPERT_GATE, FFN("experts.gate_up_proj"), DIM_EXPERT_FFN, DIM_HIDDEN, NEED_EXPERTS, PART_FIRST_HALF,
     SLOT_TRANSPOSED},
    {SLOT_EXPERT_UP, FFN("experts.gate_up_proj"), DIM_EXPERT_FFN, DIM_HIDDEN, NEED_EXPERTS, PART_SECOND_HALF,
     SLOT_TRANSPOSED},
    {SLOT_EXPERT_DOWN, FFN("experts.down_proj"), DIM_HIDDEN, DIM_EXPERT_FFN, NEED_EXPERTS, PART_ALL, SLOT_TRANSPOSED},
    ARCH_SLOT_SHARED("feed_forward.shared_expert.gate_proj.weight", "feed_forward.shared_expert.up_proj.weight",
                     "feed_forward.shared_expert.down_proj.weight"),
    {.pattern = NULL},
};

static qp_status adjust(model_shape *s, const hfconfig *c, qp_error *err) {
    bool has_norm = true, tunes = true;
    double scale = 0.1, floor = 8192;
    ERR_TRY(hfconfig_bool(c, "use_qk_norm", &has_norm, err));
    ERR_TRY(hfconfig_bool(c, "attn_temperature_tuning", &tunes, err));
    ERR_TRY(hfconfig_real(c, "attn_scale", 0, 1e6, &scale, err));
    ERR_TRY(hfconfig_real(c, "floor_scale", 1, 1e9, &floor, err));
    s->qk_norm = has_norm ? QK_NORM_UNIT_LAST : QK_NORM_NONE;
    s->tune_scale = tunes ? (float)scale : 0;
    s->tune_floor = (float)floor;
    s->tune_offset = 1;
    s->route.sigmoid = s->weighs_input = true;
    return QP_OK;
}

/* The list of layers with experts, else every `step`-th. */
static qp_status mark_experts(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t step = 1;
    json_t *list;
    ERR_TRY(hfconfig_int(c, "interleave_moe_layer_step", 1, SHAPE_MAX_LAYERS, &step, err));
    ERR_TRY(hfconfig_array(c, "moe_layers", &list, err));
    if (!list) return arch_mark_experts(s, c, 0, (int)step, NULL, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t layer = json_integer_value(json_array_get(list, i));
        if (layer < 0 || layer >= s->n_layers)
            return err_set(err, QP_BAD_FORMAT, 0, "%s: \"moe_layers\"[%zu] is %lld, allowed are 0 to %d",
                           hfconfig_where(c), i, (long long)layer, s->n_layers - 1);
        s->layers[layer].ffn = FFN_EXPERTS;
    }
    return QP_OK;
}

static qp_status layers(model_shape *s, const hfconfig *c, qp_error *err) {
    int64_t interval = 4, chunk = json_is_null(hfconfig_value(c, "attention_chunk_size")) ? 0 : 8192;
    ERR_TRY(hfconfig_int(c, "no_rope_layer_interval", 1, SHAPE_MAX_LAYERS, &interval, err));
    ERR_TRY(hfconfig_int(c, "attention_chunk_size", 1, SHAPE_MAX_POSITIONS, &chunk, err));
    ERR_TRY(arch_layers_by_type(s, c, (int)chunk, SHAPE_MAX_LAYERS, err));
    ERR_TRY(arch_mark_no_rope(s, c, "no_rope_layers", (int)interval, err));
    const bool has_types = hfconfig_value(c, "layer_types") && !json_is_null(hfconfig_value(c, "layer_types"));
    for (int i = 0; i < s->n_layers; i++) {
        const bool turns = s->layers[i].rope != SHAPE_NO_ROPE;
        if (!has_types) s->layers[i].chunk = turns ? (int)chunk : 0;
        s->layers[i].has_q_tuning = !turns && s->tune_scale != 0;
    }
    return mark_experts(s, c, err);
}

static const char *const aliases[] = {"Llama4ForConditionalGeneration", NULL};

const arch_row arch_llama4 = {
    .hf_name = "Llama4ForCausalLM",
    .aliases = aliases,
    .keys = keys,
    .slots = slots,
    .rope_theta = 500000,
    .has_rope_pairs = true,
    .adjust = adjust,
    .layers = layers,
    .about = "attention in chunks, layers without rotation, experts with a shared one",
};
