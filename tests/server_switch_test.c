/* server_switch_test.c — from the moment at which a load is accepted nobody gets the old model, however long that one
 * is still in use, and its figures stay in the metrics.
 *
 * The test holds a use of the old model, as a request would, so the switch stands still for as long as it looks. */
#include "server_here.h"
#include "base/mem.h"
#include "server/metrics.h"

enum { ROOM = 1 << 20 };

/* What the server answers on a connection of its own; freed by the caller. */
static char *ask(const server_here *h, const char *line, const char *body, const char *wanted) {
    char *answer = calloc(ROOM, 1);
    assert_non_null(answer);
    const int fd = server_here_connect(h);
    server_here_ask(fd, line, body);
    assert_true(server_here_read(fd, answer, ROOM, wanted));
    close(fd);
    return answer;
}

static void expect_answer(const server_here *h, const char *body, const char *status, const char *part) {
    char *answer = ask(h, "POST /v1/completions", body, "}}");
    if (strncmp(answer, status, strlen(status)) || !strstr(answer, part)) fail_msg("%s %s: %s", status, part, answer);
    free(answer);
}

static double new_tokens(const server_here *h) {
    static const char name[] = "\nquipu_generation_tokens_total{";
    strbuf text = {0};
    metrics_write(&text, h->server);
    assert_false(text.failed);
    const char *at = strstr(text.at, name), *value = at ? strstr(at, "} ") : NULL;
    assert_non_null(value);
    const double n = strtod(value + 2, NULL);
    strbuf_free(&text);
    return n;
}

static void test_switch(void **state) {
    const load_order order = {.path = QUIPU_SOURCE "/models/demo", .id = "twin"};
    static const char for_new[] = "{\"model\":\"twin\",\"prompt\":\"Once\",\"max_tokens\":2,\"ignore_eos\":true}",
                      for_any[] = "{\"prompt\":\"Once\",\"max_tokens\":2,\"ignore_eos\":true}";
    server_here h;
    server_here_open(&h, true);
    expect_answer(&h, for_any, "HTTP/1.1 200 ", "\"model\":\"demo\"");
    double before;
    while (before = new_tokens(&h), before < 2) usleep(1000); /* the engine counts when its step is over */
    model_slot *old = models_take(h.server);
    assert_non_null(old);
    assert_int_equal(loader_start(h.server->loader, &order, NULL, NULL), QP_OK);
    assert_null(models_take(h.server));
    expect_answer(&h, for_new, "HTTP/1.1 503 ", "\"code\":\"model_loading\"");
    expect_answer(&h, for_any, "HTTP/1.1 503 ", "Retry-After: ");
    assert_true(new_tokens(&h) >= before);
    models_drop(old);
    assert_int_equal(loader_wait(h.server->loader, NULL), QP_OK);
    assert_true(new_tokens(&h) >= before);
    expect_answer(&h, for_new, "HTTP/1.1 200 ", "\"model\":\"twin\"");
    server_here_close(&h);
}

/* Waiting instead, with inline_model_loading: the same request is answered when the new model is there. */
static void test_switch_waits(void **state) {
    const load_order order = {.path = QUIPU_SOURCE "/models/demo", .id = "twin"};
    char answer[8192] = "";
    server_here h;
    server_here_open(&h, true);
    h.settings.inline_model_loading = true;
    model_slot *old = models_take(h.server);
    assert_int_equal(loader_start(h.server->loader, &order, NULL, NULL), QP_OK);
    const int fd = server_here_connect(&h);
    server_here_ask(fd, "POST /v1/completions",
                    "{\"model\":\"twin\",\"prompt\":\"Once\",\"max_tokens\":2,\"ignore_eos\":true}");
    usleep(50000);
    assert_int_equal(recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT), -1);
    models_drop(old);
    assert_true(server_here_read(fd, answer, sizeof answer, "}}"));
    assert_ptr_equal(strstr(answer, "HTTP/1.1 200 "), answer);
    assert_non_null(strstr(answer, "\"model\":\"twin\""));
    close(fd);
    server_here_close(&h);
}

/* A client may ask for another model before anybody has looked how the load at the start ended. */
static void test_later_failure(void **state) {
    const load_order order = {.path = QUIPU_SOURCE "/models", .id = "broken"};
    qp_status first = QP_INTERNAL;
    server_here h;
    server_here_open(&h, true);
    assert_int_equal(loader_start(h.server->loader, &order, NULL, NULL), QP_OK);
    assert_int_not_equal(loader_wait(h.server->loader, NULL), QP_OK);
    assert_true(loader_has_begun(h.server->loader, &first, NULL));
    assert_int_equal(first, QP_OK);
    server_here_close(&h);
}

/* Nothing has begun before the load at the start is over; its failure is told. */
static void test_no_first(void **state) {
    const load_order first = {.is_first = true, .path = QUIPU_SOURCE "/models", .id = "broken"};
    qp_status status = QP_OK;
    qp_error err = {0};
    server_here h;
    server_here_open(&h, false);
    assert_false(loader_has_begun(h.server->loader, &status, NULL));
    assert_int_equal(loader_start(h.server->loader, &first, NULL, NULL), QP_OK);
    while (!loader_has_begun(h.server->loader, &status, &err)) usleep(1000);
    assert_int_not_equal(status, QP_OK);
    assert_int_equal(err.code, status);
    server_here_close(&h);
}

int main(void) {
    if (access(QUIPU_SOURCE "/models/demo/model.safetensors", R_OK)) return puts("SKIP: no demo model"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_switch), cmocka_unit_test(test_switch_waits),
                                       cmocka_unit_test(test_later_failure), cmocka_unit_test(test_no_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
