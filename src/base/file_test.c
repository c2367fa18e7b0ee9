/* file_test.c — files that are empty, missing, folders, fifos, too large, unreadable; and advice out of range. */
#include "file.h"
#include "mem.h"
#include "harness.h"

static char folder[64];

static int make_folder(void **state) { return harness_folder(folder), 0; }
static int remove_folder(void **state) { return harness_remove(folder), 0; }

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void reads_and_maps_what_was_written(void **state) {
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000};
    for (size_t i = 0; i < HARNESS_COUNT(sizes); i++) {
        char *bytes = mem_array(sizes[i], 1), *text;
        for (size_t k = 0; k < sizes[i]; k++) bytes[k] = (char)(k * 7 + i);
        assert_int_equal(file_write(in_folder("data"), bytes, sizes[i], NULL), QP_OK);
        size_t got;
        assert_int_equal(file_read(&text, &got, in_folder("data"), sizes[i], NULL), QP_OK);
        assert_int_equal(got, sizes[i]);
        assert_memory_equal(text, bytes, got);
        assert_int_equal(text[got], 0);
        file_map map;
        assert_int_equal(file_map_open(&map, in_folder("data"), NULL), QP_OK);
        assert_int_equal(map.bytes, sizes[i]);
        assert_non_null(map.at);
        assert_memory_equal(map.at, bytes, sizes[i]);
        file_map_close(&map);
        assert_true(!map.at && !map.bytes);
        file_map_close(&map);
        mem_free(text);
        mem_free(bytes);
    }
}

static void refuses_what_is_no_file(void **state) {
    static const struct {
        const char *name;
        qp_status status;
        const char *says;
    } cases[] = {
        {"missing", QP_NO_FILE, "cannot open: No such file or directory"},
        {"data/below", QP_NO_FILE, "cannot open: Not a directory"},
        {".", QP_BAD_ARGUMENT, "is a folder, a regular file is needed"},
        {"fifo", QP_BAD_ARGUMENT, "is not a file, a regular file is needed"},
    };
    harness_write(folder, "data", "x");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        qp_error err;
        file_map map = {(const uint8_t *)"x", 1};
        char *text = folder;
        size_t bytes;
        assert_int_equal(file_map_open(&map, in_folder(cases[i].name), &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_non_null(strstr(err.text, cases[i].name));
        assert_null(map.at);
        assert_int_equal(file_read(&text, &bytes, in_folder(cases[i].name), 100, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_null(text);
    }
}

static void refuses_over_the_limit(void **state) {
    qp_error err;
    char *text;
    size_t bytes;
    harness_write(folder, "data", "12345");
    assert_int_equal(file_read(&text, &bytes, in_folder("data"), 5, &err), QP_OK);
    mem_free(text);
    assert_int_equal(file_read(&text, &bytes, in_folder("data"), 4, &err), QP_TOO_LARGE);
    assert_non_null(strstr(err.text, "5 bytes, at most 4 are allowed"));
    assert_int_equal(file_read(&text, &bytes, "/proc/self/mountinfo", 3, &err), QP_TOO_LARGE);
    assert_null(text);
}

static void reads_files_without_a_size(void **state) {
    char *text;
    size_t bytes;
    assert_int_equal(file_read(&text, &bytes, "/proc/self/status", 1 << 20, NULL), QP_OK);
    assert_int_equal(strlen(text), bytes);
    assert_non_null(strstr(text, "\nPid:"));
    mem_free(text);
    assert_int_equal(file_read(&text, &bytes, "/proc/self/maps", 1 << 20, NULL), QP_OK);
    assert_non_null(strstr(text, "[stack]"));
    mem_free(text);
}

static void write_errors_are_told(void **state) {
    qp_error err;
    assert_int_equal(file_write(in_folder("no/such/folder"), "x", 1, &err), QP_NO_FILE);
    if (access("/dev/full", W_OK) != 0) HARNESS_SKIP("/dev/full is missing");
    assert_int_equal(file_write("/dev/full", "x", 1, &err), QP_IO);
    assert_non_null(strstr(err.text, "/dev/full: cannot write: No space left"));
}

static void memory_failures_are_told(void **state) {
    harness_write(folder, "data", "12345");
    static const char *const paths[] = {NULL, "/proc/self/maps"};
    for (size_t i = 0; i < HARNESS_COUNT(paths); i++) {
        char *text = folder;
        size_t bytes;
        mem_fail_after(0);
        const qp_status status = file_read(&text, &bytes, paths[i] ? paths[i] : in_folder("data"), 1 << 20, NULL);
        mem_fail_after(-1);
        assert_int_equal(status, QP_NO_MEMORY);
        assert_null(text);
    }
}

static void advice_out_of_range_is_harmless(void **state) {
    file_map map;
    harness_write(folder, "data", "12345");
    assert_int_equal(file_map_open(&map, in_folder("data"), NULL), QP_OK);
    static const size_t values[] = {0, 1, 4, 5, 6, 4096, SIZE_MAX};
    for (size_t i = 0; i < HARNESS_COUNT(values); i++)
        for (size_t k = 0; k < HARNESS_COUNT(values); k++) {
            file_map_will_need(&map, values[i], values[k]);
            file_map_wont_need(&map, values[i], values[k]);
        }
    assert_memory_equal(map.at, "12345", 5);
    file_map_close(&map);
}

static void asks_and_joins(void **state) {
    qp_error err;
    char path[8];
    harness_write(folder, "data", "");
    assert_true(file_exists(folder) && file_is_folder(folder));
    assert_true(file_exists(in_folder("data")) && !file_is_folder(in_folder("data")));
    assert_false(file_exists(in_folder("none")) || file_is_folder(in_folder("none")));
    uint64_t bytes, written, later;
    char real[4096], again[4096], dots[256];
    assert_true(file_stamp(&bytes, &written, in_folder("data")) && written > 0);
    assert_false(file_stamp(&bytes, &later, in_folder("none")));
    assert_int_equal(file_real(real, sizeof real, in_folder("data"), NULL), QP_OK);
    snprintf(dots, sizeof dots, "%s/./data", folder);
    assert_int_equal(file_real(again, sizeof again, dots, NULL), QP_OK);
    assert_string_equal(real, again);
    assert_int_equal(file_real(real, sizeof real, in_folder("none"), &err), QP_NO_FILE);
    assert_int_equal(file_real(real, 3, in_folder("data"), &err), QP_TOO_LARGE);
    file_remove(in_folder("none"));
    assert_int_equal(file_join(path, sizeof path, "abc", "def", &err), QP_OK);
    assert_string_equal(path, "abc/def");
    assert_int_equal(file_join(path, sizeof path, "abc", "defg", &err), QP_TOO_LARGE);
    assert_string_equal(err.text, "abc/defg: the path is longer than 7 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_and_maps_what_was_written, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(refuses_over_the_limit, make_folder, remove_folder),
        cmocka_unit_test(reads_files_without_a_size),
        cmocka_unit_test_setup_teardown(write_errors_are_told, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(memory_failures_are_told, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(advice_out_of_range_is_harmless, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(asks_and_joins, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
