/* server_here.h — the real server in a test's own process, and a connection to it. For tests that put something else in
 * the place of one of its parts, by the linker. */
#ifndef SERVER_HERE_H
#define SERVER_HERE_H

#include "harness.h"
#include "server/config.h"
#include "server/loader.h"
#include "server/server.h"
#include "server/slog.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct server_here {
    config settings;
    slog *log;
    server *server;
    int port;
} server_here;

static inline void server_here_set(server_here *h, const char *key, const char *text) {
    for (int i = 0; i < CONFIG_COUNT; i++)
        if (!strcmp(config_rows[i].key, key))
            assert_int_equal(config_set(&h->settings, &config_rows[i], text, "test", NULL), QP_OK);
}

/* Without keys, on a free port; with the demo model or with none. */
static inline void server_here_open(server_here *h, bool has_model) {
    const load_order order = {.is_first = true, .path = QUIPU_SOURCE "/models/demo", .id = "demo"};
    *h = (server_here){.port = 0};
    assert_int_equal(config_new(&h->settings, NULL), QP_OK);
    server_here_set(h, "port", "0");
    server_here_set(h, "disable_auth", "true");
    server_here_set(h, "cache_size", "4096");
    assert_int_equal(slog_new(&h->log, STDERR_FILENO, SLOG_TEXT, QP_LOG_ERROR, NULL), QP_OK);
    assert_int_equal(server_new(&h->server, &h->settings, h->log, NULL), QP_OK);
    assert_int_equal(server_listen(h->server, &h->port, NULL), QP_OK);
    if (!has_model) return;
    assert_int_equal(loader_start(h->server->loader, &order, NULL, NULL), QP_OK);
    assert_int_equal(loader_wait(h->server->loader, NULL), QP_OK);
}

static inline void server_here_close(server_here *h) {
    server_free(h->server);
    slog_free(h->log);
    config_free(&h->settings);
}

static inline int server_here_connect(const server_here *h) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)h->port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* A request with a body, or without: "GET /health" and NULL. */
static inline void server_here_ask(int fd, const char *line, const char *body) {
    char text[1024];
    const int bytes = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                               line, body ? strlen(body) : 0, body ? body : "");
    assert_true(bytes < (int)sizeof text);
    assert_int_equal(send(fd, text, (size_t)bytes, 0), bytes);
}

/* Appends what comes until `wanted` is in it or the connection ends. */
static inline bool server_here_read(int fd, char *answer, size_t capacity, const char *wanted) {
    size_t n = strlen(answer);
    while (!strstr(answer, wanted)) {
        const ssize_t more = recv(fd, answer + n, capacity - 1 - n, 0);
        if (more <= 0) return false;
        n += (size_t)more;
        answer[n] = 0;
    }
    return true;
}

#endif
