/* pool.h — the threads that share one op: a row of tasks, handed out, then a barrier.
 *
 * pool_run calls fn(context, task, worker) for each task 0 .. n_tasks-1, each exactly once, on the calling thread
 * (worker 0) and the pool's workers, and returns when all have ended. Tasks are claimed one by one from an atomic
 * counter, so a core that is busy elsewhere takes fewer; a worker whose core was taken away in the middle of a task, or
 * that got no core but the caller's, sits out the next moments. Workers spin briefly for the next run, then sleep on a
 * futex; nothing of the result depends on which worker ran a task. One pool_run at a time per pool. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "err.h"

typedef struct pool pool;
typedef void pool_fn(void *context, int64_t task, int worker);

/* n_threads counts the caller: 1 makes no thread. 0: cpu_usable_cores(). */
qp_status pool_new(pool **out, int n_threads, bool pin, qp_error *err);
void pool_free(pool *p);
int pool_threads(const pool *p);
void pool_run(pool *p, pool_fn *fn, void *context, int64_t n_tasks);

#endif
