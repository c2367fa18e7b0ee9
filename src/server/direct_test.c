/* direct_test.c — events written past the HTTP library: framing, a client that takes nothing, and an event that is cut,
 * with both ends of a socket in hand. */
#include "harness.h"
#include "base/clock.h"
#include "base/mem.h"
#include "direct.h"
#include "exchange.h"
#include <sys/socket.h>
#include <unistd.h>

typedef struct ends {
    int server, client;
} ends;

static ends open_ends(void) {
    int both[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), 0);
    return (ends){both[0], both[1]};
}

static void close_ends(ends e) {
    close(e.server);
    close(e.client);
}

static size_t take_all(int from, strbuf *out) {
    char bytes[65536];
    size_t all = 0;
    for (ssize_t n; (n = recv(from, bytes, sizeof bytes, 0)) > 0; all += (size_t)n) strbuf_add(out, bytes, (size_t)n);
    return all;
}

static void test_framing(void **state) {
    const ends e = open_ends();
    direct d = {.descriptor = e.server, .is_chunked = true};
    strbuf got = {0}, large = {0}, wanted = {0};
    assert_true(direct_put(&d, "data: a\n\n", 9));
    for (int i = 0; i < 500; i++) strbuf_char(&large, 'x');
    assert_true(direct_put(&d, large.at, large.bytes));
    d.is_chunked = false; /* HTTP/1.0 */
    assert_true(direct_put(&d, "data: b\n\n", 9));
    strbuf_format(&wanted, "9\r\ndata: a\n\n\r\n1F4\r\n%s\r\ndata: b\n\n", large.at);
    take_all(e.client, &got);
    assert_string_equal(got.at, wanted.at);
    strbuf_free(&got);
    strbuf_free(&large);
    strbuf_free(&wanted);
    close_ends(e);
}

static void test_refusals(void **state) {
    const ends e = open_ends();
    static char event[20000];
    direct none = {.descriptor = -1}, d = {.descriptor = e.server, .is_chunked = true};
    memset(event, 'x', sizeof event);
    assert_false(direct_put(&none, "x", 1));
    assert_false(direct_put(&d, event, sizeof event)); /* so long an event is the library's */
    assert_false(direct_put(&d, event, 0));            /* an empty chunk would end the stream */
    int n = 0;
    while (direct_put(&d, event, 1000)) n++;
    assert_in_range(n, 10, 100); /* far below what the socket would hold */
    assert_int_equal(d.rest.bytes, 0);
    strbuf got = {0};
    assert_int_equal(take_all(e.client, &got), (size_t)n * 1007);
    assert_true(direct_put(&d, event, 1000)); /* as soon as the client has taken it */
    strbuf_free(&got);
    close(e.client);
    assert_false(direct_put(&d, event, 1000)); /* and no signal */
    close(e.server);
}

/* A kernel that is short of memory takes a part: nothing may come between, and nothing is lost. */
static void test_cut(void **state) {
    const ends e = open_ends();
    direct d = {.descriptor = e.server, .is_chunked = true};
    strbuf got = {0};
    strbuf_text(&d.rest, "rest of an event\n\n\r\n");
    assert_false(direct_put(&d, "x", 1));
    assert_true(direct_flush(&d));
    assert_true(direct_flush(&d));
    assert_true(direct_put(&d, "x", 1));
    take_all(e.client, &got);
    assert_string_equal(got.at, "rest of an event\n\n\r\n1\r\nx\r\n");
    strbuf_free(&got);
    strbuf_free(&d.rest);
    close_ends(e);
}

static int n_wakes;
static void wake(void *connection) { n_wakes++; }
static void suspend(void *connection) {}

/* Through an exchange: straight while the connection sleeps in its stream, by the library before and after. */
static void test_exchange(void **state) {
    const ends e = open_ends();
    exchange *x = exchange_new(NULL);
    http_request *r = &x->public;
    char out[64];
    strbuf got = {0};
    n_wakes = 0;
    x->wake = wake;
    x->direct = (direct){.descriptor = e.server, .is_chunked = true};
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_WAIT);
    http_stream_begin(r, NULL); /* the headers have to go first */
    http_stream_send(r, "one", 3);
    assert_int_equal(take_all(e.client, &got), 0);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 3);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 0);
    n_wakes = 0;
    http_stream_send(r, "two", 3);
    assert_true(exchange_ping(x, clock_now() + 10, 5));
    assert_int_equal(n_wakes, 0);
    take_all(e.client, &got);
    assert_string_equal(got.at, "3\r\ntwo\r\n8\r\n: ping\n\n\r\n");
    strbuf_text(&x->direct.rest, "cut");
    http_stream_send(r, "three", 5);
    http_stream_end(r);
    assert_int_equal(n_wakes, 0); /* the library must not write between */
    exchange_flush(x);
    assert_int_equal(n_wakes, 1);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 5);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), -1);
    exchange_complete(x, false);
    strbuf_free(&got);
    close_ends(e);
}

/* No memory for what was cut: the stream ends as broken, visibly. */
static void test_no_memory(void **state) {
    const ends e = open_ends();
    exchange *x = exchange_new(NULL);
    char out[8];
    x->wake = wake;
    x->direct = (direct){.descriptor = e.server, .is_chunked = true};
    http_stream_begin(&x->public, NULL);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 0);
    x->direct.rest.failed = true;
    n_wakes = 0;
    http_stream_send(&x->public, "x", 1);
    assert_int_equal(n_wakes, 1);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), -2);
    exchange_complete(x, true);
    close_ends(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_framing),  cmocka_unit_test(test_refusals),  cmocka_unit_test(test_cut),
        cmocka_unit_test(test_exchange), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
