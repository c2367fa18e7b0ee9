/* health.h — does the server do its work? What is wrong, since when, and when to ask again.
 *
 * Told by conns.c's tick, models.c and drain; asked by any thread. */
#ifndef SERVER_HEALTH_H
#define SERVER_HEALTH_H

#include "http.h"
#include <jansson.h>

struct server;
typedef struct health health;

qp_status health_new(health **out, double stall_timeout, qp_error *err);
void health_free(health *h);
/* Remembers something that went wrong; of the last 100 the newest stay. */
void health_note(health *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A look at the engine (NULL: no model), which has `n_jobs` that have not ended: with work and without a step for
 * stall_timeout it is stalled. True when that has just changed. */
bool health_look(health *h, const qp_generator_stats *stats, size_t n_jobs, double now);
bool health_is_stalled(health *h);
/* Seconds since a look found that the engine's device has failed, which does not heal; < 0: it has not. */
double health_lost_for(health *h, double now);
/* May work be sent here? *issues: a new array of {time, description}, those that hold now first; may be NULL. */
bool health_is_ready(struct server *s, json_t **issues);
/* Seconds for Retry-After: 1 to 60, from what waits. */
int health_retry_after(struct server *s);

#endif
