/* turn_test.c — the answers of each dialect, byte for byte as annex B of the server's specification has them. */
#include "harness.h"
#include "reply.h"
#include "route.h"
#include "turn.h"
#include "base/mem.h"
#include <math.h>

/* ---- a small world: tokens are words, ids of objects are counted ---- */

static const char *const words[] = {"?", "hm", "Hi", " \xf0\x9f\x98\x80", "a", "Hi", "\xf0\x9f", "\x98\x80"};

typedef struct world {
    strbuf sent;
    int n_ids;
} world;

static int word_bytes(void *user, int32_t id, char *out, size_t capacity) {
    const size_t n = strlen(words[id]);
    memcpy(out, words[id], n);
    return (int)n;
}

/* "call_0123456789abcdef01234567", "call_1123..." for tools; "rs_1", "msg_1" for items. */
static void counted_id(void *user, char *out, size_t capacity, const char *prefix, int digits) {
    world *w = user;
    if (digits == 24)
        snprintf(out, capacity, "%s%x123456789abcdef01234567", prefix, w->n_ids++);
    else
        snprintf(out, capacity, "%s1", prefix);
}

static void short_id(void *user, char *out, size_t capacity, const char *prefix, int digits) {
    snprintf(out, capacity, "%s1", prefix);
}

static void send(void *user, const char *event, size_t bytes) { strbuf_add(&((world *)user)->sent, event, bytes); }

static const char tools_json[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
static const thought_format think = {"<think>", "</think>"};

static turn_setup setup_of(world *w, const dialect *d, const char *id) {
    return (turn_setup){.dialect = d,
                        .id = id,
                        .model = "tiny",
                        .fingerprint = "q1",
                        .created = 1790000000,
                        .n_prompts = 1,
                        .n = 1,
                        .is_stream = true,
                        .is_limited = true,
                        .reasoning_field = "reasoning_content",
                        .prompt_tokens = 12,
                        .cached_tokens = 8,
                        .token_bytes = word_bytes,
                        .make_id = counted_id,
                        .send = send,
                        .user = w};
}

static void feed(turn *t, const char *text) {
    const qp_event e = {.kind = QP_EVENT_TEXT, .text = text, .text_bytes = strlen(text)};
    turn_feed(t, 0, &e);
}

static void feed_ids(turn *t, const char *text, const int32_t *ids, const qp_token *tokens, size_t n) {
    const qp_event e = {.text = text, .text_bytes = strlen(text), .ids = ids, .n_ids = n, .tokens = tokens};
    turn_feed(t, 0, &e);
}

static void end(turn *t, qp_finish finish, size_t new_tokens) {
    const qp_event e = {.kind = QP_EVENT_END,
                        .finish = finish,
                        .text = "",
                        .stop_id = finish == QP_FINISH_EOS ? 2 : -1,
                        .stats = {.prompt_tokens = 12,
                                  .cached_tokens = 8,
                                  .new_tokens = new_tokens,
                                  .prefill_s = 0.01,
                                  .decode_s = 0.02,
                                  .total_s = 0.03}};
    turn_end_choice(t, 0, &e, NULL);
    turn_finish(t);
    assert_false(t->failed);
}

/* The lines of a golden file, each event with its blank line; comments of the transport left out. */
static void compare(const world *w, const char *name) {
    char path[256], line[8192];
    strbuf expected = {0};
    snprintf(path, sizeof path, QUIPU_SOURCE "/tests/golden/server/%s", name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is missing", path);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, ": ping", 6)) continue;
        strbuf_format(&expected, "%s\n%s", line, !strncmp(line, "data", 4) ? "\n" : "");
    }
    fclose(file);
    for (size_t i = 0; i < expected.bytes && i < w->sent.bytes; i++)
        if (expected.at[i] != w->sent.at[i])
            fail_msg("%s differs at %zu:\n found    %.300s\n expected %.300s", name, i,
                     w->sent.at + (i > 80 ? i - 80 : 0), expected.at + (i > 80 ? i - 80 : 0));
    assert_int_equal(expected.bytes, w->sent.bytes);
    strbuf_free(&expected);
}

static const char chat_id[] = "chatcmpl-00000000000000000000000000000001";

/* B1 */
static void test_chat(void **state) {
    world w = {.n_ids = 0};
    turn_setup setup = setup_of(&w, &dialect_chat, chat_id);
    setup.include_usage = setup.wants_logprobs = true;
    setup.n_top = 1;
    setup.speech.thoughts = &think;
    turn *t = turn_new(&setup);
    feed(t, "<think>");
    feed(t, "hm</think>");
    const qp_candidate top = {5, 0.9f, -0.1f};
    const qp_token hi = {.id = 5, .logprob = -0.1f, .top = &top, .n_top = 1};
    const int32_t id = 5;
    feed_ids(t, "Hi", &id, &hi, 1);
    feed(t, " \xf0\x9f\x98\x80");
    t->choices[0].n_thought_tokens = 0;
    end(t, QP_FINISH_EOS, 2);
    compare(&w, "chat_stream.txt");
    assert_string_equal(t->choices[0].text.at, "Hi \xf0\x9f\x98\x80");
    turn_free(t);
    strbuf_free(&w.sent);
}

/* B2: calls by hand, because the golden's first one is cut in its middle. */
static void test_calls(void **state) {
    world w = {.n_ids = 0};
    const turn_setup setup = setup_of(&w, &dialect_chat, chat_id);
    turn *t = turn_new(&setup);
    turn_choice *c = &t->choices[0];
    char name[] = "f";
    turn_call calls[] = {{"call_0123456789abcdef01234567", name, {0}, false},
                         {"call_1123456789abcdef01234567", name, {0}, true}};
    const turn_part parts[] = {{SAY_CALL, {"", 0}, &calls[0], 0, NULL, 0},
                               {SAY_ARGUMENTS, {"{\"a\":", 5}, &calls[0], 0, NULL, 0},
                               {SAY_CALL, {"", 0}, &calls[1], 1, NULL, 0},
                               {SAY_ARGUMENTS, {"{\"a\":2}", 7}, &calls[1], 1, NULL, 0},
                               {SAY_CALL_END, {"", 0}, &calls[1], 1, NULL, 0}};
    turn_begin(t);
    for (size_t i = 0; i < HARNESS_COUNT(parts); i++) dialect_chat.part(t, c, &parts[i]);
    c->end = (turn_end){.finish = "tool_calls", .eos_reason = "stop_token", .stop_id = -1};
    dialect_chat.close(t, c);
    turn_finish(t);
    compare(&w, "chat_calls.txt");
    turn_free(t);
    strbuf_free(&w.sent);
}

/* B3: the error ends a stream that has begun. */
static void test_error(void **state) {
    world w = {.n_ids = 0};
    const turn_setup setup = setup_of(&w, &dialect_chat, chat_id);
    const route_row row = {HTTP_POST, "/v1/chat/completions", NULL, ACCESS_API, 0, TIER_P0};
    const http_request request = {.route = &row};
    turn *t = turn_new(&setup);
    turn_begin(t);
    strbuf_text(&w.sent, "data: ");
    reply_write_error(&w.sent, &request, FAULT_ENGINE, NULL, "boom");
    strbuf_text(&w.sent, "\n\ndata: [DONE]\n\n");
    compare(&w, "chat_error.txt");
    turn_free(t);
    strbuf_free(&w.sent);
}

/* A thought, a text, a call. */
static turn *speak(world *w, const dialect *d, const char *id, const json_t *tools, size_t new_tokens, bool is_stream) {
    turn_setup setup = setup_of(w, d, id);
    const int32_t hm = 1;
    setup.is_stream = is_stream;
    setup.make_id = short_id;
    setup.speech.tools = tool_format_find("hermes");
    setup.speech.thoughts = &think;
    setup.speech.tool_list = tools;
    turn *t = turn_new(&setup);
    feed_ids(t, "<think>hm", &hm, NULL, 1);
    feed(t, "</think>Hi");
    feed(t, "<tool_call>{\"name\":\"f\",\"arguments\":");
    if (d == &dialect_messages) {
        feed(t, "{\"a\":");
        feed(t, "1}}</tool_call>");
    } else {
        feed(t, "{\"a\":1}}</tool_call>");
    }
    end(t, QP_FINISH_EOS, new_tokens);
    return t;
}

/* B4, and the document equal to its last event. */
static void test_responses(void **state) {
    world w = {.n_ids = 0}, silent = {.n_ids = 0};
    json_t *tools = json_loads(tools_json, 0, NULL);
    turn *t = speak(&w, &dialect_responses, "resp_1", tools, 2, true);
    compare(&w, "responses_stream.txt");
    turn *whole = speak(&silent, &dialect_responses, "resp_1", tools, 2, false);
    strbuf document = {0};
    turn_document(whole, &document);
    assert_int_equal(silent.sent.bytes, 0);
    assert_non_null(strstr(w.sent.at, document.at));
    turn_free(t);
    turn_free(whole);
    json_decref(tools);
    strbuf_free(&document);
    strbuf_free(&w.sent);
}

/* B5, and the same as one document. */
static void test_messages(void **state) {
    world w = {.n_ids = 0}, silent = {.n_ids = 0};
    json_t *tools = json_loads(tools_json, 0, NULL);
    turn *t = speak(&w, &dialect_messages, "msg_1", tools, 8, true);
    compare(&w, "messages_stream.txt");
    turn *whole = speak(&silent, &dialect_messages, "msg_1", tools, 8, false);
    strbuf document = {0};
    turn_document(whole, &document);
    assert_string_equal(
        document.at,
        "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"tiny\",\"content\":[{\"type\":"
        "\"thinking\",\"thinking\":\"hm\",\"signature\":\"x\"},{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":"
        "\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{\"a\":1}}],\"stop_reason\":\"tool_use\","
        "\"stop_sequence\":null,\"usage\":{\"input_tokens\":4,\"output_tokens\":9,\"cache_read_input_tokens\":8,"
        "\"cache_creation_input_tokens\":0}}");
    turn_free(t);
    turn_free(whole);
    json_decref(tools);
    strbuf_free(&document);
    strbuf_free(&w.sent);
}

/* Whole answers: what streams say, joined. */
static void test_chat_document(void **state) {
    world w = {.n_ids = 0};
    json_t *tools = json_loads(tools_json, 0, NULL);
    turn *t = speak(&w, &dialect_chat, chat_id, tools, 2, false);
    strbuf document = {0};
    turn_document(t, &document);
    const char expected[] =
        "{\"id\":\"chatcmpl-00000000000000000000000000000001\",\"object\":\"chat.completion\",\"created\":1790000000,"
        "\"model\":\"tiny\",\"system_fingerprint\":\"q1\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
        "\"assistant\",\"content\":\"Hi\",\"refusal\":null,\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"
        "\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},"
        "\"logprobs\":null,\"finish_reason\":\"tool_calls\",\"stop_reason\":null,\"eos_reason\":\"stop_token\"}],"
        "\"usage\":";
    assert_memory_equal(document.at, expected, sizeof expected - 1);
    assert_int_equal(w.sent.bytes, 0);
    turn_free(t);
    json_decref(tools);
    strbuf_free(&document);
}

/* T46: what ends an answer, in all words. */
static void test_ends(void **state) {
    static const struct {
        qp_finish finish;
        const char *cause, *finish_reason, *eos_reason;
    } rows[] = {
        {QP_FINISH_EOS, NULL, "stop", "stop_token"},
        {QP_FINISH_STOP, NULL, "stop", "stop_string"},
        {QP_FINISH_LENGTH, NULL, "length", "max_new_tokens"},
        {QP_FINISH_FILTER, NULL, "stop", "end_filter"},
        {QP_FINISH_TIMEOUT, NULL, "length", "timeout"},
        {QP_FINISH_LOOP, NULL, "stop", "loop_detected"},
        {QP_FINISH_CANCELLED, "shutdown", "length", "shutdown"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(rows); i++) {
        world w = {.n_ids = 0};
        const turn_setup setup = setup_of(&w, &dialect_chat, "x");
        turn *t = turn_new(&setup);
        const qp_event e = {
            .kind = QP_EVENT_END, .finish = rows[i].finish, .text = "", .stop_text = "END", .stop_id = -1};
        turn_end_choice(t, 0, &e, rows[i].cause);
        assert_string_equal(t->choices[0].end.finish, rows[i].finish_reason);
        assert_string_equal(t->choices[0].end.eos_reason, rows[i].eos_reason);
        assert_true(!t->choices[0].end.stop_text == (rows[i].finish != QP_FINISH_STOP));
        turn_free(t);
        strbuf_free(&w.sent);
    }
}

/* A stop text that the server looks for itself; the stream never shows it, unless asked to. */
static void test_stop(void **state) {
    static const char *const stops[] = {"END"};
    for (int shown = 0; shown < 2; shown++) {
        world w = {.n_ids = 0};
        turn_setup setup = setup_of(&w, &dialect_text, "cmpl-1");
        setup.speech.stops = stops;
        setup.speech.n_stops = 1;
        setup.include_stop = shown;
        turn *t = turn_new(&setup);
        feed(t, "one E");
        assert_null(strstr(w.sent.at, "one E"));
        feed(t, "ND two");
        assert_true(turn_is_over(t, 0));
        feed(t, "more");
        end(t, QP_FINISH_CANCELLED, 5);
        assert_string_equal(t->choices[0].text.at, shown ? "one END" : "one ");
        assert_string_equal(t->choices[0].end.finish, "stop");
        assert_string_equal(t->choices[0].end.stop_text, "END");
        turn_free(t);
        strbuf_free(&w.sent);
    }
}

/* Only repetition over all of the window is a loop. */
static void test_loops(void **state) {
    static const int32_t piece[] = {1, 2, 3};
    for (int bad = 0; bad < 2; bad++) {
        loop_window l = {.window = 30};
        int at = 0;
        for (int i = 0; i < 60 && !at; i++) {
            const int32_t id = bad && i % 20 == 19 ? 9 : piece[i % 3];
            if (loop_window_feed(&l, id)) at = i + 1;
        }
        assert_int_equal(at, bad ? 0 : 30);
    }
    loop_window off = {.window = 0};
    for (int i = 0; i < 2000; i++) assert_false(loop_window_feed(&off, 7));
    loop_window wide = {.window = 100};
    for (int i = 0; i < 3000; i++) assert_false(loop_window_feed(&wide, i % 600)); /* longer than any piece */
}

/* Half characters: tokens without text travel with the text that they complete. (T12, T42) */
static void test_logprobs(void **state) {
    world w = {.n_ids = 0};
    turn_setup setup = setup_of(&w, &dialect_text, "cmpl-1");
    setup.is_stream = false;
    setup.wants_logprobs = true;
    turn *t = turn_new(&setup);
    const int32_t ids[] = {2, 6, 7};
    const qp_token tokens[] = {{.id = 2, .logprob = -1}, {.id = 6, .logprob = -2}, {.id = 7, .logprob = -INFINITY}};
    feed_ids(t, "Hi", &ids[0], &tokens[0], 1);
    feed_ids(t, "", &ids[1], &tokens[1], 1);
    feed_ids(t, "\xf0\x9f\x98\x80", &ids[2], &tokens[2], 1);
    end(t, QP_FINISH_LENGTH, 3);
    strbuf document = {0};
    turn_document(t, &document);
    assert_non_null(strstr(
        document.at, "\"logprobs\":{\"tokens\":[\"Hi\",\"\xef\xbf\xbd\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\"],"
                     "\"token_logprobs\":[-1.0,-2.0,-9999.0],\"top_logprobs\":null,"
                     "\"text_offset\":[0,2,"));
    turn_free(t);
    strbuf_free(&document);
}

/* Every allocation fails once: no crash, nothing leaks. */
static void test_memory(void **state) {
    static const dialect *const all[] = {&dialect_chat, &dialect_text, &dialect_responses, &dialect_messages};
    json_t *tools = json_loads(tools_json, 0, NULL);
    for (size_t d = 0; d < HARNESS_COUNT(all); d++)
        for (int n = 0; n < 60; n++) {
            world w = {.n_ids = 0};
            turn_setup setup = setup_of(&w, all[d], "x");
            setup.speech.tools = tool_format_find("hermes");
            setup.speech.tool_list = tools;
            mem_fail_after(n);
            turn *t = turn_new(&setup);
            if (t) {
                feed(t, "Hi<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
                const qp_event e = {.kind = QP_EVENT_END, .finish = QP_FINISH_EOS, .text = ""};
                turn_end_choice(t, 0, &e, NULL);
                turn_finish(t);
            }
            mem_fail_after(-1);
            turn_free(t);
            strbuf_free(&w.sent);
        }
    json_decref(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),      cmocka_unit_test(test_calls),    cmocka_unit_test(test_error),
        cmocka_unit_test(test_responses), cmocka_unit_test(test_messages), cmocka_unit_test(test_chat_document),
        cmocka_unit_test(test_ends),      cmocka_unit_test(test_stop),     cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
