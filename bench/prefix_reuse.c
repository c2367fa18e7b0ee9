/* prefix_reuse.c — what the page table costs beside the model: finding a long prompt again, going on token by token,
 * looking for what agrees longest among thousands of pages that begin alike, evicting. Nanoseconds, medians of 15.
 *
 * usage: bench_prefix_reuse. The goals: 100,000 tokens found in under 1 ms, a token in about 50 ns. */
#include "figures.h"
#include "base/clock.h"
#include "cache/pages.h"
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 15, PAGES = 4096, PAGE = 256, LONG = 100000, ALIKE = 50 };

static int32_t ids[PAGES * PAGE];
static page_table *table;

static void fill_ids(unsigned seed) {
    for (int i = 0; i < PAGES * PAGE; i++) ids[i] = (int32_t)(((unsigned)i + seed) * 2654435761u >> 12);
}

static void need(qp_status status) {
    if (status == QP_OK) return;
    fprintf(stderr, "prefix_reuse: the table gave status %d\n", (int)status);
    exit(1);
}

static void leave(int64_t n) {
    chain c;
    chain_open(&c, table, 1);
    need(chain_reserve(&c, n, NULL));
    chain_advance(&c, ids, n);
    chain_close(&c);
}

/* A prompt of which all is there. */
static double find_long(void) {
    chain c;
    page_copy copy;
    chain_open(&c, table, 1);
    const double start = clock_now();
    const int64_t n = chain_reuse(&c, ids, LONG, &copy);
    const double took = clock_now() - start;
    if (n < LONG - PAGE) exit(1);
    chain_close(&c);
    return took;
}

/* A token, with its share of filling pages. Half of the time the others stand still. */
static double go_on(int n_chains, int64_t n) {
    chain c[2];
    for (int i = 0; i < n_chains; i++) {
        chain_open(&c[i], table, 1);
        need(chain_reserve(&c[i], n, NULL));
    }
    const double start = clock_now();
    for (int64_t length = 1; length <= n; length++)
        for (int i = 0; i < n_chains; i++) chain_advance(&c[i], ids, length);
    const double took = clock_now() - start;
    for (int i = 0; i < n_chains; i++) chain_close(&c[i]);
    return took / (double)(n * n_chains);
}

static double alone_in_a_page(void) {
    ids[0]++;
    return go_on(1, PAGE - 1);
}
static double alone(void) {
    ids[0]++;
    return go_on(1, 20 * PAGE);
}
static double side_by_side(void) {
    ids[0]++;
    return go_on(2, 20 * PAGE);
}

/* A first page of which 50 tokens agree with those of all others. */
static double find_alike(void) {
    chain c;
    page_copy copy;
    ids[ALIKE] = rand();
    chain_open(&c, table, 1);
    const double start = clock_now();
    const int64_t n = chain_reuse(&c, ids, 200, &copy);
    const double took = clock_now() - start;
    if (n < ALIKE) exit(1);
    chain_close(&c);
    return took;
}

static double evict(void) {
    chain c;
    fill_ids((unsigned)rand());
    leave((int64_t)PAGES * PAGE);
    chain_open(&c, table, 1);
    const double start = clock_now();
    need(chain_reserve(&c, (int64_t)PAGES * PAGE, NULL));
    const double took = clock_now() - start;
    chain_close(&c);
    return took / PAGES;
}

static void tell(const char *what, double (*measure)(void)) {
    double all[REPEATS];
    for (int i = -1; i < REPEATS; i++) {
        const double took = measure();
        if (i >= 0) all[i] = took * 1e9;
    }
    figures_sort(all, REPEATS);
    printf("%-48s %10.0f ns (%.0f to %.0f)\n", what, all[REPEATS / 2], all[0], all[REPEATS - 1]);
}

int main(void) {
    need(pages_open(&table, PAGES, NULL, NULL));
    fill_ids(0);
    leave(LONG);
    tell("prompt of 100,000 tokens found", find_long);
    for (int i = 0; i < PAGES / 2; i++) {
        ids[ALIKE] = rand();
        leave(200);
    }
    tell("longest run among 2,000 pages that begin alike", find_alike);
    tell("token, within a page", alone_in_a_page);
    tell("token, pages filled included", alone);
    tell("token, two equal chains side by side", side_by_side);
    tell("page evicted and taken", evict);
    pages_close(table);
    return 0;
}
