/* pages_test.c — the page table case by case: what is taken over, kept, given up and refused, and in which order. The
 * random test is pages_model_test.c. */
#include "page_table.h"
#include "harness.h"
#include "base/mem.h"

enum { P = DEV_PAGE_TOKENS, MOST = 12 * P };

static int32_t story[MOST];   /* some ids */
static int32_t another[MOST]; /* others, from the first one on */
static int32_t mixed[MOST];   /* written by `mix` */

static int fill_ids(void **state) {
    for (int i = 0; i < MOST; i++) story[i] = 1000 + i, another[i] = 9000 + i;
    return 0;
}

/* The first n of story, then of another. */
static const int32_t *mix(int n) {
    for (int i = 0; i < MOST; i++) mixed[i] = i < n ? story[i] : another[i];
    return mixed;
}

static page_table *open_table(int n_pages) {
    page_table *t;
    assert_int_equal(pages_open(&t, n_pages, NULL, NULL), QP_OK);
    return t;
}

static chain new_chain(page_table *t) {
    chain c;
    chain_open(&c, t, 1);
    return c;
}

static void compute(chain *c, const int32_t *ids, int64_t n) {
    assert_int_equal(chain_reserve(c, n, NULL), QP_OK);
    chain_advance(c, ids, n);
}

static chain computed(page_table *t, const int32_t *ids, int64_t n) {
    chain c = new_chain(t);
    compute(&c, ids, n);
    return c;
}

static void leave(page_table *t, const int32_t *ids, int64_t n) {
    chain c = computed(t, ids, n);
    chain_close(&c);
}

static page_stats stats_of(const page_table *t) {
    page_stats s;
    pages_get_stats(t, &s);
    assert_int_equal(s.used + s.cached + s.free, s.pages);
    return s;
}

/* What a new chain would gain. */
static int64_t gain(page_table *t, const int32_t *ids, int64_t n) {
    page_copy copy;
    chain c = new_chain(t);
    const int64_t gained = chain_reuse(&c, ids, n, &copy);
    assert_int_equal(gained, c.length);
    chain_close(&c);
    return gained;
}

/* ---- taking over ---- */

static void takes_whole_pages_and_a_part(void **state) {
    for (int is_live = 0; is_live < 2; is_live++) {
        page_copy copy;
        page_table *t = open_table(10);
        chain a = computed(t, story, 700), b = new_chain(t);
        const int32_t first = a.pages[0], second = a.pages[1], third = a.pages[2];
        if (!is_live) chain_close(&a);
        assert_int_equal(chain_reuse(&b, mix(600), 650, &copy), 600);
        assert_int_equal(b.n_pages, 3);
        assert_int_equal(b.pages[0], first);
        assert_int_equal(b.pages[1], second);
        assert_int_not_equal(b.pages[2], third);
        assert_int_equal(copy.from, third);
        assert_int_equal(copy.to, b.pages[2]);
        assert_int_equal(copy.n_tokens, 600 - 512);
        assert_int_equal(stats_of(t).shared, is_live ? 2 : 0);
        compute(&b, mixed, 650);
        chain_close(&a);
        chain_close(&b);
        assert_int_equal(stats_of(t).used, 0);
        assert_int_equal(gain(t, story, 900), 700);
        assert_int_equal(gain(t, mixed, 900), 650);
        pages_close(t);
    }
}

static void leaves_one_token_to_compute(void **state) {
    static const struct {
        int n, gained;
    } cases[] = {{1, 0},     {2, 0},     {3, 2},     {256, 255}, {257, 256},
                 {258, 256}, {259, 258}, {512, 511}, {513, 512}, {600, 512}};
    page_table *t = open_table(8);
    leave(t, story, 512);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) assert_int_equal(gain(t, story, cases[i].n), cases[i].gained);
    assert_int_equal(gain(t, another, 600), 0);
    pages_close(t);
}

static void one_token_is_not_worth_a_copy(void **state) {
    page_table *t = open_table(8);
    leave(t, story, 100);
    assert_int_equal(gain(t, mix(1), 100), 0);
    assert_int_equal(gain(t, mix(2), 100), 2);
    leave(t, another, 1);
    assert_int_equal(stats_of(t).cached, 1);
    pages_close(t);
}

static void the_longest_run_is_found(void **state) {
    page_table *t = open_table(16);
    for (int n = 10; n <= 90; n += 20) leave(t, mix(n), 200);
    for (int n = 5; n < 130; n++) {
        const bool is_there = n <= 90 && n % 20 == 10; /* then all but the last token are known */
        assert_int_equal(gain(t, mix(n), 120), is_there ? 119 : n < 90 ? n : 90);
    }
    assert_int_equal(gain(t, story, 500), 90);
    pages_close(t);
}

/* The usual course of a conversation: what was left is gone on with, without copying it. */
static void a_left_page_is_gone_on_with(void **state) {
    page_copy copy;
    page_table *t = open_table(4);
    chain a = computed(t, story, 300), b = new_chain(t), d = new_chain(t);
    const int32_t last = a.pages[1];
    chain_close(&a);
    assert_int_equal(chain_reuse(&b, story, 350, &copy), 300);
    assert_int_equal(copy.n_tokens, 0);
    assert_int_equal(b.pages[1], last);
    assert_int_equal(chain_reuse(&d, story, 350, &copy), 300); /* a second one cannot have the same page */
    assert_int_equal(copy.n_tokens, 44);
    assert_int_equal(copy.from, last);
    chain_close(&b);
    chain_close(&d);
    pages_close(t);
}

static void what_others_filled_meanwhile(void **state) {
    page_copy copy;
    page_table *t = open_table(8);
    chain a = new_chain(t), b = new_chain(t);
    assert_int_equal(chain_reserve(&a, 900, NULL), QP_OK);
    assert_int_equal(chain_reserve(&b, 900, NULL), QP_OK);
    chain_advance(&a, story, 600);
    assert_int_equal(chain_reuse(&b, story, 900, &copy), 600);
    assert_int_equal(copy.to, b.pages[2]);
    assert_int_equal(b.n_pages, 4);
    assert_int_equal(stats_of(t).free, 2);                   /* the two that b had reserved for what it now shares */
    assert_int_equal(chain_reuse(&b, story, 900, &copy), 0); /* not at a page's beginning */
    chain_advance(&a, story, 900);
    chain_advance(&b, story, 768);
    assert_int_equal(b.pages[2], a.pages[2]);
    assert_int_equal(chain_reuse(&b, story, 900, &copy), 900 - 768 - 1);
    chain_close(&a);
    chain_close(&b);
    pages_close(t);
}

static void equal_pages_become_one(void **state) {
    page_table *t = open_table(8);
    chain a = new_chain(t), b = new_chain(t);
    assert_int_equal(chain_reserve(&a, 600, NULL), QP_OK);
    assert_int_equal(chain_reserve(&b, 600, NULL), QP_OK);
    for (int n = 1; n <= 600; n++) {
        chain_advance(&a, story, n);
        chain_advance(&b, story, n);
    }
    assert_int_equal(stats_of(t).used, 4);
    assert_int_equal(stats_of(t).shared, 2);
    assert_int_equal(a.pages[1], b.pages[1]);
    assert_int_not_equal(a.pages[2], b.pages[2]);
    chain_close(&a);
    chain_close(&b);
    assert_int_equal(stats_of(t).cached, 3); /* of the two equal rests one is enough */
    pages_close(t);
}

static void the_same_prompt_leaves_the_same_pages(void **state) {
    page_table *t = open_table(20);
    leave(t, another, 700);
    for (int i = 0; i < 1000; i++) {
        page_copy copy;
        chain c = new_chain(t);
        chain_reuse(&c, story, 550, &copy);
        compute(&c, story, 550 + i % 50);
        chain_close(&c);
    }
    assert_int_equal(stats_of(t).cached, 6);
    assert_int_equal(stats_of(t).evicted, 0);
    assert_int_equal(gain(t, another, 900), 700);
    assert_int_equal(gain(t, story, 900), 599);
    pages_close(t);
}

/* What a running chain holds may yet be taken back: only what stays makes a rest superfluous. */
static void a_rest_is_kept_while_the_longer_one_may_change(void **state) {
    page_copy copy;
    page_table *t = open_table(6);
    chain a = new_chain(t), b = new_chain(t);
    assert_int_equal(chain_reserve(&a, 200, NULL), QP_OK);
    assert_int_equal(chain_reserve(&b, 200, NULL), QP_OK);
    chain_advance(&a, story, 100);
    chain_advance(&b, story, 50);
    chain_close(&b);
    assert_int_equal(chain_rewind(&a, 10, &copy, NULL), QP_OK);
    assert_int_equal(gain(t, story, 200), 50);
    compute(&a, story, 200);
    chain_close(&a);
    assert_int_equal(stats_of(t).cached, 1);
    pages_close(t);
}

static void other_models_and_private_chains(void **state) {
    page_copy copy;
    page_table *t = open_table(12);
    leave(t, story, 600);
    chain a, b;
    chain_open(&a, t, 2);
    assert_int_equal(chain_reuse(&a, story, 600, &copy), 0);
    compute(&a, story, 600);
    assert_int_not_equal(a.pages[0], -1);
    chain_open(&b, t, 3);
    chain_make_private(&b);
    assert_int_equal(chain_reuse(&b, story, 600, &copy), 0);
    compute(&b, NULL, 600);
    chain_close(&b);
    assert_int_equal(stats_of(t).cached, 3);
    chain_open(&b, t, 3);
    assert_int_equal(chain_reuse(&b, story, 600, &copy), 0);
    chain_close(&b);
    chain_close(&a);
    assert_int_equal(stats_of(t).cached, 6);
    pages_close(t);
}

static void private_from_the_middle_on(void **state) {
    page_copy copy;
    page_table *t = open_table(12);
    chain a = computed(t, story, 300);
    chain_make_private(&a);
    compute(&a, NULL, 600);
    assert_int_equal(chain_rewind(&a, 270, &copy, NULL), QP_OK);
    assert_int_equal(copy.n_tokens, 0);
    assert_int_equal(gain(t, story, 600), 270); /* what comes there now is not the story */
    chain_close(&a);
    assert_int_equal(gain(t, story, 600), 270);
    pages_close(t);
}

/* ---- giving up ---- */

/* Takes n pages and gives them back with nothing in them. */
static void press(page_table *t, int n) {
    chain c = new_chain(t);
    assert_int_equal(chain_reserve(&c, (int64_t)n * P, NULL), QP_OK);
    chain_close(&c);
}

static void the_oldest_chain_goes_first_from_its_end(void **state) {
    page_table *t = open_table(6);
    leave(t, story, 3 * P);
    leave(t, another, 3 * P);
    for (int lost = 1; lost <= 6; lost++) {
        press(t, lost);
        assert_int_equal(stats_of(t).evicted, lost);
        const page_stats s = stats_of(t);
        assert_int_equal(s.free, lost);
        /* asking would refresh, so a fresh table is asked */
        page_table *u = open_table(6);
        leave(u, story, 3 * P);
        leave(u, another, 3 * P);
        press(u, lost);
        assert_int_equal(gain(u, story, 4 * P), lost < 3 ? (3 - lost) * P : 0);
        assert_int_equal(gain(u, another, 4 * P), lost < 3 ? 3 * P : (6 - lost) * P);
        pages_close(u);
    }
    pages_close(t);
}

static void what_is_used_again_stays(void **state) {
    page_table *t = open_table(6);
    leave(t, story, 3 * P);
    leave(t, another, 3 * P);
    assert_int_equal(gain(t, story, P + 1), P); /* only its first page is used again */
    press(t, 5);
    assert_int_equal(gain(t, story, 4 * P), P);
    assert_int_equal(gain(t, another, 4 * P), 0);
    pages_close(t);
}

static void common_beginnings_go_last(void **state) {
    page_table *t = open_table(6);
    chain a = computed(t, mix(2 * P), 3 * P), b = computed(t, story, 3 * P);
    assert_int_equal(stats_of(t).used, 4);
    chain_close(&b);
    chain_close(&a);
    press(t, 3);                                    /* two are free */
    assert_int_equal(gain(t, story, 4 * P), 2 * P); /* b's own page was the oldest */
    press(t, 5);
    assert_int_equal(gain(t, story, 4 * P), P);
    pages_close(t);
}

static void all_or_nothing(void **state) {
    qp_error err;
    page_table *t = open_table(5);
    chain a = computed(t, story, 3 * P - 1), b = new_chain(t);
    assert_int_equal(chain_reserve(&b, 3 * P, &err), QP_BUSY);
    assert_string_equal(err.text, "3 pages of the cache are needed, 2 of 5 can be had");
    assert_int_equal(b.n_pages, 0);
    assert_int_equal(stats_of(t).free, 2);
    assert_int_equal(chain_reserve(&b, 5 * P + 1, &err), QP_TOO_LARGE);
    assert_string_equal(err.text, "1281 tokens do not fit into a cache of 1280 tokens");
    chain_close(&a);
    assert_int_equal(pages_available(t), 5);
    assert_int_equal(chain_reserve(&b, 5 * P, NULL), QP_OK);
    assert_int_equal(chain_reserve(&b, P, NULL), QP_OK); /* never takes any away */
    assert_int_equal(b.n_pages, 5);
    chain_close(&b);
    pages_close(t);
}

/* The only page to be had is the one that agrees: it serves as it is. */
static void a_table_of_one_page(void **state) {
    page_copy copy;
    page_table *t = open_table(1);
    leave(t, story, 200);
    chain a = new_chain(t), b = new_chain(t);
    assert_int_equal(chain_reuse(&a, mix(50), 90, &copy), 50);
    assert_int_equal(copy.n_tokens, 0);
    assert_int_equal(chain_reuse(&b, story, 90, &copy), 0);
    compute(&a, mixed, 90);
    chain_close(&a);
    chain_close(&b);
    assert_int_equal(gain(t, mixed, 100), 90);
    assert_int_equal(gain(t, story, 100), 50);
    pages_close(t);
}

/* ---- going back ---- */

static void going_back_leaves_shared_pages_alone(void **state) {
    page_copy copy;
    page_table *t = open_table(8);
    chain a = computed(t, story, 600), b = new_chain(t);
    chain_reuse(&b, story, 520, &copy);
    const int32_t shared = b.pages[1];
    assert_int_equal(chain_rewind(&b, 300, &copy, NULL), QP_OK);
    assert_int_equal(copy.from, shared);
    assert_int_equal(copy.to, b.pages[1]);
    assert_int_equal(copy.n_tokens, 44);
    assert_int_not_equal(b.pages[1], shared);
    compute(&b, mix(300), 520);
    assert_int_equal(a.pages[1], shared);
    assert_int_equal(chain_rewind(&a, 400, &copy, NULL), QP_OK); /* its own by now, but offered: kept for others */
    assert_int_equal(copy.from, shared);
    assert_int_equal(gain(t, story, 900), 600);
    assert_int_equal(chain_rewind(&a, 256, &copy, NULL), QP_OK); /* between pages: nothing to copy */
    assert_int_equal(copy.n_tokens, 0);
    assert_int_equal(a.n_pages, 1);
    assert_int_equal(chain_rewind(&a, 0, &copy, NULL), QP_OK);
    assert_int_equal(a.n_pages, 0);
    chain_close(&a);
    chain_close(&b);
    pages_close(t);
}

static void going_back_without_a_page_to_spare(void **state) {
    qp_error err;
    page_copy copy;
    page_table *t = open_table(1);
    chain a = computed(t, story, P);
    assert_int_equal(chain_rewind(&a, 100, &copy, NULL), QP_OK); /* in place: nobody else has it */
    assert_int_equal(copy.n_tokens, 0);
    compute(&a, mix(100), P);
    assert_int_equal(a.length, P);
    chain b = new_chain(t);
    assert_int_equal(chain_reuse(&b, mixed, P + 1, &copy), P);
    assert_int_equal(chain_rewind(&b, 100, &copy, &err), QP_BUSY);
    assert_string_equal(err.text, "a page of the cache is needed to go back to token 100, others hold all 1");
    assert_int_equal(b.length, P);
    assert_int_equal(b.n_pages, 1);
    chain_close(&a);
    assert_int_equal(chain_rewind(&b, 100, &copy, &err), QP_OK);
    chain_close(&b);
    pages_close(t);
}

/* ---- hashes, counters, memory ---- */

static hash_pair same_hash(hash_pair before, const int32_t *ids) { return (hash_pair){7, 7}; }

static void colliding_hashes_do_no_harm(void **state) {
    page_table *t;
    assert_int_equal(pages_open(&t, 12, &(page_limits){.hash = same_hash}, NULL), QP_OK);
    leave(t, story, 3 * P);
    leave(t, another, 3 * P);
    leave(t, mix(P), 3 * P); /* the same second page as another's, behind the story's first */
    assert_int_equal(gain(t, story, 4 * P), 3 * P);
    assert_int_equal(gain(t, another, 4 * P), 3 * P);
    assert_int_equal(gain(t, mixed, 4 * P), 3 * P);
    assert_int_equal(stats_of(t).cached, 8);
    chain a = computed(t, mixed, 3 * P), b = computed(t, another, 3 * P);
    for (int i = 0; i < 3; i++) assert_int_not_equal(a.pages[i], b.pages[i]);
    chain_close(&a);
    chain_close(&b);
    pages_close(t);
}

static void counters_run_over(void **state) {
    page_table *t;
    assert_int_equal(pages_open(&t, 6, &(page_limits){.first_count = UINT64_MAX - 2}, NULL), QP_OK);
    leave(t, story, 3 * P);
    leave(t, another, 3 * P);
    assert_int_equal(t->serial, 4); /* 0 was left out */
    for (int p = 0; p < 6; p++) assert_int_not_equal(t->pages[p].serial, 0);
    assert_int_equal(gain(t, story, 4 * P), 3 * P);
    press(t, 3);
    assert_int_equal(stats_of(t).evicted, 0); /* UINT64_MAX - 2 and three more */
    assert_int_equal(gain(t, story, 4 * P), 3 * P);
    assert_int_equal(gain(t, another, 4 * P), 0);
    pages_close(t);
}

static void short_of_memory(void **state) {
    static const page_mover mover = {.page_bytes = 64};
    qp_error err;
    page_table *t = NULL;
    int n = 0;
    for (;; n++) {
        mem_fail_after(n);
        qp_status status = pages_open(&t, 5, NULL, &err);
        if (status == QP_OK) {
            status = pages_spill(t, 100000, &mover, &err);
            if (status != QP_OK) pages_close(t);
        }
        mem_fail_after(-1);
        if (status == QP_OK) break;
        assert_int_equal(status, QP_NO_MEMORY);
    }
    assert_true(n >= 8);
    leave(t, story, 2 * P);
    page_copy copy;
    chain c = new_chain(t);
    mem_fail_after(0);
    assert_int_equal(chain_reserve(&c, 10, &err), QP_NO_MEMORY);
    assert_int_equal(chain_reuse(&c, story, 700, &copy), 0); /* gains less */
    mem_fail_after(-1);
    assert_int_equal(c.n_pages, 0);
    assert_int_equal(chain_reuse(&c, story, 700, &copy), 512);
    chain_close(&c);
    chain_close(&c); /* twice does no harm */
    pages_close(t);
    pages_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_whole_pages_and_a_part),
        cmocka_unit_test(leaves_one_token_to_compute),
        cmocka_unit_test(one_token_is_not_worth_a_copy),
        cmocka_unit_test(the_longest_run_is_found),
        cmocka_unit_test(a_left_page_is_gone_on_with),
        cmocka_unit_test(what_others_filled_meanwhile),
        cmocka_unit_test(equal_pages_become_one),
        cmocka_unit_test(the_same_prompt_leaves_the_same_pages),
        cmocka_unit_test(a_rest_is_kept_while_the_longer_one_may_change),
        cmocka_unit_test(other_models_and_private_chains),
        cmocka_unit_test(private_from_the_middle_on),
        cmocka_unit_test(the_oldest_chain_goes_first_from_its_end),
        cmocka_unit_test(what_is_used_again_stays),
        cmocka_unit_test(common_beginnings_go_last),
        cmocka_unit_test(all_or_nothing),
        cmocka_unit_test(a_table_of_one_page),
        cmocka_unit_test(going_back_leaves_shared_pages_alone),
        cmocka_unit_test(going_back_without_a_page_to_spare),
        cmocka_unit_test(colliding_hashes_do_no_harm),
        cmocka_unit_test(counters_run_over),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, fill_ids, NULL);
}
