/* quant_models_test.c — models with quantised weights as a whole.
 *
 * Real EXL2 files (QUIPU_FIXTURES): weights bit for bit as ExLlamaV2's own code reconstructs them, logits at every
 * instruction level, the divergence of fast from exact over unseen text. GGUF files in tests/golden/gguf, written by
 * the reference's package out of the trained model: the same logits as from what they were made of. */
#include "divergence.h"
#include "base/file.h"
#include "dev/dev.h"
#include "model/quantised.h"

static const char *const files[] = {"mini-2.5", "mini-4.0"};

static bool has_fixtures(void) { return file_is_folder(EXL2_FOLDER); }

/* ---- weights ---- */

static void open_quantised(quant_matrix *out, const checkpoint *c, const char *layer, const ckpt_tensor *dq,
                           bool is_turned) {
    const hf_quant settings = {.method = HF_QUANT_EXL2};
    char name[256];
    qp_error err = {0};
    snprintf(name, sizeof name, "%s.weight", layer);
    const int64_t in = dq->shape[0], n_out = dq->shape[1];
    if (is_turned && quantised_fetch(out, c, &settings, name, in, n_out, &err) == QP_OK) return;
    if (!is_turned && quantised_fetch(out, c, &settings, name, n_out, in, &err) == QP_OK) return;
    fail_msg("%s: %s", name, err.text);
}

/* The order in which the reference's loader leaves the columns of gate and up: that of the inputs of down. */
static int32_t *columns_of(const checkpoint *c, const char *layer, const ckpt_tensor *dq) {
    const char *part = strstr(layer, ".gate_proj");
    if (!part) part = strstr(layer, ".up_proj");
    if (!part) return NULL;
    char down[256];
    quant_matrix m;
    snprintf(down, sizeof down, "%.*s.down_proj", (int)(part - layer), layer);
    open_quantised(&m, c, down, dq, true);
    return m.order;
}

static void compare_weights(const checkpoint *c, const ckpt_tensor *dq) {
    const char *layer = dq->name + strlen("dq.");
    const int64_t n_in = dq->shape[0], n_out = dq->shape[1];
    quant_matrix m;
    open_quantised(&m, c, layer, dq, false);
    int32_t *columns = columns_of(c, layer, dq);
    const bool is_down = strstr(layer, ".down_proj") != NULL; /* its rows stay as stored */
    float *row = mem_array((size_t)n_in, sizeof *row);
    for (int64_t n = 0; n < n_out; n++) {
        m.type->unpack_row(row, &m, columns ? columns[n] : n);
        for (int64_t k = 0; k < n_in; k++) {
            uint16_t expected;
            memcpy(&expected, dq->data + (k * n_out + n) * 2, 2);
            if (quant_f32_to_f16(row[is_down ? m.order[k] : k]) != expected)
                fail_msg("%s: weight %lld, %lld is %g, the reference has %g", layer, (long long)k, (long long)n,
                         (double)row[is_down ? m.order[k] : k], (double)quant_f16_to_f32(expected));
        }
    }
    mem_free(row);
    mem_free(columns);
    quant_close(&m);
}

static void exl2_weights_are_the_references(void **state) {
    if (!has_fixtures()) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    size_t compared = 0;
    for (size_t i = 0; i < HARNESS_COUNT(files); i++) {
        char path[512];
        safetensors goldens;
        checkpoint *c;
        qp_error err;
        snprintf(path, sizeof path, EXL2_FOLDER "/%s", files[i]);
        if (checkpoint_open(&c, path, &err)) fail_msg("%s", err.text);
        strcat(path, "/goldens.safetensors");
        assert_int_equal(safetensors_open(&goldens, path, &err), QP_OK);
        /* goldens.safetensors lies among the files: the loader takes output*.safetensors alone */
        assert_null(checkpoint_find(c, "logits"));
        for (size_t t = 0; t < goldens.n_tensors; t++) {
            if (strncmp(goldens.tensors[t].name, "dq.", 3)) continue;
            compare_weights(c, &goldens.tensors[t]);
            compared++;
        }
        safetensors_close(&goldens);
        checkpoint_close(c);
    }
    assert_true(compared >= 4);
}

/* ---- logits ---- */

static const ckpt_tensor *find(const safetensors *f, const char *name) {
    for (size_t i = 0; i < f->n_tensors; i++)
        if (!strcmp(f->tensors[i].name, name)) return &f->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

enum { PROMPT = 64 };

static void check_logits(const char *path, const safetensors *goldens) {
    const ckpt_tensor *prompt = find(goldens, "prompt"), *logits = find(goldens, "logits");
    int32_t ids[PROMPT];
    float *expected = mem_array(PROMPT * VOCABULARY, sizeof *expected);
    assert_int_equal(prompt->bytes, sizeof ids);
    assert_int_equal(logits->bytes, PROMPT * VOCABULARY * sizeof *expected);
    memcpy(ids, prompt->data, sizeof ids);
    memcpy(expected, logits->data, logits->bytes);
    for (int i = 0; dev_cpu_level(i); i++) {
        if (!dev_cpu_level_available(dev_cpu_level(i))) continue;
        for (int fast = 0; fast < 2; fast++) {
            qp_model *m = open_path(path, dev_cpu_level(i), fast ? QP_PRECISION_FAST : QP_PRECISION_EXACT);
            float *got = logits_of(m, ids, PROMPT, PROMPT, 1 << 20, VOCABULARY);
            float *cut = logits_of(m, ids, PROMPT, PROMPT, 5, VOCABULARY);
            assert_memory_equal(got, cut, PROMPT * VOCABULARY * sizeof *got);
            const double off = max_difference(got, expected, PROMPT * VOCABULARY);
            if (!(off <= (fast ? 0.7 : 2e-3))) fail_msg("%s, %s: off by %g", path, dev_cpu_level(i), off);
            mem_free(got);
            mem_free(cut);
            qp_model_close(m);
        }
    }
    mem_free(expected);
}

static void exl2_logits_are_the_references(void **state) {
    if (!has_fixtures()) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    for (size_t i = 0; i < HARNESS_COUNT(files); i++) {
        char path[512], file[600];
        safetensors goldens;
        snprintf(path, sizeof path, EXL2_FOLDER "/%s", files[i]);
        snprintf(file, sizeof file, "%s/goldens.safetensors", path);
        assert_int_equal(safetensors_open(&goldens, file, NULL), QP_OK);
        check_logits(path, &goldens);
        safetensors_close(&goldens);
    }
}

/* ---- fast against exact ---- */

static void fast_is_close_to_exact(void **state) {
    if (!has_fixtures()) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    int32_t *ids = unseen_text();
    for (size_t i = 0; i < HARNESS_COUNT(files); i++) {
        char path[512];
        snprintf(path, sizeof path, EXL2_FOLDER "/%s", files[i]);
        qp_model *exact = open_path(path, NULL, QP_PRECISION_EXACT), *fast = open_path(path, NULL, QP_PRECISION_FAST);
        const divergence d = diverge(exact, fast, QP_CACHE_DEFAULT, ids, FAST_WINDOWS);
        print_message("%s: KL of fast %.6f, same best %.2f %%\n", files[i], d.kl, 100 * d.same_best);
        assert_true(d.kl <= 0.0004);
        assert_true(d.same_best >= LEAST_SAME_BEST);
        qp_model_close(exact);
        qp_model_close(fast);
    }
    mem_free(ids);
}

/* Against float32 in the same model; text read in one step, and token by token at the end of a window. */
static void quantised_caches_are_close(void **state) {
    static const struct {
        qp_cache_type type;
        double most_kl;
    } cases[] = {{QP_CACHE_FP16, 1e-6}, {QP_CACHE_Q8, 0.0005}, {QP_CACHE_Q6, 0.002}, {QP_CACHE_Q4, 0.01}};
    if (!has_fixtures()) HARNESS_SKIP("no EXL2 fixtures in %s", QUIPU_FIXTURES);
    int32_t *ids = unseen_text();
    qp_model *m = open_path(EXL2_FOLDER "/mini-fp16", NULL, QP_PRECISION_EXACT);
    double below = -1;
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        const divergence d = diverge(m, m, cases[i].type, ids, HARNESS_TIMES(4));
        print_message("cache %s: KL %.7f, same best %.2f %%\n", qp_cache_type_name(cases[i].type), d.kl,
                      100 * d.same_best);
        assert_true(d.kl <= cases[i].most_kl);
        assert_true(d.kl > below); /* fewer bits are really used */
        below = d.kl;
    }
    qp_model_close(m);
    mem_free(ids);
}

/* ---- GGUF ---- */

#define GGUF_FOLDER QUIPU_SOURCE "/tests/golden/gguf"
#define PLAIN_FOLDER QUIPU_SOURCE "/tests/golden/models/complete-llama3"

enum { SMALL_VOCABULARY = 1520, SMALL_PROMPT = 40 };

static float *small_logits(const char *path, const char *level, qp_precision precision) {
    int32_t ids[SMALL_PROMPT];
    for (int i = 0; i < SMALL_PROMPT; i++) ids[i] = (i * 37 + 5) % 1500;
    qp_model *m = open_path(path, level, precision);
    float *out = logits_of(m, ids, SMALL_PROMPT, SMALL_PROMPT, 1 << 20, SMALL_VOCABULARY);
    qp_model_close(m);
    return out;
}

/* The same weights, rows of q and k in another order; blocks of 8 bits are nearly the same; splits are the same. */
static void gguf_models_are_what_they_were_made_of(void **state) {
    enum { N = SMALL_PROMPT * SMALL_VOCABULARY };
    for (int i = 0; dev_cpu_level(i); i++) {
        const char *level = dev_cpu_level(i);
        if (!dev_cpu_level_available(level)) continue;
        for (int fast = 0; fast < 2; fast++) {
            const qp_precision precision = fast ? QP_PRECISION_FAST : QP_PRECISION_EXACT;
            float *plain = small_logits(PLAIN_FOLDER, level, QP_PRECISION_EXACT);
            float *same = small_logits(GGUF_FOLDER "/bf16.gguf", level, precision);
            float *blocks = small_logits(GGUF_FOLDER "/q8_0.gguf", level, precision);
            float *split = small_logits(GGUF_FOLDER "/split-00002-of-00002.gguf", level, precision);
            double scale = 0;
            for (size_t k = 0; k < N; k++) scale += (double)plain[k] * (double)plain[k] / N;
            const double off = relative_rmse(same, plain, N, sqrt(scale));
            const double off_blocks = relative_rmse(blocks, plain, N, sqrt(scale));
            if (!(off <= (fast ? 0.02 : 1e-5)) || !(off_blocks <= (fast ? 0.06 : 0.03)) || off_blocks == 0)
                fail_msg("%s, fast %d: off by %g and %g", level, fast, off, off_blocks);
            assert_memory_equal(split, blocks, N * sizeof *split);
            mem_free(plain);
            mem_free(same);
            mem_free(blocks);
            mem_free(split);
        }
    }
}

static void same_ids(const qp_tokenizer *a, const qp_tokenizer *b, const char *text) {
    int32_t *x, *y;
    size_t n, m;
    assert_int_equal(qp_tokenize(a, text, strlen(text), 0, &x, &n, NULL), QP_OK);
    assert_int_equal(qp_tokenize(b, text, strlen(text), 0, &y, &m, NULL), QP_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n * sizeof *x);
    qp_free(x);
    qp_free(y);
}

static void gguf_tokenizer_is_the_same(void **state) {
    static const char *const texts[] = {"",
                                        "hello",
                                        "Hello there, 12345 things",
                                        " a  b\n\n c\t",
                                        "it's 99%",
                                        "\xc3\xa9t\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82",
                                        "<|begin_of_text|>x<|eot_id|>",
                                        "<|start_header_id|>user<|end_header_id|>\n\nhi"};
    qp_tokenizer *inside, *beside;
    qp_error err;
    if (qp_tokenizer_open(&inside, GGUF_FOLDER "/bf16.gguf", &err)) fail_msg("%s", err.text);
    if (qp_tokenizer_open(&beside, PLAIN_FOLDER, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < HARNESS_COUNT(texts); i++) same_ids(inside, beside, texts[i]);
    qp_template *a, *b;
    size_t a_bytes, b_bytes;
    if (qp_template_open(&a, GGUF_FOLDER "/bf16.gguf", NULL, &err)) fail_msg("%s", err.text);
    if (qp_template_open(&b, PLAIN_FOLDER, NULL, &err)) fail_msg("%s", err.text);
    const char *x = qp_template_peek_source(a, &a_bytes), *y = qp_template_peek_source(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, a_bytes);
    qp_template_free(a);
    qp_template_free(b);
    qp_tokenizer_close(inside);
    qp_tokenizer_close(beside);
}

/* " hello" is one piece, " wo" none: its merges go by score. */
static void gguf_pieces_of_sentencepiece(void **state) {
    static const char *const expected[] = {"<s>", "\xe2\x96\x81hello", "\xe2\x96\x81w", "or", "ld", "<0x21>"};
    qp_tokenizer *t;
    qp_error err;
    int32_t *ids;
    size_t n;
    if (qp_tokenizer_open(&t, GGUF_FOLDER "/spm.gguf", &err)) fail_msg("%s", err.text);
    assert_int_equal(qp_tokenize(t, "hello world!", 12, 0, &ids, &n, &err), QP_OK);
    assert_int_equal(n, HARNESS_COUNT(expected));
    for (size_t i = 0; i < n; i++) assert_int_equal(ids[i], qp_token_id(t, expected[i]));
    char *text;
    size_t bytes;
    assert_int_equal(qp_detokenize(t, ids, n, QP_DETOKENIZE_SKIP_SPECIAL, &text, &bytes, &err), QP_OK);
    assert_string_equal(text, "hello world!");
    qp_free(text);
    qp_free(ids);
    qp_tokenizer_close(t);
    assert_int_equal(qp_template_open((qp_template *[1]){0}, GGUF_FOLDER "/spm.gguf", NULL, &err), QP_NO_FILE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exl2_weights_are_the_references),
        cmocka_unit_test(exl2_logits_are_the_references),
        cmocka_unit_test(fast_is_close_to_exact),
        cmocka_unit_test(quantised_caches_are_close),
        cmocka_unit_test(gguf_models_are_what_they_were_made_of),
        cmocka_unit_test(gguf_tokenizer_is_the_same),
        cmocka_unit_test(gguf_pieces_of_sentencepiece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
