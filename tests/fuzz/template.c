/* template.c — any bytes as a chat template: refused with a place, or rendered within its limits, twice the same. */
#include "base/json.h"
#include "text/tmpl.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context_text[] =
    "{\"n\": 7, \"z\": 0, \"f\": 2.5, \"t\": true, \"no\": null, \"s\": \"Hello W\\u00f6rld\", \"e\": \"\", \"l\": [3, "
    "1, 2],"
    " \"m\": {\"b\": 1, \"a\": [1, {\"k\": \"v\"}]}, \"x\": [\"b\", \"A\"],"
    " \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\","
    " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]}], \"tools\": [{\"name\": "
    "\"f\"}]}";

/* So few steps that a run ends within a second with sanitizers on a busy machine: a step is some microseconds there. */
static qp_status render(const tmpl *t, const json_t *context, strbuf *out, qp_error *err) {
    const tmpl_limits limits = {.steps = 50000, .memory_bytes = 16 << 20, .output_bytes = 1 << 20, .depth = 300};
    bool raised;
    const qp_status status = tmpl_render(t, context, 1721997296, &limits, out, &raised, err);
    if (raised && status == QP_OK) abort();
    if (status != QP_OK && err->code != status) abort();
    if (out->bytes > (1 << 20) + (1 << 16) && !raised) abort();
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tmpl *t;
    qp_error err = {0};
    const qp_status parsed = tmpl_new(&t, (span){(const char *)data, size}, &err);
    if (parsed != QP_OK) {
        if (t || err.code != parsed || !err.text[0] || err.offset > size) abort();
        return 0;
    }
    json_t *context = json_loadb(context_text, sizeof context_text - 1, 0, NULL);
    strbuf first = {0}, second = {0};
    const qp_status status = render(t, context, &first, &err);
    if (render(t, context, &second, &err) != status) abort();
    if (first.bytes != second.bytes || (first.bytes && memcmp(first.at, second.at, first.bytes))) abort();
    strbuf_free(&first);
    strbuf_free(&second);
    json_decref(context);
    tmpl_free(t);
    return 0;
}
