/* detok_test.c — streaming: whole characters, copies, the end of the text. Exact chunks are in tok_test.c's goldens. */
#include "tok_goldens.h"

static tok *open_golden(const char *name) {
    char path[4096];
    size_t bytes;
    tok *t = NULL;
    snprintf(path, sizeof path, "%s/%s/tokenizer.json.xz", GOLDENS, name);
    char *text = read_xz(path, &bytes);
    assert_non_null(text);
    assert_int_equal(tok_new_json(&t, text, bytes, NULL, 0, NULL), QP_OK);
    free(text);
    return t;
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Random ids: the chunks joined are the whole text, whatever the cut. Byte-fallback decoders rewrite a run of bytes
 * that turns out broken, shown or not, so there only the number of characters can agree: they are left to the goldens.
 */
static void test_joined(void **state) {
    static const char *const names[] = {"tiny-llama3", "tiny-tekken", "tiny-gpt2-prefix", "tiny-unigram"};
    uint64_t seed = 99;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        tok *t = open_golden(names[k]);
        for (int round = 0; round < 3000; round++) {
            int32_t ids[12];
            const size_t n = next_random(&seed) % 12;
            const bool skip = round & 1;
            strbuf joined = {0}, whole = {0};
            detok *d;
            span text;
            bool has_text;
            assert_int_equal(detok_new(&d, t, skip, NULL), QP_OK);
            for (size_t i = 0; i < n; i++) {
                ids[i] = (int32_t)(next_random(&seed) % (uint64_t)(tok_size(t) + 2));
                assert_int_equal(detok_next(d, ids[i], &text, &has_text, NULL), QP_OK);
                if (!has_text) assert_int_equal(text.bytes, 0);
                strbuf_add(&joined, text.at, text.bytes);
            }
            assert_int_equal(detok_flush(d, &text, NULL), QP_OK);
            strbuf_add(&joined, text.at, text.bytes);
            assert_int_equal(tok_decode(t, ids, n, skip, &whole, NULL), QP_OK);
            if (!span_equal((span){joined.at, joined.bytes}, (span){whole.at, whole.bytes}))
                fail_msg("%s: \"%s\" is \"%s\" as a whole", names[k], joined.at, whole.at);
            assert_int_equal(detok_shown(d), joined.bytes);
            strbuf_free(&joined);
            strbuf_free(&whole);
            detok_free(d);
        }
        tok_free(t);
    }
}

/* A copy goes its own way; the original does not notice. */
static void test_copy(void **state) {
    tok *t = open_golden("tiny-llama3");
    int32_t *ids;
    size_t n;
    detok *a, *b;
    span text, other;
    bool has_text, other_has;
    assert_int_equal(tok_encode(t, SPAN("\xe4\xbd\xa0 x \xf0\x9f\x98\x80."), QP_TOKENIZE_NO_SPECIAL, &ids, &n, NULL),
                     QP_OK);
    assert_int_equal(detok_new(&a, t, false, NULL), QP_OK);
    assert_int_equal(detok_new(&b, t, false, NULL), QP_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(detok_copy(b, a, NULL), QP_OK);
        assert_int_equal(detok_next(b, ids[(i + 3) % n], &text, &has_text, NULL),
                         QP_OK); /* an attempt that is dropped */
        assert_int_equal(detok_copy(b, a, NULL), QP_OK);
        assert_int_equal(detok_next(a, ids[i], &text, &has_text, NULL), QP_OK);
        assert_int_equal(detok_next(b, ids[i], &other, &other_has, NULL), QP_OK);
        assert_true(has_text == other_has && span_equal(text, other));
        assert_int_equal(detok_shown(a), detok_shown(b));
    }
    assert_int_equal(detok_shown(a), 11);
    detok_reset(a);
    assert_int_equal(detok_shown(a), 0);
    assert_int_equal(detok_next(a, ids[n - 1], &text, &has_text, NULL), QP_OK);
    assert_true(has_text && span_is(text, "."));
    assert_int_equal(detok_flush(a, &text, NULL), QP_OK);
    assert_int_equal(text.bytes, 0);
    detok_free(a);
    detok_free(b);
    detok_free(NULL);
    mem_free(ids);
    tok_free(t);
}

static void test_failing_memory(void **state) {
    tok *t = open_golden("tiny-gemma");
    for (int64_t n = 0;; n++) {
        detok *d = NULL;
        span text;
        bool has_text;
        mem_fail_after(n);
        qp_status status = detok_new(&d, t, true, NULL);
        for (int32_t id = 230; status == QP_OK && id < 260; id++) status = detok_next(d, id, &text, &has_text, NULL);
        if (status == QP_OK) status = detok_flush(d, &text, NULL);
        mem_fail_after(-1);
        detok_free(d);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_true(n < 5000);
    }
    tok_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined), cmocka_unit_test(test_copy),
                                       cmocka_unit_test(test_failing_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
