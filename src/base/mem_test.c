/* mem_test.c — overflow checks, the injected fault, arenas and big blocks. */
#include "mem.h"
#include "harness.h"

static void refuses_overflow(void **state) {
    static const struct {
        size_t count, size;
    } cases[] = {
        {SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 2 + 1, 2}, {(size_t)1 << 32, (size_t)1 << 32}, {SIZE_MAX, 1}};
    arena a = {0};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        assert_null(mem_array(cases[i].count, cases[i].size));
        assert_null(mem_zarray(cases[i].count, cases[i].size));
        assert_null(mem_resize(NULL, cases[i].count, cases[i].size));
        assert_null(arena_get(&a, cases[i].count, cases[i].size));
    }
    assert_null(mem_big(SIZE_MAX));
    assert_null(mem_big(SIZE_MAX - 8192));
    assert_null(mem_copy_text("", SIZE_MAX));
    assert_null(arena_text(&a, "", SIZE_MAX));
    assert_int_equal(a.total_bytes, 0);
}

static void arithmetic_tells_overflow(void **state) {
    size_t out;
    assert_true(mem_mul(3, 5, &out) && out == 15);
    assert_true(mem_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(mem_add(SIZE_MAX, 1, &out));
    assert_false(mem_mul(SIZE_MAX / 3 + 1, 3, &out));
}

static void empty_is_not_null(void **state) {
    void *const got[] = {mem_array(0, 8), mem_zarray(0, 8), mem_resize(NULL, 0, 1), mem_copy(NULL, 0, 4),
                         mem_copy_text(NULL, 0)};
    for (size_t i = 0; i < HARNESS_COUNT(got); i++) {
        assert_non_null(got[i]);
        mem_free(got[i]);
    }
    mem_free(NULL);
}

static void copies(void **state) {
    char *text = mem_copy_text("hello", 4);
    assert_string_equal(text, "hell");
    const int numbers[] = {1, 2, 3};
    int *same = mem_copy(numbers, 3, sizeof *numbers);
    assert_memory_equal(same, numbers, sizeof numbers);
    mem_free(text);
    mem_free(same);
}

static void fails_when_told(void **state) {
    mem_fail_after(2);
    void *a = mem_array(1, 1), *b = mem_zarray(1, 1);
    assert_true(a && b);
    assert_null(mem_array(1, 1));
    assert_null(mem_zarray(1, 1));
    assert_null(mem_resize(a, 2, 1));
    assert_null(mem_big(1));
    assert_int_equal(mem_count(), 2);
    mem_fail_after(-1);
    assert_int_equal(mem_count(), 0);
    a = mem_resize(a, 2, 1);
    assert_non_null(a);
    mem_free(a);
    mem_free(b);
}

static void big_blocks_are_aligned_and_zero(void **state) {
    static const size_t sizes[] = {0, 1, 4096, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    for (size_t i = 0; i < HARNESS_COUNT(sizes); i++) {
        uint8_t *at = mem_big(sizes[i]);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % (sizes[i] >= 2 << 20 ? 2 << 20 : 4096), 0);
        for (size_t k = 0; k < sizes[i]; k += 511) assert_int_equal(at[k], 0);
        memset(at, 1, sizes[i]);
        mem_big_free(at, sizes[i]);
    }
    mem_big_free(NULL, 10);
}

static void arena_pieces_do_not_overlap(void **state) {
    arena a = {.block_bytes = 256};
    enum { N = 300 };
    uint8_t *pieces[N];
    for (int i = 0; i < N; i++) {
        pieces[i] = arena_get(&a, (size_t)i, 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], i, (size_t)i);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++) assert_int_equal(pieces[i][k], (uint8_t)i);
    uint8_t *zeros = arena_zget(&a, 100, 3);
    for (int i = 0; i < 300; i++) assert_int_equal(zeros[i], 0);
    assert_string_equal(arena_text(&a, "abcdef", 3), "abc");
    arena_free(&a);
    assert_true(!a.blocks && !a.total_bytes);
}

static void arena_reset_keeps_one_block(void **state) {
    arena a = {.block_bytes = 64};
    for (int i = 0; i < 50; i++) assert_non_null(arena_get(&a, 60, 1));
    void *large = arena_get(&a, 5000, 1);
    assert_non_null(large);
    arena_reset(&a);
    const size_t kept = a.total_bytes;
    assert_in_range(kept, 5000, 5100);
    assert_ptr_equal(arena_get(&a, 5000, 1), large);
    assert_int_equal(a.total_bytes, kept);
    arena_free(&a);
    arena_reset(&a);
}

static void arena_keeps_its_limit(void **state) {
    arena a = {.block_bytes = 1024, .limit_bytes = 4096};
    int got = 0;
    while (arena_get(&a, 512, 1)) got++;
    assert_in_range(got, 4, 8);
    assert_in_range(a.total_bytes, 1, 4096);
    assert_null(arena_get(&a, 4096, 1));
    arena_free(&a);
}

static void arena_survives_each_failure(void **state) {
    for (int n = 0; n < 20; n++) {
        arena a = {.block_bytes = 64};
        mem_fail_after(n);
        int got = 0;
        while (got < 30 && arena_get(&a, 64, 1)) got++;
        mem_fail_after(-1);
        assert_int_equal(got, n);
        assert_non_null(arena_get(&a, 64, 1));
        arena_free(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_overflow),
        cmocka_unit_test(arithmetic_tells_overflow),
        cmocka_unit_test(empty_is_not_null),
        cmocka_unit_test(copies),
        cmocka_unit_test(fails_when_told),
        cmocka_unit_test(big_blocks_are_aligned_and_zero),
        cmocka_unit_test(arena_pieces_do_not_overlap),
        cmocka_unit_test(arena_reset_keeps_one_block),
        cmocka_unit_test(arena_keeps_its_limit),
        cmocka_unit_test(arena_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
