/* cuda_ahead.c — writes down the launches of a step that is expected, while the GPU computes the one before it, and
 * may begin it behind that one with the ids that the GPU thinks best.
 *
 * Called through the device's ops. What a step launches is the same from token to token, and writing it down and
 * finding its graph takes the host tens of microseconds in which the GPU would wait. So it is done before: into another
 * list, with a place of its own for tables, of which only the ids are missing. Only a list whose graph is there is
 * kept.
 *
 * The lock is held from expect to expected, so that nobody else's launches get into the list. What would make the list
 * wrong drops it: anything submitted meanwhile, for it may use what the list relies on (rows that wait among blocks),
 * and memory given back, which the list may name. */
#include "cuda.h"
#include <string.h>

static void change_lists(launch_queue *q) {
    uint8_t *list = q->list;
    q->list = q->other_list;
    q->other_list = list;
}

static void open_list(launch_queue *q) {
    change_lists(q);
    q->ahead = (launch_ahead){.filled_before = q->filling, .place = q->ahead.place, .name = q->ahead.name + 1};
    q->filling = LAUNCH_AHEAD + q->ahead.place;
}

static void close_list(launch_queue *q) {
    change_lists(q);
    q->filling = q->ahead.filled_before;
}

uint64_t cuda_expect(device *d) {
    cuda_device *c = cuda_of(d);
    launch_queue *q = &c->queue;
    cuda_lock(c);
    launch_flush(c);
    open_list(q);
    q->ahead.is_open = c->failure.code == QP_OK && launch_make_ready(c);
    if (q->ahead.is_open) {
        c->waiting_before = c->waiting;
        return q->ahead.name;
    }
    close_list(q);
    cuda_unlock(c);
    return 0;
}

void cuda_expected(device *d) {
    cuda_device *c = cuda_of(d);
    launch_queue *q = &c->queue;
    launch_ahead *a = &q->ahead;
    launch_settle(c);
    a->used = q->used;
    a->table_used = q->table_used;
    a->graph = launch_find_graph(q);
    a->is_there = !a->is_too_much && a->ids_bytes && a->graph && launch_is_made(a->graph) && c->failure.code == QP_OK;
    a->is_open = false;
    launch_clear(q);
    close_list(q);
    c->waiting_behind = c->waiting;
    c->waiting = c->waiting_before;
    cuda_unlock(c);
}

void cuda_note_ids(cuda_device *c, const void *ids, size_t bytes) {
    launch_ahead *a = &c->queue.ahead;
    if (!a->is_open || a->ids_bytes || !ids) return;
    a->ids_at = (size_t)((const uint8_t *)ids - c->queue.tables);
    a->ids_bytes = bytes;
}

/* As they were written down. The next ones get the other place: this one is in use as long as the step. */
static void submit(cuda_device *c) {
    launch_queue *q = &c->queue;
    const launch_ahead a = q->ahead;
    change_lists(q);
    q->filling = LAUNCH_AHEAD + a.place;
    q->ahead.place = !a.place;
    q->used = a.used;
    q->table_used = a.table_used;
    launch_submit(c, a.graph);
    close_list(q);
    c->waiting = c->waiting_behind;
}

static bool is_clear(const cuda_device *c, uint64_t name) {
    const launch_queue *q = &c->queue;
    return q->ahead.name == name && !q->used && !q->table_used && !q->held.is && c->failure.code == QP_OK;
}

/* The GPU took the ids that have come. */
static bool took(const cuda_device *c, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++)
        if (cuda_heads(c)[i].best != ids[i]) return false;
    return true;
}

bool cuda_proceed(device *d, uint64_t name, const int32_t *ids, int n) {
    cuda_device *c = cuda_of(d);
    launch_queue *q = &c->queue;
    const launch_ahead *a = &q->ahead;
    cuda_lock(c);
    bool fits = is_clear(c, name) && (a->is_there || a->is_led) && a->ids_bytes == (size_t)n * sizeof *ids;
    if (fits && a->is_led) {
        fits = took(c, ids, n);
        q->n_led += fits;
    } else if (fits) {
        memcpy(q->host[LAUNCH_AHEAD + a->place] + a->ids_at, ids, a->ids_bytes);
        submit(c);
    }
    q->n_proceeded += fits;
    if (a->name == name) launch_forget_ahead(q);
    cuda_unlock(c);
    return fits;
}

/* Ids stay -1: the GPU takes what its digest leaves. What it computes so is not read where it was wrong, and lies where
 * the step that is right will write once more. */
void cuda_lead(device *d, uint64_t name) {
    cuda_device *c = cuda_of(d);
    launch_queue *q = &c->queue;
    cuda_lock(c);
    if (is_clear(c, name) && q->ahead.is_there && q->ahead.ids_bytes <= CUDA_MOST_HEADS * sizeof(int32_t)) {
        cuda_digest_done(c);
        submit(c);
        q->ahead.is_led = true;
    }
    cuda_unlock(c);
}
