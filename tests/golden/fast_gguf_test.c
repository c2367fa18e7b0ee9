/* fast_gguf_test.c — how far `fast` is from `exact` for the usual block formats of GGUF files: the trained fixture
 * model, rounded here as plainly as can be and written as a file, over text that it has not seen. (Folders' formats:
 * fast_formats_test.c.) */
#include "divergence.h"
#include "base/file.h"
#include "base/str.h"
#include "format/checkpoint.h"
#include "quant/quant.h"

enum { MOST_VALUES = 2048 * 256, N_HEADS = 4, N_KV_HEADS = 2, ALIGNMENT = 32 };

/* ---- rounding: a block of weights at `x` to its bytes, which are zeros before ---- */

static int clamp(float x, int low, int high) { return x < (float)low ? low : x > (float)high ? high : (int)roundf(x); }

/* The greatest magnitude with its sign. */
static float extreme_of(const float *x, int n) {
    float extreme = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    return extreme;
}

/* Stores a float16 and returns what it is. */
static float put_half(uint8_t *to, float x) {
    const uint16_t half = quant_f32_to_f16(x);
    memcpy(to, &half, sizeof half);
    return quant_f16_to_f32(half);
}

static float over(float x, float by) { return by != 0 ? x / by : 0; }

static void round_q4_0(uint8_t *to, const float *x) {
    const float d = put_half(to, extreme_of(x, 32) / -8);
    for (int i = 0; i < 32; i++) to[2 + i % 16] |= (uint8_t)(clamp(over(x[i], d) + 8, 0, 15) << i / 16 * 4);
}

static void round_q8_0(uint8_t *to, const float *x) {
    const float d = put_half(to, fabsf(extreme_of(x, 32)) / 127);
    for (int i = 0; i < 32; i++) to[2 + i] = (uint8_t)(int8_t)clamp(over(x[i], d), -127, 127);
}

static void round_mxfp4(uint8_t *to, const float *x) {
    static const float sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const float most = fabsf(extreme_of(x, 32));
    const int exponent = most > 0 ? (int)ceilf(log2f(most / 6)) : 0;
    to[0] = (uint8_t)(exponent + 127);
    for (int i = 0; i < 32; i++) {
        const float size = ldexpf(fabsf(x[i]), -exponent);
        int best = 0;
        for (int c = 1; c < 8; c++)
            if (fabsf(sizes[c] - size) < fabsf(sizes[best] - size)) best = c;
        to[1 + i % 16] |= (uint8_t)((best | (x[i] < 0 ? 8 : 0)) << i / 16 * 4);
    }
}

/* Scale and minimum of 6 bits of group g. */
static void put_scale_min(uint8_t *s, int g, int scale, int min) {
    if (g < 4) {
        s[g] |= (uint8_t)scale;
        s[g + 4] |= (uint8_t)min;
    } else {
        s[g + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        s[g - 4] |= (uint8_t)(scale >> 4 << 6);
        s[g] |= (uint8_t)(min >> 4 << 6);
    }
}

static void round_q4_k(uint8_t *to, const float *x) {
    float steps[8], mins[8];
    for (int g = 0; g < 8; g++) {
        float most = 0;
        mins[g] = 0;
        for (int i = 0; i < 32; i++) {
            most = fmaxf(most, x[32 * g + i]);
            mins[g] = fmaxf(mins[g], -x[32 * g + i]);
        }
        steps[g] = (most + mins[g]) / 15;
    }
    const float d = put_half(to, extreme_of(steps, 8) / 63), dmin = put_half(to + 2, extreme_of(mins, 8) / 63);
    for (int g = 0; g < 8; g++) {
        const int scale = clamp(over(steps[g], d), 0, 63), min = clamp(over(mins[g], dmin), 0, 63);
        put_scale_min(to + 4, g, scale, min);
        for (int i = 0; i < 32; i++) {
            const float value = over(x[32 * g + i] + dmin * (float)min, d * (float)scale);
            to[16 + g / 2 * 32 + i] |= (uint8_t)(clamp(value, 0, 15) << g % 2 * 4);
        }
    }
}

static void round_q6_k(uint8_t *to, const float *x) {
    float steps[16];
    for (int g = 0; g < 16; g++) steps[g] = fabsf(extreme_of(x + 16 * g, 16)) / 31;
    const float d = put_half(to + 208, extreme_of(steps, 16) / 127);
    for (int i = 0; i < 256; i++) {
        const int part = i / 32, at = i % 32, scale = clamp(over(steps[i / 16], d), 0, 127);
        const int code = clamp(over(x[i], d * (float)scale) + 32, 0, 63);
        to[192 + i / 16] = (uint8_t)scale;
        to[part / 4 * 64 + part % 2 * 32 + at] |= (uint8_t)((code & 15) << part % 4 / 2 * 4);
        to[128 + part / 4 * 32 + at] |= (uint8_t)(code >> 4 << part % 4 * 2);
    }
}

/* As the file numbers them; matrices whose rows do not fill blocks take the kind `instead`. */
static const struct kind {
    const char *name;
    uint32_t id;
    int weights, bytes, instead;
    void (*round)(uint8_t *to, const float *x);
} kinds[] = {
    {"q4_0", 2, 32, 18, 0, round_q4_0},    {"q8_0", 8, 32, 34, 1, round_q8_0},    {"q4_k", 12, 256, 144, 0, round_q4_k},
    {"q6_k", 14, 256, 210, 1, round_q6_k}, {"mxfp4", 39, 32, 17, 4, round_mxfp4},
};

/* ---- the file ---- */

static void add_int(strbuf *to, uint64_t x, size_t bytes) { strbuf_add(to, &x, bytes); }

static void add_text(strbuf *to, const char *text) {
    add_int(to, strlen(text), 8);
    strbuf_add(to, text, strlen(text));
}

static void add_key(strbuf *to, const char *key, uint32_t value) {
    add_text(to, key);
    add_int(to, 4, 4);
    add_int(to, value, 4);
}

static void add_real(strbuf *to, const char *key, float value) {
    add_text(to, key);
    add_int(to, 6, 4);
    strbuf_add(to, &value, sizeof value);
}

/* What config.json says. */
static int add_metadata(strbuf *to) {
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.context_length", 2048},
                   {"llama.embedding_length", 256},
                   {"llama.block_count", 4},
                   {"llama.feed_forward_length", 640},
                   {"llama.attention.head_count", N_HEADS},
                   {"llama.attention.head_count_kv", N_KV_HEADS},
                   {"llama.rope.dimension_count", 64},
                   {"llama.vocab_size", VOCABULARY}};
    add_text(to, "general.architecture");
    add_int(to, 8, 4);
    add_text(to, "llama");
    for (size_t i = 0; i < HARNESS_COUNT(numbers); i++) add_key(to, numbers[i].key, numbers[i].value);
    add_real(to, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_real(to, "llama.rope.freq_base", 10000);
    return (int)HARNESS_COUNT(numbers) + 3;
}

static void rename_tensor(char out[64], const char *name) {
    static const char *const names[][2] = {
        {"model.embed_tokens", "token_embd"},
        {"model.norm", "output_norm"},
        {"lm_head", "output"},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
        {"input_layernorm", "attn_norm"},
        {"post_attention_layernorm", "ffn_norm"},
    };
    size_t i = 0;
    while (!strstr(name, names[i][0]) || (i == 1 && strstr(name, "layers"))) i++;
    if (i < 3)
        snprintf(out, 64, "%s.weight", names[i][1]);
    else
        snprintf(out, 64, "blk.%d.%s.weight", atoi(name + strlen("model.layers.")), names[i][1]);
}

/* Floats of a tensor; of queries and keys neighbours turn together in such a file, not halves. */
static void read_values(float *out, const ckpt_tensor *t) {
    const bool is_matrix = t->rank == 2;
    const int64_t n_in = t->shape[is_matrix], n_out = is_matrix ? t->shape[0] : 1;
    const quant_matrix m = quant_plain(quant_find("f16"), n_out, n_in, t->data, t->bytes);
    const int heads = strstr(t->name, "q_proj") ? N_HEADS : strstr(t->name, "k_proj") ? N_KV_HEADS : 0;
    assert_true(t->type == DTYPE_F16 && n_out * n_in <= MOST_VALUES);
    for (int64_t row = 0; row < n_out; row++) {
        int64_t to = row;
        if (heads) {
            const int64_t dim = n_out / heads, in_head = row % dim;
            to = row - in_head + in_head % (dim / 2) * 2 + in_head / (dim / 2);
        }
        m.type->unpack_row(out + to * n_in, &m, row);
    }
}

/* Appends a tensor's bytes; returns the number of their type. */
static uint32_t add_values(strbuf *to, const ckpt_tensor *t, const struct kind *k, const float *values) {
    const int64_t n = t->rank == 2 ? t->shape[0] * t->shape[1] : t->shape[0];
    if (!strstr(t->name, "_proj.")) {
        strbuf_add(to, values, (size_t)n * sizeof *values);
        return 0;
    }
    if (t->shape[1] % k->weights) k = &kinds[k->instead];
    for (int64_t i = 0; i < n; i += k->weights) {
        uint8_t block[256] = {0};
        k->round(block, values + i);
        strbuf_add(to, block, (size_t)k->bytes);
    }
    return k->id;
}

static void align(strbuf *to) {
    while (to->bytes % ALIGNMENT) strbuf_add(to, "", 1);
}

static void write_file(const char *path, const struct kind *k) {
    checkpoint *c;
    strbuf head = {0}, tensors = {0}, data = {0}, metadata = {0};
    float *values = mem_array(MOST_VALUES, sizeof *values);
    assert_non_null(values);
    assert_int_equal(checkpoint_open(&c, EXL2_FOLDER "/mini-fp16", NULL), QP_OK);
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const ckpt_tensor *t = checkpoint_at(c, i);
        char name[64];
        rename_tensor(name, t->name);
        read_values(values, t);
        align(&data);
        const uint64_t at = data.bytes;
        const uint32_t id = add_values(&data, t, k, values);
        add_text(&tensors, name);
        add_int(&tensors, (uint64_t)t->rank, 4);
        for (int d = t->rank; d > 0; d--) add_int(&tensors, (uint64_t)t->shape[d - 1], 8);
        add_int(&tensors, id, 4);
        add_int(&tensors, at, 8);
    }
    const int n_keys = add_metadata(&metadata);
    strbuf_add(&head, "GGUF", 4);
    add_int(&head, 3, 4);
    add_int(&head, checkpoint_count(c), 8);
    add_int(&head, (uint64_t)n_keys, 8);
    strbuf_add(&head, metadata.at, metadata.bytes);
    strbuf_add(&head, tensors.at, tensors.bytes);
    align(&head);
    strbuf_add(&head, data.at, data.bytes);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head.at, 1, head.bytes, file), head.bytes);
    assert_int_equal(fclose(file), 0);
    strbuf_free(&head);
    strbuf_free(&tensors);
    strbuf_free(&data);
    strbuf_free(&metadata);
    mem_free(values);
    checkpoint_close(c);
}

static void fast_is_close_to_exact(void **state) {
    if (!file_is_folder(EXL2_FOLDER)) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    char root[64], path[128];
    int32_t *ids = unseen_text();
    qp_model *plain = open_path(EXL2_FOLDER "/mini-fp16", NULL, QP_PRECISION_EXACT);
    harness_folder(root);
    for (size_t i = 0; i < HARNESS_COUNT(kinds); i++) {
        snprintf(path, sizeof path, "%s/%s.gguf", root, kinds[i].name);
        write_file(path, &kinds[i]);
        check_rounded(plain, path, kinds[i].name, ids);
    }
    qp_model_close(plain);
    harness_remove(root);
    mem_free(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fast_is_close_to_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
