/* keys_test.c — key files: made, read, refused, read again; and what a key allows. */
#include "harness.h"
#include "base/mem.h"
#include "keys.h"
#include "slog.h"
#include <fcntl.h>

static char folder[64], path[128];
static slog *silent;

static int set_up(void **state) {
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/keys.yml", folder);
    return slog_new(&silent, -1, SLOG_TEXT, QP_LOG_ERROR, NULL) != QP_OK;
}

static int tear_down(void **state) {
    slog_free(silent);
    harness_remove(folder);
    return 0;
}

static config settings(bool is_off) { return (config){.keys_file = path, .disable_auth = is_off}; }

static qp_status open_text(keys **k, const char *text, qp_error *err) {
    const config c = settings(false);
    harness_write(folder, "keys.yml", text);
    chmod(path, 0600);
    return keys_new(k, &c, silent, err);
}

static void test_levels(void **state) {
    keys *k;
    qp_error err;
    assert_int_equal(open_text(&k, "api_key: [one, \"two\"]\nadmin_key: boss\n", &err), QP_OK);
    assert_int_equal(keys_check(k, "one"), ACCESS_API);
    assert_int_equal(keys_check(k, "two"), ACCESS_API);
    assert_int_equal(keys_check(k, "boss"), ACCESS_ADMIN);
    static const char *const wrong[] = {"", "on", "onee", "ONE", "three", "bos", "bossboss", "oneone", " one"};
    for (size_t i = 0; i < HARNESS_COUNT(wrong); i++) assert_int_equal(keys_check(k, wrong[i]), ACCESS_NONE);
    assert_int_equal(keys_check(k, NULL), ACCESS_NONE);
    keys_free(k);
    assert_int_equal(open_text(&k, "admin_key: boss\n", &err), QP_OK); /* an api key is not needed */
    assert_int_equal(keys_check(k, ""), ACCESS_NONE);
    keys_free(k);
    const config off = settings(true);
    assert_int_equal(keys_new(&k, &off, silent, &err), QP_OK);
    assert_int_equal(keys_check(k, NULL), ACCESS_ADMIN);
    keys_free(k);
}

static void test_refused(void **state) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "found no keys"},
        {"api_key: x\n", "admin_key"},
        {"api_key: x\nadmin_key:\n", "admin_key"},
        {"api_key: [x, [y]]\nadmin_key: z\n", "api_key"},
        {"api_key: {a: b}\nadmin_key: z\n", "api_key"},
        {"api_key: \"a b\"\nadmin_key: z\n", "no blanks"},
        {"api_key: x\nadmin_key: z\nother: y\n", "'other'"},
        {"api_key: x\nadmin_key: z\nadmin_key: y\n", "line 3"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        keys *k;
        qp_error err = {0};
        assert_int_not_equal(open_text(&k, cases[i].text, &err), QP_OK);
        assert_null(k);
        if (!strstr(err.text, cases[i].part)) fail_msg("%s: %s", cases[i].text, err.text);
    }
}

static void test_made(void **state) {
    keys *k;
    qp_error err;
    struct stat about;
    char text[200] = "", api[40], admin[40];
    const config c = settings(false);
    remove(path);
    const int own = dup(2), quiet = open("/dev/null", O_WRONLY); /* they are shown once */
    dup2(quiet, 2);
    const qp_status status = keys_new(&k, &c, silent, &err);
    dup2(own, 2);
    close(own);
    close(quiet);
    assert_int_equal(status, QP_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    FILE *file = fopen(path, "r");
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_int_equal(sscanf(text, "api_key: %32s\nadmin_key: %32s\n", api, admin), 2);
    assert_int_equal(strlen(api), 32);
    assert_string_not_equal(api, admin);
    assert_int_equal(keys_check(k, api), ACCESS_API);
    assert_int_equal(keys_check(k, admin), ACCESS_ADMIN);
    keys_free(k);
}

static void test_read_again(void **state) {
    keys *k;
    assert_int_equal(open_text(&k, "api_key: old\nadmin_key: boss\n", NULL), QP_OK);
    double now = 1000;
    keys_tick(k, now);
    assert_int_equal(keys_check(k, "old"), ACCESS_API);
    harness_write(folder, "keys.yml", "api_key: new\nadmin_key: boss\n");
    const struct timespec later[2] = {{2000000000, 0}, {2000000000, 0}};
    utimensat(AT_FDCWD, path, later, 0);
    keys_tick(k, now + 1); /* looked at every two seconds only */
    assert_int_equal(keys_check(k, "old"), ACCESS_API);
    keys_tick(k, now += 3);
    assert_int_equal(keys_check(k, "old"), ACCESS_NONE);
    assert_int_equal(keys_check(k, "new"), ACCESS_API);
    harness_write(folder, "keys.yml", "api_key: [\n");
    keys_tick(k, now += 3);
    assert_int_equal(keys_check(k, "new"), ACCESS_API);
    remove(path);
    keys_tick(k, now += 3);
    assert_int_equal(keys_check(k, "new"), ACCESS_API);
    keys_free(k);
}

static void test_mark(void **state) {
    char one[5], two[5];
    keys_mark(one, "some key");
    keys_mark(two, "another");
    assert_int_equal(strspn(one, "0123456789abcdef"), 4);
    assert_string_not_equal(one, two);
}

static void test_memory(void **state) {
    const config c = settings(false);
    harness_write(folder, "keys.yml", "api_key: [a, b]\nadmin_key: boss\n");
    for (int64_t n = 0;; n++) {
        keys *k;
        mem_fail_after(n);
        const qp_status status = keys_new(&k, &c, silent, NULL);
        mem_fail_after(-1);
        keys_free(k);
        if (status == QP_OK) break;
        assert_null(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),     cmocka_unit_test(test_refused), cmocka_unit_test(test_made),
        cmocka_unit_test(test_read_again), cmocka_unit_test(test_mark),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
