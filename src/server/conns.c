/* conns.c — a table of connections, an epoll set of its own over their descriptors, and one thread.
 *
 * http.c tells what happens on a connection; this thread closes what takes too long and cancels requests whose client
 * has gone. The HTTP library does not look at connections that it has suspended, and its timeouts start anew with every
 * byte, which is what a slow loris lives from: so both are done here, on the descriptors themselves. A connection is
 * ended by shutdown(), which the library then notices; it alone closes descriptors, after conns_close. One that is
 * refused in the middle of its request lingers: our side is shut and what still comes is read and dropped, because a
 * descriptor that is closed with bytes unread resets the connection, and a reset overtakes the answer.
 *
 * Events name a place in the table and a generation, because a descriptor may be closed and its number used again while
 * its event is on the way. */
#include "conns.h"
#include "base/bell.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/signals.h"
#include "route.h"
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const double TICK = 0.2;      /* seconds */
static const double LOOK_PERIOD = 1; /* between two looks at an answer under way, at most: a system call each */
static const double LINGERING = 2;   /* seconds that a refused client has to read why */

typedef enum conn_state { CONN_FREE, CONN_IDLE, CONN_HEADER, CONN_BODY, CONN_BUSY } conn_state;

struct conn {
    uint32_t place, generation;
    conn_state state;
    int descriptor;
    bool is_ending;       /* shut down: the library has yet to notice */
    double lingers_until; /* refused, and shut down wholly then; 0: it is */
    bool has_left;        /* the client has closed its side */
    double since;         /* the state, or the last byte of the body */
    double next_look;     /* at its answer */
    int unsent;           /* bytes that the client's side has not taken, at the last look ... */
    double unsent_since;  /* ... and since when it has been exactly so many */
    exchange *exchange;   /* of the current request; borrowed: http.c holds it until conns_end */
    char peer[64];
};

struct conns {
    pthread_mutex_t lock;
    pthread_t thread;
    int epoll, wake;
    conn **table;
    uint32_t capacity, n_free;
    uint32_t *free_places;
    double header_timeout, body_timeout, idle_timeout, stall_timeout, ping_interval, look_period;
    bool ignores_half_close;
    size_t most, most_kept;
    conns_counts counts;
    void (*tick)(void *user, double now);
    void *user;
    atomic_bool is_ending;
};

/* ---- the table ---- */

static bool grow(conns *all) {
    const uint32_t capacity = all->capacity ? all->capacity * 2 : 64;
    conn **table = mem_resize(all->table, capacity, sizeof *table);
    if (table) all->table = table;
    uint32_t *places = table ? mem_resize(all->free_places, capacity, sizeof *places) : NULL;
    if (places) all->free_places = places;
    if (!places) return false;
    for (uint32_t i = capacity; i-- > all->capacity;) {
        all->table[i] = NULL;
        all->free_places[all->n_free++] = i;
    }
    all->capacity = capacity;
    return true;
}

static void watch_for(conns *all, conn *c, int operation, uint32_t events) {
    struct epoll_event e = {.events = events | EPOLLRDHUP | EPOLLET,
                            .data.u64 = (uint64_t)c->generation << 32 | c->place};
    epoll_ctl(all->epoll, operation, c->descriptor, &e);
}

/* A place keeps its struct, so that generations go on counting. */
static conn *take_place(conns *all) {
    if (!all->n_free && !grow(all)) return NULL;
    const uint32_t place = all->free_places[all->n_free - 1];
    if (!all->table[place]) all->table[place] = MEM_NEW(conn);
    conn *c = all->table[place];
    if (!c) return NULL;
    all->n_free--;
    *c = (conn){.place = place, .generation = c->generation + 1};
    return c;
}

conn *conns_open(conns *all, int descriptor, const char *peer) {
    pthread_mutex_lock(&all->lock);
    conn *c = take_place(all);
    if (c) {
        c->state = CONN_IDLE;
        c->descriptor = descriptor;
        c->since = clock_now();
        snprintf(c->peer, sizeof c->peer, "%s", peer);
        all->counts.open++;
        watch_for(all, c, EPOLL_CTL_ADD, EPOLLIN);
    }
    pthread_mutex_unlock(&all->lock);
    return c;
}

void conns_close(conns *all, conn *c) {
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    epoll_ctl(all->epoll, EPOLL_CTL_DEL, c->descriptor, NULL);
    c->state = CONN_FREE;
    c->exchange = NULL;
    all->free_places[all->n_free++] = c->place;
    all->counts.open--;
    pthread_mutex_unlock(&all->lock);
}

const char *conns_peer(const conn *c) { return c->peer; }

static bool has_more(conns *all, size_t most) {
    pthread_mutex_lock(&all->lock);
    const bool is = all->counts.open > most;
    pthread_mutex_unlock(&all->lock);
    return is;
}

bool conns_is_too_many(conns *all) { return has_more(all, all->most); }
bool conns_is_crowded(conns *all) { return has_more(all, all->most_kept); }

void conns_get_counts(conns *all, conns_counts *counts) {
    pthread_mutex_lock(&all->lock);
    *counts = all->counts;
    for (uint32_t i = 0; i < all->capacity; i++) {
        const conn *c = all->table[i];
        if (!c || c->state != CONN_BUSY || !c->exchange || !http_is_stream(&c->exchange->public)) continue;
        counts->streams++;
        counts->waiting_events += exchange_waiting(c->exchange);
    }
    pthread_mutex_unlock(&all->lock);
}

bool conns_is_busy(conns *all) {
    bool is = false;
    pthread_mutex_lock(&all->lock);
    for (uint32_t i = 0; i < all->capacity && !is; i++) is = all->table[i] && all->table[i]->exchange;
    pthread_mutex_unlock(&all->lock);
    return is;
}

/* ---- what http.c tells ---- */

/* A quick answer is given even to a client that has closed its sending side: `nc -N` and the like. */
static bool is_cancelled_by_leaving(const exchange *x) {
    return x->public.route && x->public.route->flags & ROUTE_GENERATES;
}

static void enter(conns *all, conn *c, conn_state state) {
    c->state = state;
    c->since = c->unsent_since = clock_now();
}

void conns_begin(conns *all, conn *c, exchange *x) {
    pthread_mutex_lock(&all->lock);
    enter(all, c, CONN_HEADER);
    c->exchange = x;
    const bool has_left = c->has_left && is_cancelled_by_leaving(x);
    pthread_mutex_unlock(&all->lock);
    if (has_left) exchange_close(x);
}

void conns_wait_body(conns *all, conn *c) {
    pthread_mutex_lock(&all->lock);
    enter(all, c, CONN_BODY);
    pthread_mutex_unlock(&all->lock);
}

void conns_wait_answer(conns *all, conn *c) {
    pthread_mutex_lock(&all->lock);
    enter(all, c, CONN_BUSY);
    pthread_mutex_unlock(&all->lock);
}

void conns_end(conns *all, conn *c) {
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    enter(all, c, CONN_IDLE);
    c->exchange = NULL;
    watch_for(all, c, EPOLL_CTL_MOD, EPOLLIN);
    pthread_mutex_unlock(&all->lock);
}

/* ---- ending connections ---- */

static const struct refusal_text {
    int status;
    const char *line, *type, *code, *message;
} refusal_texts[] = {
    {408, "Request Timeout", "timeout_error", "request_timeout", "the request did not arrive in time"},
    {413, "Content Too Large", "invalid_request_error", "request_too_large", "the body is over the limit"},
    {414, "URI Too Long", "invalid_request_error", "request_too_large", "the request line is over the limit"},
    {431, "Request Header Fields Too Large", "invalid_request_error", "request_too_large",
     "the header section is over the limit"},
};

static void shut_down(conn *c) {
    c->is_ending = true;
    shutdown(c->descriptor, SHUT_RDWR);
}

static void refuse_connection(conn *c, int status) {
    char body[256], text[640];
    const struct refusal_text *t = refusal_texts;
    while (t->status != status) t++;
    const int bytes =
        snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}",
                 t->message, t->type, t->code);
    const int all = snprintf(text, sizeof text,
                             "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                             "Server: quipu/" QUIPU_VERSION "\r\nConnection: close\r\n\r\n%s",
                             status, t->line, bytes, body);
    /* What does not fit at once is lost: this client was told enough. */
    const ssize_t ignored = send(c->descriptor, text, (size_t)all, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
    c->is_ending = true;
    c->lingers_until = clock_now() + LINGERING;
    shutdown(c->descriptor, SHUT_WR);
}

void conns_refuse(conns *all, conn *c, int status) {
    pthread_mutex_lock(&all->lock);
    if (!c->is_ending) refuse_connection(c, status);
    pthread_mutex_unlock(&all->lock);
}

bool conns_is_ending(conns *all, conn *c) {
    if (!c) return false;
    pthread_mutex_lock(&all->lock);
    const bool is = c->is_ending;
    pthread_mutex_unlock(&all->lock);
    return is;
}

void conns_break_off(conns *all) {
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&all->lock);
        const bool is_over = i >= all->capacity;
        conn *c = is_over ? NULL : all->table[i];
        exchange *x = c && c->state != CONN_FREE ? c->exchange : NULL;
        if (x) http_hold(&x->public);
        if (c && c->state != CONN_FREE && !c->is_ending) shut_down(c);
        pthread_mutex_unlock(&all->lock);
        if (is_over) return;
        if (!x) continue;
        exchange_close(x);
        http_drop(&x->public);
    }
}

/* ---- the thread ---- */

static void see_event(conns *all, const struct epoll_event *e) {
    const uint32_t place = (uint32_t)e->data.u64, generation = (uint32_t)(e->data.u64 >> 32);
    const bool is_hang_up = e->events & (EPOLLHUP | EPOLLERR),
               has_left = is_hang_up || (e->events & EPOLLRDHUP && !all->ignores_half_close);
    exchange *x = NULL;
    pthread_mutex_lock(&all->lock);
    conn *c = place < all->capacity ? all->table[place] : NULL;
    if (c && c->generation == generation && c->state != CONN_FREE) {
        if (e->events & EPOLLIN && c->state == CONN_IDLE) enter(all, c, CONN_HEADER);
        if (e->events & EPOLLIN) watch_for(all, c, EPOLL_CTL_MOD, 0);
        if (has_left && !c->has_left) {
            c->has_left = true;
            x = c->exchange && (is_hang_up || is_cancelled_by_leaving(c->exchange)) ? c->exchange : NULL;
            if (x) http_hold(&x->public);
        }
    }
    pthread_mutex_unlock(&all->lock);
    if (!x) return;
    exchange_close(x);
    http_drop(&x->public);
}

/* Is the client's side taking nothing of what is under way to it? */
static bool is_stalled(const conns *all, conn *c, double now) {
    int unsent = 0;
    if (ioctl(c->descriptor, SIOCOUTQ, &unsent) || !unsent || unsent != c->unsent) {
        c->unsent = unsent;
        c->unsent_since = now;
    }
    return now - c->unsent_since > all->stall_timeout;
}

static void end_lingering(conn *c, double now) {
    if (!c->lingers_until || now < c->lingers_until) return;
    c->lingers_until = 0;
    shut_down(c);
}

/* One connection at a tick; returns the request that must be cancelled for it, held. */
static exchange *look_at(conns *all, conn *c, double now) {
    const double age = now - c->since;
    if (c->is_ending) return end_lingering(c, now), NULL;
    if (c->state == CONN_IDLE && age > all->idle_timeout) shut_down(c);
    if ((c->state == CONN_HEADER && age > all->header_timeout) || (c->state == CONN_BODY && age > all->body_timeout)) {
        all->counts.timeouts++;
        refuse_connection(c, 408);
    }
    if (c->state != CONN_BUSY || !c->exchange || now < c->next_look) return NULL;
    c->next_look = now + all->look_period;
    exchange_flush(c->exchange);
    if (all->ping_interval > 0 && exchange_ping(c->exchange, now, all->ping_interval)) all->counts.pings++;
    if (!is_stalled(all, c, now)) return NULL;
    all->counts.stalls++;
    c->is_ending = true;
    http_hold(&c->exchange->public);
    return c->exchange;
}

/* First the cause, then the shutting down: the library tells of that as of any client that leaves. */
static void end_stalled(conns *all, conn *c, uint32_t generation, exchange *x) {
    http_cancel(&x->public, CAUSE_STALL);
    exchange_close(x);
    http_drop(&x->public);
    pthread_mutex_lock(&all->lock);
    if (c->generation == generation && c->state != CONN_FREE) shut_down(c);
    pthread_mutex_unlock(&all->lock);
}

static void look_at_all(conns *all, double now) {
    for (uint32_t i = 0;; i++) {
        pthread_mutex_lock(&all->lock);
        const bool is_over = i >= all->capacity;
        conn *c = is_over ? NULL : all->table[i];
        exchange *x = c && c->state != CONN_FREE ? look_at(all, c, now) : NULL;
        const uint32_t generation = c ? c->generation : 0;
        pthread_mutex_unlock(&all->lock);
        if (is_over) return;
        if (x) end_stalled(all, c, generation, x);
    }
}

static void *run(void *user) {
    pthread_setname_np(pthread_self(), "quipu-conns");
    conns *all = user;
    struct epoll_event events[64];
    for (double next = clock_now() + TICK; !atomic_load(&all->is_ending);) {
        const double wait = next - clock_now();
        const int n = epoll_wait(all->epoll, events, 64, wait > 0 ? (int)(wait * 1000) + 1 : 0);
        for (int i = 0; i < n; i++) see_event(all, &events[i]);
        const double now = clock_now();
        if (now < next) continue;
        look_at_all(all, now);
        all->tick(all->user, now);
        next = now + TICK;
    }
    return NULL;
}

static qp_status start(conns *all, qp_error *err) {
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (all->epoll < 0) return err_set(err, QP_IO, 0, "no epoll set for connections: %s", strerror(errno));
    ERR_TRY(wake_open(&all->wake, err));
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    epoll_ctl(all->epoll, EPOLL_CTL_ADD, all->wake, &e);
    sigset_t before;
    signals_block(&before);
    const int failed = pthread_create(&all->thread, NULL, run, all);
    signals_restore(&before);
    return failed ? err_set(err, QP_NO_MEMORY, 0, "no thread for connections: %s", strerror(failed)) : QP_OK;
}

static void release(conns *all) {
    for (uint32_t i = 0; i < all->capacity; i++) mem_free(all->table[i]);
    if (all->epoll >= 0) close(all->epoll);
    if (all->wake >= 0) wake_close(all->wake);
    pthread_mutex_destroy(&all->lock);
    mem_free(all->table);
    mem_free(all->free_places);
    mem_free(all);
}

qp_status conns_new(conns **out, const config *c, void (*tick)(void *user, double now), void *user, qp_error *err) {
    *out = NULL;
    conns *all = MEM_NEW(conns);
    if (!all) return err_no_memory(err, sizeof *all, "the table of connections");
    pthread_mutex_init(&all->lock, NULL);
    all->epoll = all->wake = -1;
    all->header_timeout = c->header_timeout;
    all->body_timeout = c->body_timeout;
    all->idle_timeout = c->keep_alive_timeout;
    all->stall_timeout = c->write_stall_timeout;
    all->ping_interval = c->sse_ping_interval;
    const bool is_hasty = all->ping_interval > 0 && all->ping_interval < 2 * LOOK_PERIOD;
    all->look_period = is_hasty ? all->ping_interval / 2 : LOOK_PERIOD;
    all->ignores_half_close = !strcmp(c->half_close, "ignore");
    all->most = (size_t)c->max_connections;
    all->most_kept = (size_t)c->keep_alive_connections;
    all->tick = tick;
    all->user = user;
    const qp_status status = start(all, err);
    if (status != QP_OK) return release(all), status;
    *out = all;
    return QP_OK;
}

void conns_free(conns *all) {
    if (!all) return;
    atomic_store(&all->is_ending, true);
    wake_set(all->wake);
    pthread_join(all->thread, NULL);
    release(all);
}
