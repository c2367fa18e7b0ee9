/* chat_session_test.c — turns, what fits into a context, files: a round trip is the same bytes, hostile ones are
 * refused with the place. */
#include "chat_session.h"
#include "base/mem.h"
#include "harness.h"

static void must(qp_status status, const qp_error *err) {
    if (status != QP_OK) fail_msg("%s", err->text);
}

static void ask(chat_session *c, const char *text) {
    qp_error err;
    must(chat_session_ask(c, text, strlen(text), &err), &err);
}

static void answer(chat_session *c, const char *text) {
    qp_error err;
    must(chat_session_answer(c, span_of(text), (span){NULL, 0}, &err), &err);
}

static void open_with(chat_session *c, const char *system, size_t turns) {
    qp_error err;
    must(chat_session_open(c, system, false, &err), &err);
    for (size_t i = 0; i < turns; i++) {
        char text[32];
        snprintf(text, sizeof text, "q%zu", i);
        ask(c, text);
        *text = 'a';
        answer(c, text);
    }
}

static void shows(const chat_session *c, const char *wanted) {
    strbuf text = {0};
    qp_error err;
    must(chat_session_text(c, &text, &err), &err);
    assert_string_equal(text.at, wanted);
    strbuf_free(&text);
}

#define SYSTEM(text) "{\"role\":\"system\",\"content\":\"" text "\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

/* ---- turns ---- */

static void turns(void **state) {
    chat_session c;
    open_with(&c, NULL, 1);
    shows(&c, "[" USER("q0") "," ASSISTANT("a0") "]");
    ask(&c, "\xc3\xa9\n\"");
    shows(&c, "[" USER("q0") "," ASSISTANT("a0") "," USER("\xc3\xa9\\n\\\"") "]");
    assert_int_equal(chat_session_turns(&c), 2);
    assert_false(chat_session_reopen(&c)); /* it waits already */
    answer(&c, "");
    assert_true(chat_session_reopen(&c));
    json_t *back = chat_session_undo(&c);
    assert_string_equal(json_string_value(json_object_get(back, "content")), "\xc3\xa9\n\"");
    json_decref(back);
    json_decref(chat_session_undo(&c));
    assert_null(chat_session_undo(&c));
    assert_false(chat_session_reopen(&c));
    shows(&c, "[]");
    chat_session_close(&c);
}

static void system_prompt(void **state) {
    chat_session c;
    qp_error err;
    open_with(&c, "S", 2);
    shows(&c, "[" SYSTEM("S") "," USER("q0") "," ASSISTANT("a0") "," USER("q1") "," ASSISTANT("a1") "]");
    c.folds_system = true;
    shows(&c, "[" USER("S\\n\\nq0") "," ASSISTANT("a0") "," USER("q1") "," ASSISTANT("a1") "]");
    assert_true(chat_session_drop(&c));
    shows(&c, "[" USER("S\\n\\nq1") "," ASSISTANT("a1") "]");
    assert_false(chat_session_drop(&c));
    chat_session_clear(&c);
    shows(&c, "[]");
    c.folds_system = false;
    shows(&c, "[" SYSTEM("S") "]");
    must(chat_session_set_system(&c, "", 0, &err), &err);
    shows(&c, "[]");
    assert_int_equal(chat_session_set_system(&c, "\xff", 1, &err), QP_BAD_FORMAT);
    assert_int_equal(chat_session_ask(&c, "a\xff", 2, &err), QP_BAD_FORMAT);
    chat_session_close(&c);
}

static void amnesia(void **state) {
    chat_session c;
    open_with(&c, "S", 1);
    c.has_amnesia = true;
    ask(&c, "q");
    shows(&c, "[" SYSTEM("S") "," USER("q") "]");
    answer(&c, "a");
    assert_int_equal(chat_session_turns(&c), 1); /* until the next message: it can be saved, or asked again */
    chat_session_close(&c);
}

static void reasoning(void **state) {
    chat_session c;
    qp_error err;
    open_with(&c, NULL, 0);
    ask(&c, "q");
    must(chat_session_answer(&c, span_of("a"), span_of("r"), &err), &err);
    shows(&c, "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"r\"}]");
    chat_session_close(&c);
}

/* ---- the context ---- */

/* Ten tokens a message, and those of `user`. */
static qp_status ten_each(void *user, const char *messages, size_t bytes, size_t *tokens, qp_error *err) {
    json_t *list;
    assert_int_equal(json_parse(&list, messages, bytes, "", NULL), QP_OK);
    size_t *n_calls = user;
    ++*n_calls;
    *tokens = 10 * json_array_size(list);
    json_decref(list);
    return QP_OK;
}

static const struct {
    size_t turns, context, least,
        wanted; /* turns before the new message, of 20 tokens each; it has 10, the system 10 */
    size_t first, dropped;
    qp_status status;
} fits[] = {
    {0, 100, 5, 20, 0, 0, QP_OK},       {3, 100, 5, 20, 0, 0, QP_OK},         {4, 120, 5, 20, 0, 0, QP_OK},
    {4, 119, 5, 20, 4, 2, QP_OK},       {5, 100, 5, 20, 6, 3, QP_OK},         {9, 60, 5, 20, 18, 9, QP_OK},
    {9, 30, 5, 20, 18, 9, QP_OK},       {9, 25, 5, 20, 18, 9, QP_OK},         {9, 24, 5, 20, 0, 0, QP_TOO_LARGE},
    {0, 24, 5, 20, 0, 0, QP_TOO_LARGE}, {1000, 100, 5, 20, 1996, 998, QP_OK}, {3, 10, 50, 20, 0, 0, QP_TOO_LARGE},
};

static void fitting(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(fits); i++) {
        chat_session c;
        size_t n_calls = 0, n_dropped = 99;
        qp_error err;
        open_with(&c, "S", fits[i].turns);
        ask(&c, "new");
        const chat_room room = {fits[i].context, fits[i].least, fits[i].wanted, &n_calls, ten_each};
        const qp_status status = chat_session_fit(&c, &room, &n_dropped, &err);
        if (status != fits[i].status || c.first != fits[i].first || n_dropped != fits[i].dropped)
            fail_msg("case %zu: status %d, first %zu, dropped %zu", i, (int)status, c.first, n_dropped);
        assert_true(n_calls <= 14); /* of a thousand turns: it is a binary search */
        if (status != QP_OK)
            assert_non_null(strstr(err.text, "the message makes a prompt of 20 tokens, the context of"));
        if (status == QP_OK) must(chat_session_fit(&c, &room, &n_dropped, &err), &err);
        assert_int_equal(n_dropped, 0); /* what fits stays */
        chat_session_close(&c);
    }
}

static qp_status refuses(void *user, const char *messages, size_t bytes, size_t *tokens, qp_error *err) {
    return err_set(err, QP_BAD_ARGUMENT, 7, "no");
}

static void measuring_fails(void **state) {
    chat_session c;
    size_t n_dropped;
    qp_error err;
    open_with(&c, NULL, 2);
    ask(&c, "new");
    const chat_room room = {10, 1, 1, NULL, refuses};
    assert_int_equal(chat_session_fit(&c, &room, &n_dropped, &err), QP_BAD_ARGUMENT);
    assert_int_equal(c.first, 0);
    chat_session_close(&c);
}

/* ---- files ---- */

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = mem_zarray(1 << 16, 1);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

static void round_trip(void **state) {
    char folder[64], first[128], second[128];
    harness_folder(folder);
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    for (size_t turns_before = 0; turns_before < 3; turns_before++) {
        chat_session c, back;
        qp_error err;
        json_t *settings = json_pack("{s:f, s:[s], s:b}", "temperature", 0.7, "stop", "\n", "ignore_eos", 1), *found;
        open_with(&c, turns_before ? "S\n\xc3\xa9" : NULL, turns_before);
        c.has_amnesia = turns_before == 2;
        if (turns_before) {
            ask(&c, "q");
            must(chat_session_answer(&c, span_of("a"), span_of("r"), &err), &err);
        }
        must(chat_session_save(&c, settings, first, &err), &err);
        open_with(&back, "other", 5);
        must(chat_session_load(&back, &found, first, &err), &err);
        assert_true(json_equal(found, settings) && json_equal(back.messages, c.messages));
        assert_int_equal(back.has_amnesia, c.has_amnesia);
        must(chat_session_save(&back, found, second, &err), &err);
        char *a = read_text(first), *b = read_text(second);
        assert_string_equal(a, b);
        mem_free(a);
        mem_free(b);
        json_decref(settings);
        json_decref(found);
        chat_session_close(&c);
        chat_session_close(&back);
    }
    harness_remove(folder);
}

static const struct {
    const char *text, *says;
} hostile[] = {
    {"", "not valid JSON"},
    {"{\"messages\": [", "line 1, column 14"},
    {"[]", "an array, expected an object"},
    {"{}", "messages"},
    {"{\"messages\": 5}", "\"messages\" is an integer, expected an array"},
    {"{\"messages\": [5]}", "message 1: found an integer, expected an object"},
    {"{\"messages\": [{\"content\": \"a\"}]}", "message 1: \"role\""},
    {"{\"messages\": [{\"role\": \"user\"}]}", "message 1: \"content\""},
    {"{\"messages\": [{\"role\": \"user\", \"content\": []}]}", "message 1: \"content\" is an array"},
    {"{\"messages\": [{\"role\": \"tool\\u001b[31m\", \"content\": \"a\"}]}",
     "\"role\" is \"tool?[31m\", expected \"user\""},
    {"{\"messages\": [" USER("a") "," USER("b") "]}", "message 2: \"role\" is \"user\", expected \"assistant\""},
    {"{\"messages\": [" USER("a") "," ASSISTANT("b") "," SYSTEM("s") ","
                                                                     "]}",
     "line 1"},
    {"{\"messages\": [" USER("a") "," ASSISTANT("b") "," SYSTEM("s") "]}", "message 3: \"role\" is \"system\""},
    {"{\"messages\": [" USER("a") "]}", "ends with message 1 of a user"},
    {"{\"messages\": [{\"role\": \"system\"}]}", "message 1: \"content\" is missing"},
    {"{\"system\": 5, \"messages\": []}", "\"system\" is an integer"},
    {"{\"settings\": [], \"messages\": []}", "\"settings\" is an array"},
    {"{\"amnesia\": 1, \"messages\": []}", "\"amnesia\" is an integer"},
    {"{\"messages\": [" USER("a") ",{\"role\": \"assistant\", \"content\": \"b\", \"reasoning_content\": 1}]}",
     "message 2: \"reasoning_content\""},
};

static void hostile_files(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    chat_session c;
    qp_error err;
    json_t *settings;
    open_with(&c, "S", 1);
    for (size_t i = 0; i < HARNESS_COUNT(hostile); i++) {
        harness_write(folder, "file", hostile[i].text);
        assert_int_equal(chat_session_load(&c, &settings, path, &err), QP_BAD_FORMAT);
        if (!strstr(err.text, hostile[i].says) || !strstr(err.text, path)) fail_msg("case %zu: %s", i, err.text);
        assert_null(settings);
        shows(&c, "[" SYSTEM("S") "," USER("q0") "," ASSISTANT("a0") "]");
    }
    snprintf(path, sizeof path, "%s/nowhere", folder);
    assert_int_equal(chat_session_load(&c, &settings, path, &err), QP_NO_FILE);
    assert_int_equal(chat_session_load(&c, &settings, folder, &err), QP_BAD_ARGUMENT);
    chat_session_close(&c);
    harness_remove(folder);
}

/* Of a good file every beginning is refused, or is the whole. */
static void cut_files(void **state) {
    static const char whole[] =
        "{\"system\": \"S\", \"settings\": {\"top_k\": 5}, \"messages\": [" USER("a") "," ASSISTANT("b") "]}";
    char folder[64], path[128], cut[sizeof whole];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t n = 0; n < sizeof whole; n++) {
        chat_session c;
        qp_error err;
        json_t *settings;
        open_with(&c, NULL, 0);
        snprintf(cut, n + 1, "%s", whole);
        harness_write(folder, "file", cut);
        const qp_status status = chat_session_load(&c, &settings, path, &err);
        assert_int_equal(status, n + 1 == sizeof whole ? QP_OK : QP_BAD_FORMAT);
        json_decref(settings);
        chat_session_close(&c);
    }
    harness_remove(folder);
}

/* What other programs write: the system prompt as the first message, keys that are not ours. */
static void foreign_files(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    harness_write(
        folder, "file",
        "{\"model\": \"x\", \"messages\": [" SYSTEM("S") ",{\"role\": \"user\", \"name\": \"n\", \"content\": "
                                                         "\"a\"}," ASSISTANT("b") "]}");
    chat_session c;
    qp_error err;
    json_t *settings;
    open_with(&c, "other", 2);
    must(chat_session_load(&c, &settings, path, &err), &err);
    assert_null(settings);
    shows(&c, "[" SYSTEM("S") "," USER("a") "," ASSISTANT("b") "]");
    chat_session_close(&c);
    harness_remove(folder);
}

static void nothing_else_is_overwritten(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    chat_session c;
    qp_error err;
    json_t *settings = json_object();
    open_with(&c, NULL, 1);
    harness_write(folder, "file", "my thesis");
    assert_int_equal(chat_session_save(&c, settings, path, &err), QP_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "it is left alone"));
    char *text = read_text(path);
    assert_string_equal(text, "my thesis");
    mem_free(text);
    snprintf(path, sizeof path, "%s/none/file", folder);
    assert_int_equal(chat_session_save(&c, settings, path, &err), QP_NO_FILE);
    json_decref(settings);
    chat_session_close(&c);
    harness_remove(folder);
}

static qp_status run_once(const char *path, qp_error *err) {
    chat_session c, back;
    json_t *settings = json_object(), *found = NULL;
    strbuf text = {0};
    size_t n_calls = 0, n_dropped;
    const chat_room room = {40, 1, 5, &n_calls, ten_each};
    qp_status status = chat_session_open(&c, "S", false, err), reopened = chat_session_open(&back, NULL, false, err);
    for (int i = 0; i < 3 && status == QP_OK; i++) {
        if (i) status = chat_session_answer(&c, SPAN("a"), SPAN("r"), err);
        if (status == QP_OK) status = chat_session_ask(&c, "q", 1, err);
        if (status == QP_OK) status = chat_session_fit(&c, &room, &n_dropped, err);
    }
    if (status == QP_OK) status = chat_session_answer(&c, SPAN("a"), SPAN(""), err);
    if (status == QP_OK) status = chat_session_text(&c, &text, err);
    if (status == QP_OK) status = chat_session_save(&c, settings, path, err);
    if (status == QP_OK) status = reopened;
    if (status == QP_OK) status = chat_session_load(&back, &found, path, err);
    strbuf_free(&text);
    json_decref(settings);
    json_decref(found);
    chat_session_close(&c);
    chat_session_close(&back);
    return status;
}

static void memory_ends(void **state) {
    char folder[64], path[128];
    harness_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    qp_status status = QP_NO_MEMORY;
    int64_t n = 0;
    for (; status != QP_OK && n < 1000; n++) {
        qp_error err;
        remove(path);
        mem_fail_after(n);
        status = run_once(path, &err);
        mem_fail_after(-1);
        if (status != QP_OK) assert_int_equal(status, QP_NO_MEMORY);
    }
    assert_true(status == QP_OK && n > 5);
    harness_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns),
        cmocka_unit_test(system_prompt),
        cmocka_unit_test(amnesia),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(fitting),
        cmocka_unit_test(measuring_fails),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(foreign_files),
        cmocka_unit_test(nothing_else_is_overwritten),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
