/* exchange.h — one request and its answer on their way through the server; what http.h's calls work on.
 *
 * Three parties share an exchange: the network thread (http.c), the watch over connections (conns.c) and whoever makes
 * the answer. One lock decides between them; it is held for moments only. The network thread sleeps on a connection by
 * suspending it under this lock when there is nothing to send, and `wake` is called under the same lock as soon as
 * there is: so a wake is never lost and never doubled. In the middle of a stream an event is written past the sleeping
 * connection where that is possible (direct.h). */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "direct.h"
#include "http.h"
#include "sse.h"
#include <pthread.h>

enum { EXCHANGE_HEADERS = 16 };

typedef enum exchange_state {
    EXCHANGE_READING,   /* the body is arriving */
    EXCHANGE_HANDLING,  /* with a handler, or whoever it left it to */
    EXCHANGE_REPLIED,   /* the whole answer is here */
    EXCHANGE_STREAMING, /* the answer comes in events */
    EXCHANGE_ENDED,     /* the last event is in the queue */
} exchange_state;

typedef struct exchange_header {
    char *name, *value;
} exchange_header;

typedef struct exchange exchange;
struct exchange {
    http_request public; /* first: http_request * and exchange * are the same address */
    atomic_int users;
    pthread_mutex_t lock;
    pthread_cond_t call_over; /* is_calling has become false */
    exchange_state state;
    strbuf body;
    char *path;

    int status;
    const char *content_type;
    char *answer;
    size_t answer_bytes;
    exchange_header headers[EXCHANGE_HEADERS];
    int n_headers;
    sse_queue queue;
    direct direct;
    const char *ping;
    double last_sent; /* clock_now() of the last byte given to the network, or of the beginning */
    size_t n_sent;    /* bytes of the answer's body */

    bool is_suspended, is_completed; /* completed: the network thread has let go of it */
    bool is_in_stream;               /* suspended between two events */
    int n_handlers;                  /* its handler runs: the connection sleeps on, so that headers can be read */
    bool is_wake_due;                /* ... and is woken when it has returned */
    bool begins_late;                /* as a stream, when the answer is not there after a ping interval */
    bool is_closed;                  /* the client has gone */
    bool is_broken;                  /* memory ran out under a stream */
    bool wants_room;
    bool must_close;                        /* the connection ends with this answer */
    bool is_handed_over, is_left_to_worker; /* by the network thread alone */
    http_cause cause;
    http_listener listener;
    bool has_called, is_calling;
    pthread_t caller;

    void (*wake)(void *connection); /* the network thread should look at it again */
    void *connection;
    void *(*look_up)(exchange *x, const char *name, bool is_query);
    void *verdict;             /* http.c: an answer that is decided but waits for the body to be read */
    void *group;               /* pump.c: the jobs of this request */
    void (*gone)(exchange *x); /* the last user has dropped it: log it; then it is freed */
};

static inline exchange *exchange_of(http_request *r) { return (exchange *)r; }

/* With one user. NULL when memory is short. */
exchange *exchange_new(struct server *s);
/* By the network thread, under no lock. May it send something? If not, is_suspended is set and `suspend` called. */
typedef enum exchange_ready { EXCHANGE_WAIT, EXCHANGE_ANSWER, EXCHANGE_STREAM, EXCHANGE_GIVE_UP } exchange_ready;
exchange_ready exchange_look(exchange *x, void (*suspend)(void *connection));
/* Bytes of the next event; 0: suspended; -1: the end; -2: broken off. */
int64_t exchange_take(exchange *x, char *out, size_t capacity, void (*suspend)(void *connection));
/* Before a handler gets it, and after it has returned. A second may get it before the first has returned. */
void exchange_handle(exchange *x);
void exchange_handled(exchange *x);
/* The client has gone. */
void exchange_close(exchange *x);
/* The network thread lets go; is_closed if the answer did not get out whole. */
void exchange_complete(exchange *x, bool is_closed);
/* Sends a ping if nothing was sent for `interval` seconds, or begins a late stream; true if it did. */
bool exchange_ping(exchange *x, double now, double interval);
/* Tries to go on with an event that was cut. */
void exchange_flush(exchange *x);
/* Events that wait for the client. */
size_t exchange_waiting(exchange *x);

#endif
