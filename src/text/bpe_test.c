/* bpe_test.c — merging: short, long and by the definition agree on random merges; cutting changes nothing. */
#include "bpe.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Random merges over a small alphabet. Ranks are shuffled, so that a merge may make a pair of lower rank, and some are
 * equal, as SentencePiece's scores may be. */
static void make_random(vocab *v, bpe *b, uint64_t *seed, int n_merges, bool byte_level) {
    char letter[2] = "a";
    for (; *letter <= 'd'; ++*letter) assert_int_equal(vocab_add(v, span_of(letter), v->n_ids, NULL), QP_OK);
    struct {
        int32_t left, right;
    } pairs[64];
    for (int i = 0; i < n_merges; i++) {
        char text[256];
        pairs[i].left = (int32_t)(next_random(seed) % (uint64_t)v->n_ids);
        pairs[i].right = (int32_t)(next_random(seed) % (uint64_t)v->n_ids);
        const span left = vocab_piece(v, pairs[i].left), right = vocab_piece(v, pairs[i].right);
        if (left.bytes + right.bytes > 20) {
            i--;
            continue;
        }
        snprintf(text, sizeof text, "%.*s%.*s", (int)left.bytes, left.at, (int)right.bytes, right.at);
        if (vocab_id(v, span_of(text)) < 0) assert_int_equal(vocab_add(v, span_of(text), v->n_ids, NULL), QP_OK);
    }
    assert_int_equal(bpe_start(b, v, &(bpe_options){0}, (size_t)n_merges, NULL), QP_OK);
    for (int i = 0; i < n_merges; i++) {
        char text[256];
        const span left = vocab_piece(v, pairs[i].left), right = vocab_piece(v, pairs[i].right);
        snprintf(text, sizeof text, "%.*s%.*s", (int)left.bytes, left.at, (int)right.bytes, right.at);
        assert_int_equal(bpe_add_pair(b, pairs[i].left, pairs[i].right, vocab_id(v, span_of(text)),
                                      (uint32_t)(next_random(seed) % (uint64_t)(2 * n_merges)), NULL),
                         QP_OK);
    }
    assert_int_equal(bpe_finish(b, byte_level, NULL), QP_OK);
}

static void random_word(char *word, size_t n, uint64_t *seed) {
    const uint64_t letters = 1 + next_random(seed) % 4;
    for (size_t i = 0; i < n; i++) word[i] = (char)('a' + next_random(seed) % letters);
}

static void check_word(const bpe *b, bpe_scratch *s, span word) {
    idvec whole = {0}, cut = {0};
    int32_t *ids = malloc((word.bytes + 1) * sizeof *ids);
    size_t n = word.bytes;
    for (size_t i = 0; i < n; i++) ids[i] = word.at[i] - 'a';
    bpe_merge_plain(b, ids, &n);
    assert_int_equal(bpe_encode(b, s, word, &whole, NULL), QP_OK);
    for (span rest = word; rest.bytes;) {
        const size_t part = bpe_cut(b, rest);
        assert_true(part > 0 && part <= rest.bytes);
        assert_int_equal(bpe_encode(b, s, (span){rest.at, part}, &cut, NULL), QP_OK);
        rest = (span){rest.at + part, rest.bytes - part};
    }
    if (whole.n != n || memcmp(whole.at, ids, n * sizeof *ids) != 0)
        fail_msg("\"%.*s\" is merged in another way", (int)word.bytes, word.at);
    if (cut.n != n || memcmp(cut.at, ids, n * sizeof *ids) != 0)
        fail_msg("\"%.*s\" is cut wrongly", (int)word.bytes, word.at);
    idvec_free(&whole);
    idvec_free(&cut);
    free(ids);
}

static void test_random(void **state) {
    uint64_t seed = 88172645463325252ull;
    for (int round = 0; round < 400; round++) {
        vocab v = {0};
        bpe b = {0};
        bpe_scratch s = {0};
        char word[300];
        make_random(&v, &b, &seed, 1 + (int)(next_random(&seed) % 40), round & 1);
        for (int i = 0; i < 30; i++) {
            const size_t n = 1 + next_random(&seed) % (i % 3 ? 40 : 299);
            random_word(word, n, &seed);
            check_word(&b, &s, (span){word, n});
        }
        bpe_scratch_free(&s);
        bpe_free(&b);
        vocab_free(&v);
    }
}

/* Rows that repeat themselves, with a slip here and there: the passes of bpe_sweep. */
static void test_repeating(void **state) {
    uint64_t seed = 1234567;
    for (int round = 0; round < 300; round++) {
        vocab v = {0};
        bpe b = {0};
        bpe_scratch s = {0};
        char word[1500];
        make_random(&v, &b, &seed, 1 + (int)(next_random(&seed) % 40), true);
        for (int i = 0; i < 6; i++) {
            const size_t n = 250 + next_random(&seed) % 1250, period = 1 + next_random(&seed) % 9;
            random_word(word, n, &seed);
            for (size_t k = period; k < n; k++)
                if (next_random(&seed) % 100 >= (uint64_t)i) word[k] = word[k - period];
            check_word(&b, &s, (span){word, n});
        }
        bpe_scratch_free(&s);
        bpe_free(&b);
        vocab_free(&v);
    }
}

/* Three merges of one rank, as SentencePiece's scores may be: each joins what the last one made, the left one first. */
static void test_equal_ranks(void **state) {
    static const char *const pieces[] = {"a", "b", "c", "d", "ab", "cab", "aba"};
    vocab v = {0};
    bpe b = {0};
    bpe_scratch s = {0};
    char word[1000];
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        assert_int_equal(vocab_add(&v, span_of(pieces[i]), (int64_t)i, NULL), QP_OK);
    assert_int_equal(bpe_start(&b, &v, &(bpe_options){0}, 3, NULL), QP_OK);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(bpe_add_pair(&b, i == 0 ? 0 : i == 1 ? 2 : 4, i == 0 ? 1 : i == 1 ? 4 : 0, 4 + i, 7, NULL), 0);
    assert_int_equal(bpe_finish(&b, true, NULL), QP_OK);
    for (size_t i = 0; i < sizeof word; i++) word[i] = "caba"[i % 4];
    check_word(&b, &s, (span){word, sizeof word});
    bpe_scratch_free(&s);
    bpe_free(&b);
    vocab_free(&v);
}

/* A pair that is formed again and again before its queue's place: the plain heap takes over. */
static void test_disturbed_queues(void **state) {
    uint64_t seed = 42;
    vocab v = {0};
    bpe b = {0};
    bpe_scratch s = {0};
    static char word[20000];
    static const struct {
        const char *left, *right;
        uint32_t rank;
    } merges[] = {{"a", "b", 5}, {"ab", "a", 2}, {"b", "a", 3}, {"c", "ab", 1}, {"ba", "b", 4}, {"aba", "b", 0}};
    static const char *const pieces[] = {"a", "b", "c", "d", "ab", "aba", "ba", "cab", "bab", "abab"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        assert_int_equal(vocab_add(&v, span_of(pieces[i]), (int64_t)i, NULL), QP_OK);
    assert_int_equal(bpe_start(&b, &v, &(bpe_options){0}, 6, NULL), QP_OK);
    for (size_t i = 0; i < 6; i++) {
        const bpe_pair pair = {span_of(merges[i].left), span_of(merges[i].right)};
        assert_int_equal(bpe_add_merges(&b, &pair, 1, merges[i].rank, NULL), QP_OK);
    }
    assert_int_equal(bpe_finish(&b, true, NULL), QP_OK);
    for (int i = 0; i < 8; i++) {
        random_word(word, 2000, &seed);
        check_word(&b, &s, (span){word, 2000});
    }
    bpe_scratch_free(&s);
    bpe_free(&b);
    vocab_free(&v);
}

static void test_errors(void **state) {
    vocab v = {0};
    bpe b;
    qp_error err;
    assert_int_equal(vocab_add(&v, SPAN("a"), 0, NULL), QP_OK);
    assert_int_equal(bpe_start(&b, &v, &(bpe_options){.unk = SPAN("?")}, 1, NULL), QP_OK);
    assert_int_equal(bpe_add_merges(&b, &(bpe_pair){SPAN("a"), SPAN("x")}, 1, 0, &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "\"x\" is not in the vocabulary"));
    assert_int_equal(bpe_add_merges(&b, &(bpe_pair){SPAN("a"), SPAN("a")}, 1, 0, &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "\"aa\" is not in the vocabulary"));
    assert_int_equal(bpe_finish(&b, false, NULL), QP_OK);
    bpe_scratch s = {0};
    idvec out = {0};
    assert_int_equal(bpe_encode(&b, &s, SPAN("ab"), &out, &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "unk_token"));
    assert_int_equal(vocab_add(&v, SPAN("b"), -1, &err), QP_BAD_FORMAT);
    assert_int_equal(vocab_add(&v, SPAN("b"), VOCAB_MAX_ID, &err), QP_BAD_FORMAT);
    idvec_free(&out);
    bpe_scratch_free(&s);
    bpe_free(&b);
    vocab_free(&v);
}

/* Every allocation of a long merge fails once. */
static void test_failing_memory(void **state) {
    uint64_t seed = 7;
    vocab v = {0};
    bpe b = {0};
    char word[500];
    make_random(&v, &b, &seed, 30, true);
    random_word(word, sizeof word, &seed);
    for (int64_t n = 0;; n++) {
        bpe_scratch s = {0};
        idvec out = {0};
        mem_fail_after(n);
        const qp_status status = bpe_encode(&b, &s, (span){word, sizeof word}, &out, NULL);
        const bool failed = out.failed;
        mem_fail_after(-1);
        idvec_free(&out);
        bpe_scratch_free(&s);
        if (status == QP_OK && !failed) break;
        assert_true(status == QP_NO_MEMORY || failed);
        assert_true(n < 1000);
    }
    bpe_free(&b);
    vocab_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_repeating),
        cmocka_unit_test(test_equal_ranks), cmocka_unit_test(test_disturbed_queues),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_failing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
