/* mxfp4_test.c — a gpt-oss folder with its experts in MXFP4, gate and up woven, against the same weights in BF16: exact
 * precision gives the same bits. BF16 holds every value of MXFP4.
 *
 * Made from the tiny gpt-oss model beside this file, with experts of a size that fills groups of 32. */
#include "goldens.h"
#include "dev/dev.h"
#include "base/file.h"
#include "format/checkpoint.h"
#include "format/safetensors.h"
#include "quant/quant.h"

#define SOURCE QUIPU_SOURCE "/tests/golden/models/gpt-oss"

enum { EXPERTS = 4, HIDDEN = 64, FFN = 64, LAYERS = 2, MOST = 80 };

/* Experts' matrices [EXPERTS][n_out][n_in] in both forms; plain ones lie transposed. */
typedef struct matrices {
    int64_t n_out, n_in;
    uint8_t codes[EXPERTS * 2 * FFN * HIDDEN / 2], scales[EXPERTS * 2 * FFN * HIDDEN / 32];
    uint16_t plain[EXPERTS * 2 * FFN * HIDDEN];
    int64_t code_shape[4], plain_shape[3];
    char names[3][128];
} matrices;

typedef struct writing {
    safetensors_item items[MOST];
    size_t n;
} writing;

static float value_of(int code, int scale) {
    static const float sizes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return ldexpf(code & 8 ? -sizes[code & 7] : sizes[code & 7], scale - 127);
}

static void make_matrices(matrices *m, int64_t n_out, int64_t n_in, uint32_t seed) {
    *m = (matrices){.n_out = n_out, .n_in = n_in, .code_shape = {EXPERTS, n_out, n_in / 32, 16}};
    memcpy(m->plain_shape, (int64_t[]){EXPERTS, n_in, n_out}, sizeof m->plain_shape);
    for (int64_t row = 0; row < EXPERTS * n_out; row++)
        for (int64_t k = 0; k < n_in; k++) {
            seed = seed * 1664525u + 1013904223u;
            const int code = (int)(seed >> 28), scale = 120 + (int)((row + k / 32) % 4);
            m->codes[(row * n_in + k) / 2] |= (uint8_t)(code << 4 * (k % 2));
            m->scales[(row * n_in + k) / 32] = (uint8_t)scale;
            const int64_t at = row / n_out * n_in * n_out + k * n_out + row % n_out;
            m->plain[at] = quant_f32_to_bf16(value_of(code, scale));
            assert_true(quant_bf16_to_f32(m->plain[at]) == value_of(code, scale));
        }
}

static void add(writing *w, const char *name, dtype type, int rank, const int64_t *shape, const void *data) {
    assert_true(w->n < MOST);
    w->items[w->n++] = (safetensors_item){name, type, rank, shape, data};
}

static void add_both(writing *coded, writing *plain, matrices *m, const char *name) {
    snprintf(m->names[0], sizeof m->names[0], "%s", name);
    snprintf(m->names[1], sizeof m->names[1], "%s_blocks", name);
    snprintf(m->names[2], sizeof m->names[2], "%s_scales", name);
    add(plain, m->names[0], DTYPE_BF16, 3, m->plain_shape, m->plain);
    add(coded, m->names[1], DTYPE_U8, 4, m->code_shape, m->codes);
    add(coded, m->names[2], DTYPE_U8, 3, m->code_shape, m->scales);
}

static void write_folder(const char *folder, const writing *w, bool is_coded) {
    char path[256];
    json_t *config;
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(safetensors_write(path, w->items, w->n, NULL, NULL), QP_OK);
    assert_int_equal(json_load_path(&config, SOURCE "/config.json", 1 << 20, NULL), QP_OK);
    json_object_set_new(config, "intermediate_size", json_integer(FFN));
    if (is_coded) json_object_set_new(config, "quantization_config", json_pack("{s:s}", "quant_method", "mxfp4"));
    char *text = json_dumps(config, 0);
    harness_write(folder, "config.json", text);
    free(text);
    json_decref(config);
}

/* Names and shapes of the tensors that change; all others are those of the source. */
static void write_folders(const char *coded, const char *plain) {
    static matrices ups[LAYERS], downs[LAYERS];
    static uint16_t biases[EXPERTS * 2 * FFN];
    static const int64_t bias_shape[] = {EXPERTS, 2 * FFN};
    static writing c, p;
    checkpoint *from;
    int n_up = 0, n_down = 0;
    c.n = p.n = 0;
    for (int i = 0; i < EXPERTS * 2 * FFN; i++) biases[i] = quant_f32_to_bf16(0.01f * (float)(i % 17 - 8));
    assert_int_equal(checkpoint_open(&from, SOURCE, NULL), QP_OK);
    for (size_t i = 0; i < checkpoint_count(from); i++) {
        const ckpt_tensor *t = checkpoint_at(from, i);
        if (strstr(t->name, "gate_up_proj_bias")) {
            add(&c, t->name, DTYPE_BF16, 2, bias_shape, biases);
            add(&p, t->name, DTYPE_BF16, 2, bias_shape, biases);
        } else if (strstr(t->name, "gate_up_proj")) {
            make_matrices(&ups[n_up], (int64_t)2 * FFN, HIDDEN, 5 + (uint32_t)n_up);
            add_both(&c, &p, &ups[n_up++], t->name);
        } else if (strstr(t->name, "experts.down_proj") && !strstr(t->name, "bias")) {
            make_matrices(&downs[n_down], HIDDEN, FFN, 50 + (uint32_t)n_down);
            add_both(&c, &p, &downs[n_down++], t->name);
        } else {
            add(&c, t->name, t->type, t->rank, t->shape, t->data);
            add(&p, t->name, t->type, t->rank, t->shape, t->data);
        }
    }
    assert_int_equal(n_up + n_down, 2 * LAYERS);
    write_folder(coded, &c, true);
    write_folder(plain, &p, false);
    checkpoint_close(from);
}

static void experts_equal_plain_ones(void **state) {
    char folder[64], coded[128], plain[128];
    harness_folder(folder);
    snprintf(coded, sizeof coded, "%s/coded", folder);
    snprintf(plain, sizeof plain, "%s/plain", folder);
    write_folders(coded, plain);
    for (int l = 0; dev_cpu_level(l); l++)
        if (dev_cpu_level_available(dev_cpu_level(l))) compare_folders(coded, plain, dev_cpu_level(l));
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(experts_equal_plain_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
