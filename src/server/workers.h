/* workers.h — the threads that run handlers, so that the network thread reads, writes and nothing else. */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "http.h"

typedef struct workers workers;

qp_status workers_new(workers **out, int n_threads, qp_error *err);
/* Ends the threads after the handlers that run; what still waits is dropped, and nothing is taken any more. */
void workers_stop(workers *w);
void workers_free(workers *w);
/* Runs the request's handler soon; the request is held until it has returned. False when
 * memory is short or the workers have ended. */
bool workers_add(workers *w, http_request *r);

#endif
