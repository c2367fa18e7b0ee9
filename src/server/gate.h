/* gate.h — who gets in: Host, origin, route, key, in this order, before a byte of the body is looked at. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "http.h"

/* Finds the route and answers the request if it may not go on: false. Sets route, parameter, access and key_mark. */
bool gate_check(http_request *r);
/* The headers that let a web page read the answer. */
void gate_add_cors(http_request *r);
/* Is `host` (with or without a port) a name that this machine has for itself, or one of the configured? */
bool gate_is_own_host(const struct server *s, const char *host);

#endif
