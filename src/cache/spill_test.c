/* spill_test.c — evicted pages come back from host memory: what is kept, in which order it goes, and what it holds. */
#include "page_table.h"
#include "harness.h"

enum { P = DEV_PAGE_TOKENS, MOST = 8 * P, MOST_PAGES = 16, SLOT = 1100 };

/* A store of one number a page. */
typedef struct numbers {
    page_table *table;
    int32_t of[MOST_PAGES];
} numbers;

static int32_t story[MOST], another[MOST];

static int fill_ids(void **state) {
    for (int i = 0; i < MOST; i++) story[i] = 1000 + i, another[i] = 9000 + i;
    return 0;
}

static void save(void *user, int32_t p, void *to) { memcpy(to, &((numbers *)user)->of[p], sizeof(int32_t)); }
static void load(void *user, int32_t p, const void *from) { memcpy(&((numbers *)user)->of[p], from, sizeof(int32_t)); }

/* A slot takes a little less than SLOT bytes (most of it are the ids): n * SLOT bytes hold just n. */
static void open_numbers(numbers *n, int n_pages, uint64_t bytes, const page_limits *limits) {
    const page_mover mover = {save, load, n, sizeof(int32_t)};
    qp_error err;
    memset(n, 0, sizeof *n);
    assert_int_equal(pages_open(&n->table, n_pages, limits, NULL), QP_OK);
    if (pages_spill(n->table, bytes, &mover, &err) != QP_OK) fail_msg("%s", err.text);
}

static page_stats stats_of(const numbers *n) {
    page_stats s;
    pages_get_stats(n->table, &s);
    return s;
}

/* Each page's number is its last id. */
static void leave(numbers *n, const int32_t *ids, int64_t length) {
    page_copy copy;
    chain c;
    chain_open(&c, n->table, 1);
    chain_reuse(&c, ids, length + 1, &copy);
    assert_int_equal(chain_reserve(&c, length, NULL), QP_OK);
    for (int64_t p = c.length; p < length; p++) n->of[c.pages[p / P]] = ids[p];
    chain_advance(&c, ids, length);
    chain_close(&c);
}

static void press(numbers *n, int n_pages) {
    chain c;
    chain_open(&c, n->table, 1);
    assert_int_equal(chain_reserve(&c, (int64_t)n_pages * P, NULL), QP_OK);
    for (int i = 0; i < n_pages; i++) n->of[c.pages[i]] = -1;
    chain_close(&c);
}

/* Whole pages that a new chain gains; they must be the right ones. */
static int gain(numbers *n, const int32_t *ids, int n_pages) {
    page_copy copy;
    chain c;
    chain_open(&c, n->table, 1);
    const int64_t gained = chain_reuse(&c, ids, (int64_t)n_pages * P + 1, &copy);
    for (int i = 0; i < gained / P; i++) assert_int_equal(n->of[c.pages[i]], ids[(i + 1) * P - 1]);
    chain_close(&c);
    return (int)(gained / P);
}

static void evicted_pages_come_back(void **state) {
    numbers n;
    open_numbers(&n, 4, 8 * SLOT, NULL);
    leave(&n, story, 3 * P + 9);
    press(&n, 4);
    assert_int_equal(stats_of(&n).cached, 0);
    assert_int_equal(stats_of(&n).evicted, 4);
    assert_int_equal(stats_of(&n).spilled, 3); /* the page that was not whole is gone */
    assert_int_equal(gain(&n, another, 3), 0);
    assert_int_equal(gain(&n, story, 3), 3);
    assert_int_equal(stats_of(&n).restored, 3);
    press(&n, 4);
    assert_int_equal(stats_of(&n).spilled, 6);
    leave(&n, another, 4 * P); /* both are longer than the table together */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(gain(&n, story, 4), 3);
        assert_int_equal(gain(&n, another, 4), 4);
    }
    pages_close(n.table);
}

static void a_running_chain_fetches_into_its_own_pages(void **state) {
    numbers n;
    page_copy copy;
    chain c;
    open_numbers(&n, 4, 8 * SLOT, NULL);
    leave(&n, story, 3 * P);
    chain_open(&c, n.table, 1);
    assert_int_equal(chain_reserve(&c, 4 * P, NULL), QP_OK); /* all there are */
    assert_int_equal(chain_reuse(&c, story, 4 * P, &copy), 3 * P);
    for (int i = 0; i < 3; i++) assert_int_equal(n.of[c.pages[i]], story[(i + 1) * P - 1]);
    assert_int_equal(stats_of(&n).used, 4);
    chain_close(&c);
    pages_close(n.table);
}

static void without_a_page_it_stays_where_it_is(void **state) {
    numbers n;
    page_copy copy;
    chain c, d;
    open_numbers(&n, 2, 8 * SLOT, NULL);
    leave(&n, story, 2 * P);
    chain_open(&c, n.table, 1);
    chain_open(&d, n.table, 1);
    assert_int_equal(chain_reserve(&c, 2 * P, NULL), QP_OK);
    assert_int_equal(chain_reuse(&d, story, 3 * P, &copy), 0);
    assert_int_equal(d.n_pages, 0);
    chain_close(&c);
    assert_int_equal(chain_reuse(&d, story, 3 * P, &copy), 2 * P);
    chain_close(&d);
    pages_close(n.table);
}

static void a_bounded_tier_drops_the_oldest(void **state) {
    numbers n;
    open_numbers(&n, 3, 4 * SLOT, NULL);
    leave(&n, story, 3 * P);
    leave(&n, another, 3 * P); /* the story's pages are spilled, from its end */
    press(&n, 3);              /* and now the other's */
    assert_int_equal(stats_of(&n).spilled, 6);
    assert_int_equal(gain(&n, another, 3), 3);
    assert_int_equal(gain(&n, story, 3), 1); /* its beginning went last */
    pages_close(n.table);
}

/* A page too many for one slot goes, and the one that was asked for is not lost by that. */
static void a_tier_of_one_page(void **state) {
    numbers n;
    open_numbers(&n, 1, SLOT, NULL);
    leave(&n, story, P);
    leave(&n, another, P);
    assert_int_equal(gain(&n, story, 1), 1);
    assert_int_equal(stats_of(&n).spilled, 1); /* the other one found the only slot pinned */
    assert_int_equal(gain(&n, another, 1), 0);
    pages_close(n.table);
}

/* A page computed again while its old self is spilled: what was chained to that is found behind the new one. */
static void computed_again(void **state) {
    numbers n;
    page_copy copy;
    chain c, d;
    open_numbers(&n, 3, 8 * SLOT, NULL);
    leave(&n, story, 3 * P);
    press(&n, 3);
    chain_open(&c, n.table, 1);
    chain_open(&d, n.table, 1);
    assert_int_equal(chain_reserve(&c, 3 * P, NULL), QP_OK);
    assert_int_equal(chain_reuse(&d, story, 3 * P, &copy), 0);
    n.of[c.pages[0]] = story[P - 1];
    chain_advance(&c, story, P);
    assert_int_equal(chain_reuse(&c, story, 3 * P + 1, &copy), 2 * P);
    assert_int_equal(stats_of(&n).restored, 2);
    for (int i = 0; i < 3; i++) assert_int_equal(n.of[c.pages[i]], story[(i + 1) * P - 1]);
    chain_close(&c);
    press(&n, 3);
    assert_int_equal(stats_of(&n).spilled, 6);
    assert_int_equal(gain(&n, story, 3), 3);
    chain_close(&d);
    pages_close(n.table);
}

/* A page is in the table or in the tier: computed again, it gives its slot to others. */
static void computed_again_leaves_a_slot(void **state) {
    numbers n;
    chain c;
    open_numbers(&n, 3, 3 * SLOT, NULL);
    leave(&n, story, 3 * P);
    press(&n, 3);
    chain_open(&c, n.table, 1);
    assert_int_equal(chain_reserve(&c, P, NULL), QP_OK);
    n.of[c.pages[0]] = story[P - 1];
    chain_advance(&c, story, P);
    leave(&n, another, P);
    press(&n, 2);
    assert_int_equal(stats_of(&n).spilled, 4);
    chain_close(&c);
    assert_int_equal(gain(&n, another, 1), 1);
    assert_int_equal(gain(&n, story, 3), 3);
    pages_close(n.table);
}

static hash_pair same_hash(hash_pair before, const int32_t *ids) { return (hash_pair){7, 7}; }

/* The same second page behind two first ones, all with one hash. */
static void colliding_hashes_do_no_harm(void **state) {
    numbers n;
    int32_t mixed[2 * P];
    memcpy(mixed, another, sizeof(int32_t[P]));
    memcpy(mixed + P, story + P, sizeof(int32_t[P]));
    open_numbers(&n, 2, 8 * SLOT, &(page_limits){.first_count = UINT64_MAX - 1, .hash = same_hash});
    leave(&n, story, 2 * P);
    leave(&n, another, P);
    press(&n, 2);
    assert_int_equal(gain(&n, mixed, 1), 1); /* and not the second page, which is behind the story's first */
    assert_int_equal(gain(&n, story, 2), 2);
    leave(&n, mixed, 2 * P);
    press(&n, 2);
    assert_int_equal(gain(&n, story, 2), 2);
    assert_int_equal(gain(&n, mixed, 2), 2);
    pages_close(n.table);
}

static void too_little_memory_is_told(void **state) {
    const page_mover mover = {save, load, NULL, 1 << 20};
    qp_error err;
    page_table *t;
    assert_int_equal(pages_open(&t, 2, NULL, NULL), QP_OK);
    assert_int_equal(pages_spill(t, 1 << 20, &mover, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "spill memory: 1048576 bytes, allowed are 10"));
    assert_int_equal(pages_spill(t, UINT64_MAX, &mover, &err), QP_BAD_ARGUMENT);
    assert_int_equal(pages_spill(t, (1 << 20) + 2000, &mover, &err), QP_OK);
    pages_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evicted_pages_come_back),
        cmocka_unit_test(a_running_chain_fetches_into_its_own_pages),
        cmocka_unit_test(without_a_page_it_stays_where_it_is),
        cmocka_unit_test(a_bounded_tier_drops_the_oldest),
        cmocka_unit_test(a_tier_of_one_page),
        cmocka_unit_test(computed_again),
        cmocka_unit_test(computed_again_leaves_a_slot),
        cmocka_unit_test(colliding_hashes_do_no_harm),
        cmocka_unit_test(too_little_memory_is_told),
    };
    return cmocka_run_group_tests(tests, fill_ids, NULL);
}
