/* watch.c — a list of the jobs with something to read, behind one lock and one descriptor.
 *
 * The engine's thread appends (mailbox.c), one reader takes; a job is in the list at most once. The descriptor is
 * readable exactly while the list is not empty. */
#include "watch.h"
#include "base/mem.h"

qp_status watch_new(watch **out, qp_error *err) {
    *out = NULL;
    watch *w = MEM_NEW(watch);
    if (!w) return err_no_memory(err, sizeof *w, "a watch");
    qp_status status = wake_open(&w->descriptor, err);
    if (status == QP_OK) {
        status = bell_open(&w->bell, err);
        if (status != QP_OK) wake_close(w->descriptor);
    }
    if (status != QP_OK) return mem_free(w), status;
    atomic_store(&w->users, 1);
    *out = w;
    return QP_OK;
}

watch *watch_hold(watch *w) {
    if (w) atomic_fetch_add(&w->users, 1);
    return w;
}

void watch_let_go(watch *w) {
    if (!w || atomic_fetch_sub(&w->users, 1) != 1) return;
    bell_close(&w->bell);
    wake_close(w->descriptor);
    mem_free(w);
}

static void unlink_seat(watch *w, watch_seat *seat) {
    *(seat->previous ? &seat->previous->next : &w->first) = seat->next;
    *(seat->next ? &seat->next->previous : &w->last) = seat->previous;
    seat->next = seat->previous = NULL;
    seat->is_listed = false;
    if (!w->first) wake_clear(w->descriptor);
}

void watch_tell(watch *w, watch_seat *seat) {
    bell_lock(&w->bell);
    const bool is_news = seat->handle && !seat->is_listed;
    if (is_news) {
        if (!w->first) wake_set(w->descriptor);
        seat->previous = w->last;
        *(w->last ? &w->last->next : &w->first) = seat;
        w->last = seat;
        seat->is_listed = true;
    }
    bell_unlock(&w->bell);
    if (is_news) bell_ring(&w->bell);
}

void watch_leave(watch *w, watch_seat *seat) {
    bell_lock(&w->bell);
    if (seat->is_listed) unlink_seat(w, seat);
    seat->handle = NULL;
    bell_unlock(&w->bell);
}

void *watch_next(watch *w, double deadline, void **user) {
    void *handle = NULL;
    bell_lock(&w->bell);
    while (!w->first && bell_wait(&w->bell, deadline)) continue;
    if (w->first) {
        watch_seat *seat = w->first;
        handle = seat->handle;
        if (user) *user = seat->user;
        unlink_seat(w, seat);
    }
    bell_unlock(&w->bell);
    return handle;
}
