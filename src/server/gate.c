/* gate.c — decides whether a request goes on to its handler, and what web pages may see of the answer.
 *
 * http.c asks once for each request, on the network thread, when the headers are there. With keys off the Host header
 * is the only thing between a web page and this server: a page may rebind its own name to 127.0.0.1, but it cannot
 * change the Host that the browser then sends. */
#include "gate.h"
#include "base/clock.h"
#include "keys.h"
#include "rate.h"
#include "reply.h"
#include "route.h"
#include "server.h"
#include <stdio.h>
#include <strings.h>

/* ---- hosts and origins ---- */

/* The name of "name:port", "[::1]:port", without what is around it. */
static span host_name(const char *host) {
    if (*host == '[') {
        const char *end = strchr(host, ']');
        return (span){host + 1, end ? (size_t)(end - host - 1) : strlen(host + 1)};
    }
    return (span){host, strcspn(host, ":/")};
}

static bool is_named(span name, const char *word) {
    return name.bytes == strlen(word) && !strncasecmp(name.at, word, name.bytes);
}

bool gate_is_own_host(const struct server *s, const char *host) {
    const span name = host_name(host);
    if (is_named(name, "localhost") || is_named(name, "127.0.0.1") || is_named(name, "::1") ||
        is_named(name, s->config->host))
        return true;
    for (size_t i = 0; i < s->config->allowed_hosts.count; i++)
        if (is_named(name, s->config->allowed_hosts.at[i])) return true;
    return false;
}

/* "http://localhost:3000": is it a page of this machine? */
static bool is_own_origin(const struct server *s, const char *origin) {
    const char *name = strstr(origin, "://");
    return name && gate_is_own_host(s, name + 3);
}

void gate_add_cors(http_request *r) {
    const struct server *s = r->server;
    const char *origin = http_header(r, "Origin");
    const config_list *allowed = &s->config->cors_origins;
    if (!origin) return;
    const bool is_default = !allowed->count,
               is_any = config_has(allowed, "*") || (is_default && !keys_are_off(s->keys));
    const bool is_named_here = config_has(allowed, origin) || (is_default && is_own_origin(s, origin));
    if (!is_any) http_add_header(r, "Vary", "Origin");
    if (!is_any && !is_named_here) return;
    http_add_header(r, "Access-Control-Allow-Origin", is_any ? "*" : origin);
    http_add_header(r, "Access-Control-Expose-Headers", "x-request-id, retry-after");
}

static void answer_preflight(http_request *r) {
    const char *wanted = http_header(r, "Access-Control-Request-Headers");
    http_add_header(r, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    if (wanted) http_add_header(r, "Access-Control-Allow-Headers", wanted);
    http_add_header(r, "Access-Control-Max-Age", "600");
    http_reply(r, 200, NULL, NULL, 0);
}

/* ---- keys ---- */

static const char *bearer(http_request *r) {
    const char *value = http_header(r, "Authorization");
    if (!value || strncasecmp(value, "Bearer ", 7)) return NULL;
    return value + 7 + strspn(value + 7, " ");
}

/* The first header that has a key, in the order that this kind of route looks. */
static const char *find_key(http_request *r) {
    static const char *const orders[][3] = {
        [ACCESS_NONE] = {"x-admin-key", "x-api-key", NULL}, /* whatever the caller has */
        [ACCESS_API] = {"x-api-key", "Authorization", "x-admin-key"},
        [ACCESS_ADMIN] = {"x-admin-key", "Authorization", "x-api-key"},
    };
    for (int i = 0; i < 3; i++) {
        const char *name = orders[r->route->access][i];
        const char *key = !name || *name == 'A' ? bearer(r) : http_header(r, name);
        if (key) return key;
    }
    return NULL;
}

static bool check_key(http_request *r) {
    keys *all = r->server->keys;
    const char *key = find_key(r);
    access_level needed = r->route->access;
    if (r->route->flags & ROUTE_METRICS && r->server->config->metrics_auth) needed = ACCESS_API;
    if (key) keys_mark(r->key_mark, key);
    r->access = keys_check(all, key);
    if (r->access >= needed) return true;
    if (r->access == ACCESS_API)
        reply_error(r, FAULT_ADMIN, NULL, "%s needs the admin key, found an api key", r->path);
    else if (key)
        reply_error(r, FAULT_KEY, NULL, "the key is not valid here");
    else
        reply_error(r, FAULT_KEY, NULL, "a key is needed: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
    return false;
}

/* ---- all of it ---- */

static bool find_route(http_request *r) {
    unsigned allowed;
    r->route = route_find(r->method, r->path, &r->parameter, &allowed);
    if (r->route) return true;
    char methods[64];
    route_methods(methods, sizeof methods, allowed);
    if (allowed) http_add_header(r, "Allow", methods);
    if (allowed)
        reply_error(r, FAULT_METHOD, NULL, "%.200s does not know this method, allowed are %s", r->path, methods);
    else
        reply_error(r, FAULT_NOT_FOUND, NULL, "there is nothing at %.200s", r->path);
    return false;
}

/* The admin has no limit. */
static bool check_rate(http_request *r) {
    if (!(r->route->flags & ROUTE_GENERATES) || r->access != ACCESS_API) return true;
    const int seconds = rate_take(r->server->rate, find_key(r), clock_now());
    if (!seconds) return true;
    char header[16];
    snprintf(header, sizeof header, "%d", seconds);
    http_add_header(r, "Retry-After", header);
    reply_error(r, FAULT_RATE, NULL, "more than %lld requests of this key in a minute, the next in %d s",
                (long long)r->server->config->max_requests_per_minute, seconds);
    return false;
}

bool gate_check(http_request *r) {
    struct server *s = r->server;
    const char *host = http_header(r, "Host");
    gate_add_cors(r);
    if (keys_are_off(s->keys) && host && !gate_is_own_host(s, host)) {
        reply_error(r, FAULT_HOST, NULL,
                    "Host is '%.200s'; without keys only localhost, 127.0.0.1, [::1] and allowed_hosts may call", host);
        return false;
    }
    if (r->method == HTTP_OPTIONS) {
        answer_preflight(r);
        return false;
    }
    if (!find_route(r) || !check_key(r) || !check_rate(r)) return false;
    if (r->route->flags & ROUTE_GENERATES && atomic_load(&s->is_draining)) {
        http_add_header(r, "Connection", "close");
        reply_error(r, FAULT_DRAINING, NULL, "the server is about to end and takes no new work");
        return false;
    }
    return true;
}
