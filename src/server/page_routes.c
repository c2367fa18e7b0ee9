/* page_routes.c — GET /: the chat page for browsers, a few words in JSON for all others.
 *
 * The page asks for everything else through the API, with the key that its user gives it, so it is sent to anybody. Its
 * policy lets the browser run what is in the file and talk to this server, nothing else. */
#include "base/mem.h"
#include "handlers.h"
#include "keys.h"
#include "page.h"
#include "reply.h"
#include "server.h"
#include <string.h>
#include <strings.h>

/* Does a list like "text/html, gzip;q=0.5" name this word, and not with a weight of 0? */
static bool accepts(const char *list, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *at = list ? list : ""; *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (strncasecmp(at, word, bytes) || !strchr(" \t;,", at[bytes])) continue;
        const char *rest = at + bytes, *weight = strstr(rest, "q=");
        const bool has_weight = weight && weight < rest + strcspn(rest, ",");
        return !has_weight || strspn(weight + 2, "0.") < strcspn(weight + 2, ", \t;");
    }
    return false;
}

static void add_headers(http_request *r) {
    static const char *const headers[][2] = {
        {"Cache-Control", "no-cache"}, /* kept, but asked for anew: the ETag says whether it is the same */
        {"Vary", "Accept, Accept-Encoding"}, {"X-Content-Type-Options", "nosniff"},         {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},  {"Cross-Origin-Opener-Policy", "same-origin"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) http_add_header(r, headers[i][0], headers[i][1]);
    http_add_header(r, "Content-Security-Policy", page_built.policy);
    http_add_header(r, "ETag", page_built.etag);
}

static void send_page(http_request *r) {
    const char *known = http_header(r, "If-None-Match");
    const bool is_packed = accepts(http_header(r, "Accept-Encoding"), "gzip");
    const span text = is_packed ? page_built.packed : page_built.plain;
    add_headers(r);
    if (known && strstr(known, page_built.etag)) return http_reply(r, 304, NULL, NULL, 0);
    char *copy = mem_copy_text(text.at, text.bytes);
    if (!copy) return reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
    if (is_packed) http_add_header(r, "Content-Encoding", "gzip");
    http_reply(r, 200, "text/html; charset=utf-8", copy, text.bytes);
}

void page_root(http_request *r) {
    const bool has_page = page_built.plain.bytes > 0;
    if (has_page && accepts(http_header(r, "Accept"), "text/html")) return send_page(r);
    if (has_page) http_add_header(r, "Vary", "Accept");
    reply_json(r, 200,
               json_pack("{s:s,s:s,s:b,s:s}", "name", "quipu", "version", QUIPU_VERSION, "needs_key",
                         !keys_are_off(r->server->keys), "page",
                         has_page ? "open this address in a browser to chat; the API is under /v1"
                                  : "this program was built without the chat page; the API is under /v1"));
}
