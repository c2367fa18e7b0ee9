/* guard_test.c — header sections that are let through, and the shapes of request smuggling that are not. */
#include "harness.h"
#include "guard.h"

enum { MOST = 6 };

static const struct {
    const char *headers[MOST]; /* "key=value" */
    bool is_1_0;
    const char *part; /* of the verdict; NULL: let through */
} cases[] = {
    {{"Host=a"}, false, NULL},
    {{"Host=a", "Content-Length=12"}, false, NULL},
    {{"Host=a", "Transfer-Encoding=chunked"}, false, NULL},
    {{"Host=a", "transfer-encoding=CHUNKED"}, false, NULL},
    {{"Host=a:5000", "X-Any=tab\tand (punctuation); ok"}, false, NULL},
    {{NULL}, true, NULL},
    {{NULL}, false, "Host is missing"},
    {{"Host=a", "Host=a"}, false, "Host comes more than once"},
    {{"Host=a, b"}, false, "Host is not one name"},
    {{"Host=a", "Content-Length=1", "content-length=1"}, false, "Content-Length comes more than once"},
    {{"Host=a", "Content-Length=1", "Transfer-Encoding=chunked"}, false, "exclude each other"},
    {{"Host=a", "Transfer-Encoding=chunked", "Transfer-Encoding=chunked"}, false, "Transfer-Encoding comes more"},
    {{"Host=a", "Transfer-Encoding=gzip"}, false, "is not 'chunked'"},
    {{"Host=a", "Transfer-Encoding=gzip, chunked"}, false, "is not 'chunked'"},
    {{"Host=a", "Transfer-Encoding="}, false, "is not 'chunked'"},
    {{"Transfer-Encoding=chunked"}, true, "HTTP/1.0"},
    {{"Host=a", "Content-Length="}, false, "not a number"},
    {{"Host=a", "Content-Length=-1"}, false, "not a number"},
    {{"Host=a", "Content-Length=+1"}, false, "not a number"},
    {{"Host=a", "Content-Length= 1"}, false, "not a number"},
    {{"Host=a", "Content-Length=1 "}, false, "not a number"},
    {{"Host=a", "Content-Length=1,1"}, false, "not a number"},
    {{"Host=a", "Content-Length=0x1"}, false, "not a number"},
    {{"Host=a", "Content-Length=9999999999999999999"}, false, "not a number"},
    {{"Host=a", "Content-Length =1"}, false, "header name"},
    {{"Host=a", "Content-Length\t=1"}, false, "header name"},
    {{"Host=a", "Content Length=1"}, false, "header name"},
    {{"Host=a", "=1"}, false, "header name"},
    {{"Host=a", "X\x01=1"}, false, "header name"},
    {{"Host=a", "X-\xc3\xa4=1"}, false, "header name"},
    {{"Host=a", "X=a\x01z"}, false, "control character"},
    {{"Host=a", "X=a\nContent-Length: 5"}, false, "control character"},
    {{"Host=a", "X=a\x7f"}, false, "control character"},
};

static void test_verdicts(void **state) {
    for (size_t i = 0; i < HARNESS_COUNT(cases); i++) {
        guard g = {0};
        for (int k = 0; k < MOST && cases[i].headers[k]; k++) {
            const char *line = cases[i].headers[k], *equals = strchr(line, '=');
            guard_header(&g, line, (size_t)(equals - line), equals + 1, strlen(equals + 1));
        }
        const char *verdict = guard_verdict(&g, !cases[i].is_1_0);
        if ((verdict != NULL) != (cases[i].part != NULL) || (verdict && !strstr(verdict, cases[i].part)))
            fail_msg("case %zu: %s", i, verdict ? verdict : "let through");
    }
}

static void test_what_is_read(void **state) {
    guard g = {0};
    guard_header(&g, "content-length", 14, "123456789012345678", 18);
    guard_header(&g, "Expect", 6, "100-Continue", 12);
    guard_header(&g, "Host", 4, "h", 1);
    assert_int_equal(g.cost, 14 + 18 + 6 + 12 + 4 + 1 + 3 * GUARD_HEADER_COST);
    assert_null(guard_verdict(&g, true));
    assert_true(g.expects_continue);
    assert_int_equal(g.length, 123456789012345678);
    uint64_t length = 7;
    assert_false(guard_read_length("", 0, &length));
    assert_int_equal(length, 7);
    assert_true(guard_read_length("0", 1, &length));
    assert_int_equal(length, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_verdicts), cmocka_unit_test(test_what_is_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
