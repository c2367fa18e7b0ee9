/* workers.c — a queue of requests and the threads that take from it.
 *
 * http.c adds; the queue is as long as there are connections at most, so it needs no bound of its own. */
#include "workers.h"
#include "base/bell.h"
#include "base/mem.h"
#include "base/signals.h"
#include "exchange.h"
#include "route.h"
#include <math.h>

typedef struct work work;
struct work {
    work *next;
    http_request *request;
};

struct workers {
    bell bell;
    work *first, *last;
    bool is_ending;
    int n_threads;
    pthread_t *threads;
};

static work *take(workers *w) {
    bell_lock(&w->bell);
    while (!w->first && !w->is_ending) bell_wait(&w->bell, INFINITY);
    work *taken = w->is_ending ? NULL : w->first;
    if (taken) {
        w->first = taken->next;
        if (!w->first) w->last = NULL;
    }
    bell_unlock(&w->bell);
    return taken;
}

static void *run(void *user) {
    pthread_setname_np(pthread_self(), "quipu-worker");
    for (work *taken; (taken = take(user));) {
        http_request *r = taken->request;
        mem_free(taken);
        if (!http_is_closed(r)) r->route->handler(r);
        exchange_handled(exchange_of(r));
        http_drop(r);
    }
    return NULL;
}

qp_status workers_new(workers **out, int n_threads, qp_error *err) {
    *out = NULL;
    workers *w = MEM_NEW(workers);
    pthread_t *threads = mem_zarray((size_t)n_threads, sizeof *threads);
    if (!w || !threads || bell_open(&w->bell, NULL) != QP_OK) {
        mem_free(threads);
        mem_free(w);
        return err_no_memory(err, sizeof *w, "worker threads");
    }
    w->threads = threads;
    sigset_t before;
    signals_block(&before);
    while (w->n_threads < n_threads && !pthread_create(&w->threads[w->n_threads], NULL, run, w)) w->n_threads++;
    signals_restore(&before);
    if (w->n_threads < n_threads) {
        const int made = w->n_threads;
        workers_free(w);
        return err_set(err, QP_NO_MEMORY, 0, "worker threads: the system gave %d of %d", made, n_threads);
    }
    *out = w;
    return QP_OK;
}

void workers_stop(workers *w) {
    bell_lock(&w->bell);
    w->is_ending = true;
    bell_ring(&w->bell);
    bell_unlock(&w->bell);
    for (int i = 0; i < w->n_threads; i++) pthread_join(w->threads[i], NULL);
    w->n_threads = 0;
    for (work *at = w->first, *next; at; at = next) {
        next = at->next;
        exchange_handled(exchange_of(at->request));
        http_drop(at->request);
        mem_free(at);
    }
    w->first = w->last = NULL;
}

void workers_free(workers *w) {
    if (!w) return;
    workers_stop(w);
    bell_close(&w->bell);
    mem_free(w->threads);
    mem_free(w);
}

bool workers_add(workers *w, http_request *r) {
    work *added = MEM_NEW(work);
    if (!added) return false;
    added->request = http_hold(r);
    bell_lock(&w->bell);
    const bool is_taken = !w->is_ending;
    if (is_taken) {
        *(w->last ? &w->last->next : &w->first) = added;
        w->last = added;
        bell_ring(&w->bell);
    }
    bell_unlock(&w->bell);
    if (is_taken) return true;
    http_drop(r);
    mem_free(added);
    return false;
}
