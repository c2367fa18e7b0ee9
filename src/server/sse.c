/* sse.c — a list of events, first in, first out.
 *
 * Filled by exchange.c on behalf of whoever writes an answer, emptied by the network thread. Room is announced at half
 * of the bounds, so that a reader at its limit does not wake its maker for every event. */
#include "sse.h"
#include "base/mem.h"
#include <string.h>

struct sse_event {
    sse_event *next;
    size_t bytes;
    char text[];
};

bool sse_push(sse_queue *q, const char *text, size_t bytes) {
    if (!bytes) return true;
    size_t whole;
    if (!mem_add(sizeof(sse_event), bytes, &whole)) return false;
    sse_event *event = mem_array(1, whole);
    if (!event) return false;
    event->next = NULL;
    event->bytes = bytes;
    memcpy(event->text, text, bytes);
    *(q->last ? &q->last->next : &q->first) = event;
    q->last = event;
    q->n_events++;
    q->n_bytes += bytes;
    return true;
}

size_t sse_take(sse_queue *q, char *out, size_t capacity) {
    sse_event *event = q->first;
    if (!event) return 0;
    const size_t left = event->bytes - q->taken, bytes = left < capacity ? left : capacity;
    memcpy(out, event->text + q->taken, bytes);
    q->n_bytes -= bytes;
    q->taken += bytes;
    if (q->taken < event->bytes) return bytes;
    q->first = event->next;
    if (!q->first) q->last = NULL;
    q->n_events--;
    q->taken = 0;
    mem_free(event);
    return bytes;
}

bool sse_is_full(const sse_queue *q) { return q->n_events >= SSE_MOST_EVENTS || q->n_bytes >= SSE_MOST_BYTES; }

bool sse_has_room(const sse_queue *q) { return q->n_events <= SSE_MOST_EVENTS / 2 && q->n_bytes <= SSE_MOST_BYTES / 2; }

void sse_free(sse_queue *q) {
    for (sse_event *event = q->first, *next; event; event = next) {
        next = event->next;
        mem_free(event);
    }
    *q = (sse_queue){0};
}
