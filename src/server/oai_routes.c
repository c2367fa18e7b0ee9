/* oai_routes.c — POST /v1/chat/completions, /v1/completions, /v1/embeddings: from the request to its generation. */
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

/* Checked as far as it goes, so that a client learns what is wrong with its request first. */
void oai_embeddings(http_request *r) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    const json_t *input = json_object_get(body, "input");
    const char *format = json_string_value(json_object_get(body, "encoding_format"));
    if (!json_is_string(input) && !json_array_size(input))
        reply_error(r, FAULT_BAD_REQUEST, "input", "input: expected a string, an array of strings or token ids");
    else if (format && strcmp(format, "float") && strcmp(format, "base64"))
        reply_error(r, FAULT_BAD_REQUEST, "encoding_format",
                    "encoding_format: found \"%.40s\", allowed are float and base64", format);
    else
        reply_error(r, FAULT_NOT_IMPLEMENTED, NULL, "embeddings: this version does not compute them");
    json_decref(body);
}

void oai_openapi(http_request *r) { reply_json(r, 200, openapi_describe(qp_version())); }
