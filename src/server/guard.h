/* guard.h — what a header section must look like, where the HTTP library is too kind.
 *
 * http.c shows it every header of a request before anything else is done. Two servers that read one request differently
 * is how requests are smuggled, so what is not plain is refused. */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD_HEADER_COST = 64 }; /* what the library keeps about a header, beside its bytes */

/* Zero-initialised is ready. */
typedef struct guard {
    int n_lengths, n_hosts, n_encodings;
    bool is_chunked;
    bool expects_continue;
    uint64_t length;   /* of the body, where n_lengths is 1 */
    size_t cost;       /* bytes of the headers, and GUARD_HEADER_COST for each */
    const char *fault; /* the first thing that is wrong: a constant; NULL: nothing */
} guard;

void guard_header(guard *g, const char *key, size_t key_bytes, const char *value, size_t value_bytes);
/* After the last header: why the request is refused, or NULL. */
const char *guard_verdict(const guard *g, bool is_http_1_1);
/* Reads a Content-Length: digits only, at most 18 of them. */
bool guard_read_length(const char *value, size_t bytes, uint64_t *length);

#endif
