/* watch.h — which of many jobs have something to read: one reader, one descriptor, any number of jobs. */
#ifndef GEN_WATCH_H
#define GEN_WATCH_H

#include "base/bell.h"
#include <stdatomic.h>

/* One job's place in a watch's list; lives inside the job. */
typedef struct watch_seat watch_seat;
struct watch_seat {
    watch_seat *next, *previous; /* in the list of those with something to read */
    void *handle, *user;         /* given to the reader; handle NULL: the reader has let go of it */
    bool is_listed;
};

/* Lives until its owner and every job that names it have let go. */
typedef struct watch {
    bell bell;
    watch_seat *first, *last;
    int descriptor;
    atomic_int users;
} watch;

qp_status watch_new(watch **out, qp_error *err);
watch *watch_hold(watch *w);
void watch_let_go(watch *w);

/* By the engine: the job has something to read. */
void watch_tell(watch *w, watch_seat *seat);
/* By the reader: the handle is about to be freed. */
void watch_leave(watch *w, watch_seat *seat);
/* By the reader: a handle with something to read, or NULL when `deadline` (clock_now) has passed. */
void *watch_next(watch *w, double deadline, void **user);

#endif
