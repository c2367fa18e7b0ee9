/* transport.h — the server's door to the network: opened, asked, closed. http.c is behind it. */
#ifndef SERVER_TRANSPORT_H
#define SERVER_TRANSPORT_H

#include "conns.h"

struct server;
typedef struct transport transport;

/* Listens on the configured address; *port is where. tick(server, now) comes a few times a second. */
qp_status transport_open(transport **out, struct server *s, void (*tick)(void *user, double now), int *port,
                         qp_error *err);
/* No new connections; those that exist go on. */
void transport_quiesce(transport *t);
/* Is any request not yet answered? */
bool transport_is_busy(transport *t);
/* Breaks off what is left. */
void transport_close(transport *t);
/* A request that its handler has left to wait: the handler runs again, on a worker. False: the workers have ended. */
bool transport_run_again(transport *t, http_request *r);
void transport_get_counts(transport *t, conns_counts *counts);

#endif
