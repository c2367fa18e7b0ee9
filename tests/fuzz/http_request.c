/* http_request.c — any bytes as a request: "METHOD PATH", header lines, an empty line, a body. What is let through has
 * one meaning only; a body becomes a JSON object or an error object. */
#include "base/mem.h"
#include "server/exchange.h"
#include "server/guard.h"
#include "server/reply.h"
#include "server/route.h"
#include "server/server.h"
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_wake(void *connection) {}

/* Up to the next newline, which is skipped. */
static span take_line(span *rest) {
    const char *end = rest->bytes ? memchr(rest->at, '\n', rest->bytes) : NULL;
    const size_t bytes = end ? (size_t)(end - rest->at) : rest->bytes, skipped = bytes + (end != NULL);
    const span line = {rest->at, bytes};
    *rest = (span){rest->at + skipped, rest->bytes - skipped};
    return line;
}

static size_t count_named(const char *name, span headers) {
    size_t n = 0;
    while (headers.bytes) {
        const span line = take_line(&headers);
        n += line.bytes > strlen(name) && !strncasecmp(line.at, name, strlen(name)) && line.at[strlen(name)] == ':';
    }
    return n;
}

static void check_guard(span headers) {
    guard g = {0};
    for (span rest = headers; rest.bytes;) {
        const span line = take_line(&rest);
        const char *colon = line.bytes ? memchr(line.at, ':', line.bytes) : NULL;
        if (!colon) continue;
        guard_header(&g, line.at, (size_t)(colon - line.at), colon + 1, line.bytes - (size_t)(colon + 1 - line.at));
    }
    if (guard_verdict(&g, true)) return;
    if (count_named("host", headers) != 1 || count_named("content-length", headers) > 1) abort();
    if (count_named("content-length", headers) && count_named("transfer-encoding", headers)) abort();
    if (count_named("transfer-encoding", headers) && !g.is_chunked) abort();
    if (g.length > (uint64_t)999999999999999999) abort();
}

static void check_route(span line) {
    char *path = mem_copy_text(line.at, strnlen(line.at, line.bytes));
    const char *parameter;
    unsigned allowed;
    for (http_method method = HTTP_GET; path && method <= HTTP_OTHER; method++) {
        const route_row *row = route_find(method, path, &parameter, &allowed);
        if (row && row->method != method) abort();
        if (parameter && (parameter < path || parameter > path + strlen(path))) abort();
        if (!row && parameter) abort();
    }
    mem_free(path);
}

static void check_body(span body) {
    static server bare;
    exchange *x = exchange_new(&bare);
    char *copy = mem_copy_text(body.bytes ? body.at : "", body.bytes);
    if (!x || !copy) abort();
    x->wake = no_wake;
    x->public.body = (span){copy, body.bytes};
    json_t *read = reply_read_body(&x->public);
    if (read && (!json_is_object(read) || x->state != EXCHANGE_READING)) abort();
    if (!read) {
        json_t *answer = x->answer ? json_loads(x->answer, 0, NULL) : NULL;
        if (x->status != 400 || json_object_size(json_object_get(answer, "error")) != 4) abort();
        json_decref(answer);
    }
    json_decref(read);
    mem_free(copy);
    exchange_complete(x, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    span rest = {(const char *)data, size};
    const span line = take_line(&rest);
    const char *blank = rest.bytes ? memmem(rest.at, rest.bytes, "\n\n", 2) : NULL;
    const size_t head = blank ? (size_t)(blank - rest.at) + 1 : rest.bytes;
    if (line.bytes) check_route(line);
    check_guard((span){rest.at, head});
    check_body(blank ? (span){blank + 2, rest.bytes - head - 1} : (span){"", 0});
    return 0;
}
