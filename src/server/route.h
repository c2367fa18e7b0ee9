/* route.h — one row for each route: method, path, handler, who may call it. route_table.c has them all. */
#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H

#include "http.h"

/* First release, needed to replace TabbyAPI, beyond. */
typedef enum route_tier { TIER_P0, TIER_P1, TIER_P2 } route_tier;

enum {
    ROUTE_INLINE = 1 << 0,    /* quick: runs on the network thread, also while all workers are busy */
    ROUTE_GENERATES = 1 << 1, /* refused while draining */
    ROUTE_ANTHROPIC = 1 << 2, /* errors have Anthropic's shape */
    ROUTE_NO_DONE = 1 << 3,   /* an error in the stream is not followed by [DONE] */
    ROUTE_NO_ALIAS = 1 << 4,  /* not served without its /v1 */
    ROUTE_METRICS = 1 << 5,   /* needs a key where the configuration says so */
};

/* Answers with reply.h, or holds the request for later. */
typedef void route_handler(http_request *r);

typedef struct route_row {
    http_method method;
    const char *path; /* "{id}" as last part stands for the rest of the path, not empty */
    route_handler *handler;
    access_level access;
    unsigned flags;
    route_tier tier;
} route_row;

extern const route_row route_rows[];
extern const size_t route_count;

/* The row for method and path, with or without /v1 and a final slash. *parameter points into `path`. NULL: none;
 * *allowed then has a bit (1 << method) for each method that the path knows. HEAD is asked for as GET. */
const route_row *route_find(http_method method, const char *path, const char **parameter, unsigned *allowed);
/* "GET, POST" of such bits. */
void route_methods(char *out, size_t capacity, unsigned allowed);

#endif
