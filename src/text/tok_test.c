/* tok_test.c — tokenizers against the reference's goldens, round trips, broken files, failing memory. */
#include "tok_goldens.h"
#include <dirent.h>

/* ---- goldens in the layout of the fixtures ---- */

static void check_encodes(const char *name, const tok *t, const json_t *rows) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *ids = json_object_get(row, "ids");
        const span text = text_of_json(json_object_get(row, "text"));
        check_encode(name, t, text, 0, ids);
        check_encode(name, t, text, QP_TOKENIZE_NO_SPECIAL, json_object_get(row, "ids_plain"));
        check_decode(name, t, ids, false, json_object_get(row, "decode"));
        check_decode(name, t, ids, true, json_object_get(row, "decode_skip"));
    }
}

static void check_rest(const char *name, const tok *t, const json_t *goldens) {
    const json_t *streams = json_object_get(goldens, "stream"), *decodes = json_object_get(goldens, "decode_only");
    for (size_t i = 0; i < json_array_size(streams); i++) {
        const json_t *row = json_array_get(streams, i);
        check_stream(name, t, json_object_get(row, "ids"), json_is_true(json_object_get(row, "skip_special")),
                     json_object_get(row, "chunks"));
    }
    for (size_t i = 0; i < json_array_size(decodes); i++) {
        const json_t *row = json_array_get(decodes, i);
        check_decode(name, t, json_object_get(row, "ids"), false, json_object_get(row, "decode"));
        check_decode(name, t, json_object_get(row, "ids"), true, json_object_get(row, "decode_skip"));
    }
}

static tok *open_xz(const char *path) {
    size_t bytes;
    qp_error err;
    tok *t = NULL;
    char *text = read_xz(path, &bytes);
    assert_non_null(text);
    if (tok_new_json(&t, text, bytes, NULL, 0, &err)) fail_msg("%s: %s", path, err.text);
    free(text);
    return t;
}

/* Every folder with goldens; how many there were. */
static int check_folder(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/goldens.json.xz", folder, entry->d_name);
        json_t *goldens = entry->d_name[0] == '.' ? NULL : read_json_xz(path);
        if (!goldens) continue;
        snprintf(path, sizeof path, "%s/%s/tokenizer.json.xz", folder, entry->d_name);
        tok *t = open_xz(path);
        check_encodes(entry->d_name, t, json_object_get(goldens, "encode"));
        check_rest(entry->d_name, t, goldens);
        tok_free(t);
        json_decref(goldens);
        n++;
    }
    closedir(dir);
    return n;
}

static void test_trained(void **state) { assert_int_equal(check_folder(GOLDENS), 6); }

static void test_fixtures(void **state) {
    const int n = check_folder(QUIPU_FIXTURES "/tokenizers");
    if (!n) skip();
    assert_true(n >= 11);
}

/* ---- goldens of single steps (tests/golden/make_tokenizers.py) ---- */

static void check_step(const json_t *golden) {
    const char *name = json_string_value(json_object_get(golden, "name"));
    const span text = text_of_json(json_object_get(golden, "tokenizer"));
    qp_error err;
    tok *t = NULL;
    if (tok_new_json(&t, text.at, text.bytes, NULL, 0, &err)) fail_msg("%s: %s", name, err.text);
    const json_t *rows = json_object_get(golden, "encode"), *row;
    for (size_t i = 0; (row = json_array_get(rows, i)); i++) {
        check_encode(name, t, text_of_json(json_array_get(row, 0)), 0, json_array_get(row, 1));
        check_encode(name, t, text_of_json(json_array_get(row, 0)), QP_TOKENIZE_NO_SPECIAL, json_array_get(row, 2));
    }
    rows = json_object_get(golden, "decode");
    for (size_t i = 0; (row = json_array_get(rows, i)); i++) {
        check_decode(name, t, json_array_get(row, 0), false, json_array_get(row, 1));
        check_decode(name, t, json_array_get(row, 0), true, json_array_get(row, 2));
    }
    rows = json_object_get(golden, "plain_special");
    for (size_t i = 0; (row = json_array_get(rows, i)); i++)
        check_encode(name, t, text_of_json(json_array_get(row, 0)), QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL,
                     json_array_get(row, 1));
    rows = json_object_get(golden, "stream");
    for (size_t i = 0; (row = json_array_get(rows, i)); i++)
        check_stream(name, t, json_array_get(row, 0), true, json_array_get(row, 1));
    tok_free(t);
}

static void test_steps(void **state) {
    json_t *all = read_json_xz(GOLDENS "/steps.json.xz");
    assert_true(json_array_size(all) > 100);
    for (size_t i = 0; i < json_array_size(all); i++) check_step(json_array_get(all, i));
    json_decref(all);
}

static char *base64_bytes(const char *text, size_t *n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = malloc(strlen(text) + 1);
    uint32_t bits = 0;
    int have = 0;
    for (*n = 0; *text && *text != '='; text++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
        if ((have += 6) >= 8) out[(*n)++] = (char)(bits >> (have -= 8));
    }
    return out;
}

static void check_rows(const char *name, const tok *t, const json_t *rows) {
    assert_true(json_array_size(rows) > 20);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        check_encode(name, t, text_of_json(json_array_get(row, 0)), QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL,
                     json_array_get(row, 1));
    }
}

static void test_sentencepiece(void **state) {
    json_t *all = read_json_xz(GOLDENS "/spm.json.xz");
    assert_int_equal(json_array_size(all), 9);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *golden = json_array_get(all, i);
        size_t n;
        qp_error err;
        tok *t = NULL;
        char *model = base64_bytes(json_string_value(json_object_get(golden, "model")), &n);
        if (tok_new_spm(&t, model, n, NULL, 0, &err)) fail_msg("%s", err.text);
        check_rows(json_string_value(json_object_get(golden, "name")), t, json_object_get(golden, "encode"));
        assert_int_equal(tok_bos(t), 1);
        assert_true(tok_adds_bos(t) && !tok_adds_eos(t));
        tok_free(t);
        free(model);
    }
    json_decref(all);
}

static void test_tiktoken(void **state) {
    json_t *all = read_json_xz(GOLDENS "/tiktoken.json.xz");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *golden = json_array_get(all, i);
        const span file = text_of_json(json_object_get(golden, "file"));
        qp_error err;
        tok *t = NULL;
        if (tok_new_tiktoken(&t, file.at, file.bytes, json_string_value(json_object_get(golden, "pattern")), NULL, 0,
                             &err))
            fail_msg("%s", err.text);
        check_rows("tiktoken", t, json_object_get(golden, "encode"));
        tok_free(t);
    }
    assert_int_equal(json_array_size(all), 1);
    json_decref(all);
}

/* ---- small tokenizers by hand ---- */

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
static const char small[] =
    "{\"added_tokens\":[{\"id\":5,\"content\":\"<e>\",\"special\":true,\"normalized\":false}],"
    "\"pre_tokenizer\":" BYTE_LEVEL ",\"decoder\":" BYTE_LEVEL ","
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120ab\":4},"
    "\"merges\":[\"a b\",[\"\\u0120\",\"ab\"]]}}";

static tok *open_text(const char *text, const char *config) {
    tok *t = NULL;
    qp_error err;
    if (tok_new_json(&t, text, strlen(text), config, config ? strlen(config) : 0, &err)) fail_msg("%s", err.text);
    return t;
}

static void test_lookups(void **state) {
    tok *t = open_text(
        small, "{\"bos_token\":\"<e>\",\"eos_token\":{\"content\":\"b\"},\"pad_token\":null,\"unk_token\":\"none\","
               "\"added_tokens_decoder\":{\"7\":{\"content\":\"<n>\",\"special\":false}}}");
    assert_int_equal(tok_size(t), 7);
    assert_true(span_is(tok_piece(t, 4), "\xc4\xa0"
                                         "ab"));
    assert_true(span_is(tok_bytes(t, 4), " ab"));
    assert_true(span_is(tok_bytes(t, 5), "<e>"));
    assert_null(tok_piece(t, 7).at);
    assert_null(tok_piece(t, -1).at);
    assert_null(tok_bytes(t, 1000).at);
    assert_int_equal(tok_id(t, SPAN("ab")), 2);
    assert_int_equal(tok_id(t, SPAN("<n>")), 6); /* numbered on, as the reference does */
    assert_int_equal(tok_id(t, SPAN("zz")), -1);
    assert_true(tok_is_special(t, 5) && !tok_is_special(t, 6) && !tok_is_special(t, 0));
    assert_int_equal(tok_bos(t), 5);
    assert_int_equal(tok_eos(t), 1);
    assert_int_equal(tok_pad(t), -1);
    assert_int_equal(tok_named_id(t, TOK_UNK), -1);
    assert_true(span_is(tok_named_text(t, TOK_UNK), "none"));
    assert_null(tok_named_text(t, TOK_PAD).at);
    assert_false(tok_adds_bos(t));
    tok_free(t);
    tok_free(NULL);
}

/* Bytes that are not UTF-8 count as U+FFFD; here nothing of it is in the vocabulary. */
static void test_broken_text(void **state) {
    tok *t = open_text(small, NULL);
    int32_t *ids;
    size_t n;
    assert_int_equal(tok_encode(t,
                                SPAN("ab\xff"
                                     "ab\xe4\xbd"),
                                0, &ids, &n, NULL),
                     QP_OK);
    assert_int_equal(n, 2);
    mem_free(ids);
    assert_int_equal(tok_encode(t, SPAN(""), 0, &ids, &n, NULL), QP_OK);
    assert_int_equal(n, 0);
    assert_non_null(ids);
    mem_free(ids);
    tok_free(t);
}

static const struct {
    const char *text, *error; /* part of the error's text */
    qp_status status;
} broken[] = {
    {"", "expected an object", QP_BAD_FORMAT},
    {"[]", "expected an object", QP_BAD_FORMAT},
    {"{}", "\"model\" is missing", QP_BAD_FORMAT},
    {"{\"model\":{}}", "\"vocab\" is missing", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":[]}}", "expected an object", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "id -1", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "id 99999999999", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1.5},\"merges\":[]}}", "expected an integer", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "\"b\" is not in the vocabulary",
     QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "\"aa\" is not in the vocabulary",
     QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "two pieces", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "pair of pieces", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"dropout\":0.1}}", "dropout 0.1", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"Magic\",\"vocab\":{\"a\":0}}}", "type \"Magic\" is not known", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", "\"unk_id\" is 1", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "a piece has no score", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"normalizer\":{\"type\":\"Sing\"}}",
     "normalizer: type \"Sing\"", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":{\"type\":\"Sing\"}}",
     "pre_tokenizer: type \"Sing\"", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"post_processor\":{\"type\":\"Sing\"}}",
     "post_processor: type \"Sing\"", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"decoder\":{\"type\":\"Sing\"}}",
     "decoder: type \"Sing\"", QP_UNSUPPORTED},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{"
     "\"Regex\":\"(\"},\"behavior\":\"Isolated\"}}",
     "regular expression \"(\"", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_"
     "charsmap\":\"////\"}}",
     "precompiled_charsmap", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"\\ud800\":0}}}", "lone surrogate", QP_BAD_FORMAT},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}} x", "text after the end", QP_BAD_FORMAT},
};

static void test_broken_files(void **state) {
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        qp_error err = {0};
        tok *t = (tok *)1;
        const qp_status status = tok_new_json(&t, broken[i].text, strlen(broken[i].text), NULL, 0, &err);
        if (status != broken[i].status) fail_msg("%s: status %d: %s", broken[i].text, status, err.text);
        assert_int_not_equal(status, QP_OK);
        assert_null(t);
        if (!strstr(err.text, broken[i].error))
            fail_msg("%s: \"%s\" has no \"%s\"", broken[i].text, err.text, broken[i].error);
    }
}

static void test_truncations(void **state) {
    for (size_t n = 0; n + 1 < sizeof small; n++) {
        tok *t = NULL;
        char *cut = mem_copy(small, n, 1); /* of its exact size, so that reading on is seen */
        assert_int_equal(tok_new_json(&t, cut, n, NULL, 0, NULL), QP_BAD_FORMAT);
        assert_null(t);
        mem_free(cut);
    }
    json_t *all = read_json_xz(GOLDENS "/spm.json.xz");
    size_t bytes;
    char *model = base64_bytes(json_string_value(json_object_get(json_array_get(all, 1), "model")), &bytes);
    for (size_t n = 0; n < bytes; n += 1 + n / 37) {
        tok *t = NULL;
        char *cut = mem_copy(model, n, 1);
        if (tok_new_spm(&t, cut, n, NULL, 0, NULL) == QP_OK)
            tok_free(t); /* a cut between two fields is a message */
        else
            assert_null(t);
        mem_free(cut);
    }
    free(model);
    json_decref(all);
}

/* Every allocation fails once: an error, no leak, nothing half made. */
static void test_failing_memory(void **state) {
    static const char text[] = "ab <e> abba ab aab  ab";
    for (int64_t n = 0;; n++) {
        tok *t = NULL;
        int32_t *ids = NULL;
        size_t count;
        strbuf out = {0};
        mem_fail_after(n);
        qp_status status = tok_new_json(&t, small, sizeof small - 1, "{\"bos_token\":\"<e>\"}", 19, NULL);
        if (status == QP_OK) status = tok_encode(t, span_of(text), 0, &ids, &count, NULL);
        if (status == QP_OK) status = tok_decode(t, ids, count, true, &out, NULL);
        mem_fail_after(-1);
        strbuf_free(&out);
        mem_free(ids);
        tok_free(t);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_true(n < 10000);
    }
}

static void test_open(void **state) {
    tok *t = NULL;
    qp_error err;
    assert_int_equal(tok_open(&t, "/nonexistent", &err), QP_NO_FILE);
    assert_int_equal(tok_open(&t, GOLDENS, &err), QP_NO_FILE);
    assert_non_null(strstr(err.text, "no tokenizer.json, tokenizer.model or *.tiktoken"));
    char folder[] = "/tmp/quipu-tok-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/o200k_base.tiktoken", folder);
    FILE *f = fopen(path, "w");
    fputs("YQ== 0\nYg== 1\nYWI= 2\n", f);
    fclose(f);
    assert_int_equal(tok_open(&t, folder, &err), QP_OK);
    assert_int_equal(tok_id(t, SPAN("ab")), 2);
    tok_free(t);
    unlink(path);
    snprintf(path, sizeof path, "%s/strange.tiktoken", folder);
    f = fopen(path, "w");
    fputs("YQ== 0\n", f);
    fclose(f);
    assert_int_equal(tok_open(&t, folder, &err), QP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "split_pattern"));
    unlink(path);
    rmdir(folder);
}

/* ---- round trips ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Random characters of many kinds: runs, marks, joiners, white space, special tokens' beginnings. */
static void random_text(strbuf *b, uint64_t *seed) {
    static const char *const parts[] = {" ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "a",
                                        "the",
                                        "'s",
                                        "'LL",
                                        "1",
                                        "234",
                                        "\xc3\xa9",
                                        "e\xcc\x81",
                                        "\xe4\xbd\xa0",
                                        "\xf0\x9f\x98\x80",
                                        "\xe2\x80\x8d",
                                        "\xef\xbb\xbf",
                                        "\xef\xbf\xbd",
                                        "<|",
                                        "<0x41>",
                                        "\xe2\x96\x81",
                                        "\xc4\xa0",
                                        "|>",
                                        ".",
                                        "--",
                                        "\xc2\xa0",
                                        "\xe3\x80\x80",
                                        "\x7f",
                                        "\x01"};
    strbuf_clear(b);
    for (uint64_t n = next_random(seed) % (next_random(seed) % 256 ? 24 : 1500); n; n--) {
        const uint64_t r = next_random(seed);
        uint32_t c = (uint32_t)(r >> 8) % (r & 1 ? 0x800 : 0x110000);
        if (c >= 0xD800 && c < 0xE000) c = 'x';
        if (r >> 60 < 9)
            strbuf_text(b, parts[(r >> 8) % (sizeof parts / sizeof *parts)]);
        else if (c)
            strbuf_utf8(b, c);
        if (r >> 56 == 7) /* a run of one character, now and then a very long one */
            for (uint64_t k = r % 64 ? 40 : 600; k; k--) strbuf_char(b, "z \n-"[r >> 50 & 3]);
    }
}

/* QUIPU_ROUNDS sets the number of strings for each tokenizer; the full demand is a million. */
static void check_round_trips(const char *name, const char *prefix, bool has_marks) {
    const char *rounds = getenv("QUIPU_ROUNDS");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/tokenizer.json.xz", GOLDENS, name);
    tok *t = open_xz(path);
    strbuf text = {0}, back = {0};
    uint64_t seed = 88172645463325252ull;
    for (long i = rounds ? atol(rounds) : 20000; i > 0; i--) {
        int32_t *ids;
        size_t n;
        random_text(&text, &seed);
        strbuf_clear(&back);
        span in = {text.at ? text.at : "", text.bytes};
        if (has_marks && memmem(in.at, in.bytes, "\xe2\x96\x81", 3))
            in.bytes = 0; /* a mark in the text is a space to it */
        assert_int_equal(tok_encode(t, in, QP_TOKENIZE_NO_SPECIAL | QP_TOKENIZE_PLAIN_SPECIAL, &ids, &n, NULL), QP_OK);
        assert_int_equal(tok_decode(t, ids, n, false, &back, NULL), QP_OK);
        span out = {back.at ? back.at : "", back.bytes};
        if (in.bytes && *prefix && in.at[0] != ' ' && span_starts(out, span_of(prefix)))
            out.at += strlen(prefix), out.bytes -= strlen(prefix);
        if (!span_equal(in, out))
            fail_msg("%s: \"%.*s\" came back as \"%.*s\"", name, (int)in.bytes, in.at, (int)out.bytes, out.at);
        mem_free(ids);
    }
    strbuf_free(&text);
    strbuf_free(&back);
    tok_free(t);
}

static void test_round_trips(void **state) {
    check_round_trips("tiny-llama3", "", false);
    check_round_trips("tiny-tekken", "", false);
    check_round_trips("tiny-gpt2-prefix", " ", false);
    check_round_trips("tiny-gemma", "", true); /* byte fallback */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained),        cmocka_unit_test(test_fixtures),     cmocka_unit_test(test_steps),
        cmocka_unit_test(test_sentencepiece),  cmocka_unit_test(test_tiktoken),     cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_broken_text),    cmocka_unit_test(test_broken_files), cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_failing_memory), cmocka_unit_test(test_open),         cmocka_unit_test(test_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
