/* inbox.c — the one door to the engine's thread.
 *
 * Called by api/ from any thread and by engine.c between steps. Bounded: a full queue refuses instead of growing. It
 * outlives the engine as long as a job's handle may still be cancelled through it. */
#include "inbox.h"
#include "base/mem.h"
#include <math.h>

qp_status inbox_new(inbox **out, size_t max_waiting, uint64_t first_serial, qp_error *err) {
    *out = NULL;
    inbox *b = MEM_NEW(inbox);
    if (!b) return err_no_memory(err, sizeof *b, "a generator's queue");
    const qp_status status = bell_open(&b->bell, err);
    if (status != QP_OK) return mem_free(b), status;
    b->max_waiting = max_waiting;
    b->next_serial = first_serial;
    atomic_store(&b->owners, 1);
    *out = b;
    return QP_OK;
}

inbox *inbox_hold(inbox *b) {
    atomic_fetch_add(&b->owners, 1);
    return b;
}

void inbox_let_go(inbox *b) {
    if (!b || atomic_fetch_sub(&b->owners, 1) != 1) return;
    bell_close(&b->bell);
    mem_free(b);
}

/* ---- clients ---- */

static void append(inbox *b, job *j) {
    atomic_fetch_add(&j->owners, 1);
    j->next = NULL;
    j->serial = b->next_serial++;
    if (b->last)
        b->last->next = j;
    else
        b->first = j;
    b->last = j;
    b->n_waiting++;
}

qp_status inbox_submit(inbox *b, job *const *jobs, int n, qp_error *err) {
    qp_status status = QP_OK;
    bell_lock(&b->bell);
    if (b->is_closed) {
        status = err_set(err, QP_CANCELLED, 0, "the generator has ended");
    } else if (b->n_waiting + (size_t)n > b->max_waiting) {
        b->n_refused += (uint64_t)n;
        status = err_set(err, QP_BUSY, 0, "%zu jobs are waiting, at most %zu may: try again later", b->n_waiting,
                         b->max_waiting);
    }
    for (int i = 0; status == QP_OK && i < n; i++) append(b, jobs[i]);
    bell_unlock(&b->bell);
    if (status == QP_OK) bell_ring(&b->bell);
    return status;
}

void inbox_signal(inbox *b) {
    bell_lock(&b->bell);
    b->has_signal = true;
    bell_unlock(&b->bell);
    bell_ring(&b->bell);
}

qp_status inbox_errand(inbox *b, void (*run)(void *engine, void *context), void *context, qp_error *err) {
    errand e = {.run = run, .context = context};
    bell_lock(&b->bell);
    e.is_refused = b->is_closed;
    if (!e.is_refused) {
        errand **end = &b->errands;
        while (*end) end = &(*end)->next;
        *end = &e;
        bell_ring(&b->bell);
        while (!e.is_done) bell_wait(&b->bell, (double)INFINITY);
    }
    bell_unlock(&b->bell);
    return e.is_refused ? err_set(err, QP_CANCELLED, 0, "the generator has ended") : QP_OK;
}

void inbox_close(inbox *b) {
    bell_lock(&b->bell);
    b->is_closed = true;
    bell_unlock(&b->bell);
    bell_ring(&b->bell);
}

/* ---- the engine ---- */

inbox_news inbox_take(inbox *b, double deadline) {
    bell_lock(&b->bell);
    while (deadline > 0 && !b->first && !b->errands && !b->has_signal && !b->is_closed && bell_wait(&b->bell, deadline))
        continue;
    const inbox_news news = {b->first, b->errands, b->has_signal, b->is_closed};
    b->first = b->last = NULL;
    b->errands = NULL;
    b->has_signal = false;
    bell_unlock(&b->bell);
    return news;
}

void inbox_done(inbox *b, errand *e) {
    bell_lock(&b->bell);
    e->is_done = true;
    bell_unlock(&b->bell);
    bell_ring(&b->bell);
}

void inbox_count(inbox *b, int n) {
    bell_lock(&b->bell);
    b->n_waiting += (size_t)(int64_t)n;
    bell_unlock(&b->bell);
}
