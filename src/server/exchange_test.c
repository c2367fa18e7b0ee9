/* exchange_test.c — one request's state without a network: waking, streams, cancelling, and threads that race. */
#include "harness.h"
#include "base/clock.h"
#include "base/mem.h"
#include "exchange.h"
#include <pthread.h>

static atomic_int n_suspends, n_wakes, n_cancels, n_rooms;

static void suspend(void *connection) { atomic_fetch_add(&n_suspends, 1); }
static void wake(void *connection) { atomic_fetch_add(&n_wakes, 1); }
static void on_cancel(void *user) { atomic_fetch_add(&n_cancels, 1); }
static void on_room(void *user) { atomic_fetch_add(&n_rooms, 1); }

static exchange *fresh(void) {
    n_suspends = n_wakes = n_cancels = n_rooms = 0;
    exchange *x = exchange_new(NULL);
    assert_non_null(x);
    x->wake = wake;
    return x;
}

static void test_reply(void **state) {
    exchange *x = fresh();
    http_request *r = http_hold(&x->public);
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_WAIT);
    assert_int_equal(n_suspends, 1);
    http_add_header(r, "Good", "yes");
    http_add_header(r, "Bad\r\nX: y", "no");
    http_add_header(r, "Bad", "no\r\nX: y");
    assert_int_equal(x->n_headers, 1);
    assert_false(http_has_begun(r));
    http_reply(r, 404, "text/plain", mem_copy_text("a", 1), 1);
    assert_int_equal(n_wakes, 1);
    http_reply(r, 200, "text/plain", mem_copy_text("b", 1), 1); /* a second one is ignored */
    http_stream_begin(r, NULL);
    http_stream_send(r, "x", 1);
    assert_int_equal(n_wakes, 1);
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_ANSWER);
    assert_int_equal(x->status, 404);
    assert_string_equal(x->answer, "a");
    exchange_complete(x, false);
    assert_int_equal(http_cancel_cause(r), CAUSE_NONE);
    http_drop(r);
}

static void test_stream(void **state) {
    exchange *x = fresh();
    http_request *r = &x->public;
    char out[8];
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_WAIT);
    http_stream_begin(r, NULL);
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_STREAM);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 0);
    assert_int_equal(n_suspends, 2);
    http_stream_send(r, "0123456789", 10);
    http_stream_send(r, "ab", 2);
    assert_int_equal(n_wakes, 2); /* once for both: it was awake for the second */
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 8);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 2); /* never of two events */
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 2);
    assert_memory_equal(out, "ab", 2);
    http_stream_end(r);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), -1);
    exchange_complete(x, false);
}

static void test_pings(void **state) {
    exchange *x = fresh();
    char out[32];
    assert_false(exchange_ping(x, clock_now() + 100, 5)); /* nothing has begun */
    http_stream_begin(&x->public, "event: ping\n\n");
    const double now = clock_now();
    assert_false(exchange_ping(x, now + 4, 5));
    assert_true(exchange_ping(x, now + 6, 5));
    assert_false(exchange_ping(x, now + 12, 5)); /* the last one still waits */
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), 13);
    assert_memory_equal(out, "event: ping\n\n", 13);
    http_stream_end(&x->public);
    assert_false(exchange_ping(x, now + 100, 5));
    exchange_complete(x, false);
}

/* The client goes: everything after is silent, the listener hears of it once, whenever it comes. */
static void test_close(void **state) {
    for (int is_late = 0; is_late < 2; is_late++) {
        exchange *x = fresh();
        http_request *r = http_hold(&x->public);
        const http_listener listener = {on_cancel, on_room, NULL};
        char out[8];
        http_stream_begin(r, NULL);
        http_stream_send(r, "x", 1);
        if (!is_late) http_listen(r, &listener);
        exchange_close(x);
        exchange_close(x);
        if (is_late) http_listen(r, &listener);
        assert_int_equal(n_cancels, 1);
        assert_true(http_is_closed(r));
        assert_int_equal(http_cancel_cause(r), CAUSE_DISCONNECT);
        http_cancel(r, CAUSE_API);
        assert_int_equal(http_cancel_cause(r), CAUSE_DISCONNECT);
        assert_int_equal(n_cancels, 1);
        http_stream_send(r, "y", 1);
        assert_int_equal(exchange_take(x, out, sizeof out, suspend), -2);
        exchange_complete(x, true);
        http_listen(r, NULL);
        http_drop(r);
    }
}

/* A client that is gone as soon as it has all: that is no disconnection. */
static void test_quick_client(void **state) {
    exchange *x = fresh();
    http_request *r = http_hold(&x->public);
    http_reply(r, 200, NULL, NULL, 0);
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_ANSWER);
    exchange_close(x);
    exchange_complete(x, false);
    assert_false(http_is_closed(r));
    assert_int_equal(http_cancel_cause(r), CAUSE_NONE);
    http_drop(r);
}

/* A handler that runs may read headers: the connection sleeps until it has returned. */
static void test_no_wake_under_a_handler(void **state) {
    exchange *x = fresh();
    http_request *r = http_hold(&x->public);
    exchange_handle(x);
    exchange_look(x, suspend);
    http_reply(r, 200, NULL, NULL, 0);
    exchange_close(x);
    assert_int_equal(n_wakes, 0);
    exchange_handled(x);
    assert_int_equal(n_wakes, 1);
    assert_int_equal(exchange_look(x, suspend), EXCHANGE_GIVE_UP);
    exchange_complete(x, true);
    http_drop(r);
}

static void test_bounds(void **state) {
    exchange *x = fresh();
    http_request *r = &x->public;
    char out[64];
    http_listen(r, &(http_listener){on_cancel, on_room, NULL});
    http_stream_begin(r, NULL);
    int n = 0;
    for (; !http_is_full(r); n++) http_stream_send(r, "event", 5);
    assert_int_equal(n, SSE_MOST_EVENTS);
    while (exchange_waiting(x) > SSE_MOST_EVENTS / 2 + 1) exchange_take(x, out, sizeof out, suspend);
    assert_int_equal(n_rooms, 0);
    exchange_take(x, out, sizeof out, suspend);
    assert_int_equal(n_rooms, 1);
    exchange_take(x, out, sizeof out, suspend);
    assert_int_equal(n_rooms, 1);
    char *large = mem_zarray(1, SSE_MOST_BYTES);
    assert_false(http_is_full(r));
    http_stream_send(r, large, SSE_MOST_BYTES);
    assert_true(http_is_full(r));
    exchange_close(x);
    assert_false(http_is_full(r)); /* a client that has gone keeps nobody waiting */
    mem_free(large);
    exchange_complete(x, true);
}

/* Memory that runs out under a stream breaks it off; it never sends half of it as if it were all. */
static void test_memory(void **state) {
    exchange *x = fresh();
    char out[8];
    http_stream_begin(&x->public, NULL);
    mem_fail_after(0);
    http_stream_send(&x->public, "x", 1);
    mem_fail_after(-1);
    http_stream_send(&x->public, "y", 1);
    assert_int_equal(exchange_take(x, out, sizeof out, suspend), -2);
    exchange_complete(x, true);
    mem_fail_after(0);
    assert_null(exchange_new(NULL));
    mem_fail_after(-1);
}

/* ---- threads ---- */

enum { EVENTS = 20000 };
static pthread_mutex_t nap_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nap_over = PTHREAD_COND_INITIALIZER;
static bool is_asleep;

static void go_to_sleep(void *connection) {
    pthread_mutex_lock(&nap_lock);
    assert_false(is_asleep); /* suspended twice */
    is_asleep = true;
    pthread_mutex_unlock(&nap_lock);
}

static void wake_up(void *connection) {
    pthread_mutex_lock(&nap_lock);
    assert_true(is_asleep); /* woken twice */
    is_asleep = false;
    pthread_cond_signal(&nap_over);
    pthread_mutex_unlock(&nap_lock);
}

static void *make_events(void *user) {
    http_request *r = user;
    http_stream_begin(r, NULL);
    for (int i = 0; i < EVENTS; i++) http_stream_send(r, "0123456789", 10);
    http_stream_end(r);
    http_drop(r);
    return NULL;
}

/* A maker and a reader race: no wake is lost, none is doubled, every byte arrives. */
static void test_race(void **state) {
    exchange *x = fresh();
    pthread_t maker;
    size_t bytes = 0;
    char out[64];
    x->wake = wake_up;
    assert_int_equal(pthread_create(&maker, NULL, make_events, http_hold(&x->public)), 0);
    for (exchange_ready ready = EXCHANGE_WAIT; ready == EXCHANGE_WAIT;) {
        ready = exchange_look(x, go_to_sleep);
        pthread_mutex_lock(&nap_lock);
        while (is_asleep) pthread_cond_wait(&nap_over, &nap_lock);
        pthread_mutex_unlock(&nap_lock);
    }
    for (;;) {
        const int64_t taken = exchange_take(x, out, sizeof out, go_to_sleep);
        if (taken < 0) break;
        bytes += (size_t)taken;
        pthread_mutex_lock(&nap_lock);
        while (is_asleep) pthread_cond_wait(&nap_over, &nap_lock);
        pthread_mutex_unlock(&nap_lock);
    }
    assert_int_equal(bytes, EVENTS * 10);
    pthread_join(maker, NULL);
    exchange_complete(x, false);
}

static void *close_it(void *user) {
    exchange_close(user);
    http_drop(&((exchange *)user)->public);
    return NULL;
}

/* After http_listen(NULL) has returned no call comes, however close the race. */
static void test_listener_race(void **state) {
    for (int i = 0; i < 500; i++) {
        exchange *x = fresh();
        pthread_t closer;
        http_listen(&x->public, &(http_listener){on_cancel, NULL, NULL});
        http_hold(&x->public);
        assert_int_equal(pthread_create(&closer, NULL, close_it, x), 0);
        http_listen(&x->public, NULL);
        const int told = n_cancels;
        pthread_join(closer, NULL);
        assert_int_equal(n_cancels, told);
        exchange_complete(x, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply),        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_pings),        cmocka_unit_test(test_close),
        cmocka_unit_test(test_quick_client), cmocka_unit_test(test_no_wake_under_a_handler),
        cmocka_unit_test(test_bounds),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_race),         cmocka_unit_test(test_listener_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
