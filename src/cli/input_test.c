/* input_test.c — ids in both forms, with the place of what is wrong; files, lines and their limits. */
#include "input.h"
#include "base/mem.h"
#include "harness.h"

static const struct {
    const char *text;
    size_t count;
    int32_t last;
} good[] = {
    {"", 0, 0},        {" \n", 0, 0},      {"[]", 0, 0},        {" [ ] \n", 0, 0},
    {"7", 1, 7},       {"1 2\t3\n", 3, 3}, {"[1,2 , 3]", 3, 3}, {"[2147483647]", 1, INT32_MAX},
    {"000012", 1, 12}, {"[5]\r\n", 1, 5},
};

static const struct {
    const char *text;
    size_t at;
    const char *said;
} bad[] = {
    {"[1, 2", 5, "ends where ',' or ']' should be"},
    {"[1, ", 4, "ends where a token id should be"},
    {"[", 1, "ends where a token id should be"},
    {"[1,]", 3, "found ']' at byte 3, expected a token id"},
    {"[1 2]", 3, "found '2]' at byte 3, expected ',' or ']'"},
    {"[1] 2", 4, "found '2' at byte 4, expected the end"},
    {"[[1]]", 1, "expected a token id"},
    {"[-1]", 1, "found '-1]' at byte 1, expected a token id"},
    {"[1.5]", 1, "found '1.5]' at byte 1, expected a token id"},
    {"[\"1\"]", 1, "expected a token id"},
    {"1 two 3", 2, "found 'two' at byte 2, expected a token id"},
    {"1,2", 1, "expected a blank"},
    {"1 2147483648", 2, "found '2147483648' at byte 2, expected a token id"},
    {"99999999999999999999999999", 0, "expected a token id"},
    {"{\"ids\": [1]}", 0, "found '{\"ids\":' at byte 0"},
    {"1 \x01\x1b[31m", 2, "found '??[31m' at byte 2"},
};

static void ids_are_read(void **state) {
    input_ids ids = {NULL, 0, 0};
    for (size_t i = 0; i < HARNESS_COUNT(good); i++) {
        assert_int_equal(input_parse_ids(&ids, good[i].text, strlen(good[i].text), "x", NULL), QP_OK);
        assert_int_equal(ids.count, good[i].count);
        if (ids.count) assert_int_equal(ids.at[ids.count - 1], good[i].last);
    }
    input_free_ids(&ids);
}

static void wrong_ids_have_a_place(void **state) {
    input_ids ids = {NULL, 0, 0};
    for (size_t i = 0; i < HARNESS_COUNT(bad); i++) {
        qp_error err;
        assert_int_equal(input_parse_ids(&ids, bad[i].text, strlen(bad[i].text), "x", &err), QP_BAD_FORMAT);
        if (!strstr(err.text, bad[i].said)) fail_msg("%s: expected \"%s\"", err.text, bad[i].said);
        assert_int_equal(err.offset, bad[i].at);
    }
    const char with_zero[] = "1\0 2";
    assert_int_equal(input_parse_ids(&ids, with_zero, 4, "x", NULL), QP_BAD_FORMAT);
    input_free_ids(&ids);
}

/* Every beginning of a list is a list, or is refused; nothing is read behind it (exact copies, for the sanitizer). */
static void cut_anywhere(void **state) {
    static const char text[] = " [12, 345 ,6] ";
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = mem_copy(text, n ? n : 1, 1);
        input_ids ids = {NULL, 0, 0};
        const qp_status status = input_parse_ids(&ids, copy, n, "x", NULL);
        assert_int_equal(status, n < 2 || n >= 13 ? QP_OK : QP_BAD_FORMAT);
        input_free_ids(&ids);
        mem_free(copy);
    }
}

static void ids_outside_the_vocabulary(void **state) {
    input_ids ids = {NULL, 0, 0};
    qp_error err;
    assert_int_equal(input_parse_ids(&ids, "[1, 99, 100]", 12, "x", NULL), QP_OK);
    assert_int_equal(input_check_ids(&ids, 101, "x", &err), QP_OK);
    assert_int_equal(input_check_ids(&ids, 100, "x", &err), QP_BAD_ARGUMENT);
    assert_string_equal(err.text, "x: id 100 at place 2, the vocabulary has ids 0 to 99");
    input_free_ids(&ids);
}

static void memory_runs_out(void **state) {
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? ' ' : '1';
    int64_t n = 0;
    for (qp_status status = QP_NO_MEMORY; status != QP_OK; n++) {
        input_ids ids = {NULL, 0, 0};
        mem_fail_after(n);
        status = input_parse_ids(&ids, text, sizeof text, "x", NULL);
        mem_fail_after(-1);
        assert_true(status == QP_OK || status == QP_NO_MEMORY);
        if (status == QP_OK) assert_int_equal(ids.count, 2000);
        input_free_ids(&ids);
    }
    assert_true(n > 2);
}

static void files_have_a_limit(void **state) {
    char folder[64], path[128];
    qp_error err;
    harness_folder(folder);
    harness_write(folder, "ten", "0123456789");
    snprintf(path, sizeof path, "%s/ten", folder);
    strbuf text = {0};
    assert_int_equal(input_read(&text, path, 10, &err), QP_OK);
    assert_string_equal(text.at, "0123456789");
    strbuf_clear(&text);
    assert_int_equal(input_read(&text, path, 9, &err), QP_TOO_LARGE);
    strbuf_clear(&text);
    assert_int_equal(input_read(&text, folder, 9, &err), QP_IO); /* a folder */
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(input_read(&text, path, 9, &err), QP_NO_FILE);
    assert_non_null(strstr(err.text, path));
    strbuf_free(&text);
    harness_remove(folder);
}

typedef struct gathered {
    strbuf text;
    int stop_at, n;
} gathered;

static qp_status gather(void *user, const char *line, size_t bytes, const char *where, qp_error *err) {
    gathered *g = user;
    strbuf_format(&g->text, "<%.*s>", (int)bytes, line);
    return ++g->n == g->stop_at ? err_set(err, QP_BAD_FORMAT, 0, "%s", where) : QP_OK;
}

static void lines(void **state) {
    static const char *const cases[][2] = {
        {"", ""}, {"a", "<a>"}, {"a\n", "<a>"}, {"a\n\nb", "<a><><b>"}, {"\n", "<>"}};
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/lines", folder);
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        gathered g = {{0}, 0, 0};
        harness_write(folder, "lines", cases[i][0]);
        assert_int_equal(input_each_line(path, &g, gather, NULL), QP_OK);
        assert_string_equal(g.text.at ? g.text.at : "", cases[i][1]);
        strbuf_free(&g.text);
    }
    gathered g = {{0}, 2, 0};
    qp_error err;
    harness_write(folder, "lines", "a\nb\nc\n");
    assert_int_equal(input_each_line(path, &g, gather, &err), QP_BAD_FORMAT);
    assert_non_null(strstr(err.text, "lines, line 2"));
    assert_string_equal(g.text.at, "<a><b>");
    strbuf_free(&g.text);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_read),       cmocka_unit_test(wrong_ids_have_a_place),
        cmocka_unit_test(cut_anywhere),       cmocka_unit_test(ids_outside_the_vocabulary),
        cmocka_unit_test(files_have_a_limit), cmocka_unit_test(lines),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
