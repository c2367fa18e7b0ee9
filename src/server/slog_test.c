/* slog_test.c — log lines in both formats, and values that would forge lines. */
#include "harness.h"
#include "slog.h"
#include <jansson.h>
#include <math.h>

/* What one call writes, without its time. */
static char *written(slog_format format, void (*write_it)(slog *log)) {
    static char text[4096];
    int ends[2];
    slog *log;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(slog_new(&log, ends[1], format, QP_LOG_INFO, NULL), QP_OK);
    write_it(log);
    close(ends[1]);
    const ssize_t bytes = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    slog_free(log);
    text[bytes > 0 ? bytes : 0] = 0;
    return text;
}

static void write_event(slog *log) {
    const slog_field fields[] = {SLOG_W("plain", "word"), SLOG_W("evil", "a\n{\"event\":\"forged\"}\x1b[31m"),
                                 SLOG_W("empty", ""),     SLOG_W("absent", NULL),
                                 SLOG_N("number", 1.5),   SLOG_N("unknown", NAN),
                                 SLOG_C("count", 7),      SLOG_C("none", -1),
                                 SLOG_B("flag", true)};
    slog_event(log, QP_LOG_INFO, "test", fields, HARNESS_COUNT(fields));
}

static void write_message(slog *log) { slog_say(log, QP_LOG_WARN, "two\nlines \x1b[31m %d", 5); }
static void write_debug(slog *log) { slog_say(log, QP_LOG_DEBUG, "nobody asked"); }

static void test_text(void **state) {
    const char *line = written(SLOG_TEXT, write_event);
    assert_non_null(strstr(line, "Z info  test plain=word evil=\"a\\n{\\\"event\\\":\\\"forged\\\"}\\u001"));
    assert_non_null(strstr(line, " empty=\"\" number=1.500 count=7 flag=true\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_null(strchr(line, '\x1b'));
    line = written(SLOG_TEXT, write_message);
    assert_non_null(strstr(line, "Z warn  message two?lines ?[31m 5\n"));
}

static void test_json(void **state) {
    json_t *line = json_loads(written(SLOG_JSON, write_event), 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "event")), "test");
    assert_string_equal(json_string_value(json_object_get(line, "evil")), "a\n{\"event\":\"forged\"}\x1b[31m");
    assert_int_equal(json_integer_value(json_object_get(line, "count")), 7);
    assert_true(json_is_true(json_object_get(line, "flag")));
    assert_null(json_object_get(line, "absent"));
    assert_null(json_object_get(line, "unknown"));
    assert_null(json_object_get(line, "none"));
    json_decref(line);
    line = json_loads(written(SLOG_JSON, write_message), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "message")), "two\nlines \x1b[31m 5");
    json_decref(line);
}

static void test_levels(void **state) {
    qp_log_level level;
    assert_string_equal(written(SLOG_TEXT, write_debug), "");
    assert_true(slog_read_level("debug", &level) && level == QP_LOG_DEBUG);
    assert_false(slog_read_level("loud", &level));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
