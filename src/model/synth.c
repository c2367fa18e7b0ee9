/* synth.c — random weights in memory: a table of well-known shapes and a fast fill.
 *
 * Called by model.c. Values are +-(1 + m/128) * 2^e with a random sign and mantissa, e chosen by the row length, so
 * that a forward pass neither overflows nor fades; all formats get the same values. */
#include "synth.h"
#include "synth_exl2.h"
#include "synth_gptq.h"
#include "synth_random.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- shapes ---- */

static const struct known {
    const char *name, *architecture;
    int layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, context;
    double theta;
    bool tied;
} shapes[] = {
    {"tiny", "LlamaForCausalLM", 2, 64, 4, 2, 16, 96, 512, 512, 1e4, true},
    {"tinyllama-1.1b", "LlamaForCausalLM", 22, 2048, 32, 4, 64, 5632, 32000, 2048, 1e4, false},
    {"llama2-7b", "LlamaForCausalLM", 32, 4096, 32, 32, 128, 11008, 32000, 4096, 1e4, false},
    {"llama3-8b", "LlamaForCausalLM", 32, 4096, 32, 8, 128, 14336, 128256, 8192, 5e5, false},
    {"llama3.2-1b", "LlamaForCausalLM", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, true},
    {"mistral-7b", "MistralForCausalLM", 32, 4096, 32, 8, 128, 14336, 32768, 32768, 1e6, false},
    {"qwen2.5-0.5b", "Qwen2ForCausalLM", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, true},
    {"qwen2.5-7b", "Qwen2ForCausalLM", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6, false},
    {"qwen3-0.6b", "Qwen3ForCausalLM", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, true},
    {"qwen3-8b", "Qwen3ForCausalLM", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 1e6, false},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Shapes that need more than a row of numbers, as their configs say it. Layers are all alike (or repeat), so fewer of
 * them than the model has measure the same, and fit a machine that the model does not: mixtral-8x7b has 32,
 * qwen3-30b-a3b 48, gemma2-9b 42, deepseek-v2-lite 27, gpt-oss-20b 24. */
static const struct config {
    const char *name, *text;
} configs[] = {
    {"mixtral-8x7b",
     "{\"architectures\":[\"MixtralForCausalLM\"],\"num_hidden_layers\":2,\"hidden_size\":4096,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,\"vocab_size\":32000,"
     "\"max_position_embeddings\":32768,\"num_local_experts\":8,\"num_experts_per_tok\":2}"},
    {"qwen3-30b-a3b",
     "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"num_hidden_layers\":4,\"hidden_size\":2048,"
     "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":6144,"
     "\"vocab_size\":151936,\"max_position_embeddings\":40960,\"num_experts\":128,\"num_experts_per_tok\":8,"
     "\"moe_intermediate_size\":768,\"norm_topk_prob\":true,\"rope_theta\":1000000}"},
    {"gemma2-9b", "{\"architectures\":[\"Gemma2ForCausalLM\"],\"num_hidden_layers\":10,\"hidden_size\":3584,"
                  "\"num_attention_heads\":16,\"num_key_value_heads\":8,\"head_dim\":256,\"intermediate_size\":14336,"
                  "\"vocab_size\":256000,\"max_position_embeddings\":8192,\"query_pre_attn_scalar\":256}"},
    {"deepseek-v2-lite",
     "{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"num_hidden_layers\":5,\"hidden_size\":2048,"
     "\"num_attention_heads\":16,\"intermediate_size\":10944,\"vocab_size\":102400,"
     "\"max_position_embeddings\":163840,\"q_lora_rank\":null,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,"
     "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"n_routed_experts\":64,\"num_experts_per_tok\":6,"
     "\"n_shared_experts\":2,\"moe_intermediate_size\":1408,\"first_k_dense_replace\":1}"},
    {"gpt-oss-20b", "{\"architectures\":[\"GptOssForCausalLM\"],\"num_hidden_layers\":4,\"hidden_size\":2880,"
                    "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,\"intermediate_size\":2880,"
                    "\"vocab_size\":201088,\"max_position_embeddings\":131072,\"num_local_experts\":32,"
                    "\"num_experts_per_tok\":4,\"sliding_window\":128}"},
};

enum { N_CONFIGS = sizeof configs / sizeof *configs };

const char *synth_shape_name(int index) {
    if (index >= N_SHAPES && index < N_SHAPES + N_CONFIGS) return configs[index - N_SHAPES].name;
    return index >= 0 && index < N_SHAPES ? shapes[index].name : NULL;
}

static qp_status unknown_shape(const char *name, qp_error *err) {
    char list[400] = "";
    const char *known;
    for (int i = 0; (known = synth_shape_name(i)); i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known);
    }
    return err_set(err, QP_BAD_ARGUMENT, 0, "shape \"%s\" is not known; known are %s", name, list);
}

static qp_status shape_of_config(model_shape *out, const arch_row **arch, const struct config *known, qp_error *err) {
    hfconfig *config;
    ERR_TRY(hfconfig_new(&config, known->text, strlen(known->text), known->name, err));
    const qp_status status = shape_read(out, arch, config, err);
    hfconfig_close(config);
    return status;
}

qp_status synth_shape(model_shape *out, const arch_row **arch, const char *name, qp_error *err) {
    for (int i = 0; i < N_CONFIGS; i++)
        if (!strcmp(configs[i].name, name)) return shape_of_config(out, arch, &configs[i], err);
    const struct known *k = shapes;
    while (k < shapes + N_SHAPES && strcmp(k->name, name)) k++;
    if (k == shapes + N_SHAPES) return unknown_shape(name, err);
    *arch = arch_find(k->architecture);
    if (!*arch) return err_set(err, QP_INTERNAL, 0, "shape \"%s\": no architecture %s", name, k->architecture);
    *out = (model_shape){
        .n_layers = k->layers,
        .hidden = k->hidden,
        .n_heads = k->heads,
        .n_kv_heads = k->kv_heads,
        .head_dim = k->head_dim,
        .ffn = k->ffn,
        .vocabulary = k->vocabulary,
        .trained_context = k->context,
        .rot_dims = k->head_dim,
        .norm_eps = 1e-5f,
        .v_dim = k->head_dim,
        .attention_scale = 1 / sqrtf((float)k->head_dim),
        .act = ACT_SILU,
        .qkv_bias = (*arch)->has_qkv_bias,
        .qk_norm = (*arch)->qk_norm,
        .tied = k->tied,
        .n_ropes = 1,
        .ropes = {{.kind = HF_ROPE_DEFAULT, .theta = k->theta, .partial = 1, .max_positions = k->context}}};
    snprintf(out->architecture, sizeof out->architecture, "%s", k->architecture);
    shape_defaults(out);
    arch_layers_alike(out, 0);
    for (int i = 0; i < k->layers; i++) {
        out->layers[i].attention_scale = out->attention_scale;
        out->layers[i].has_qk_norm = out->qk_norm != QK_NORM_NONE;
    }
    return shape_check(out, name, err);
}

/* ---- weights ---- */

qp_status synth_open(synth *out, const char *format, uint64_t seed, qp_error *err) {
    *out = (synth){.type = quant_find(format), .exl2_bits = synth_exl2_bits(format), .seed = seed};
    if (out->type) out->products = out->type->id;
    if (out->exl2_bits > 0 || out->products == QUANT_FP8_E4M3 || out->products == QUANT_GPTQ)
        out->type = quant_type_of(QUANT_F16);
    if (out->type && (out->type->id < QUANT_PLAIN_COUNT || out->type->id == QUANT_Q4_0)) return QP_OK;
    return err_set(
        err, QP_BAD_ARGUMENT, 0,
        "format \"%s\" is not known; known are f32, f16, bf16, q4_0, gptq, fp8_e4m3 and exl2-2.0 to exl2-6.0", format);
}

void synth_close(synth *s) {
    for (int i = 0; i < s->n_blocks; i++) mem_big_free(s->blocks[i].memory, s->blocks[i].bytes);
    mem_free(s->blocks);
    *s = (synth){0};
}

/* Zero-filled memory that lives as long as the synth. */
static void *take_block(synth *s, size_t bytes, qp_error *err) {
    if (s->n_blocks == s->capacity) {
        const int capacity = s->capacity ? 2 * s->capacity : 64;
        void *blocks = mem_resize(s->blocks, (size_t)capacity, sizeof *s->blocks);
        if (!blocks) return err_no_memory(err, 0, "the list of weights"), NULL;
        s->blocks = blocks;
        s->capacity = capacity;
    }
    void *memory = mem_big(bytes);
    if (!memory) return err_no_memory(err, bytes, "random weights"), NULL;
    s->blocks[s->n_blocks].memory = memory;
    s->blocks[s->n_blocks++].bytes = bytes;
    return memory;
}

/* One value a 16-bit lane: sign and the 7 highest bits of the mantissa random, exponent given. */
static void fill_bf16(uint16_t *out, size_t n, int exponent, uint64_t seed) {
    const uint64_t fixed = (uint64_t)(127 + exponent) << 7, pattern = fixed * 0x0001000100010001ull;
    uint64_t state = seed | 1;
    for (size_t i = 0; i < n; i += 4) {
        const uint64_t four = (synth_random(&state) & 0x807F807F807F807Full) | pattern;
        memcpy(out + i, &four, (n - i < 4 ? n - i : 4) * sizeof(uint16_t));
    }
}

/* Random codes of about the others' size; n is a multiple of 32. */
static void fill_q4_0(uint8_t *out, size_t n, int exponent, uint64_t seed) {
    const uint16_t d = quant_f32_to_f16(ldexpf(0.25f, exponent));
    uint64_t state = seed | 1;
    for (size_t at = 0; at < n; at += 32, out += 18) {
        const uint64_t codes[2] = {synth_random(&state), synth_random(&state)};
        memcpy(out, &d, sizeof d);
        memcpy(out + 2, codes, sizeof codes);
    }
}

/* The same values in the format that is wanted. */
static void fill(void *out, const quant_type *type, size_t n, int exponent, uint64_t seed) {
    if (type->id == QUANT_Q4_0) {
        fill_q4_0(out, n, exponent, seed);
        return;
    }
    if (type->id == QUANT_BF16) {
        fill_bf16(out, n, exponent, seed);
        return;
    }
    uint16_t chunk[1024];
    for (size_t at = 0; at < n; at += 1024) {
        const size_t count = n - at < 1024 ? n - at : 1024;
        fill_bf16(chunk, count, exponent, seed + at * 0x9E3779B97F4A7C15ull);
        for (size_t i = 0; i < count; i++) {
            const float value = quant_bf16_to_f32(chunk[i]);
            if (type->id == QUANT_F32)
                ((float *)out)[at + i] = value;
            else
                ((uint16_t *)out)[at + i] = quant_f32_to_f16(value);
        }
    }
}

static bool is_norm(slot s) {
    static const slot norms[] = {SLOT_ATTN_NORM, SLOT_FFN_NORM, SLOT_FINAL_NORM,  SLOT_Q_NORM,      SLOT_K_NORM,
                                 SLOT_ATTN_POST, SLOT_FFN_POST, SLOT_Q_DOWN_NORM, SLOT_KV_DOWN_NORM};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (norms[i] == s) return true;
    return false;
}

static qp_status fetch_vector(synth *s, const slot_row *row, int64_t rows, quant_matrix *out, qp_error *err) {
    float *values = take_block(s, (size_t)rows * sizeof(float), err);
    if (!values) return QP_NO_MEMORY;
    for (int64_t i = 0; i < rows; i++) values[i] = is_norm(row->slot) && !(row->flags & SLOT_PLUS_ONE) ? 1 : 0;
    *out = quant_plain(quant_type_of(QUANT_F32), rows, 1, values, (size_t)rows * sizeof(float));
    return QP_OK;
}

static qp_status too_large(const slot_row *row, qp_error *err) {
    return err_set(err, QP_TOO_LARGE, 0, "%s: its size overflows", slot_name(row->slot));
}

static int exponent_of(const slot_row *row, int64_t cols) {
    return row->slot == SLOT_EMBED ? -1 : -(int)lround(0.5 * log2((double)cols) + 0.58);
}

static uint64_t seed_of(const synth *s, slot of, int layer, int member) {
    return (s->seed + 1) * 0x9E3779B97F4A7C15ull +
           ((uint64_t)member << 24 | (uint64_t)layer << 8 | (uint64_t)of) * 0xD1B54A32D192ED03ull;
}

/* ---- formats of products alone ---- */

/* The products that ExLlamaV2's converter quantises, GPTQ's, and FP8's too, but for the head; those that read the same
 * input have the same order of it in EXL2. */
static const struct {
    slot slot, order_of;
} products[] = {{SLOT_WQ, SLOT_WQ},
                {SLOT_WK, SLOT_WQ},
                {SLOT_WV, SLOT_WQ},
                {SLOT_WQ_DOWN, SLOT_WQ},
                {SLOT_WKV_DOWN, SLOT_WQ},
                {SLOT_WO, SLOT_WO},
                {SLOT_W_GATE, SLOT_W_UP},
                {SLOT_W_UP, SLOT_W_UP},
                {SLOT_W_DOWN, SLOT_W_DOWN},
                {SLOT_EXPERT_GATE, SLOT_EXPERT_UP},
                {SLOT_EXPERT_UP, SLOT_EXPERT_UP},
                {SLOT_EXPERT_DOWN, SLOT_EXPERT_DOWN},
                {SLOT_SHARED_GATE, SLOT_SHARED_UP},
                {SLOT_SHARED_UP, SLOT_SHARED_UP},
                {SLOT_SHARED_DOWN, SLOT_SHARED_DOWN},
                {SLOT_HEAD, SLOT_HEAD}};
static const double HEAD_BITS = 6; /* the converter's default */

/* SLOT_COUNT: it is none of them. */
static slot product_order(slot of) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (products[i].slot == of) return products[i].order_of;
    return SLOT_COUNT;
}

/* ---- EXL2 ---- */

static bool is_exl2(const synth *s, const slot_row *row, int64_t cols) {
    return s->exl2_bits > 0 && synth_exl2_fits(cols) && product_order(row->slot) != SLOT_COUNT;
}

/* The inputs' order lives as long as the synth, unless this is but a look. */
static qp_status keep_order(synth *s, quant_matrix *m, qp_error *err) {
    const size_t bytes = (size_t)m->n_in * sizeof *m->order;
    int32_t *kept = take_block(s, bytes, err);
    if (kept) memcpy(kept, m->order, bytes);
    quant_close(m);
    m->order = kept;
    return kept ? QP_OK : QP_NO_MEMORY;
}

static qp_status make_exl2(synth *s, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                           bool only_look, quant_matrix *out, qp_error *err) {
    const slot order = product_order(row->slot);
    synth_exl2 p;
    if (!synth_exl2_plan(&p, row->slot == SLOT_HEAD ? HEAD_BITS : s->exl2_bits, rows, cols)) return too_large(row, err);
    void *block = take_block(s, only_look ? p.at[0] : p.all_bytes, err);
    if (!block) return QP_NO_MEMORY;
    synth_exl2_fill(block, &p, exponent_of(row, cols), seed_of(s, row->slot, layer, member),
                    seed_of(s, order, layer, member), only_look);
    *out = synth_exl2_matrix(block, &p);
    if (only_look) out->parts[0] = NULL;
    ERR_TRY(quant_open(out, slot_name(row->slot), err));
    return only_look ? QP_OK : keep_order(s, out, err);
}

/* ---- FP8 ---- */

static bool is_fp8(const synth *s, const slot_row *row) {
    return s->products == QUANT_FP8_E4M3 && row->slot != SLOT_HEAD && product_order(row->slot) != SLOT_COUNT;
}

/* +-(1 + m/8), to be scaled. */
static void fill_e4m3(uint8_t *out, size_t n, uint64_t seed) {
    uint64_t state = seed | 1;
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t eight = (synth_random(&state) & 0x8787878787878787ull) | 0x3838383838383838ull;
        memcpy(out + i, &eight, n - i < 8 ? n - i : 8);
    }
}

/* A scale for the whole matrix, and its codes behind that. */
static qp_status make_fp8(synth *s, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                          bool only_look, quant_matrix *out, qp_error *err) {
    enum { SCALE = 64 };
    const float scale = ldexpf(1, exponent_of(row, cols));
    size_t n, bytes;
    if (!mem_mul((size_t)rows, (size_t)cols, &n) || !mem_add(n, SCALE, &bytes)) return too_large(row, err);
    uint8_t *block = take_block(s, only_look ? SCALE : bytes, err);
    if (!block) return QP_NO_MEMORY;
    memcpy(block, &scale, sizeof scale);
    if (!only_look) fill_e4m3(block + SCALE, n, seed_of(s, row->slot, layer, member));
    *out = (quant_matrix){.type = quant_type_of(QUANT_FP8_E4M3),
                          .n_out = rows,
                          .n_in = cols,
                          .parts = {only_look ? NULL : block + SCALE, block},
                          .part_bytes = {n, sizeof scale},
                          .group = (int)cols,
                          .row_group = (int)rows,
                          .scale_type = QUANT_F32};
    return quant_open(out, slot_name(row->slot), err);
}

/* ---- GPTQ ---- */

static bool is_gptq(const synth *s, const slot_row *row, int64_t rows, int64_t cols) {
    return s->products == QUANT_GPTQ && synth_gptq_fits(rows, cols) && product_order(row->slot) != SLOT_COUNT;
}

/* Zeros and scales of a shape; NULL: there is no memory. */
static const uint8_t *take_grid(synth *s, const synth_gptq *p, int exponent, qp_error *err) {
    for (int i = 0; i < s->n_grids; i++)
        if (s->grids[i].rows == p->rows && s->grids[i].cols == p->cols) return s->grids[i].memory;
    uint8_t *memory = take_block(s, p->zeros + p->scales, err);
    if (!memory) return NULL;
    synth_gptq_fill_grid(memory, p, exponent);
    if (s->n_grids < (int)(sizeof s->grids / sizeof *s->grids))
        s->grids[s->n_grids++] = (struct synth_grid){.rows = p->rows, .cols = p->cols, .memory = memory};
    return memory;
}

static qp_status make_gptq(synth *s, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                           bool only_look, quant_matrix *out, qp_error *err) {
    synth_gptq p;
    if (!synth_gptq_plan(&p, rows, cols)) return too_large(row, err);
    const uint8_t *grid = take_grid(s, &p, exponent_of(row, cols), err);
    uint8_t *codes = only_look || !grid ? NULL : take_block(s, p.codes, err);
    if (!grid || (!codes && !only_look)) return QP_NO_MEMORY;
    if (codes) synth_random_bytes(codes, p.codes, seed_of(s, row->slot, layer, member));
    *out = synth_gptq_matrix(codes, grid, &p);
    return quant_open(out, slot_name(row->slot), err);
}

/* ---- the source ---- */

static qp_status make_matrix(synth *s, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                             bool only_look, quant_matrix *out, qp_error *err) {
    size_t bytes;
    if (is_exl2(s, row, cols)) return make_exl2(s, row, layer, member, rows, cols, only_look, out, err);
    if (is_gptq(s, row, rows, cols)) return make_gptq(s, row, layer, member, rows, cols, only_look, out, err);
    if (is_fp8(s, row)) return make_fp8(s, row, layer, member, rows, cols, only_look, out, err);
    if (!s->type->bytes(&bytes, rows, cols)) return too_large(row, err);
    void *memory = only_look ? NULL : take_block(s, bytes, err);
    if (!only_look && !memory) return QP_NO_MEMORY;
    if (memory)
        fill(memory, s->type, (size_t)rows * (size_t)cols, exponent_of(row, cols),
             seed_of(s, row->slot, layer, member));
    *out = quant_plain(s->type, rows, cols, memory, bytes);
    return QP_OK;
}

static qp_status fetch_random(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                              quant_matrix *out, qp_error *err) {
    if (row->cols == DIM_NONE) return fetch_vector(user, row, rows, out, err);
    return make_matrix(user, row, layer, member, rows, cols, false, out, err);
}

static qp_status look_random(void *user, const slot_row *row, int layer, int member, int64_t rows, int64_t cols,
                             quant_matrix *out, qp_error *err) {
    return make_matrix(user, row, layer, member, rows, cols, true, out, err);
}

weight_source synth_source(synth *s) { return (weight_source){.fetch = fetch_random, .look = look_random, .user = s}; }
