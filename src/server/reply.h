/* reply.h — JSON answers, and errors by one table: status, type, code and headers belong together.
 *
 * An error of a stream that has begun becomes its last event. The shape (OpenAI or Anthropic) follows from the route.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "http.h"
#include <jansson.h>

/* X(name, status, type, code or NULL, Anthropic's type, header: RETRY_LATER, RETRY_NEVER or RETRY_FREE:
 * of RATE gate.c says when) */
#define REPLY_FAULTS(X)                                                                                                \
    X(BAD_REQUEST, 400, "invalid_request_error", NULL, "invalid_request_error", FREE)                                  \
    X(CONTEXT_LENGTH, 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", FREE)          \
    X(SCHEMA, 400, "invalid_request_error", "invalid_schema", "invalid_request_error", FREE)                           \
    X(SCHEMA_TIMEOUT, 400, "invalid_request_error", "schema_compile_timeout", "invalid_request_error", FREE)           \
    X(PARAMETER, 400, "invalid_request_error", "unsupported_parameter", "invalid_request_error", FREE)                 \
    X(TEMPLATE, 400, "invalid_request_error", "template_error", "invalid_request_error", FREE)                         \
    X(TOO_LONG_TEXT, 400, "invalid_request_error", "string_above_max_length", "invalid_request_error", FREE)           \
    X(KEY, 401, "authentication_error", "invalid_api_key", "authentication_error", FREE)                               \
    X(ADMIN, 403, "permission_error", "admin_required", "permission_error", FREE)                                      \
    X(HOST, 403, "permission_error", "bad_host", "permission_error", FREE)                                             \
    X(NO_MODEL_NAMED, 404, "not_found_error", "model_not_found", "not_found_error", FREE)                              \
    X(NOT_FOUND, 404, "not_found_error", "not_found", "not_found_error", FREE)                                         \
    X(METHOD, 405, "invalid_request_error", "method_not_allowed", "invalid_request_error", FREE)                       \
    X(SLOW_CLIENT, 408, "timeout_error", "request_timeout", "timeout_error", FREE)                                     \
    X(BUSY_LOADING, 409, "conflict_error", "model_busy", "invalid_request_error", FREE)                                \
    X(TOO_LARGE, 413, "invalid_request_error", "request_too_large", "request_too_large", FREE)                         \
    X(URI_TOO_LONG, 414, "invalid_request_error", "request_too_large", "request_too_large", FREE)                      \
    X(HEADERS_TOO_LARGE, 431, "invalid_request_error", "request_too_large", "request_too_large", FREE)                 \
    X(RATE, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", FREE)                                  \
    X(INTERNAL, 500, "server_error", "internal_error", "api_error", NEVER)                                             \
    X(ENGINE, 500, "server_error", "engine_error", "api_error", NEVER)                                                 \
    X(NOT_IMPLEMENTED, 501, "not_implemented_error", "not_implemented", "api_error", NEVER)                            \
    X(NO_MODEL, 503, "unavailable_error", "model_not_loaded", "overloaded_error", LATER)                               \
    X(LOADING, 503, "unavailable_error", "model_loading", "overloaded_error", LATER)                                   \
    X(OVERLOADED, 503, "unavailable_error", "server_overloaded", "overloaded_error", LATER)                            \
    X(DRAINING, 503, "unavailable_error", "draining", "overloaded_error", LATER)                                       \
    X(GENERATION_TIMEOUT, 504, "timeout_error", "generation_timeout", "timeout_error", FREE)
typedef enum reply_fault {
#define X(name, status, type, code, anthropic, retry) FAULT_##name,
    REPLY_FAULTS(X)
#undef X
        FAULT_COUNT
} reply_fault;

/* `value` is taken. The bytes are compact UTF-8. A NULL value (memory) becomes an internal error. */
void reply_json(http_request *r, int status, json_t *value);
/* Text that the caller has written; taken. */
void reply_text(http_request *r, int status, strbuf *json);
/* `null`, as TabbyAPI's admin routes answer. */
void reply_null(http_request *r);

/* The request is answered with this error. `param` names the field, or NULL. If a stream has begun, it ends with the
 * error as its last event. */
void reply_error(http_request *r, reply_fault fault, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for an error of the library, with the fault that its code stands for. `param` may be NULL. */
void reply_failure(http_request *r, const char *param, const qp_error *err);
/* Which fault is this error of qp_job_new, qp_template_render and so on? */
reply_fault reply_fault_of(qp_status status);

/* The error object alone, in the shape of the route; for those who write answers themselves. */
void reply_write_error(strbuf *out, const http_request *r, reply_fault fault, const char *param, const char *message);
/* Status of a fault for this route (Anthropic has 529). */
int reply_status(const http_request *r, reply_fault fault);

/* The request's body as a JSON object with all limits checked; NULL when it has been answered with 400. */
json_t *reply_read_body(http_request *r);

#endif
