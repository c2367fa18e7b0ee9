/* ahead_test.c — masks made by workers: many followers of few grammars on several threads at once get the masks that a
 * matcher alone gets, also after rewinding and when freed while a worker is at it. */
#include "ahead.h"
#include "base/mem.h"
#include "harness.h"
#include <pthread.h>

enum { IDS = 256, JOBS = 4, STEPS = 60 };

static const char *const sources[] = {"root ::= (\"a\" | \"b\" root \"c\" | [x-z]{2,4})*",
                                      "root ::= [a-z]* \"b\" [a-z]{0,99}"};

static span byte_token(const void *user, int32_t id, trie_flag *flag) {
    *flag = TRIE_NORMAL;
    return (span){(const char *)user + id, 1};
}

typedef struct job {
    ahead *a;
    grammar *g;
    int seed;
    bool is_ahead, is_right;
} job;

static bool is_same_mask(follower *f, matcher *m, uint32_t *choice, int step) {
    const uint32_t *bits;
    uint32_t wanted[IDS / 32];
    mask_info info, alone;
    if (follower_mask(f, &bits, &info, NULL) != QP_OK || matcher_mask(m, wanted, &alone, NULL) != QP_OK) return false;
    if (memcmp(bits, wanted, sizeof wanted) || info.may_end != alone.may_end || info.allowed != alone.allowed)
        return false;
    for (uint32_t i = 0, left = (uint32_t)step * 7u % (uint32_t)info.allowed; i < IDS; i++)
        if (bits[i >> 5] >> (i & 31) & 1 && left-- == 0) return *choice = i, true;
    return false;
}

static void *run(void *user) {
    job *j = user;
    follower *f;
    matcher *m;
    uint32_t id = 0;
    j->is_right = follower_new(&f, j->a, j->g, NULL) == QP_OK && matcher_new(&m, j->g, NULL) == QP_OK;
    if (j->is_right) follower_start(f, j->is_ahead);
    for (int step = 0; step < STEPS && j->is_right; step++) {
        j->is_right = is_same_mask(f, m, &id, step + j->seed) && follower_accept(f, (int32_t)id, NULL) == QP_OK &&
                      matcher_accept(m, (int32_t)id, NULL) == QP_OK;
        if (step % 9 == 8) j->is_right &= follower_rewind(f, 3, NULL) == QP_OK && matcher_rewind(m, 3, NULL) == QP_OK;
    }
    follower_free(f);
    matcher_free(m);
    return NULL;
}

static void followers_get_the_masks_of_matchers(void **state) {
    char all[IDS];
    trie *t;
    ahead *a;
    grammar *g[2];
    pthread_t threads[JOBS];
    job jobs[JOBS];
    for (int i = 0; i < IDS; i++) all[i] = (char)i;
    assert_int_equal(trie_new(&t, &(trie_source){IDS, byte_token, all}, NULL), QP_OK);
    assert_int_equal(ahead_new(&a, 2, NULL), QP_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(grammar_compile(&g[i], t, "gbnf", span_of(sources[i]), NULL, NULL, NULL, NULL), QP_OK);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (job){a, g[i % 2], i, i != 2, false};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
    }
    for (int i = 0; i < JOBS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].is_right);
    }
    ahead_free(a);
    for (int i = 0; i < 2; i++) grammar_free(g[i]);
    trie_free(t);
}

static void a_refused_token_changes_nothing(void **state) {
    char all[IDS];
    trie *t;
    ahead *a;
    grammar *g;
    follower *f;
    const uint32_t *bits;
    mask_info info;
    for (int i = 0; i < IDS; i++) all[i] = (char)i;
    assert_int_equal(trie_new(&t, &(trie_source){IDS, byte_token, all}, NULL), QP_OK);
    assert_int_equal(ahead_new(&a, 1, NULL), QP_OK);
    assert_int_equal(grammar_compile(&g, t, "regex", SPAN("ab"), NULL, NULL, NULL, NULL), QP_OK);
    assert_int_equal(follower_new(&f, a, g, NULL), QP_OK);
    follower_start(f, true);
    assert_int_equal(follower_accept(f, 'x', NULL), QP_BAD_ARGUMENT);
    assert_int_equal(follower_mask(f, &bits, &info, NULL), QP_OK);
    assert_int_equal(info.only, 'a');
    assert_int_equal(follower_rewind(f, 1, NULL), QP_BAD_ARGUMENT);
    follower_free(f);
    grammar_free(g);
    ahead_free(a);
    trie_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_get_the_masks_of_matchers),
        cmocka_unit_test(a_refused_token_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
