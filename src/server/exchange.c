/* exchange.c — the state of one request between network, handler and pump: http.h without the network.
 *
 * Called by everybody who answers requests; calls sse.c and direct.c. The tricky thing is the listener: its callbacks
 * run without the lock (they take the pump's), so http_listen waits until a running one is over before the owner may
 * free what it points to. */
#include "exchange.h"
#include "base/clock.h"
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const cause_texts[] = {
#define X(name, text) text,
    HTTP_CAUSES(X)
#undef X
};

const char *http_cause_text(http_cause cause) { return cause_texts[cause]; }

exchange *exchange_new(struct server *s) {
    exchange *x = MEM_NEW(exchange);
    if (!x) return NULL;
    x->public.server = s;
    x->public.arrived = clock_now();
    snprintf(x->public.key_mark, sizeof x->public.key_mark, "-");
    x->direct.descriptor = -1;
    atomic_store(&x->users, 1);
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->call_over, NULL);
    return x;
}

static void exchange_free(exchange *x) {
    if (x->gone) x->gone(x);
    for (int i = 0; i < x->n_headers; i++) {
        mem_free(x->headers[i].name);
        mem_free(x->headers[i].value);
    }
    sse_free(&x->queue);
    strbuf_free(&x->direct.rest);
    strbuf_free(&x->body);
    mem_free(x->path);
    mem_free(x->answer);
    pthread_cond_destroy(&x->call_over);
    pthread_mutex_destroy(&x->lock);
    mem_free(x);
}

http_request *http_hold(http_request *r) {
    atomic_fetch_add(&exchange_of(r)->users, 1);
    return r;
}

void http_drop(http_request *r) {
    if (r && atomic_fetch_sub(&exchange_of(r)->users, 1) == 1) exchange_free(exchange_of(r));
}

/* With the lock: the network thread has something to look at. */
static void wake_network(exchange *x) {
    x->is_wake_due = x->n_handlers > 0;
    if (x->n_handlers || !x->is_suspended || x->is_completed) return;
    if (x->direct.rest.bytes && !x->is_closed && !x->is_broken) return; /* exchange_flush does it */
    x->is_suspended = x->is_in_stream = false;
    x->wake(x->connection);
}

/* ---- answering ---- */

static bool is_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F) return false;
    return true;
}

void http_add_header(http_request *r, const char *name, const char *value) {
    exchange *x = exchange_of(r);
    if (!is_plain(name) || !is_plain(value)) return;
    char *name_copy = mem_copy_text(name, strlen(name)), *value_copy = mem_copy_text(value, strlen(value));
    pthread_mutex_lock(&x->lock);
    const bool fits = name_copy && value_copy && x->n_headers < EXCHANGE_HEADERS;
    if (fits) x->headers[x->n_headers++] = (exchange_header){name_copy, value_copy};
    pthread_mutex_unlock(&x->lock);
    if (fits) return;
    mem_free(name_copy);
    mem_free(value_copy);
}

void http_reply(http_request *r, int status, const char *content_type, char *body, size_t bytes) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const bool is_first = x->state <= EXCHANGE_HANDLING;
    if (is_first) {
        x->status = status;
        x->content_type = content_type;
        x->answer = body;
        x->answer_bytes = bytes;
        x->n_sent = bytes;
        x->state = EXCHANGE_REPLIED;
        wake_network(x);
    }
    pthread_mutex_unlock(&x->lock);
    if (!is_first) mem_free(body);
}

/* With the lock. */
static void begin_stream(exchange *x, const char *ping) {
    if (x->state > EXCHANGE_HANDLING) return;
    x->status = 200;
    x->ping = ping ? ping : ": ping\n\n";
    x->last_sent = clock_now();
    x->state = EXCHANGE_STREAMING;
    wake_network(x);
}

void http_stream_begin(http_request *r, const char *ping) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    begin_stream(x, ping);
    pthread_mutex_unlock(&x->lock);
}

void http_stream_late(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    x->begins_late = true;
    pthread_mutex_unlock(&x->lock);
}

/* With the lock: straight to the client, or into the queue. */
static void send_event(exchange *x, const char *event, size_t bytes) {
    const bool was_empty = !x->queue.first;
    if (was_empty) x->last_sent = clock_now(); /* a stall counts from when something waits */
    if (was_empty && x->is_in_stream && direct_put(&x->direct, event, bytes)) {
        x->n_sent += bytes;
        if (!x->direct.rest.failed) return;
        x->is_broken = true;
    } else {
        x->is_broken = !sse_push(&x->queue, event, bytes);
    }
    wake_network(x);
}

void http_stream_send(http_request *r, const char *event, size_t bytes) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    if (x->state == EXCHANGE_STREAMING && !x->is_closed && !x->is_broken) send_event(x, event, bytes);
    pthread_mutex_unlock(&x->lock);
}

void http_stream_end(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    if (x->state == EXCHANGE_STREAMING) x->state = EXCHANGE_ENDED;
    wake_network(x);
    pthread_mutex_unlock(&x->lock);
}

/* ---- asking ---- */

bool http_has_begun(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const bool has = x->state >= EXCHANGE_REPLIED;
    pthread_mutex_unlock(&x->lock);
    return has;
}

bool http_is_stream(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const bool is = x->state >= EXCHANGE_STREAMING;
    pthread_mutex_unlock(&x->lock);
    return is;
}

bool http_is_full(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const bool is = !x->is_closed && sse_is_full(&x->queue);
    x->wants_room |= is;
    pthread_mutex_unlock(&x->lock);
    return is;
}

bool http_is_closed(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const bool is = x->is_closed;
    pthread_mutex_unlock(&x->lock);
    return is;
}

http_cause http_cancel_cause(http_request *r) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    const http_cause cause = x->cause;
    pthread_mutex_unlock(&x->lock);
    return cause;
}

const char *http_header(http_request *r, const char *name) {
    return exchange_of(r)->look_up ? exchange_of(r)->look_up(exchange_of(r), name, false) : NULL;
}

const char *http_query(http_request *r, const char *name) {
    return exchange_of(r)->look_up ? exchange_of(r)->look_up(exchange_of(r), name, true) : NULL;
}

/* ---- telling the one who listens ---- */

/* With the lock, which is given up while `call` runs. */
static void call_out(exchange *x, void (*call)(void *user)) {
    void *user = x->listener.user;
    x->is_calling = true;
    x->caller = pthread_self();
    pthread_mutex_unlock(&x->lock);
    call(user);
    pthread_mutex_lock(&x->lock);
    x->is_calling = false;
    pthread_cond_broadcast(&x->call_over);
}

static void wait_for_call(exchange *x) {
    while (x->is_calling && !pthread_equal(x->caller, pthread_self())) pthread_cond_wait(&x->call_over, &x->lock);
}

static void tell_cancelled(exchange *x) {
    wait_for_call(x);
    if (x->cause == CAUSE_NONE || x->has_called || !x->listener.on_cancel) return;
    x->has_called = true;
    call_out(x, x->listener.on_cancel);
}

void http_listen(http_request *r, const http_listener *listener) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    wait_for_call(x);
    x->listener = listener ? *listener : (http_listener){0};
    tell_cancelled(x);
    pthread_mutex_unlock(&x->lock);
}

void http_cancel(http_request *r, http_cause cause) {
    exchange *x = exchange_of(r);
    pthread_mutex_lock(&x->lock);
    if (x->cause == CAUSE_NONE) x->cause = cause;
    tell_cancelled(x);
    pthread_mutex_unlock(&x->lock);
}

/* ---- the network's side ---- */

exchange_ready exchange_look(exchange *x, void (*suspend)(void *connection)) {
    pthread_mutex_lock(&x->lock);
    exchange_ready ready = EXCHANGE_WAIT;
    if (x->state == EXCHANGE_READING) x->state = EXCHANGE_HANDLING;
    if (x->is_closed)
        ready = EXCHANGE_GIVE_UP;
    else if (x->state == EXCHANGE_REPLIED)
        ready = EXCHANGE_ANSWER;
    else if (x->state > EXCHANGE_REPLIED)
        ready = EXCHANGE_STREAM;
    else {
        x->is_suspended = true;
        suspend(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return ready;
}

int64_t exchange_take(exchange *x, char *out, size_t capacity, void (*suspend)(void *connection)) {
    pthread_mutex_lock(&x->lock);
    int64_t taken = x->is_closed || x->is_broken ? -2 : (int64_t)sse_take(&x->queue, out, capacity);
    if (taken > 0) {
        x->n_sent += (size_t)taken;
        x->last_sent = clock_now();
        if (x->wants_room && sse_has_room(&x->queue)) {
            x->wants_room = false;
            wait_for_call(x);
            if (x->listener.on_room) call_out(x, x->listener.on_room);
        }
    } else if (!taken && x->state == EXCHANGE_ENDED) {
        taken = -1;
    } else if (!taken) {
        x->is_suspended = x->is_in_stream = true;
        suspend(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return taken;
}

void exchange_handle(exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->begins_late = false;
    x->n_handlers++;
    pthread_mutex_unlock(&x->lock);
}

void exchange_handled(exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->n_handlers--;
    if (x->is_wake_due) wake_network(x);
    pthread_mutex_unlock(&x->lock);
}

void exchange_close(exchange *x) {
    pthread_mutex_lock(&x->lock);
    if (!x->is_closed && !x->is_completed) {
        x->is_closed = true;
        if (x->cause == CAUSE_NONE) x->cause = CAUSE_DISCONNECT;
        sse_free(&x->queue);
        wake_network(x);
        tell_cancelled(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_complete(exchange *x, bool is_closed) {
    pthread_mutex_lock(&x->lock);
    x->is_completed = true;
    x->is_suspended = x->is_in_stream = false;
    if (is_closed) {
        x->is_closed = true;
        if (x->cause == CAUSE_NONE) x->cause = CAUSE_DISCONNECT;
        tell_cancelled(x);
    } else if (x->is_closed && x->cause == CAUSE_DISCONNECT) {
        x->is_closed = false; /* the client has left with the whole answer, before the library told of its end */
        x->cause = CAUSE_NONE;
    }
    pthread_mutex_unlock(&x->lock);
    http_drop(&x->public);
}

bool exchange_ping(exchange *x, double now, double interval) {
    pthread_mutex_lock(&x->lock);
    if (x->begins_late && x->state == EXCHANGE_HANDLING && !x->is_closed && now - x->public.arrived >= interval) {
        begin_stream(x, NULL);
        x->last_sent = now - interval; /* so that the first ping goes out at once */
    }
    const bool is_due = x->state == EXCHANGE_STREAMING && !x->is_closed && !x->is_broken && !x->queue.first &&
                        now - x->last_sent >= interval;
    if (is_due) {
        send_event(x, x->ping, strlen(x->ping));
        x->last_sent = now;
    }
    pthread_mutex_unlock(&x->lock);
    return is_due;
}

void exchange_flush(exchange *x) {
    pthread_mutex_lock(&x->lock);
    const bool had_rest = x->is_in_stream && x->direct.rest.bytes;
    if (had_rest && direct_flush(&x->direct) && (x->queue.first || x->state == EXCHANGE_ENDED)) wake_network(x);
    pthread_mutex_unlock(&x->lock);
}

size_t exchange_waiting(exchange *x) {
    pthread_mutex_lock(&x->lock);
    const size_t n = x->queue.n_events;
    pthread_mutex_unlock(&x->lock);
    return n;
}
