/* server.h — what all parts of one server share, and its life: start, run until told to end, stop.
 *
 * cli/cmd_serve.c calls it. Parts find each other through this struct; each guards its own state, so the struct itself
 * needs no lock. The order of starting is the order of the members, stopping goes the other way. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "config.h"
#include "http.h"

typedef struct keys keys;
typedef struct metrics metrics;
typedef struct models models;
typedef struct presets presets;
typedef struct health health;
typedef struct loader loader;
typedef struct transport transport;
typedef struct slog slog;
typedef struct rate_limit rate_limit;
struct pump;

typedef struct server {
    const config *config;
    slog *log;
    metrics *metrics;
    keys *keys;
    rate_limit *rate;
    health *health;
    presets *presets;
    models *models;
    loader *loader;
    struct pump *pump;
    transport *transport;
    double started;          /* clock_now() */
    int64_t started_unix;    /* seconds since 1970 */
    atomic_bool is_draining; /* generation is refused */
    double next_summary;     /* by the thread that ticks */
} server;

/* Everything but listening and the model. The configuration and the log must outlive it. */
qp_status server_new(server **out, const config *c, slog *log, qp_error *err);
void server_free(server *s);
/* Listens. *port: where, also when the configuration says 0. */
qp_status server_listen(server *s, int *port, qp_error *err);

/* Refuses new work; running jobs go on. */
void server_drain(server *s);
/* Has the device failed fatal_grace seconds ago, so that only a new process can help? */
bool server_is_lost(server *s);
/* Is every request answered? */
bool server_is_idle(server *s);
/* Ends what still runs, as if its limit had come; its last events then go out. */
void server_end_jobs(server *s);

#endif
