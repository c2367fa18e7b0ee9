/* conns.h — every open connection: watched for clients that leave, and for deadlines that pass.
 *
 * One thread of its own. It sees a client go within moments in every state, also while the HTTP library has put the
 * connection to sleep and would not look. It is also the server's clock for what happens now and then (tick). */
#ifndef SERVER_CONNS_H
#define SERVER_CONNS_H

#include "config.h"
#include "exchange.h"

typedef struct conns conns;
typedef struct conn conn;

typedef struct conns_counts {
    size_t open, streams, waiting_events;
    uint64_t pings, stalls, timeouts;
} conns_counts;

/* tick(user) comes on the thread about five times a second; it must be quick. */
qp_status conns_new(conns **out, const config *c, void (*tick)(void *user, double now), void *user, qp_error *err);
/* After the network has ended. */
void conns_free(conns *all);
void conns_get_counts(conns *all, conns_counts *counts);

/* By the network thread. NULL when memory is short. The descriptor stays the caller's, and open until conns_close. */
conn *conns_open(conns *all, int descriptor, const char *peer);
void conns_close(conns *all, conn *c);
const char *conns_peer(const conn *c);
/* Are so many open that the newest must be answered 503, or that none is kept after its answer? */
bool conns_is_too_many(conns *all);
bool conns_is_crowded(conns *all);
/* A request line has been read; the body will come; bytes of it came; all is here; the answer is out. */
void conns_begin(conns *all, conn *c, exchange *x);
void conns_wait_body(conns *all, conn *c);
void conns_wait_answer(conns *all, conn *c);
void conns_end(conns *all, conn *c);
/* Writes an answer past the HTTP library, which is in the middle of reading, and ends the connection: at the latest in
 * two seconds, in which the client may read it and what it still sends is to be dropped. */
void conns_refuse(conns *all, conn *c, int status);
/* Is it to be ended, so that nothing that comes on it counts any more? */
bool conns_is_ending(conns *all, conn *c);
/* Closes every request as if its client had gone; nothing sleeps after this. */
void conns_break_off(conns *all);
/* Is a request on any connection? */
bool conns_is_busy(conns *all);

#endif
