/* http.c — HTTP on libmicrohttpd: the only file that calls it.
 *
 * One polling thread of the library reads and writes for all connections. It calls on_access when a header section is
 * there, for every piece of a body, and again when the whole request is; the request then goes to a worker thread while
 * the connection sleeps (suspended). When an answer or an event exists, exchange.c wakes it.
 *
 * What the library would let through is refused here and in guard.c before anything else happens; what it does not
 * watch (clients that leave while it sleeps, slow senders) is watched by conns.c. A refusal that needs not the body is
 * decided at once but told after the body has been read, because a connection that is closed under a sender loses the
 * answer; only what is malformed or too large is told at once. */
#include "http.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gate.h"
#include "guard.h"
#include "keys.h"
#include "metrics.h"
#include "reply.h"
#include "route.h"
#include "server.h"
#include "slog.h"
#include "transport.h"
#include "workers.h"
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    LONGEST_REQUEST_LINE = 8192,
    MARGIN_CONNECTIONS = 64,
    STREAM_BLOCK = 16384,
    SEND_BUFFER = 256 << 10,
    ANSWER_ROOM = 4096 /* of a connection's memory: for the headers of its answers */
};

struct transport {
    struct server *server;
    struct MHD_Daemon *daemon;
    conns *conns;
    workers *workers;
    int listener;
    bool is_quiet;
};

/* ---- connections and requests that come and go ---- */

static void suspend(void *connection) { MHD_suspend_connection(connection); }
static void resume(void *connection) { MHD_resume_connection(connection); }

static void describe_peer(char *out, size_t capacity, const struct sockaddr *address) {
    char host[56] = "?";
    const socklen_t bytes = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    getnameinfo(address, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    snprintf(out, capacity, "%s", host);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what) {
    transport *t = user;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        conns_close(t->conns, *socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *from = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const int on = 1, most = SEND_BUFFER; /* else the kernel keeps megabytes for each reader that stops */
    char peer[64];
    describe_peer(peer, sizeof peer, from->client_addr);
    setsockopt(fd->connect_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd->connect_fd, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
    *socket_context = conns_open(t->conns, fd->connect_fd, peer);
}

static conn *conn_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void *look_up(exchange *x, const char *name, bool is_query) {
    if (!x->connection) return NULL;
    const char *value = NULL;
    const enum MHD_ValueKind kind = is_query ? MHD_GET_ARGUMENT_KIND : MHD_HEADER_KIND;
    if (MHD_lookup_connection_value_n(x->connection, kind, name, strlen(name), &value, NULL) == MHD_NO) return NULL;
    return (void *)(value ? value : "");
}

/* The closing line of a request's log, when the last who knew of it has let go. */
static void log_request(exchange *x) {
    static const char *const methods[] = {"GET", "POST", "DELETE", "OPTIONS", "OTHER"};
    const http_request *r = &x->public;
    const http_figures *f = &r->figures;
    const double now = clock_now(), unknown = 0.0 / 0.0;
    const bool is_refused = x->state == EXCHANGE_READING && x->status; /* past the library */
    const int status = x->is_closed && !is_refused ? 499 : x->status;
    const bool is_gen = f->is_generation, has_text = is_gen && f->ttft_s > 0;
    if (r->route || x->status) metrics_http(r->server->metrics, r->route, r->method, status);
    const double computed = (double)f->prompt_tokens - (double)f->cached_tokens;
    const slog_field fields[] = {
        SLOG_W("request_id", r->id),
        SLOG_W("key", r->key_mark),
        SLOG_W("peer", r->peer),
        SLOG_W("method", methods[r->method]),
        SLOG_W("path", r->path ? r->path : ""),
        SLOG_C("status", status),
        SLOG_B("stream", x->state >= EXCHANGE_STREAMING),
        SLOG_W("model", is_gen ? f->model : NULL),
        SLOG_C("n", is_gen ? f->n : -1),
        SLOG_C("prompt_tokens", is_gen ? (int64_t)f->prompt_tokens : -1),
        SLOG_C("cached_tokens", is_gen ? (int64_t)f->cached_tokens : -1),
        SLOG_C("completion_tokens", is_gen ? (int64_t)f->completion_tokens : -1),
        SLOG_C("reasoning_tokens", is_gen && f->reasoning_tokens ? (int64_t)f->reasoning_tokens : -1),
        SLOG_W("finish", is_gen ? f->finish : NULL),
        SLOG_W("constraint", f->constraint),
        SLOG_N("compile_ms", f->constraint ? f->compile_s * 1e3 : unknown),
        SLOG_N("queue_ms", is_gen ? f->queue_s * 1e3 : unknown),
        SLOG_N("ttft_ms", has_text ? f->ttft_s * 1e3 : unknown),
        SLOG_N("itl_p50_ms", has_text && f->gap_max_s > 0 ? f->gap_p50_s * 1e3 : unknown),
        SLOG_N("itl_p99_ms", has_text && f->gap_max_s > 0 ? f->gap_p99_s * 1e3 : unknown),
        SLOG_N("itl_max_ms", has_text && f->gap_max_s > 0 ? f->gap_max_s * 1e3 : unknown),
        SLOG_N("decode_tps", is_gen && f->n == 1 && f->completion_tokens > 1 && f->decode_s > 0
                                 ? ((double)f->completion_tokens - 1) / f->decode_s
                                 : unknown),
        SLOG_N("prefill_tps", is_gen && computed >= 8 && f->prefill_s > 0 ? computed / f->prefill_s : unknown),
        SLOG_N("total_ms", (now - r->arrived) * 1e3),
        SLOG_W("cancel_cause", x->cause == CAUSE_NONE ? NULL : http_cause_text(x->cause)),
    };
    slog_event(r->server->log, QP_LOG_INFO, "request", fields, sizeof fields / sizeof *fields);
}

/* The library has read a request line; its answer becomes *request_context. */
static void *on_request_line(void *user, const char *uri, struct MHD_Connection *connection) {
    transport *t = user;
    exchange *x = exchange_new(t->server);
    if (!x) return NULL;
    x->connection = connection;
    x->wake = resume;
    x->look_up = look_up;
    x->must_close = strlen(uri) > LONGEST_REQUEST_LINE;
    return x;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode how) {
    transport *t = user;
    exchange *x = *request_context;
    *request_context = NULL;
    if (!x) return;
    conns_end(t->conns, conn_of(connection));
    exchange_complete(x, how != MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* ---- the answer ---- */

static void free_answer(void *answer) { mem_free(answer); }

static ssize_t read_stream(void *user, uint64_t position, char *out, size_t capacity) {
    const int64_t taken = exchange_take(user, out, capacity, suspend);
    return taken == -1   ? MHD_CONTENT_READER_END_OF_STREAM
           : taken == -2 ? MHD_CONTENT_READER_END_WITH_ERROR
                         : (ssize_t)taken;
}

static void add_headers(struct MHD_Response *response, const exchange *x) {
    MHD_add_response_header(response, "Server", "quipu/" QUIPU_VERSION);
    MHD_add_response_header(response, "x-request-id", x->public.id);
    MHD_add_response_header(response, "request-id", x->public.id);
    for (int i = 0; i < x->n_headers; i++) MHD_add_response_header(response, x->headers[i].name, x->headers[i].value);
    if (x->must_close) MHD_add_response_header(response, "Connection", "close");
}

static enum MHD_Result queue(struct MHD_Connection *connection, exchange *x, struct MHD_Response *response) {
    if (!response) return MHD_NO;
    add_headers(response, x);
    const enum MHD_Result result = MHD_queue_response(connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result queue_answer(struct MHD_Connection *connection, exchange *x) {
    char *body = x->answer;
    x->answer = NULL;
    struct MHD_Response *response =
        body ? MHD_create_response_from_buffer_with_free_callback(x->answer_bytes, body, free_answer)
             : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!response) mem_free(body);
    if (response && x->content_type) MHD_add_response_header(response, "Content-Type", x->content_type);
    return queue(connection, x, response);
}

static enum MHD_Result queue_stream(struct MHD_Connection *connection, exchange *x) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, x, NULL);
    if (response) {
        MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
        MHD_add_response_header(response, "Cache-Control", "no-cache, no-transform");
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
    }
    return queue(connection, x, response);
}

/* ---- the request ---- */

static bool is_id_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("._:-", c));
}

static void choose_id(exchange *x) {
    const char *given = http_header(&x->public, "X-Request-Id");
    size_t bytes = 0;
    while (given && bytes <= HTTP_ID_BYTES && is_id_char(given[bytes])) bytes++;
    if (given && bytes && bytes <= HTTP_ID_BYTES && !given[bytes]) {
        memcpy(x->public.id, given, bytes);
        return;
    }
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) memset(random, 0, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) snprintf(x->public.id + 2 * i, 3, "%02x", random[i]);
}

static http_method read_method(const char *word) {
    static const struct {
        const char *word;
        http_method method;
    } methods[] = {
        {"GET", HTTP_GET}, {"HEAD", HTTP_GET}, {"POST", HTTP_POST}, {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(word, methods[i].word)) return methods[i].method;
    return HTTP_OTHER;
}

static enum MHD_Result show_header(void *user, enum MHD_ValueKind kind, const char *key, size_t key_bytes,
                                   const char *value, size_t value_bytes) {
    guard_header(user, key, key_bytes, value ? value : "", value ? value_bytes : 0);
    return MHD_YES;
}

static bool copy_path(exchange *x, const char *url) {
    size_t bytes = strlen(url);
    if (bytes > 1 && url[bytes - 1] == '/') bytes--;
    x->path = mem_copy_text(url, bytes);
    x->public.path = x->path;
    return x->path != NULL;
}

/* What is wrong with the frame of the request: told at once, and the connection ends. */
static bool check_frame(transport *t, exchange *x, const guard *g, const char *version, const conn *c) {
    http_request *r = &x->public;
    const char *fault = guard_verdict(g, strcmp(version, "HTTP/1.0") != 0);
    const uint64_t most = (uint64_t)t->server->config->max_body_bytes;
    const bool is_long = x->must_close;
    x->must_close = true;
    if (fault)
        reply_error(r, FAULT_BAD_REQUEST, NULL, "malformed request: %s", fault);
    else if (is_long)
        reply_error(r, FAULT_URI_TOO_LONG, NULL, "the request line is over %d bytes", LONGEST_REQUEST_LINE);
    else if (!c || conns_is_too_many(t->conns))
        reply_error(r, FAULT_OVERLOADED, NULL, "all %lld connections are taken",
                    (long long)t->server->config->max_connections);
    else if (g->n_lengths && g->length > most)
        reply_error(r, FAULT_TOO_LARGE, NULL, "the body is %llu bytes, the limit is %llu",
                    (unsigned long long)g->length, (unsigned long long)most);
    else
        return x->must_close = conns_is_crowded(t->conns), true;
    return false;
}

/* The header section is complete. */
static enum MHD_Result begin(transport *t, struct MHD_Connection *connection, exchange *x, const char *url,
                             const char *method, const char *version) {
    http_request *r = &x->public;
    conn *c = conn_of(connection);
    guard g = {0};
    r->method = read_method(method);
    if (!copy_path(x, url)) return MHD_NO;
    snprintf(r->peer, sizeof r->peer, "%s", c ? conns_peer(c) : "?");
    x->direct.descriptor = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    x->direct.is_chunked = strcmp(version, "HTTP/1.0") != 0;
    choose_id(x);
    x->gone = log_request;
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, show_header, &g);
    if (g.cost + strlen(url) > (size_t)t->server->config->max_header_bytes) {
        x->status = x->must_close ? 414 : 431;
        if (!c) return MHD_NO;
        conns_refuse(t->conns, c, x->status); /* the library might not have the memory for an answer */
        return MHD_YES;
    }
    const bool is_framed = check_frame(t, x, &g, version, c), is_let_in = is_framed && gate_check(r);
    if (c) conns_begin(t->conns, c, x);
    if (!is_framed || (!is_let_in && g.expects_continue)) {
        x->must_close = true;
        return queue_answer(connection, x);
    }
    if (c) conns_wait_body(t->conns, c);
    return MHD_YES;
}

static enum MHD_Result take_body(transport *t, struct MHD_Connection *connection, exchange *x, const char *data,
                                 size_t *bytes) {
    conn *c = conn_of(connection);
    const size_t most = (size_t)t->server->config->max_body_bytes;
    const bool is_over = x->public.body.bytes + *bytes > most;
    x->public.body.bytes += *bytes;
    if (!is_over && x->state == EXCHANGE_READING) strbuf_add(&x->body, data, *bytes);
    *bytes = 0;
    if (is_over || x->body.failed) {
        x->status = 413;
        conns_refuse(t->conns, c, 413);
        return MHD_YES;
    }
    conns_wait_body(t->conns, c);
    return MHD_YES;
}

/* The request is here as a whole: to its handler, at once or by a worker. */
static bool hand_over(transport *t, exchange *x) {
    http_request *r = &x->public;
    r->body = (span){x->body.at ? x->body.at : "", x->body.bytes};
    if (x->state != EXCHANGE_READING) return true; /* the gate has answered */
    if (r->route->flags & ROUTE_INLINE) {
        r->route->handler(r);
        return true;
    }
    /* Asleep before the worker has it: its answer then finds somebody to wake. */
    x->is_left_to_worker = true;
    exchange_handle(x);
    if (exchange_look(x, suspend) == EXCHANGE_GIVE_UP) return false;
    if (!workers_add(t->workers, r)) {
        reply_error(r, FAULT_OVERLOADED, NULL, "no worker takes the request");
        exchange_handled(x);
    }
    return true;
}

/* A piece of what is refused already, or its end. */
static enum MHD_Result drop(size_t *bytes) {
    const bool has_more = *bytes;
    *bytes = 0;
    return has_more ? MHD_YES : MHD_NO;
}

static enum MHD_Result on_access(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *upload, size_t *upload_bytes,
                                 void **request_context) {
    transport *t = user;
    exchange *x = *request_context;
    if (!x) return MHD_NO;
    if (conns_is_ending(t->conns, conn_of(connection))) return drop(upload_bytes);
    if (!x->path) return begin(t, connection, x, url, method, version);
    if (*upload_bytes) return take_body(t, connection, x, upload, upload_bytes);
    if (!x->is_handed_over) {
        x->is_handed_over = true;
        conns_wait_answer(t->conns, conn_of(connection));
        if (!hand_over(t, x)) return MHD_NO;
        if (x->is_left_to_worker) return MHD_YES;
    }
    switch (exchange_look(x, suspend)) {
    case EXCHANGE_WAIT:
        return MHD_YES;
    case EXCHANGE_ANSWER:
        return queue_answer(connection, x);
    case EXCHANGE_STREAM:
        return queue_stream(connection, x);
    case EXCHANGE_GIVE_UP:
        break;
    }
    return MHD_NO;
}

/* ---- listening ---- */

static int bind_address(const struct addrinfo *at, const char **what) {
    const int on = 1;
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    *what = "socket";
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    *what = "bind";
    if (!bind(fd, at->ai_addr, at->ai_addrlen)) {
        *what = "listen";
        if (!listen(fd, 1024)) return fd;
    }
    const int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static qp_status open_listener(int *out, const config *c, int *port, qp_error *err) {
    char service[16];
    const struct addrinfo wanted = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    const char *what = "";
    snprintf(service, sizeof service, "%d", (int)c->port);
    const int failed = getaddrinfo(c->host, service, &wanted, &found);
    if (failed)
        return err_set(err, QP_BAD_ARGUMENT, 0, "host '%.200s' cannot be listened on: %s", c->host,
                       gai_strerror(failed));
    *out = bind_address(found, &what);
    const int why = errno;
    freeaddrinfo(found);
    if (*out < 0) return err_set(err, QP_IO, 0, "%.200s, port %d: %s: %s", c->host, (int)c->port, what, strerror(why));
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    getsockname(*out, (struct sockaddr *)&own, &bytes);
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return QP_OK;
}

static void note_library(void *user, const char *format, va_list arguments) {
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = 0;
    slog_say(((transport *)user)->server->log, QP_LOG_DEBUG, "libmicrohttpd: %s", line);
}

static qp_status start_daemon(transport *t, qp_error *err) {
    const config *c = t->server->config;
    t->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, NULL, NULL,
        on_access, t, MHD_OPTION_EXTERNAL_LOGGER, note_library, t, MHD_OPTION_LISTEN_SOCKET, t->listener,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, t, MHD_OPTION_NOTIFY_CONNECTION, on_connection, t,
        MHD_OPTION_URI_LOG_CALLBACK, on_request_line, t, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(c->max_connections + MARGIN_CONNECTIONS), MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)c->max_connections_per_address, MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)c->max_header_bytes + ANSWER_ROOM, MHD_OPTION_END);
    return t->daemon ? QP_OK : err_set(err, QP_IO, 0, "libmicrohttpd does not start: %s", strerror(errno));
}

static void release(transport *t) {
    workers_free(t->workers);
    conns_free(t->conns);
    if (t->listener >= 0) close(t->listener);
    mem_free(t);
}

qp_status transport_open(transport **out, struct server *s, void (*tick)(void *user, double now), int *port,
                         qp_error *err) {
    *out = NULL;
    transport *t = MEM_NEW(transport);
    if (!t) return err_no_memory(err, sizeof *t, "the network");
    t->server = s;
    t->listener = -1;
    qp_status status = open_listener(&t->listener, s->config, port, err);
    if (status == QP_OK) status = workers_new(&t->workers, (int)s->config->workers, err);
    if (status == QP_OK) status = conns_new(&t->conns, s->config, tick, s, err);
    if (status == QP_OK) status = start_daemon(t, err);
    if (status != QP_OK) return release(t), status;
    *out = t;
    return QP_OK;
}

void transport_quiesce(transport *t) {
    if (t->is_quiet) return;
    t->is_quiet = true;
    MHD_quiesce_daemon(t->daemon);
}

bool transport_is_busy(transport *t) { return conns_is_busy(t->conns); }
bool transport_run_again(transport *t, http_request *r) {
    exchange_handle(exchange_of(r));
    if (workers_add(t->workers, r)) return true;
    exchange_handled(exchange_of(r));
    return false;
}

void transport_get_counts(transport *t, conns_counts *counts) {
    if (t) conns_get_counts(t->conns, counts);
}

void transport_close(transport *t) {
    if (!t) return;
    transport_quiesce(t);
    workers_stop(t->workers); /* no handler keeps a connection asleep any more */
    conns_break_off(t->conns);
    MHD_stop_daemon(t->daemon);
    release(t);
}
