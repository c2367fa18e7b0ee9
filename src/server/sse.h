/* sse.h — the events that wait for one client, with the bounds after which nobody should add more.
 *
 * Not locked: exchange.c guards it. Events are kept whole, so that each leaves as one chunk. */
#ifndef SERVER_SSE_H
#define SERVER_SSE_H

#include <stdbool.h>
#include <stddef.h>

enum { SSE_MOST_EVENTS = 256, SSE_MOST_BYTES = 1 << 20 };

typedef struct sse_event sse_event;
/* Zero-initialised is empty and ready. */
typedef struct sse_queue {
    sse_event *first, *last;
    size_t n_events, n_bytes; /* bytes that have not left yet */
    size_t taken;             /* of the first event */
} sse_queue;

/* Copies; false when memory is short. Also beyond the bounds: those are for the maker to look at. */
bool sse_push(sse_queue *q, const char *event, size_t bytes);
/* Moves at most `capacity` bytes of the first event to `out`: never of two events. 0: empty. */
size_t sse_take(sse_queue *q, char *out, size_t capacity);
bool sse_is_full(const sse_queue *q);
/* Has so much left that a maker who waits should go on? */
bool sse_has_room(const sse_queue *q);
void sse_free(sse_queue *q);

#endif
