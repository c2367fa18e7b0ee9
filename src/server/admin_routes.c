/* admin_routes.c — orders to the running server: end in good order, say more or less. */
#include "handlers.h"
#include "reply.h"
#include "server.h"
#include "slog.h"
#include <signal.h>
#include <unistd.h>

/* The main thread waits for signals: an order over HTTP is one, so that both go the same way. */
void admin_drain(http_request *r) {
    server_drain(r->server);
    reply_json(r, 200, json_pack("{s:s}", "status", "draining"));
    kill(getpid(), SIGTERM);
}

void admin_log_level(http_request *r) {
    json_t *body = reply_read_body(r);
    qp_log_level level;
    if (!body) return;
    const char *word = json_string_value(json_object_get(body, "level"));
    if (!word || !slog_read_level(word, &level))
        reply_error(r, FAULT_BAD_REQUEST, "level", "level: found '%.80s', allowed are error, warn, info, debug",
                    word ? word : "no text");
    else {
        slog_set_level(r->server->log, level);
        reply_json(r, 200, json_pack("{s:s}", "level", word));
    }
    json_decref(body);
}
