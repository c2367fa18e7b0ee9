/* outfile_test.c — a file is there whole or not at all; listing a folder. */
#include "outfile.h"
#include "harness.h"
#include "file.h"
#include "mem.h"

static char folder[64], target[96];

static int make_folder(void **state) {
    harness_folder(folder);
    snprintf(target, sizeof target, "%s/out", folder);
    return 0;
}

static int remove_folder(void **state) {
    unlink(target);
    return rmdir(folder); /* fails where a partial file was left behind */
}

static size_t entries(void) {
    char **names;
    size_t count;
    assert_int_equal(file_list(&names, &count, folder, 100, NULL), QP_OK);
    mem_free(names);
    return count;
}

static void test_appears_at_commit(void **state) {
    outfile *f;
    char big[200000], *text;
    size_t bytes;
    memset(big, 'b', sizeof big);
    assert_int_equal(outfile_open(&f, target, NULL), QP_OK);
    outfile_add(f, "head", 4);
    outfile_add(f, big, sizeof big);
    outfile_add(f, "", 0);
    for (int i = 0; i < 70000; i++) outfile_add(f, "x", 1);
    assert_false(file_exists(target));
    assert_int_equal(outfile_commit(f, NULL), QP_OK);
    assert_int_equal(file_read(&text, &bytes, target, 1 << 20, NULL), QP_OK);
    assert_int_equal(bytes, 4 + sizeof big + 70000);
    assert_memory_equal(text, "headbbb", 7);
    assert_memory_equal(text + 4 + sizeof big - 1, "bxx", 3);
    assert_int_equal(entries(), 1);
    mem_free(text);
}

static void test_cancel_leaves_the_old(void **state) {
    outfile *f;
    char *text;
    size_t bytes;
    assert_int_equal(file_write(target, "old", 3, NULL), QP_OK);
    assert_int_equal(outfile_open(&f, target, NULL), QP_OK);
    outfile_add(f, "new", 3);
    outfile_cancel(f);
    assert_int_equal(file_read(&text, &bytes, target, 10, NULL), QP_OK);
    assert_string_equal(text, "old");
    assert_int_equal(entries(), 1);
    mem_free(text);
    outfile_cancel(NULL);
}

static void test_two_writers(void **state) {
    outfile *a, *b;
    assert_int_equal(outfile_open(&a, target, NULL), QP_OK);
    assert_int_equal(outfile_open(&b, target, NULL), QP_OK);
    outfile_add(a, "a", 1);
    outfile_add(b, "bb", 2);
    assert_int_equal(outfile_commit(b, NULL), QP_OK);
    assert_int_equal(outfile_commit(a, NULL), QP_OK);
    assert_int_equal(entries(), 1);
}

static void test_failures_are_told(void **state) {
    qp_error err;
    outfile *f;
    char path[128];
    snprintf(path, sizeof path, "%s/none/out", folder);
    assert_int_equal(outfile_open(&f, path, &err), QP_NO_FILE);
    assert_null(f);
    assert_non_null(strstr(err.text, "/none/out: cannot create: "));
    assert_int_not_equal(outfile_open(&f, folder, &err), QP_OK);
    for (int n = 0; n < 3; n++) {
        mem_fail_after(n);
        assert_int_equal(outfile_open(&f, target, &err), QP_NO_MEMORY);
    }
    mem_fail_after(-1);
    if (access("/dev/full", W_OK) != 0) HARNESS_SKIP("no /dev/full to write to");
    assert_int_equal(outfile_open(&f, "/dev/full", &err), QP_OK);
    outfile_add(f, "x", 1);
    assert_int_equal(outfile_commit(f, &err), QP_IO);
}

static void test_list(void **state) {
    char **names;
    size_t count;
    qp_error err;
    assert_int_equal(file_list(&names, &count, QUIPU_SOURCE "/src/base", 1000, &err), QP_OK);
    assert_true(count > 10);
    for (size_t i = 1; i < count; i++) assert_true(strcmp(names[i - 1], names[i]) < 0);
    mem_free(names);
    assert_int_equal(file_list(&names, &count, QUIPU_SOURCE "/src/base", 3, &err), QP_TOO_LARGE);
    assert_null(names);
    assert_int_equal(file_list(&names, &count, QUIPU_SOURCE "/none", 3, &err), QP_NO_FILE);
    for (int n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(file_list(&names, &count, QUIPU_SOURCE "/src/base", 1000, &err), QP_NO_MEMORY);
    }
    mem_fail_after(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appears_at_commit),
        cmocka_unit_test(test_cancel_leaves_the_old),
        cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
