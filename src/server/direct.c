/* direct.c — an event, framed, to a socket.
 *
 * Called by exchange.c. The tricky thing is a write that is cut: the library cannot finish it, it knows only whole
 * chunks. So nothing is written here unless the client has taken nearly all that went before, which leaves the system
 * far more room than one event needs; if it takes only a part nonetheless, being short of memory, the rest is kept and
 * tried again from time to time. */
#include "direct.h"
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { LONGEST_EVENT = 8192, MOST_UNTAKEN = 64 << 10, FRAME = 8 };

/* Asks how much has not been taken only when more could have gathered than is allowed. */
static bool has_room(direct *d, size_t bytes) {
    int untaken = 0;
    if (d->room >= bytes) return true;
    if (ioctl(d->descriptor, SIOCOUTQ, &untaken) || untaken < 0 || untaken >= MOST_UNTAKEN) return false;
    d->room = (size_t)(MOST_UNTAKEN - untaken);
    return d->room >= bytes;
}

/* "1f4\r\n" */
static size_t write_size(char out[FRAME], size_t bytes) {
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (int shift = 12; shift >= 0; shift -= 4)
        if (n || bytes >> shift) out[n++] = digits[bytes >> shift & 15];
    out[n++] = '\r';
    out[n++] = '\n';
    return n;
}

/* A frame and the event in one piece: cheaper for the kernel than three pieces that it gathers. */
static size_t write_chunk(char *out, const char *event, size_t bytes) {
    const size_t head = write_size(out, bytes);
    memcpy(out + head, event, bytes);
    memcpy(out + head + bytes, "\r\n", 2);
    return head + bytes + 2;
}

bool direct_put(direct *d, const char *event, size_t bytes) {
    char chunk[LONGEST_EVENT + 2 * FRAME];
    if (d->descriptor < 0 || d->rest.bytes || !bytes || bytes > LONGEST_EVENT || !has_room(d, bytes + 2 * FRAME))
        return false;
    const char *out = d->is_chunked ? chunk : event;
    const size_t whole = d->is_chunked ? write_chunk(chunk, event, bytes) : bytes;
    const ssize_t written = send(d->descriptor, out, whole, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written <= 0) return d->room = 0, false;
    d->room -= whole;
    if ((size_t)written < whole) strbuf_add(&d->rest, out + written, whole - (size_t)written);
    return true;
}

bool direct_flush(direct *d) {
    if (!d->rest.bytes) return true;
    const ssize_t written = send(d->descriptor, d->rest.at, d->rest.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written <= 0) return false;
    memmove(d->rest.at, d->rest.at + written, d->rest.bytes - (size_t)written);
    d->rest.bytes -= (size_t)written;
    return !d->rest.bytes;
}
