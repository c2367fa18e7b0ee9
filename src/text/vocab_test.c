/* vocab_test.c — texts and ids both ways, against plain search; ids that change; pieces made to collide. */
#include "vocab.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N_TEXTS = 3000, MAX_TEXT = 40 };

typedef struct plain {
    char text[N_TEXTS][MAX_TEXT];
    size_t bytes[N_TEXTS];
    int32_t id[N_TEXTS], n;
} plain;

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static int find(const plain *p, span text) {
    for (int i = 0; i < p->n; i++)
        if (span_equal((span){p->text[i], p->bytes[i]}, text)) return i;
    return -1;
}

/* Texts of few different bytes, zero among them, so that many are alike but for one. */
static span random_text(char *out, uint64_t *seed) {
    const size_t bytes = next_random(seed) % MAX_TEXT;
    for (size_t i = 0; i < bytes; i++) out[i] = (char)(next_random(seed) % (i % 8 ? 2 : 3));
    return (span){out, bytes};
}

static void add(vocab *v, plain *p, span text, int32_t id) {
    assert_int_equal(vocab_add(v, text, id, NULL), QP_OK);
    int i = find(p, text);
    if (i < 0) {
        i = p->n++;
        if (text.bytes) memcpy(p->text[i], text.at, text.bytes);
        p->bytes[i] = text.bytes;
    }
    p->id[i] = id;
}

static void check(const vocab *v, const plain *p) {
    static span pieces[N_TEXTS];
    static int32_t ids[N_TEXTS];
    const vocab_entry *e = NULL;
    for (int i = 0; i < p->n; i++) {
        pieces[i] = (span){p->text[i], p->bytes[i]};
        assert_int_equal(vocab_id(v, pieces[i]), p->id[i]);
        assert_non_null(e = vocab_next(v, e)); /* in the order of adding */
        assert_true(span_equal((span){e->text, e->bytes}, pieces[i]) && e->id == p->id[i]);
    }
    assert_null(vocab_next(v, e));
    assert_int_equal(v->n_entries, p->n);
    vocab_ids(v, pieces, ids, (size_t)p->n);
    assert_memory_equal(ids, p->id, (size_t)p->n * sizeof *ids);
}

static void test_random(void **state) {
    static plain p;
    uint64_t seed = 11;
    for (int round = 0; round < 4; round++) {
        vocab v = {0};
        char text[MAX_TEXT];
        p.n = 0;
        if (round & 1) assert_int_equal(vocab_expect(&v, N_TEXTS >> round, NULL), QP_OK);
        for (int i = 0; i < N_TEXTS; i++) add(&v, &p, random_text(text, &seed), (int32_t)(next_random(&seed) % 5000));
        check(&v, &p);
        for (int i = 0; i < N_TEXTS; i++) {
            const span other = random_text(text, &seed);
            const int known = find(&p, other);
            assert_int_equal(vocab_id(&v, other), known < 0 ? -1 : p.id[known]);
        }
        vocab_free(&v);
    }
}

/* The piece of an id is the text that was given it last; a text that moves on leaves its old id without a piece. */
static void test_changed_ids(void **state) {
    vocab v = {0};
    assert_null(vocab_next(&v, NULL));
    assert_int_equal(vocab_id(&v, SPAN("a")), -1);
    assert_int_equal(vocab_add(&v, SPAN("a"), 3, NULL), QP_OK);
    assert_int_equal(vocab_add(&v, SPAN("b"), 3, NULL), QP_OK);
    assert_true(span_is(vocab_piece(&v, 3), "b"));
    assert_int_equal(vocab_id(&v, SPAN("a")), 3);
    assert_int_equal(vocab_add(&v, SPAN("b"), 5, NULL), QP_OK);
    assert_null(vocab_piece(&v, 3).at);
    assert_true(span_is(vocab_piece(&v, 5), "b"));
    assert_null(vocab_piece(&v, 6).at);
    assert_null(vocab_piece(&v, -1).at);
    assert_int_equal(v.n_ids, 6);
    vocab_free(&v);
}

/* Eight bytes whose hash has the low bits of `hash`: the function is undone. */
static void colliding_text(char out[8], uint32_t high, uint32_t hash) {
    uint64_t inverse = 1; /* of the last multiplier, by Newton's method */
    for (int i = 0; i < 6; i++) inverse *= 2 - 0xC4CEB9FE1A85EC53ull * inverse;
    const uint64_t h = (uint64_t)high << 32 | (hash ^ high);
    const uint64_t word = h * inverse ^ 8 * 0x9E3779B97F4A7C15ull;
    memcpy(out, &word, 8);
}

static void test_collisions(void **state) {
    vocab v = {0};
    qp_error err;
    char text[8];
    qp_status status = QP_OK;
    int n = 0;
    colliding_text(text, 1, 77);
    assert_int_equal(vocab_hash(text, 8), 77);
    for (; status == QP_OK && n < 100000; n++) {
        colliding_text(text, (uint32_t)n, 77);
        status = vocab_add(&v, (span){text, 8}, n, &err);
    }
    assert_int_equal(status, QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "share one hash"));
    assert_in_range(n, 4000, 5000);
    vocab_free(&v);
}

static void test_failing_memory(void **state) {
    for (int64_t n = 0;; n++) {
        vocab v = {0};
        qp_status status = QP_OK;
        char text[16];
        mem_fail_after(n);
        for (int i = 0; i < 1000 && status == QP_OK; i++) {
            snprintf(text, sizeof text, "piece %d", i);
            status = vocab_add(&v, span_of(text), i, NULL);
        }
        mem_fail_after(-1);
        vocab_free(&v);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
        assert_true(n < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_changed_ids),
                                       cmocka_unit_test(test_collisions), cmocka_unit_test(test_failing_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
