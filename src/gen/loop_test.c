/* loop_test.c — repeated pieces are found at the token that completes them, and nothing else is. */
#include "loop.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N = 2000 };

/* Feeds `lead` different tokens, then a piece of `period` again and again; the tokens fed when it was found. */
static size_t found_after(size_t lead, int period, int repeats, int *found) {
    loop_watch *l = calloc(1, sizeof *l);
    int32_t ids[N];
    l->repeats = repeats;
    size_t n = 0;
    for (*found = 0; !*found && n < N; n++) {
        ids[n] = n < lead ? (int32_t)(1000 + n) : (int32_t)((n - lead) % (size_t)period);
        *found = loop_feed(l, ids, n + 1);
    }
    free(l);
    return n;
}

static void a_loop_is_found_when_it_is_complete(void **state) {
    static const struct {
        size_t lead;
        int period, repeats;
        size_t needs;
    } cases[] = {{0, 1, 2, 64}, {10, 1, 100, 100}, {3, 7, 4, 64}, {0, 50, 3, 150}, {100, 512, 3, 1536}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int period;
        assert_int_equal(found_after(cases[i].lead, cases[i].period, cases[i].repeats, &period),
                         cases[i].lead + cases[i].needs);
        assert_int_equal(period, cases[i].period);
    }
}

static void what_does_not_repeat_is_no_loop(void **state) {
    int period;
    assert_int_equal(found_after(0, 600, 2, &period), N); /* longer than is looked for */
    assert_int_equal(period, 0);
    assert_int_equal(found_after(N, 1, 2, &period), N);
    assert_int_equal(period, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_loop_is_found_when_it_is_complete),
                                       cmocka_unit_test(what_does_not_repeat_is_no_loop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
