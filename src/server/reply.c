/* reply.c — writes JSON answers and errors; knows both shapes of an error and how streams end with one.
 *
 * Every handler answers through here, and http.c for what it refuses itself. */
#include "reply.h"
#include "base/json.h"
#include "base/mem.h"
#include "route.h"
#include "server.h"
#include "health.h"
#include <stdarg.h>
#include <stdio.h>

typedef enum retry_advice { RETRY_FREE, RETRY_LATER, RETRY_NEVER } retry_advice;

typedef struct fault_row {
    int status;
    const char *type, *code, *anthropic;
    retry_advice retry;
} fault_row;

static const fault_row fault_rows[] = {
#define X(name, status, type, code, anthropic, retry) {status, type, code, anthropic, RETRY_##retry},
    REPLY_FAULTS(X)
#undef X
};

enum { ANTHROPIC_OVERLOADED = 529 };
static const char JSON_TYPE[] = "application/json";

static bool is_anthropic(const http_request *r) { return r->route && r->route->flags & ROUTE_ANTHROPIC; }

int reply_status(const http_request *r, reply_fault fault) {
    const int status = fault_rows[fault].status;
    return status == 503 && is_anthropic(r) ? ANTHROPIC_OVERLOADED : status;
}

void reply_text(http_request *r, int status, strbuf *json) {
    size_t bytes;
    char *text = strbuf_move(json, &bytes);
    if (!text) return reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
    http_reply(r, status, JSON_TYPE, text, bytes);
}

static int add_text(const char *bytes, size_t count, void *out) {
    strbuf_add(out, bytes, count);
    return ((strbuf *)out)->failed ? -1 : 0;
}

void reply_json(http_request *r, int status, json_t *value) {
    strbuf text = {0};
    if (!value || json_dump_callback(value, add_text, &text, JSON_COMPACT | JSON_ENCODE_ANY)) text.failed = true;
    json_decref(value);
    if (!text.failed) return reply_text(r, status, &text);
    strbuf_free(&text);
    reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
}

void reply_null(http_request *r) { reply_json(r, 200, json_null()); }

void reply_write_error(strbuf *out, const http_request *r, reply_fault fault, const char *param, const char *message) {
    const fault_row *row = &fault_rows[fault];
    strbuf_text(out, is_anthropic(r) ? "{\"type\":\"error\",\"error\":{\"type\":" : "{\"error\":{\"message\":");
    if (is_anthropic(r)) {
        strbuf_json(out, row->anthropic, strlen(row->anthropic));
        strbuf_text(out, ",\"message\":");
        strbuf_json(out, message, strlen(message));
        strbuf_text(out, "},\"request_id\":");
        strbuf_json(out, r->id, strlen(r->id));
        return strbuf_text(out, "}");
    }
    strbuf_json(out, message, strlen(message));
    strbuf_format(out, ",\"type\":\"%s\",\"param\":", row->type);
    if (param)
        strbuf_json(out, param, strlen(param));
    else
        strbuf_text(out, "null");
    if (row->code)
        strbuf_format(out, ",\"code\":\"%s\"}}", row->code);
    else
        strbuf_text(out, ",\"code\":null}}");
}

static void end_stream(http_request *r, reply_fault fault, const char *param, const char *message) {
    strbuf event = {0};
    strbuf_text(&event, is_anthropic(r) ? "event: error\ndata: " : "data: ");
    reply_write_error(&event, r, fault, param, message);
    strbuf_text(&event, "\n\n");
    if (!event.failed) http_stream_send(r, event.at, event.bytes);
    strbuf_free(&event);
    if (!is_anthropic(r) && !(r->route && r->route->flags & ROUTE_NO_DONE)) http_stream_send(r, "data: [DONE]\n\n", 14);
    http_stream_end(r);
}

static void add_advice(http_request *r, const fault_row *row) {
    if (row->retry == RETRY_LATER) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", health_retry_after(r->server));
        http_add_header(r, "Retry-After", seconds);
    }
    if (row->retry == RETRY_NEVER) http_add_header(r, "x-should-retry", "false");
    if (row->status == 401) http_add_header(r, "WWW-Authenticate", "Bearer");
}

/* Without memory even for the message: a constant that is copied as late as possible. */
static void answer_bare(http_request *r) {
    static const char text[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\",\"param\":null,"
                               "\"code\":\"internal_error\"}}";
    char *copy = mem_copy_text(text, sizeof text - 1);
    http_reply(r, 500, JSON_TYPE, copy, copy ? sizeof text - 1 : 0);
}

static void answer_error(http_request *r, reply_fault fault, const char *param, const char *message) {
    if (http_is_stream(r)) return end_stream(r, fault, param, message);
    add_advice(r, &fault_rows[fault]);
    strbuf text = {0};
    size_t bytes;
    reply_write_error(&text, r, fault, param, message);
    char *body = strbuf_move(&text, &bytes);
    if (!body) return answer_bare(r);
    http_reply(r, reply_status(r, fault), JSON_TYPE, body, bytes);
}

void reply_error(http_request *r, reply_fault fault, const char *param, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    answer_error(r, fault, param, message);
}

reply_fault reply_fault_of(qp_status status) {
    static const reply_fault faults[QP_STATUS_COUNT] = {
        [QP_OK] = FAULT_INTERNAL,
        [QP_NO_MEMORY] = FAULT_INTERNAL,
        [QP_NO_FILE] = FAULT_NOT_FOUND,
        [QP_IO] = FAULT_INTERNAL,
        [QP_BAD_FORMAT] = FAULT_BAD_REQUEST,
        [QP_BAD_ARGUMENT] = FAULT_BAD_REQUEST,
        [QP_UNSUPPORTED] = FAULT_PARAMETER,
        [QP_TOO_LARGE] = FAULT_CONTEXT_LENGTH,
        [QP_CANCELLED] = FAULT_DRAINING,
        [QP_BUSY] = FAULT_OVERLOADED,
        [QP_INTERNAL] = FAULT_ENGINE,
    };
    return faults[status];
}

void reply_failure(http_request *r, const char *param, const qp_error *err) {
    answer_error(r, reply_fault_of(err->code), param, err->text[0] ? err->text : qp_status_text(err->code));
}

/* ---- the body ---- */

enum { MOST_DEPTH = 256, MOST_NODES = 1000000 };

/* Counts what the parser would have to build, before it builds it: NULL, or what is over its limit. */
static const char *measure(span body) {
    size_t depth = 0, nodes = 0;
    for (size_t i = 0; i < body.bytes; i++) {
        const char c = body.at[i];
        if (c == '"') {
            for (i++; i < body.bytes && body.at[i] != '"'; i++) i += body.at[i] == '\\';
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth) depth--;
        nodes += c == '{' || c == '[' || c == ',';
        if (depth > MOST_DEPTH) return "nested deeper than 256 levels";
        if (nodes > MOST_NODES) return "of more than 1000000 values";
    }
    return NULL;
}

json_t *reply_read_body(http_request *r) {
    qp_error err = {0};
    json_t *body = NULL;
    const char *over = measure(r->body);
    if (!r->body.bytes)
        reply_error(r, FAULT_BAD_REQUEST, NULL, "the body is empty, expected is a JSON object");
    else if (over)
        reply_error(r, FAULT_BAD_REQUEST, NULL, "the body is JSON %s", over);
    else if (json_parse(&body, r->body.at, r->body.bytes, "the body", &err) != QP_OK)
        reply_error(r, err.code == QP_NO_MEMORY ? FAULT_INTERNAL : FAULT_BAD_REQUEST, NULL, "%s (at byte %llu)",
                    err.text, (unsigned long long)err.offset);
    else if (!json_is_object(body))
        reply_error(r, FAULT_BAD_REQUEST, NULL, "the body is %s, expected is an object", json_kind(body));
    else
        return body;
    json_decref(body);
    return NULL;
}
