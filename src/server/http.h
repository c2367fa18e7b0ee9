/* http.h — one HTTP request as the rest of the server sees it, and the calls that answer it.
 *
 * http.c is the only file that knows the HTTP library. A request reaches its route's handler complete: body read,
 * limits, key and host checked. Handlers run on one of a few worker threads (rows with ROUTE_INLINE: on the network
 * thread) and must not wait for anything slow; they answer at once, or keep the request (http_hold) and answer later
 * from any thread. None of the calls below ever blocks on a socket; all may come from any thread, one thread at a time
 * per request. After the client has gone they do nothing, so nobody has to ask first. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "base/str.h"
#include <stdatomic.h>

struct server;
struct route_row;

typedef enum http_method { HTTP_GET, HTTP_POST, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER } http_method;

typedef enum access_level { ACCESS_NONE, ACCESS_API, ACCESS_ADMIN } access_level;

/* Why a request's jobs were cancelled; the first cause stays. The words are those of /metrics. */
#define HTTP_CAUSES(X)                                                                                                 \
    X(NONE, "")                                                                                                        \
    X(DISCONNECT, "disconnect")                                                                                        \
    X(API, "api")                                                                                                      \
    X(TIMEOUT, "timeout")                                                                                              \
    X(STALL, "stall")                                                                                                  \
    X(DRAIN, "drain")                                                                                                  \
    X(UNLOAD, "unload")                                                                                                \
    X(LOST, "lost")                                                                                                    \
    X(STOP, "stop")
typedef enum http_cause {
#define X(name, text) CAUSE_##name,
    HTTP_CAUSES(X)
#undef X
        CAUSE_COUNT
} http_cause;

enum { HTTP_ID_BYTES = 128 };

/* What the closing log line and /metrics tell of a request that generated; filled by pump.c, the dialect adds what only
 * it knows. */
typedef struct http_figures {
    char model[128];    /* name of the loaded model */
    const char *finish; /* finish_reason of the first choice: a constant */
    int n;              /* choices */
    bool is_generation;
    const char *constraint; /* its kind: a constant; NULL: none */
    double compile_s;
    size_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
    double queue_s, ttft_s, prefill_s, decode_s; /* ttft: from `arrived` */
    double gap_p50_s, gap_p99_s, gap_max_s;      /* between events with text, of the first choice */
} http_figures;

/* Read by handlers; only http.c writes the first part. */
typedef struct http_request {
    struct server *server;
    const struct route_row *route;
    http_method method;
    const char *path;      /* without the query, decoded */
    const char *parameter; /* what stands for {id} in the route; NULL where it has none */
    span body;             /* bytes as they came, with a zero byte behind them */
    char id[HTTP_ID_BYTES + 1];
    access_level access; /* what the caller's key allows */
    char key_mark[5];    /* first 4 hex digits of the key's hash, for logs; "-" without a key */
    char peer[64];
    double arrived; /* clock_now() when the request line had been read */
    http_figures figures;
    bool wants_stream; /* generate.c: its body asks for a stream */
} http_request;

/* Only inside the handler, before the answer: NULL where absent. Borrowed. */
const char *http_header(http_request *r, const char *name);
/* "" for a query name without a value. */
const char *http_query(http_request *r, const char *name);

/* A handler that wants to answer after it has returned holds the request; the last drop frees it. */
http_request *http_hold(http_request *r);
void http_drop(http_request *r);

/* A header of the answer; before http_reply or http_stream_begin. Texts are copied; control characters are refused. */
void http_add_header(http_request *r, const char *name, const char *value);
/* The whole answer. `body` was allocated by base/mem.h and is taken. A second answer is ignored. */
void http_reply(http_request *r, int status, const char *content_type, char *body, size_t bytes);

/* Status 200 and the headers of an event stream go out at once. `ping` is sent when nothing else was for the ping
 * interval (a constant text with its blank line; NULL: ": ping\n\n"). */
void http_stream_begin(http_request *r, const char *ping);
/* The same when nothing has been answered after one ping interval, unless its handler has run again by then. */
void http_stream_late(http_request *r);
/* One event, complete with its blank line: one chunk, one write. Copied. */
void http_stream_send(http_request *r, const char *event, size_t bytes);
void http_stream_end(http_request *r);
/* Has http_reply or http_stream_begin been called? */
bool http_has_begun(http_request *r);
bool http_is_stream(http_request *r);
/* Are so many events or bytes waiting for the client that nobody should make more? (pump.c then leaves the text with
 * the engine, which merges it.) */
bool http_is_full(http_request *r);
/* Has the client gone? */
bool http_is_closed(http_request *r);

/* Calls back once: when the client goes (or has gone already) or the request is cancelled by http_cancel, whatever
 * comes first, from the thread that found out; `on_room` when a full stream has room again. NULL removes both, and
 * waits for a call that is running. */
typedef struct http_listener {
    void (*on_cancel)(void *user);
    void (*on_room)(void *user);
    void *user;
} http_listener;
void http_listen(http_request *r, const http_listener *listener);

/* Ends the request's work for this cause; the connection stays, so that an answer can still be given. */
void http_cancel(http_request *r, http_cause cause);
/* Why it was cancelled; CAUSE_NONE while it was not. */
http_cause http_cancel_cause(http_request *r);
const char *http_cause_text(http_cause cause);

#endif
