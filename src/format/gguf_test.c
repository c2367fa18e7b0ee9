/* gguf_test.c — GGUF files made here: what is read out of them, every refusal in its words, and damage: each cut, and
 * bytes changed at random. */
#include "gguf_meta.h"
#include "harness.h"
#include "base/rng.h"

/* ---- writing ---- */

typedef struct file {
    strbuf b;
    uint64_t n_tensors, n_values;
} file;

static void put(strbuf *b, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) strbuf_char(b, (char)(value >> 8 * i));
}

static void put_text(strbuf *b, const char *text) {
    put(b, strlen(text), 8);
    strbuf_text(b, text);
}

static void put_float(strbuf *b, float value) { strbuf_add(b, &value, 4); }

static void key(file *f, const char *name, uint32_t kind) {
    put_text(&f->b, name);
    put(&f->b, kind, 4);
    f->n_values++;
}

static void key_int(file *f, const char *name, uint32_t value) {
    key(f, name, GGUF_U32);
    put(&f->b, value, 4);
}

static void key_text(file *f, const char *name, const char *value) {
    key(f, name, GGUF_STRING);
    put_text(&f->b, value);
}

static void tensor(file *f, const char *name, uint64_t in, uint64_t out, uint32_t type, uint64_t offset) {
    put_text(&f->b, name);
    put(&f->b, out ? 2 : 1, 4);
    put(&f->b, in, 8);
    if (out) put(&f->b, out, 8);
    put(&f->b, type, 4);
    put(&f->b, offset, 8);
    f->n_tensors++;
}

/* The header's counts in front, the data behind. */
static uint8_t *finish(file *f, size_t data_bytes, size_t *bytes) {
    strbuf all = {0};
    strbuf_text(&all, "GGUF");
    put(&all, 3, 4);
    put(&all, f->n_tensors, 8);
    put(&all, f->n_values, 8);
    strbuf_add(&all, f->b.at, f->b.bytes);
    while (data_bytes && all.bytes % 32) strbuf_char(&all, 0);
    for (size_t i = 0; i < data_bytes; i++) strbuf_char(&all, (char)i);
    *bytes = all.bytes;
    uint8_t *exact = malloc(all.bytes); /* a read beyond it is seen */
    memcpy(exact, all.at, all.bytes);
    strbuf_free(&all);
    strbuf_free(&f->b);
    return exact;
}

/* A model of one layer's worth of metadata, a tokenizer of each kind of value. */
static uint8_t *sample(size_t *bytes) {
    file f = {0};
    key_text(&f, "general.architecture", "llama");
    key_int(&f, "llama.block_count", 2);
    key_int(&f, "llama.embedding_length", 64);
    key_int(&f, "llama.feed_forward_length", 96);
    key_int(&f, "llama.attention.head_count", 4);
    key(&f, "llama.attention.layer_norm_rms_epsilon", GGUF_F32);
    put_float(&f.b, 1e-5f);
    key(&f, "llama.rope.freq_base", GGUF_F32);
    put_float(&f.b, 500000);
    key_int(&f, "llama.context_length", 512);
    key_int(&f, "llama.rope.dimension_count", 8);
    key_text(&f, "tokenizer.ggml.model", "gpt2");
    key_text(&f, "tokenizer.ggml.pre", "qwen2");
    key(&f, "tokenizer.ggml.tokens", GGUF_ARRAY);
    put(&f.b, GGUF_STRING, 4);
    put(&f.b, 3, 8);
    put_text(&f.b, "a");
    put_text(&f.b, "b");
    put_text(&f.b, "<end>");
    key(&f, "tokenizer.ggml.token_type", GGUF_ARRAY);
    put(&f.b, GGUF_I32, 4);
    put(&f.b, 3, 8);
    put(&f.b, 1, 4);
    put(&f.b, 1, 4);
    put(&f.b, 3, 4);
    key_int(&f, "tokenizer.ggml.eos_token_id", 2);
    key(&f, "some.sign", GGUF_I8);
    put(&f.b, 0xFE, 1);
    tensor(&f, "token_embd.weight", 64, 3, 8, 0); /* Q8_0: 3 rows of 68 bytes */
    tensor(&f, "output_norm.weight", 64, 0, 0, 224);
    return finish(&f, 480, bytes);
}

static void reads_what_is_there(void **state) {
    size_t bytes;
    uint8_t *at = sample(&bytes);
    gguf g;
    qp_error err = {0};
    int64_t whole;
    double real;
    span text;
    if (gguf_parse(&g, at, bytes, "x.gguf", &err)) fail_msg("%s", err.text);
    assert_true(gguf_int(gguf_find(&g, "some.sign"), 0, &whole) && whole == -2);
    assert_true(gguf_real(gguf_find(&g, "llama.rope.freq_base"), 0, &real) && real == 500000);
    assert_true(gguf_text(gguf_find(&g, "general.architecture"), &text) && span_is(text, "llama"));
    assert_false(gguf_int(gguf_find(&g, "general.architecture"), 0, &whole));
    assert_false(gguf_int(gguf_find(&g, "some.sign"), 1, &whole));
    assert_false(gguf_text(gguf_find(&g, "some.sign"), &text));
    assert_null(gguf_find(&g, "nothing"));
    assert_int_equal(g.n_tensors, 2);
    assert_string_equal(g.tensors[0].format, "q8_0");
    assert_true(g.tensors[0].rank == 2 && g.tensors[0].shape[0] == 3 && g.tensors[0].shape[1] == 64);
    assert_int_equal(g.tensors[0].bytes, 3 * 68);
    assert_true(g.tensors[1].type == DTYPE_F32 && !g.tensors[1].format && g.tensors[1].rank == 1);
    assert_int_equal(g.tensors[1].data[0], 224);
    gguf_close(&g);
    free(at);
}

static void config_and_tokenizer(void **state) {
    static const char *const says[] = {"\"LlamaForCausalLM\"",   "\"rms_norm_eps\": 1.0000000000000001e-05",
                                       "\"rope_theta\": 500000", "\"partial_rotary_factor\": 0.5",
                                       "\"vocab_size\": 3",      "\"tie_word_embeddings\": true",
                                       "\"rope_pairs\": true",   "\"eos_token_id\": 2"};
    size_t bytes;
    uint8_t *at = sample(&bytes);
    gguf g;
    strbuf config = {0};
    gguf_tokenizer t;
    assert_int_equal(gguf_parse(&g, at, bytes, "x.gguf", NULL), QP_OK);
    assert_int_equal(gguf_config(&config, &g, "x.gguf", NULL), QP_OK);
    for (size_t i = 0; i < HARNESS_COUNT(says); i++)
        if (!strstr(config.at, says[i])) fail_msg("no %s in %s", says[i], config.at);
    assert_int_equal(gguf_tokenizer_read(&t, &g, "x.gguf", NULL), QP_OK);
    assert_false(t.is_spm);
    assert_non_null(strstr(t.model.at, "\"vocab\": {\"a\": 0, \"b\": 1, \"<end>\": 2}"));
    assert_non_null(strstr(t.model.at, "{\"id\": 2, \"content\": \"<end>\""));
    assert_non_null(strstr(t.config.at, "\"eos_token\": \"<end>\""));
    gguf_tokenizer_free(&t);
    strbuf_free(&config);
    gguf_close(&g);
    free(at);
}

static void names(void **state) {
    static const struct {
        const char *gguf, *hf;
    } cases[] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output.weight", "lm_head.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
        {"blk.31.attn_q_norm.weight", "model.layers.31.self_attn.q_norm.weight"},
        {"blk.7.attn_k.bias", "model.layers.7.self_attn.k_proj.bias"},
        {"blk.07.attn_k.bias", NULL},
        {"blk..attn_k.bias", NULL},
        {"blk.1.attn_k", NULL},
        {"blk.1.attn_k.scale", NULL},
        {"blk.1.attn_kk.weight", NULL},
        {"blk.99999999999.attn_k.weight", NULL},
        {"rope_freqs.weight", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        char out[128];
        const bool found = gguf_tensor_name(out, sizeof out, cases[i].gguf);
        if (found != (cases[i].hf != NULL)) fail_msg("%s: found %d", cases[i].gguf, found);
        if (found) assert_string_equal(out, cases[i].hf);
    }
    assert_false(gguf_tensor_name((char[8]){0}, 8, "output.weight"));
}

/* ---- refusals ---- */

static void old_version(uint8_t *at) { at[4] = 1; }
static void big_endian(uint8_t *at) {
    at[4] = 0;
    at[7] = 3;
}
static void other_magic(uint8_t *at) { at[3] = 'X'; }
static void many_tensors(uint8_t *at) { at[12] = 1; }
static void many_values(uint8_t *at) { at[20] = 1; }
static void bad_kind(uint8_t *at) { at[24 + 8 + 20] = 13; }
static void long_key(uint8_t *at) { at[24 + 7] = 1; }
static void long_text(uint8_t *at) { at[24 + 8 + 20 + 4 + 6] = 1; }

static const struct {
    void (*damage)(uint8_t *at);
    qp_status status;
    const char *says;
} refusals[] = {
    {old_version, QP_UNSUPPORTED, "GGUF version 1"},        {big_endian, QP_UNSUPPORTED, "GGUF version 50331648"},
    {other_magic, QP_BAD_FORMAT, "not a GGUF file"},        {many_tensors, QP_BAD_FORMAT, "4294967298 tensors"},
    {many_values, QP_BAD_FORMAT, "key-value pairs"},        {bad_kind, QP_BAD_FORMAT, "is of kind 13"},
    {long_key, QP_BAD_FORMAT, "a key at byte 32 does not"}, {long_text, QP_BAD_FORMAT, "does not fit the file's"},
};

static void expect_refusal(const uint8_t *at, size_t bytes, qp_status expected, const char *says) {
    gguf g;
    qp_error err = {0};
    const qp_status status = gguf_parse(&g, at, bytes, "x.gguf", &err);
    if (status != expected || !strstr(err.text, says) || strncmp(err.text, "x.gguf: ", 8))
        fail_msg("status %d, \"%s\", expected %d, \"%s\"", status, err.text, expected, says);
    assert_true(err.offset <= bytes);
}

static void refuses_headers(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(refusals); i++) {
        size_t bytes;
        uint8_t *at = sample(&bytes);
        refusals[i].damage(at);
        expect_refusal(at, bytes, refusals[i].status, refusals[i].says);
        free(at);
    }
}

static const struct {
    uint64_t in, out;
    uint32_t type;
    uint64_t offset;
    uint32_t alignment;
    const char *says;
} bad_tensors[] = {
    {64, 3, 8, 0, 48, "no power of two"},
    {64, 3, 8, 1, 32, "no multiple of the alignment: 1"},
    {64, 3, 8, 1 << 20, 32, "does not fit the file; it begins at data byte 1048576"},
    {64, 300, 8, 0, 32, "does not fit the file"},
    {48, 3, 8, 0, 32, "rows do not fill blocks; weights of a row: 48"},
    {64, 3, 99, 0, 32, "a type that this engine does not know, number 99"},
    {1ull << 63, 1, 0, 0, 32, "a dimension of 9223372036854775808"},
    {1ull << 40, 1ull << 40, 0, 0, 32, "its size overflows"},
    {1ull << 62, 1, 0, 0, 32, "too large"},
};

static void refuses_tensors(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(bad_tensors); i++) {
        file f = {0};
        size_t bytes;
        key_int(&f, "general.alignment", bad_tensors[i].alignment);
        tensor(&f, "t", bad_tensors[i].in, bad_tensors[i].out, bad_tensors[i].type, bad_tensors[i].offset);
        uint8_t *at = finish(&f, 256, &bytes);
        expect_refusal(at, bytes, QP_BAD_FORMAT, bad_tensors[i].says);
        free(at);
    }
}

static void refuses_architectures(void **state) {
    static const struct {
        const char *name, *says;
    } cases[] = {{"mamba", "\"mamba\" is not supported in GGUF files; allowed are llama"}, {NULL, "no \"general.arch"}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        file f = {0};
        size_t bytes;
        gguf g;
        strbuf config = {0};
        qp_error err = {0};
        gguf_tokenizer t;
        if (cases[i].name) key_text(&f, "general.architecture", cases[i].name);
        uint8_t *at = finish(&f, 0, &bytes);
        assert_int_equal(gguf_parse(&g, at, bytes, "x", NULL), QP_OK);
        assert_int_not_equal(gguf_config(&config, &g, "x", &err), QP_OK);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
        assert_int_equal(gguf_tokenizer_read(&t, &g, "x", NULL), QP_NO_FILE);
        strbuf_free(&config);
        gguf_close(&g);
        free(at);
    }
}

/* ---- damage ---- */

/* Whatever the bytes are: refused with words, or all can be read and made documents of. */
static void use(const uint8_t *at, size_t bytes) {
    gguf g;
    qp_error err = {0};
    if (gguf_parse(&g, at, bytes, "x", &err)) {
        assert_true(err.text[0] && err.offset <= bytes);
        return;
    }
    strbuf config = {0};
    gguf_tokenizer t;
    gguf_config(&config, &g, "x", NULL);
    strbuf_free(&config);
    if (gguf_tokenizer_read(&t, &g, "x", NULL) == QP_OK) gguf_tokenizer_free(&t);
    volatile uint8_t last = 0;
    for (size_t i = 0; i < g.n_tensors; i++)
        if (g.tensors[i].bytes) last = g.tensors[i].data[g.tensors[i].bytes - 1];
    (void)last;
    gguf_close(&g);
}

static void every_cut(void **state) {
    size_t bytes;
    uint8_t *whole = sample(&bytes);
    gguf g;
    for (size_t n = 0; n < bytes; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, whole, n);
        use(cut, n);
        if (n < bytes - 32) assert_int_not_equal(gguf_parse(&g, cut, n, "x", NULL), QP_OK);
        free(cut);
    }
    free(whole);
}

static void changed_bytes(void **state) {
    for (uint64_t seed = 0; seed < 4000; seed++) {
        size_t bytes;
        uint8_t *at = sample(&bytes);
        for (uint64_t i = 0; i < 1 + seed % 4; i++) {
            uint32_t r[4];
            rng_philox(seed, 1, i, r);
            at[r[0] % (bytes - 480)] = r[3] & 1 ? (uint8_t)r[1] : (uint8_t)(1u << r[1] % 8);
        }
        use(at, bytes);
        free(at);
    }
}

static void allocation_failures(void **state) {
    size_t bytes;
    uint8_t *at = sample(&bytes);
    for (int n = 0; n < 40; n++) {
        gguf g;
        gguf_tokenizer t = {0};
        strbuf config = {0};
        mem_fail_after(n);
        qp_status status = gguf_parse(&g, at, bytes, "x", NULL);
        if (status == QP_OK) status = gguf_config(&config, &g, "x", NULL);
        if (status == QP_OK) status = gguf_tokenizer_read(&t, &g, "x", NULL);
        mem_fail_after(-1);
        assert_true(status == QP_OK || status == QP_NO_MEMORY);
        if (status == QP_OK) gguf_tokenizer_free(&t);
        strbuf_free(&config);
        gguf_close(&g);
        if (status == QP_OK) break;
        assert_true(n < 39);
    }
    free(at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_there),
        cmocka_unit_test(config_and_tokenizer),
        cmocka_unit_test(names),
        cmocka_unit_test(refuses_headers),
        cmocka_unit_test(refuses_tensors),
        cmocka_unit_test(refuses_architectures),
        cmocka_unit_test(every_cut),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
