/* reply_test.c — errors in both shapes and their headers, errors that end streams, bodies and their limits. */
#include "harness.h"
#include "base/mem.h"
#include "exchange.h"
#include "reply.h"
#include "route.h"
#include "server.h"

static server bare;
static const route_row openai = {.path = "/v1/x"}, anthropic = {.path = "/v1/y", .flags = ROUTE_ANTHROPIC},
                       quiet = {.path = "/v1/z", .flags = ROUTE_NO_DONE};

static void no_wake(void *connection) {}

static exchange *fresh(const route_row *route) {
    exchange *x = exchange_new(&bare);
    x->wake = no_wake;
    x->public.route = route;
    strcpy(x->public.id, "id-1");
    return x;
}

static const char *header_of(const exchange *x, const char *name) {
    for (int i = 0; i < x->n_headers; i++)
        if (!strcmp(x->headers[i].name, name)) return x->headers[i].value;
    return NULL;
}

static void test_shapes(void **state) {
    static const struct {
        const route_row *route;
        reply_fault fault;
        const char *param;
        int status;
        const char *body;
    } cases[] = {
        {&openai, FAULT_BAD_REQUEST, "messages[1].content", 400,
         "{\"error\":{\"message\":\"a \\\"b\\\" \\n\",\"type\":\"invalid_request_error\",\"param\":"
         "\"messages[1].content\",\"code\":null}}"},
        {NULL, FAULT_NOT_FOUND, NULL, 404,
         "{\"error\":{\"message\":\"a \\\"b\\\" \\n\",\"type\":\"not_found_error\",\"param\":null,\"code\":"
         "\"not_found\"}}"},
        {&anthropic, FAULT_BAD_REQUEST, "x", 400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"a \\\"b\\\" \\n\"},"
         "\"request_id\":\"id-1\"}"},
        {&anthropic, FAULT_OVERLOADED, NULL, 529,
         "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"a \\\"b\\\" \\n\"},"
         "\"request_id\":\"id-1\"}"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        exchange *x = fresh(cases[i].route);
        reply_error(&x->public, cases[i].fault, cases[i].param, "a \"%s\" \n", "b");
        assert_int_equal(x->status, cases[i].status);
        assert_string_equal(x->answer, cases[i].body);
        exchange_complete(x, false);
    }
}

/* All rows: well-formed, and the advice to clients as the table has it. */
static void test_every_fault(void **state) {
    for (reply_fault fault = 0; fault < FAULT_COUNT; fault++) {
        exchange *x = fresh(&openai);
        reply_error(&x->public, fault, NULL, "m");
        json_t *body = json_loads(x->answer, 0, NULL), *error = json_object_get(body, "error");
        assert_int_equal(json_object_size(body), 1);
        assert_int_equal(json_object_size(error), 4);
        assert_true(json_is_string(json_object_get(error, "type")) && json_object_get(error, "param") &&
                    json_object_get(error, "code") && json_is_string(json_object_get(error, "message")));
        const char *later = header_of(x, "Retry-After"), *never = header_of(x, "x-should-retry");
        assert_int_equal(later != NULL,
                         x->status == 503); /* who answers 429 knows the seconds: server_limits_test.py */
        if (later) assert_in_range(atoi(later), 1, 60);
        assert_int_equal(never != NULL, x->status == 500 || x->status == 501);
        assert_int_equal(header_of(x, "WWW-Authenticate") != NULL, x->status == 401);
        json_decref(body);
        exchange_complete(x, false);
    }
}

static void test_in_a_stream(void **state) {
    static const struct {
        const route_row *route;
        const char *bytes;
    } cases[] = {
        {&openai, "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":"
                  "\"engine_error\"}}\n\ndata: [DONE]\n\n"},
        {&quiet, "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":"
                 "\"engine_error\"}}\n\n"},
        {&anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"},"
                     "\"request_id\":\"id-1\"}\n\n"},
    };
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        exchange *x = fresh(cases[i].route);
        char got[600] = "";
        size_t bytes = 0;
        http_stream_begin(&x->public, NULL);
        const qp_error err = {.code = QP_INTERNAL, .text = "m"};
        reply_failure(&x->public, NULL, &err);
        for (int64_t n; (n = exchange_take(x, got + bytes, sizeof got - bytes - 1, no_wake)) > 0;) bytes += (size_t)n;
        assert_string_equal(got, cases[i].bytes);
        assert_int_equal(x->state, EXCHANGE_ENDED);
        exchange_complete(x, false);
    }
}

static json_t *read_bytes(exchange *x, const char *text, size_t bytes) {
    x->public.body = (span){text, bytes};
    return reply_read_body(&x->public);
}

static void test_bodies(void **state) {
    exchange *good = fresh(&openai);
    static const char twice[] = "{\"a\": [1, \"]]{{\\\"\"], \"a\": 2}";
    json_t *body = read_bytes(good, twice, strlen(twice));
    assert_int_equal(json_integer_value(json_object_get(body, "a")), 2); /* the last of two wins */
    json_decref(body);
    exchange_complete(good, false);
    enum { WIDE = 1000002, DEEP = 300 };
    char *wide = mem_array(2 * WIDE + 20, 1), deep[2 * DEEP + 1];
    memcpy(wide, "{\"a\":[1", 7);
    for (size_t i = 0; i < WIDE; i++) memcpy(wide + 7 + 2 * i, ",1", 2);
    memcpy(wide + 7 + (size_t)2 * WIDE, "]}", 3);
    memset(deep, '[', DEEP);
    memset(deep + DEEP, ']', DEEP);
    deep[(size_t)2 * DEEP] = 0;
    const char *const cases[][2] = {{"", "empty"},
                                    {"[]", "an array"},
                                    {"{", "at byte"},
                                    {"{\"a\":\"\xff\"}", "at byte"},
                                    {deep, "deeper than 256"},
                                    {wide, "1000000"}};
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        exchange *x = fresh(&openai);
        assert_null(read_bytes(x, cases[i][0], strlen(cases[i][0])));
        assert_int_equal(x->status, 400);
        if (!strstr(x->answer, cases[i][1])) fail_msg("case %zu: %s", i, x->answer);
        exchange_complete(x, false);
    }
    mem_free(wide);
}

/* Without memory there is still an answer, or at least an end. */
static void test_memory(void **state) {
    for (int64_t n = 0; n < 20; n++) {
        exchange *x = fresh(&openai);
        mem_fail_after(n);
        reply_error(&x->public, FAULT_OVERLOADED, NULL, "m");
        mem_fail_after(-1);
        assert_int_equal(x->state, EXCHANGE_REPLIED);
        assert_true(x->status == 503 || x->status == 500);
        exchange_complete(x, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_every_fault), cmocka_unit_test(test_in_a_stream),
        cmocka_unit_test(test_bodies), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
