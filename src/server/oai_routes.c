/* oai_routes.c — POST /v1/chat/completions, /v1/completions: from the request to its generation. */
#include "generate.h"
#include "handlers.h"
#include "openapi.h"

void oai_chat(http_request *r) {
    generation *g = generate_open(r, NULL);
    if (g && generate_read_chat(g)) generate_start(g, &dialect_chat, "chatcmpl-");
}

void oai_completions(http_request *r) {
    generation *g = generate_open(r, NULL);
    if (g && generate_read_text(g)) generate_start(g, &dialect_text, "cmpl-");
}

void oai_openapi(http_request *r) { reply_json(r, 200, openapi_describe(qp_version())); }
