/* quant_folder_test.c — folders with GPTQ and AWQ weights, in the spellings of their writers, against a folder with the
 * same weights in plain float32: exact precision gives the same bits.
 *
 * Made from the trained-size tiny Llama model beside this file: every projection is rounded to codes of a group, the
 * parts are written as the format wants them, and what they stand for as a plain tensor. */
#include "goldens.h"
#include "dev/dev.h"
#include "base/file.h"
#include "base/str.h"
#include "format/checkpoint.h"
#include "format/safetensors.h"
#include "quant/quant.h"

#define SOURCE QUIPU_SOURCE "/tests/golden/models/llama-mha"

enum { MOST = 400, GROUP = 32 };

typedef struct kind {
    const char *name, *settings; /* of quantization_config; NULL: in a quantize_config.json of its own */
    const char *file;
    int bits;
    bool is_awq, is_gemv, is_second, is_scattered;
} kind;

static const kind kinds[] = {
    {.name = "gptq",
     .bits = 4,
     .settings = "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":false}"},
    {.name = "act-order",
     .bits = 4,
     .is_scattered = true,
     .settings = "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":true}"},
    {.name = "gptq_v2",
     .bits = 8,
     .is_second = true,
     .settings = "{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":32,\"checkpoint_format\":\"gptq_v2\"}"},
    {.name = "three", .bits = 3, .settings = "{\"bits\":3,\"group_size\":32}"},
    {.name = "beside", .bits = 2, .file = "{\"bits\":2,\"group_size\":32,\"sym\":false}"},
    {.name = "auto-round",
     .bits = 4,
     .settings = "{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":32,"
                 "\"packing_format\":\"auto_round:auto_gptq\"}"},
    {.name = "awq",
     .bits = 4,
     .is_awq = true,
     .settings = "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\",\"zero_point\":true}"},
    {.name = "gemv",
     .bits = 4,
     .is_awq = true,
     .is_gemv = true,
     .settings = "{\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":32,\"version\":\"GEMV\"}"},
};

/* ---- one projection ---- */

typedef struct matrix {
    int64_t n_out, n_in;
    float *plain; /* what the codes stand for */
    uint32_t *weight, *zeros;
    uint16_t *scales;
    int32_t *g_idx;
    int64_t weight_shape[2], zero_shape[2], scale_shape[2];
} matrix;

static void put(uint32_t *words, size_t first, size_t stride, size_t i, unsigned bits, uint32_t code) {
    const size_t t = i * bits;
    words[first + t / 32 * stride] |= code << t % 32;
    if (t % 32 + bits > 32) words[first + (t / 32 + 1) * stride] |= code >> (32 - t % 32);
}

static int group_of(const kind *k, int64_t input, int64_t groups) {
    return (int)(k->is_scattered ? input % groups : input / GROUP);
}

static void shape_parts(matrix *m, const kind *k) {
    const int64_t groups = m->n_in / GROUP, n = m->n_out, words = k->is_gemv ? ((groups + 7) / 8 + 3) / 4 * 4 : 0;
    const int64_t shapes[3][2] = {{m->n_in * k->bits / 32, n}, {groups, n * k->bits / 32}, {groups, n}},
                  awq[3][2] = {{m->n_in, n / 8}, {groups, n / 8}, {groups, n}},
                  gemv[3][2] = {{n, m->n_in / 8}, {n, words}, {n, words * 8}};
    const int64_t(*chosen)[2] = k->is_gemv ? gemv : k->is_awq ? awq : shapes;
    memcpy(m->weight_shape, chosen[0], sizeof m->weight_shape);
    memcpy(m->zero_shape, chosen[1], sizeof m->zero_shape);
    memcpy(m->scale_shape, chosen[2], sizeof m->scale_shape);
    m->weight = mem_zarray((size_t)(chosen[0][0] * chosen[0][1]), 4);
    m->zeros = mem_zarray((size_t)(chosen[1][0] * chosen[1][1]), 4);
    m->scales = mem_zarray((size_t)(chosen[2][0] * chosen[2][1]), 2);
    m->g_idx = mem_zarray((size_t)m->n_in, 4);
    m->plain = mem_zarray((size_t)(m->n_in * n), 4);
}

static void put_code(matrix *m, const kind *k, int64_t in, int64_t out, uint32_t code) {
    static const int lane[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    if (k->is_gemv)
        put(m->weight, (size_t)(out * m->n_in / 8), 1, (size_t)in, 4, code);
    else if (k->is_awq)
        m->weight[(in * m->n_out + out) / 8] |= code << 4 * lane[out % 8];
    else
        put(m->weight, (size_t)out, (size_t)m->n_out, (size_t)in, (unsigned)k->bits, code);
}

static void put_zero(matrix *m, const kind *k, int64_t g, int64_t out, uint32_t zero) {
    static const int lane[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    if (k->is_gemv)
        put(m->zeros, (size_t)(out * m->zero_shape[1]), 1, (size_t)g, 4, zero);
    else if (k->is_awq)
        m->zeros[(g * m->n_out + out) / 8] |= zero << 4 * lane[out % 8];
    else
        put(m->zeros, (size_t)(g * m->zero_shape[1]), 1, (size_t)out, (unsigned)k->bits, zero - !k->is_second);
}

/* Rounds one group of one output; zeros differ from column to column, so that mixing them up shows. */
static void round_group(matrix *m, const kind *k, const float *w, int64_t g, int64_t out) {
    const int64_t groups = m->n_in / GROUP;
    const int levels = (1 << k->bits) - 1, zero = 1 + (int)((out + 3 * g) % levels);
    float most = 0;
    for (int64_t in = 0; in < m->n_in; in++)
        if (group_of(k, in, groups) == g) most = fmaxf(most, fabsf(w[in]));
    const uint16_t half = quant_f32_to_f16(2.5f * most / (float)levels);
    m->scales[k->is_gemv ? out * m->scale_shape[1] + g : g * m->n_out + out] = half;
    put_zero(m, k, g, out, (uint32_t)zero);
    for (int64_t in = 0; in < m->n_in; in++) {
        if (group_of(k, in, groups) != g) continue;
        const float scale = quant_f16_to_f32(half), wanted = roundf(w[in] / scale) + (float)zero;
        const int code = wanted < 0 ? 0 : wanted > (float)levels ? levels : (int)wanted;
        put_code(m, k, in, out, (uint32_t)code);
        m->plain[out * m->n_in + in] = quant_f16_to_f32(quant_f32_to_f16((float)(code - zero) * scale));
        m->g_idx[in] = (int32_t)g;
    }
}

static float element(const ckpt_tensor *t, size_t i) {
    float value;
    uint16_t half;
    if (t->type == DTYPE_F32) return memcpy(&value, t->data + 4 * i, 4), value;
    memcpy(&half, t->data + 2 * i, 2);
    return t->type == DTYPE_F16 ? quant_f16_to_f32(half) : quant_bf16_to_f32(half);
}

static void make_matrix(matrix *m, const kind *k, const ckpt_tensor *t) {
    *m = (matrix){.n_out = t->shape[0], .n_in = t->shape[1]};
    shape_parts(m, k);
    float *row = mem_array((size_t)m->n_in, sizeof *row);
    for (int64_t out = 0; out < m->n_out; out++) {
        for (int64_t in = 0; in < m->n_in; in++) row[in] = element(t, (size_t)(out * m->n_in + in));
        for (int64_t g = 0; g < m->n_in / GROUP; g++) round_group(m, k, row, g, out);
    }
    mem_free(row);
}

/* ---- codes with a grid of scales ---- */

typedef struct coded {
    const char *name, *settings, *scale_name;
    dtype type;
    int row_group, group; /* 0: all */
} coded;

static const coded coded_kinds[] = {
    {"fp8-block", "{\"quant_method\":\"fp8\",\"weight_block_size\":[32,16]}", "weight_scale_inv", DTYPE_F8_E4M3, 32,
     16},
    {"fp8-channel", "{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"}", "weight_scale",
     DTYPE_F8_E4M3, 1, 0},
    {"fp8-tensor", "{\"quant_method\":\"fp8\"}", "weight_scale", DTYPE_F8_E5M2, 0, 0},
    {"int8", "{\"quant_method\":\"compressed-tensors\",\"format\":\"int-quantized\"}", "weight_scale", DTYPE_I8, 1, 0},
    {"packed", "{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}", "weight_scale", DTYPE_I32, 1,
     32},
};

/* The same numbers for all: codes by formula, what they stand for through the format's own unpack (scaled_test.c). */
static void make_coded(matrix *m, const coded *k, const ckpt_tensor *t) {
    *m = (matrix){.n_out = t->shape[0], .n_in = t->shape[1]};
    const int rows = k->row_group ? k->row_group : (int)m->n_out, cols = k->group ? k->group : (int)m->n_in;
    const size_t n = (size_t)(m->n_out * m->n_in);
    m->scale_shape[0] = (m->n_out + rows - 1) / rows;
    m->scale_shape[1] = (m->n_in + cols - 1) / cols;
    const size_t n_scales = (size_t)(m->scale_shape[0] * m->scale_shape[1]);
    const bool is_packed = k->type == DTYPE_I32;
    m->weight_shape[0] = m->n_out;
    m->weight_shape[1] = is_packed ? m->n_in / 8 : m->n_in;
    m->weight = mem_zarray(n, 1);
    m->scales = mem_zarray(n_scales, 2);
    m->plain = mem_zarray(n, sizeof *m->plain);
    uint8_t *codes = (uint8_t *)m->weight;
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)(i * 73 % 255 & 0xB7); /* no NaN, no infinity */
    for (size_t i = 0; i < n_scales; i++)
        m->scales[i] = quant_f32_to_bf16((k->type == DTYPE_I8 ? 0.002f : 0.01f) * (float)(1 + i % 5));
    const quant_id id = k->type == DTYPE_F8_E4M3   ? QUANT_FP8_E4M3
                        : k->type == DTYPE_F8_E5M2 ? QUANT_FP8_E5M2
                                                   : QUANT_INT;
    const quant_matrix q = {.type = quant_type_of(id),
                            .n_out = m->n_out,
                            .n_in = m->n_in,
                            .bits = is_packed ? 4 : 8,
                            .group = cols,
                            .row_group = rows,
                            .scale_type = QUANT_BF16,
                            .parts = {m->weight, m->scales},
                            .part_bytes = {is_packed ? n / 2 : n, 2 * n_scales}};
    for (int64_t out = 0; out < m->n_out; out++) q.type->unpack_row(m->plain + out * m->n_in, &q, out);
}

/* ---- folders ---- */

typedef struct writing {
    safetensors_item items[MOST];
    size_t n;
    arena names;
} writing;

static void add(writing *w, const char *base, const char *part, dtype type, int rank, const int64_t *shape,
                const void *data) {
    char name[256];
    snprintf(name, sizeof name, "%s.%s", base, part);
    assert_true(w->n < MOST);
    w->items[w->n++] = (safetensors_item){arena_text(&w->names, name, strlen(name)), type, rank, shape, data};
}

static bool is_projection(const char *name) { return strstr(name, "_proj.weight") != NULL; }

static void add_matrix(writing *quantised, writing *plain, const kind *k, matrix *m, const ckpt_tensor *t) {
    char base[256];
    snprintf(base, sizeof base, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    add(quantised, base, "qweight", DTYPE_I32, 2, m->weight_shape, m->weight);
    add(quantised, base, "qzeros", DTYPE_I32, 2, m->zero_shape, m->zeros);
    add(quantised, base, "scales", DTYPE_F16, 2, m->scale_shape, m->scales);
    if (!k->is_awq) add(quantised, base, "g_idx", DTYPE_I32, 1, &m->n_in, m->g_idx);
    add(plain, base, "weight", DTYPE_F32, 2, t->shape, m->plain);
}

static void add_coded(writing *quantised, writing *plain, const coded *k, matrix *m, const ckpt_tensor *t) {
    char base[256];
    snprintf(base, sizeof base, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    const bool is_packed = k->type == DTYPE_I32, is_single = !k->row_group;
    add(quantised, base, is_packed ? "weight_packed" : "weight", k->type, 2, m->weight_shape, m->weight);
    add(quantised, base, k->scale_name, DTYPE_BF16, is_single ? 0 : 2, m->scale_shape, m->scales);
    add(plain, base, "weight", DTYPE_F32, 2, t->shape, m->plain);
}

static void write_folder(const char *folder, const writing *w, const char *settings, const char *file) {
    char path[256], *config;
    size_t bytes;
    strbuf text = {0};
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, w->items, w->n, NULL, NULL), QP_OK);
    assert_int_equal(file_read(&config, &bytes, SOURCE "/config.json", 1 << 20, NULL), QP_OK);
    strbuf_add(&text, config, (size_t)(strrchr(config, '}') - config));
    if (settings) strbuf_format(&text, ", \"quantization_config\": %s", settings);
    strbuf_text(&text, "}");
    harness_write(folder, "config.json", text.at);
    if (file) harness_write(folder, "quantize_config.json", file);
    strbuf_free(&text);
    mem_free(config);
}

static void make_folders(const char *quantised, const char *plain, const kind *k, const coded *codes) {
    checkpoint *c;
    static matrix matrices[MOST];
    writing q = {.n = 0}, p = {.n = 0};
    size_t n = 0;
    assert_int_equal(checkpoint_open(&c, SOURCE, NULL), QP_OK);
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const ckpt_tensor *t = checkpoint_at(c, i);
        if (codes && is_projection(t->name) && t->shape[1] % GROUP == 0) {
            make_coded(&matrices[n], codes, t);
            add_coded(&q, &p, codes, &matrices[n++], t);
            continue;
        }
        if (!codes && is_projection(t->name) && t->shape[1] % GROUP == 0 && t->shape[0] * k->bits % 32 == 0) {
            make_matrix(&matrices[n], k, t);
            add_matrix(&q, &p, k, &matrices[n++], t);
            continue;
        }
        q.items[q.n++] = (safetensors_item){t->name, t->type, t->rank, t->shape, t->data};
        p.items[p.n++] = (safetensors_item){t->name, t->type, t->rank, t->shape, t->data};
    }
    assert_true(n > 4);
    write_folder(quantised, &q, codes ? codes->settings : k->settings, codes ? NULL : k->file);
    write_folder(plain, &p, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        mem_free(matrices[i].plain);
        mem_free(matrices[i].weight);
        mem_free(matrices[i].zeros);
        mem_free(matrices[i].scales);
        mem_free(matrices[i].g_idx);
    }
    arena_free(&q.names);
    arena_free(&p.names);
    checkpoint_close(c);
}

/* ---- comparing ---- */

static void folders_equal_plain_ones(void **state) {
    char folder[64];
    harness_folder(folder);
    for (size_t i = 0; i < HARNESS_COUNT(kinds); i++) {
        char quantised[128], plain[128];
        snprintf(quantised, sizeof quantised, "%s/%s", folder, kinds[i].name);
        snprintf(plain, sizeof plain, "%s/%s-plain", folder, kinds[i].name);
        make_folders(quantised, plain, &kinds[i], NULL);
        for (int l = 0; dev_cpu_level(l); l++)
            if (dev_cpu_level_available(dev_cpu_level(l))) compare_folders(quantised, plain, dev_cpu_level(l));
    }
    for (size_t i = 0; i < HARNESS_COUNT(coded_kinds); i++) {
        char quantised[128], plain[128];
        snprintf(quantised, sizeof quantised, "%s/%s", folder, coded_kinds[i].name);
        snprintf(plain, sizeof plain, "%s/%s-plain", folder, coded_kinds[i].name);
        make_folders(quantised, plain, NULL, &coded_kinds[i]);
        for (int l = 0; dev_cpu_level(l); l++)
            if (dev_cpu_level_available(dev_cpu_level(l))) compare_folders(quantised, plain, dev_cpu_level(l));
    }
    harness_remove(folder);
}

/* ---- refusals: settings and parts ---- */

static const struct {
    const char *settings, *says;
} bad_settings[] = {
    {"{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":32}", "4 bits by its shape, 8 by the settings"},
    {"{\"quant_method\":\"gptq\",\"is_marlin_format\":true}", "\"is_marlin_format\" \"true\""},
    {"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"bitblas\"}", "\"bitblas\", allowed are gptq, gptq_v2"},
    {"{\"quant_method\":\"awq\",\"version\":\"gemv_fast\"}", "\"gemv_fast\", allowed are gemm, gemv"},
    {"{\"quant_method\":\"awq\",\"zero_point\":false}", "\"zero_point\" \"false\""},
    {"{\"quant_method\":\"awq\",\"bits\":4}", ".qweight: its shape is"},
    {"{\"quant_method\":\"hqq\"}", "\"hqq\", allowed are exl2"},
    {"{\"quant_method\":3}", "\"quant_method\" is an integer"},
    {"[]", "\"quantization_config\" is an array"},
    {"{\"packing_format\":\"x\"}", "\"packing_format\" \"x\""},
};

static void refuses_settings(void **state) {
    char folder[64], quantised[128], plain[128];
    harness_folder(folder);
    snprintf(quantised, sizeof quantised, "%s/q", folder);
    snprintf(plain, sizeof plain, "%s/p", folder);
    for (size_t i = 0; i < HARNESS_COUNT(bad_settings); i++) {
        kind k = kinds[0];
        qp_model *m;
        qp_error err = {0};
        k.settings = bad_settings[i].settings;
        make_folders(quantised, plain, &k, NULL);
        const qp_status status = qp_model_open(&m, quantised, NULL, &err);
        if (status == QP_OK || !strstr(err.text, bad_settings[i].says))
            fail_msg("%s: %d \"%s\", expected \"%s\"", k.settings, status, err.text, bad_settings[i].says);
    }
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_equal_plain_ones),
        cmocka_unit_test(refuses_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
