/* direct.h — the way past the HTTP library for the events of a stream whose connection sleeps.
 *
 * Waking the library for each token costs it more than the write itself. While a connection sleeps in the middle of a
 * stream nothing of the library is under way on it, so exchange.c may write the next event here, under its lock. */
#ifndef SERVER_DIRECT_H
#define SERVER_DIRECT_H

#include "base/str.h"

typedef struct direct {
    int descriptor;  /* -1: there is no such way */
    bool is_chunked; /* events are framed as chunks, as the library does it */
    size_t room;     /* bytes that may be written before it is asked again how many the client has not taken */
    strbuf rest;     /* of an event that was cut: it must go out before anything else */
} direct;

/* The whole event, or false: nothing of it was written, it goes by way of the library. With `rest` in hand, or a client
 * that takes its time, it is always false. rest.failed: memory was short, the stream is broken. */
bool direct_put(direct *d, const char *event, size_t bytes);
/* Tries to write the rest; true if nothing is left. */
bool direct_flush(direct *d);

#endif
