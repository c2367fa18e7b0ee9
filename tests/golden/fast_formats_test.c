/* fast_formats_test.c — how far `fast` is from `exact` for each class of formats that a folder can have: the trained
 * fixture model, rounded here as plainly as can be, over text that it has not seen. (EXL2's own files:
 * quant_models_test.c.) */
#include "divergence.h"
#include "base/file.h"
#include "base/str.h"
#include "format/checkpoint.h"
#include "quant/scaled.h"
#include <sys/stat.h>

enum { GROUP = 64, MOST_ITEMS = 200 };

typedef struct writing {
    safetensors_item items[MOST_ITEMS];
    size_t n;
    arena memory;
} writing;

/* One matrix: base name of its parts, sizes, values [n_out][n_in]. */
typedef struct source {
    const char *base;
    int64_t n_out, n_in;
    const float *w;
} source;

static void *add(writing *w, const source *s, const char *part, dtype type, int64_t rows, int64_t cols, size_t bytes) {
    char name[256];
    snprintf(name, sizeof name, "%s.%s", s->base, part);
    int64_t *shape = arena_get(&w->memory, 2, sizeof *shape);
    void *data = arena_zget(&w->memory, bytes, 1);
    assert_true(w->n < MOST_ITEMS && shape && data);
    shape[0] = rows;
    shape[1] = cols;
    w->items[w->n++] = (safetensors_item){arena_text(&w->memory, name, strlen(name)), type, rows ? 2 : 0, shape, data};
    return data;
}

/* ---- rounding ---- */

static int clamp(float x, int low, int high) { return x < (float)low ? low : x > (float)high ? high : (int)roundf(x); }

/* The least and the greatest of n, zero among them. */
static void range_of(const float *x, int64_t n, float *least, float *most) {
    *least = *most = 0;
    for (int64_t i = 0; i < n; i++) {
        *least = fminf(*least, x[i]);
        *most = fmaxf(*most, x[i]);
    }
}

static float extreme_of(const float *x, int64_t n) {
    float least, most;
    range_of(x, n, &least, &most);
    return fmaxf(-least, most);
}

/* The code of `codes` whose value is nearest. */
static uint8_t nearest(float x, float (*value)(uint8_t), int codes) {
    int best = 0;
    for (int i = 0; i < codes; i++)
        if (fabsf(value((uint8_t)i) - x) < fabsf(value((uint8_t)best) - x)) best = i;
    return (uint8_t)best;
}

static float e2m1(uint8_t code) {
    static const float sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}

/* ---- the formats ---- */

/* Both keep zeros of their own: AWQ's codes lie along the outputs in an order of its own, GPTQ's along the inputs. */
static void round_zeroed(writing *w, const source *s, bool is_awq) {
    static const int lane[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const int64_t groups = s->n_in / GROUP, n = s->n_out;
    uint32_t *codes = add(w, s, "qweight", DTYPE_I32, is_awq ? s->n_in : s->n_in / 8, is_awq ? n / 8 : n,
                          (size_t)(s->n_in * n / 2)),
             *zeros = add(w, s, "qzeros", DTYPE_I32, groups, n / 8, (size_t)(groups * n / 2));
    uint16_t *scales = add(w, s, "scales", DTYPE_F16, groups, n, (size_t)(groups * n * 2));
    for (int64_t out = 0; out < n; out++)
        for (int64_t g = 0; g < groups; g++) {
            const float *x = s->w + out * s->n_in + g * GROUP;
            float least, most;
            range_of(x, GROUP, &least, &most);
            const uint16_t half = quant_f32_to_f16((most - least) / 15);
            const float scale = quant_f16_to_f32(half);
            const int zero = clamp(-least / scale, 1, 15), at = is_awq ? lane[out % 8] : (int)(out % 8);
            scales[g * n + out] = half;
            zeros[g * (n / 8) + out / 8] |= (uint32_t)(is_awq ? zero : zero - 1) << 4 * at;
            for (int64_t i = 0; i < GROUP; i++) {
                const int64_t in = g * GROUP + i;
                const uint32_t code = (uint32_t)clamp(x[i] / scale + (float)zero, 0, 15);
                if (is_awq)
                    codes[in * (n / 8) + out / 8] |= code << 4 * at;
                else
                    codes[in / 8 * n + out] |= code << 4 * (in % 8);
            }
        }
}

static void round_gptq(writing *w, const source *s) { round_zeroed(w, s, false); }
static void round_awq(writing *w, const source *s) { round_zeroed(w, s, true); }

static void round_int4(writing *w, const source *s) {
    const int64_t n = s->n_out * s->n_in;
    uint32_t *codes = add(w, s, "weight_packed", DTYPE_I32, s->n_out, s->n_in / 8, (size_t)n / 2);
    uint16_t *scales = add(w, s, "weight_scale", DTYPE_BF16, s->n_out, s->n_in / 32, (size_t)n / 16);
    for (int64_t i = 0; i < n; i++) {
        if (i % 32 == 0) scales[i / 32] = quant_f32_to_bf16(extreme_of(s->w + i, 32) / 7.5f);
        codes[i / 8] |= (uint32_t)(clamp(s->w[i] / quant_bf16_to_f32(scales[i / 32]), -8, 7) + 8) << 4 * (i % 8);
    }
}

static void round_int8(writing *w, const source *s) {
    int8_t *codes = add(w, s, "weight", DTYPE_I8, s->n_out, s->n_in, (size_t)(s->n_out * s->n_in));
    float *scales = add(w, s, "weight_scale", DTYPE_F32, s->n_out, 1, (size_t)s->n_out * 4);
    for (int64_t i = 0; i < s->n_out * s->n_in; i++) {
        float *scale = &scales[i / s->n_in];
        if (i % s->n_in == 0) *scale = extreme_of(s->w + i, s->n_in) / 127;
        codes[i] = (int8_t)clamp(s->w[i] / *scale, -127, 127);
    }
}

static void round_fp8(writing *w, const source *s) {
    uint8_t *codes = add(w, s, "weight", DTYPE_F8_E4M3, s->n_out, s->n_in, (size_t)(s->n_out * s->n_in));
    float *scales = add(w, s, "weight_scale", DTYPE_F32, s->n_out, 1, (size_t)s->n_out * 4);
    for (int64_t i = 0; i < s->n_out * s->n_in; i++) {
        float *scale = &scales[i / s->n_in];
        if (i % s->n_in == 0) *scale = extreme_of(s->w + i, s->n_in) / 448;
        const float x = s->w[i] / *scale;
        codes[i] = (uint8_t)(nearest(fabsf(x), scaled_e4m3, 127) | (x < 0 ? 0x80 : 0));
    }
}

static void round_nvfp4(writing *w, const source *s) {
    const int64_t n = s->n_out * s->n_in;
    uint8_t *codes = add(w, s, "weight", DTYPE_U8, s->n_out, s->n_in / 2, (size_t)n / 2);
    uint8_t *scales = add(w, s, "weight_scale", DTYPE_F8_E4M3, s->n_out, s->n_in / 16, (size_t)n / 16);
    float *whole = add(w, s, "weight_scale_2", DTYPE_F32, 0, 0, 4);
    *whole = extreme_of(s->w, n) / (448 * 6);
    for (int64_t i = 0; i < n; i++) {
        if (i % 16 == 0) scales[i / 16] = nearest(extreme_of(s->w + i, 16) / (6 * *whole), scaled_e4m3, 127);
        const float scale = scaled_e4m3(scales[i / 16]) * *whole;
        codes[i / 2] |= (uint8_t)(nearest(scale > 0 ? s->w[i] / scale : 0, e2m1, 16) << 4 * (i % 2));
    }
}

static const struct kind {
    const char *name, *settings;
    void (*round)(writing *w, const source *s);
} kinds[] = {
    {"gptq", "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64}", round_gptq},
    {"awq", "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64,\"version\":\"gemm\"}", round_awq},
    {"int4", "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}", round_int4},
    {"int8", "{\"quant_method\":\"compressed-tensors\",\"format\":\"int-quantized\"}", round_int8},
    {"fp8", "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"}", round_fp8},
    {"nvfp4", "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}", round_nvfp4},
};

/* ---- folders ---- */

static void round_tensor(writing *w, const struct kind *k, const ckpt_tensor *t) {
    char base[256];
    const quant_type *type = quant_find(t->type == DTYPE_F32 ? "f32" : t->type == DTYPE_F16 ? "f16" : "bf16");
    const quant_matrix m = quant_plain(type, t->shape[0], t->shape[1], t->data, t->bytes);
    float *values = mem_array((size_t)(m.n_out * m.n_in), sizeof *values);
    assert_non_null(values);
    for (int64_t row = 0; row < m.n_out; row++) type->unpack_row(values + row * m.n_in, &m, row);
    snprintf(base, sizeof base, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    const source s = {base, m.n_out, m.n_in, values};
    k->round(w, &s);
    mem_free(values);
}

static void make_folder(const char *folder, const struct kind *k) {
    char path[256], *config;
    size_t bytes, rounded = 0;
    checkpoint *c;
    strbuf text = {0};
    static writing w;
    w = (writing){.n = 0};
    assert_int_equal(checkpoint_open(&c, EXL2_FOLDER "/mini-fp16", NULL), QP_OK);
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const ckpt_tensor *t = checkpoint_at(c, i);
        if (strstr(t->name, "_proj.weight"))
            round_tensor(&w, k, t), rounded++;
        else
            w.items[w.n++] = (safetensors_item){t->name, t->type, t->rank, t->shape, t->data};
    }
    assert_int_equal(rounded, 28);
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, w.items, w.n, NULL, NULL), QP_OK);
    assert_int_equal(file_read(&config, &bytes, EXL2_FOLDER "/mini-fp16/config.json", 1 << 20, NULL), QP_OK);
    strbuf_add(&text, config, (size_t)(strrchr(config, '}') - config));
    strbuf_format(&text, ", \"quantization_config\": %s}", k->settings);
    harness_write(folder, "config.json", text.at);
    strbuf_free(&text);
    mem_free(config);
    arena_free(&w.memory);
    checkpoint_close(c);
}

static void fast_is_close_to_exact(void **state) {
    if (!file_is_folder(EXL2_FOLDER)) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    char root[64], folder[128];
    int32_t *ids = unseen_text();
    qp_model *plain = open_path(EXL2_FOLDER "/mini-fp16", NULL, QP_PRECISION_EXACT);
    harness_folder(root);
    check_rounded(plain, EXL2_FOLDER "/mini-fp16", "f16, as it is", ids);
    for (size_t i = 0; i < HARNESS_COUNT(kinds); i++) {
        snprintf(folder, sizeof folder, "%s/%s", root, kinds[i].name);
        make_folder(folder, &kinds[i]);
        check_rounded(plain, folder, kinds[i].name, ids);
    }
    qp_model_close(plain);
    harness_remove(root);
    mem_free(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fast_is_close_to_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
