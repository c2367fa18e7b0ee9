/* inbox.h — how other threads reach the engine: jobs, cancels, errands, the end. */
#ifndef GEN_INBOX_H
#define GEN_INBOX_H

#include "job.h"

/* Something that must be done on the engine's thread between two steps. */
typedef struct errand errand;
struct errand {
    void (*run)(void *engine, void *context);
    void *context;
    bool is_done, is_refused;
    errand *next;
};

/* Lives until the generator and all its jobs have let go. */
struct inbox {
    bell bell;
    atomic_int owners;
    job *first, *last;
    errand *errands;
    size_t n_waiting, max_waiting; /* jobs that no step has taken up: in here and in the engine's queue */
    uint64_t next_serial, n_refused;
    bool has_signal, is_closed;
};

/* `first_serial`: 1, tests begin elsewhere. */
qp_status inbox_new(inbox **out, size_t max_waiting, uint64_t first_serial, qp_error *err);
inbox *inbox_hold(inbox *b);
void inbox_let_go(inbox *b);

/* By clients. All of the n jobs or none; the engine becomes an owner of each. QP_BUSY when the queue is full,
 * QP_CANCELLED when the generator has ended. */
qp_status inbox_submit(inbox *b, job *const *jobs, int n, qp_error *err);
/* Something about a job has changed (cancelled): look. */
void inbox_signal(inbox *b);
/* Runs fn on the engine's thread and returns when it has. */
qp_status inbox_errand(inbox *b, void (*run)(void *engine, void *context), void *context, qp_error *err);
/* No more jobs; the engine ends. */
void inbox_close(inbox *b);

/* By the engine. What has come since the last call; waits for something until `deadline` (0: not at all). */
typedef struct inbox_news {
    job *jobs;       /* a list in the order of submission */
    errand *errands; /* likewise; each must be given to inbox_done */
    bool has_signal, is_closed;
} inbox_news;
inbox_news inbox_take(inbox *b, double deadline);
void inbox_done(inbox *b, errand *e);
/* A job has left the queue of those that wait (n = -1) or came back into it (n = 1). */
void inbox_count(inbox *b, int n);

#endif
