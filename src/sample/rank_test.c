/* rank_test.c — cutting by rank and mass against a sorted walk; sorting. */
#include "rank.h"
#include "base/rng.h"
#include "harness.h"
#include <stdbool.h>

enum { MOST = 9000 };

typedef struct item {
    uint32_t key;
    int index;
} item;

static int by_key(const void *a, const void *b) {
    const item *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->index - y->index;
}

/* Marks what is kept, by the definition. */
static void keep_sorted(bool *kept, const uint32_t *keys, const float *masses, int n, double wanted) {
    static item items[MOST];
    double sum = 0;
    for (int i = 0; i < n; i++) items[i] = (item){keys[i], i}, kept[i] = false;
    qsort(items, (size_t)n, sizeof *items, by_key);
    for (int i = 0; i < n && (i == 0 || sum < wanted); i++) {
        kept[items[i].index] = true;
        sum += masses ? (double)masses[items[i].index] : 1;
    }
}

static void compare(const uint32_t *keys, const float *masses, int n, double wanted) {
    static bool kept[MOST];
    static int32_t scratch[MOST];
    keep_sorted(kept, keys, masses, n, wanted);
    const rank_cut cut = rank_by_mass(keys, masses, n, wanted, scratch);
    int n_equal = cut.n_equal;
    for (int i = 0; i < n; i++) {
        const bool stays = keys[i] < cut.key || (keys[i] == cut.key && n_equal-- > 0);
        if (stays != kept[i]) fail_msg("%d items, %g wanted: item %d with key %#x", n, wanted, i, keys[i]);
    }
}

static uint32_t make_key(int kind, uint64_t i) {
    const double u = rng_uniform(1, (uint64_t)kind, i);
    switch (kind) {
    case 0:
        return (uint32_t)(u * 4294967296.0);
    case 1:
        return 7;
    case 2:
        return (uint32_t)(u * 5);
    case 3:
        return 0x3F800000u + (uint32_t)(u * 70000);
    case 4:
        return u < 0.01 ? UINT32_MAX : u < 0.02 ? 0 : (uint32_t)(u * u * u * 1e6);
    default:
        return (uint32_t)i; /* sorted already */
    }
}

static void cuts_agree_with_sorting(void **state) {
    static const int sizes[] = {1, 2, 47, 48, 49, 50, 1000, MOST};
    static const double shares[] = {0, 1e-9, 0.1, 0.5, 0.93, 0.9999, 1, 2};
    static uint32_t keys[MOST];
    static float masses[MOST];
    for (int kind = 0; kind < 6; kind++) {
        for (size_t s = 0; s < HARNESS_COUNT(sizes); s++) {
            double sum = 0;
            for (int i = 0; i < sizes[s]; i++) {
                keys[i] = make_key(kind, (uint64_t)i);
                sum += masses[i] = (float)(1 + (int)(rng_uniform(2, 0, (uint64_t)i) * 1000)); /* sums are exact */
            }
            for (size_t k = 0; k < HARNESS_COUNT(shares); k++) {
                compare(keys, masses, sizes[s], sum * shares[k]);
                compare(keys, NULL, sizes[s], (int)(sizes[s] * shares[k]));
            }
        }
    }
}

static void sorting_sorts(void **state) {
    static uint32_t keys[MOST], scratch[MOST];
    for (int kind = 0; kind < 6; kind++) {
        uint64_t before = 0, after = 0;
        for (int i = 0; i < MOST; i++) before += keys[i] = make_key(kind, (uint64_t)i);
        rank_sort(keys, MOST, scratch);
        for (int i = 0; i < MOST; i++) after += keys[i];
        assert_int_equal(before, after);
        for (int i = 1; i < MOST; i++) assert_true(keys[i - 1] <= keys[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuts_agree_with_sorting), cmocka_unit_test(sorting_sorts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
