/* chat_history_test.c — where it is kept, what comes back, who may read it, what does not belong there. */
#include "chat_history.h"
#include "base/str.h"
#include "harness.h"

static const struct {
    const char *state, *home, *wanted;
} places[] = {
    {"/s", "/h", "/s/quipu/chat_history"},
    {NULL, "/h", "/h/.local/state/quipu/chat_history"},
    {"relative", "/h", "/h/.local/state/quipu/chat_history"}, /* XDG: to be ignored */
    {"", "/h", "/h/.local/state/quipu/chat_history"},
    {"/s", NULL, "/s/quipu/chat_history"},
    {NULL, NULL, NULL},
    {NULL, "", NULL},
    {NULL, "relative", NULL},
};

static void set(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void paths(void **state) {
    char path[128];
    for (size_t i = 0; i < HARNESS_COUNT(places); i++) {
        set("XDG_STATE_HOME", places[i].state);
        set("HOME", places[i].home);
        assert_int_equal(chat_history_path(path, sizeof path), places[i].wanted != NULL);
        if (places[i].wanted) assert_string_equal(path, places[i].wanted);
    }
    set("HOME", "/h");
    assert_false(chat_history_path(path, 10));
}

static void note(void *user, const char *text) {
    strbuf_text(user, text);
    strbuf_char(user, '|');
}

static void loads(const char *path, const char *wanted) {
    strbuf seen = {0};
    qp_error err;
    if (chat_history_load(path, &seen, note, &err) != QP_OK) fail_msg("%s", err.text);
    assert_string_equal(seen.at ? seen.at : "", wanted);
    strbuf_free(&seen);
}

static mode_t mode_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void kept(void **state) {
    char folder[64], path[128];
    qp_error err;
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/a/b/history", folder);
    loads(path, "");
    assert_int_equal(chat_history_add(path, "one", 3, &err), QP_OK);
    assert_int_equal(chat_history_add(path, "two\nlines \"\xc3\xa9", 13, &err), QP_OK);
    loads(path, "one|two\nlines \"\xc3\xa9|");
    assert_int_equal(mode_of(path), 0600);
    snprintf(path, sizeof path, "%s/a/b", folder);
    assert_int_equal(mode_of(path), 0700);
    harness_write(folder, "torn", "\"a\"\nnonsense\n5\n\"\"\n\"\\u0000\"\n\"b\"\n\"c");
    snprintf(path, sizeof path, "%s/torn", folder);
    loads(path, "a|b|");
    assert_int_equal(chat_history_add("/proc/nowhere/x", "a", 1, &err), QP_IO);
    assert_int_equal(chat_history_load(folder, NULL, note, &err), QP_BAD_ARGUMENT);
    harness_remove(folder);
}

static void count_one(void *user, const char *text) { ++*(size_t *)user; }

static void shortened(void **state) {
    char folder[64], path[128];
    qp_error err;
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/h", folder);
    for (size_t lines = 2 * CHAT_HISTORY_KEPT; lines < 2 * CHAT_HISTORY_KEPT + 2; lines++) {
        FILE *file = fopen(path, "w");
        for (size_t i = 0; i < lines; i++) fprintf(file, "\"%zu\"\n", i);
        fclose(file);
        for (size_t again = 0; again < 2; again++) {
            size_t n = 0;
            assert_int_equal(chat_history_load(path, &n, count_one, &err), QP_OK);
            assert_int_equal(n, CHAT_HISTORY_KEPT);
        }
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_true((st.st_size < 8000) == (lines > 2 * CHAT_HISTORY_KEPT));
    }
    assert_int_equal(mode_of(path), 0600);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths), cmocka_unit_test(kept), cmocka_unit_test(shortened)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
