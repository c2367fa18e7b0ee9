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
struct pump;

typedef struct server {
    const config *config;
    slog *log;
    metrics *metrics;
    keys *keys;
    health *health;
    presets *presets;
    models *models;
    loader *loader;
    struct pump *pump;
    transport *transport;
    double started;          /* clock_now() */
    int64_t started_unix;    /* seconds since 1970 */
    atomic_bool is_draining; /* generation is refused */
    atomic_bool is_hurried;  /* what still runs is ended now */
    double next_summary;     /* by the thread that ticks */
} server;

/* Everything but listening and the model. The configuration and the log must outlive it. */
qp_status server_new(server **out, const config *c, slog *log, qp_error *err);
void server_free(server *s);
/* Listens. *port: where, also when the configuration says 0. */
qp_status server_listen(server *s, int *port, qp_error *err);

/* Refuses new work; running jobs go on. */
void server_drain(server *s);
/* Waits until all answers are out or `deadline` (clock_now) has come, then ends those that are left in good order. */
void server_wait_drained(server *s, double deadline);
/* Makes that wait end now; from any thread. */
void server_hurry(server *s);

#endif
