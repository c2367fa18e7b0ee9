/* embeddings.c — texts as vectors: POST /v1/embeddings, llama.cpp's /embedding, KoboldCpp's /api/extra/embeddings.
 *
 * Called by route_table.c. Each text is a job of its own, so that they share the engine's steps with each other and
 * with whatever else runs. A request may have more texts than the queue has room for: it is submitted in groups, the
 * next one when the last has ended; a client that leaves ends the group that runs, and no other follows. */
#include "adapters.h"
#include "base/clock.h"
#include "base/mem.h"
#include "embedding_fields.h"
#include "handlers.h"
#include "json_out.h"
#include "pump.h"
#include "server.h"
#include <math.h>
#include <stdio.h>

enum { GROUP = 64 }; /* texts that are with the engine at the same time */

typedef struct embedding {
    http_request *request;
    model_slot *model;
    json_t *body;
    embedding_ask ask;
    adapter_choice adapters;
    float *vectors;        /* [texts][width], cut to the dimensions when they are written */
    size_t first, n_begun; /* of the group that runs; of all texts that have been submitted */
    size_t width;
    size_t n_tokens;
    double began;
    bool has_failed;
} embedding;

static void embedding_free(embedding *e) {
    http_request *r = e->request;
    model_slot *m = e->model;
    embedding_ask_free(&e->ask);
    adapters_let_go(&e->adapters);
    json_decref(e->body);
    mem_free(e->vectors);
    mem_free(e);
    if (m) models_drop(m);
    http_drop(r);
}

/* ---- the answer ---- */

static void write_float(strbuf *out, float value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", (double)value);
    strbuf_text(out, digits);
}

static void write_base64(strbuf *out, const float *vector, size_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)vector;
    const size_t count = n * sizeof *vector;
    strbuf_char(out, '"');
    for (size_t i = 0; i < count; i += 3) {
        const unsigned second = i + 1 < count ? bytes[i + 1] : 0, third = i + 2 < count ? bytes[i + 2] : 0;
        const unsigned all = (unsigned)bytes[i] << 16 | second << 8 | third;
        const char four[4] = {letters[all >> 18], letters[all >> 12 & 63], i + 1 < count ? letters[all >> 6 & 63] : '=',
                              i + 2 < count ? letters[all & 63] : '='};
        strbuf_add(out, four, sizeof four);
    }
    strbuf_char(out, '"');
}

static void write_vector(strbuf *out, const float *vector, size_t n, bool is_base64) {
    if (is_base64) return write_base64(out, vector, n);
    strbuf_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) strbuf_char(out, ',');
        write_float(out, vector[i]);
    }
    strbuf_char(out, ']');
}

/* The first `n` numbers, of length 1 again. */
static void shorten(float *vector, size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)vector[i] * (double)vector[i];
    const double scale = square > 0 ? 1 / sqrt(square) : 0;
    for (size_t i = 0; i < n; i++) vector[i] = (float)((double)vector[i] * scale);
}

static void write_openai(const embedding *e, strbuf *out, size_t n) {
    strbuf_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < e->ask.n; i++) {
        strbuf_format(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        write_vector(out, e->vectors + i * e->width, n, e->ask.is_base64);
        strbuf_char(out, '}');
    }
    strbuf_text(out, "],\"model\":");
    json_out_text(out, e->adapters.named ? e->adapters.named : e->model->id);
    strbuf_format(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}", e->n_tokens, e->n_tokens);
}

/* A list of rows for each text, of which pooling leaves one. */
static void write_llamacpp(const embedding *e, strbuf *out, size_t n) {
    for (size_t i = 0; i < e->ask.n; i++) {
        strbuf_format(out, "%s{\"index\":%zu,\"embedding\":[", i ? "," : "[", i);
        write_vector(out, e->vectors + i * e->width, n, false);
        strbuf_text(out, "]}");
    }
    strbuf_char(out, ']');
}

static void answer(embedding *e) {
    strbuf out = {0};
    const size_t n = e->ask.dimensions ? e->ask.dimensions : e->width;
    for (size_t i = 0; i < e->ask.n && n < e->width; i++) shorten(e->vectors + i * e->width, n);
    if (e->ask.is_llamacpp)
        write_llamacpp(e, &out, n);
    else
        write_openai(e, &out, n);
    if (out.failed)
        reply_error(e->request, FAULT_INTERNAL, NULL, "out of memory for the answer");
    else
        reply_text(e->request, 200, &out);
    strbuf_free(&out);
}

/* ---- events, on the pump's thread ---- */

static void submit_more(embedding *e);

static void fail(embedding *e, reply_fault fault, const char *text) {
    if (e->has_failed) return;
    e->has_failed = true;
    reply_error(e->request, fault, NULL, "%s", text);
    http_cancel(e->request, CAUSE_STOP);
}

static void end_badly(embedding *e, const qp_event *event) {
    if (event->finish == QP_FINISH_TIMEOUT && event->stats.prefill_s <= 0)
        return fail(e, FAULT_OVERLOADED, "the request waited too long for its turn");
    if (event->finish == QP_FINISH_TIMEOUT) return fail(e, FAULT_GENERATION_TIMEOUT, "the time limit ran out");
    switch (http_cancel_cause(e->request)) {
    case CAUSE_DRAIN:
        return fail(e, FAULT_DRAINING, "the server is about to end");
    case CAUSE_UNLOAD:
        return fail(e, FAULT_LOADING, "the model was unloaded");
    case CAUSE_LOST:
        return fail(e, FAULT_ENGINE, "the device has failed");
    default:
        return fail(e, FAULT_BAD_REQUEST, "the request was cancelled");
    }
}

static void on_event(void *user, int choice, const qp_event *event) {}

static const char *on_end(void *user, int choice, const qp_event *event, const qp_error *failure) {
    embedding *e = user;
    size_t width;
    const float *vector = qp_job_peek_embedding(pump_peek_job(e->request, choice), &width);
    if (failure) return fail(e, FAULT_ENGINE, failure->text), NULL;
    if (!vector) return end_badly(e, event), NULL;
    memcpy(e->vectors + (e->first + (size_t)choice) * e->width, vector, width * sizeof *vector);
    return "stop";
}

static void on_done(void *user) {
    embedding *e = user;
    if (!e->has_failed && e->n_begun < e->ask.n && http_cancel_cause(e->request) == CAUSE_NONE) return submit_more(e);
    if (!e->has_failed) answer(e);
    http_figures *f = &e->request->figures; /* of all groups, where the pump knows the last */
    f->n = (int)e->ask.n;
    f->prompt_tokens = e->n_tokens;
    f->prefill_s = clock_now() - e->began;
    if (!e->has_failed) f->finish = "stop";
    embedding_free(e);
}

static const pump_calls calls = {on_event, on_end, NULL, on_done};

/* ---- submitting ---- */

static void submit_more(embedding *e) {
    qp_job_options jobs[GROUP];
    const size_t left = e->ask.n - e->n_begun, n = left < GROUP ? left : GROUP;
    qp_error err = {0};
    for (size_t i = 0; i < n; i++) {
        const embedding_text *t = &e->ask.texts[e->n_begun + i];
        jobs[i] = (qp_job_options){.size = sizeof jobs[i],
                                   .ids = t->ids,
                                   .n_ids = t->n_ids,
                                   .max_new_tokens = 1,
                                   .adapters = e->adapters.uses,
                                   .n_adapters = e->adapters.n,
                                   .pooling = e->model->pooling,
                                   .max_total_s = e->ask.timeout};
    }
    const pump_order order = {.request = e->request,
                              .model = e->model,
                              .prompts = jobs,
                              .n_prompts = (int)n,
                              .n = 1,
                              .calls = &calls,
                              .user = e};
    e->first = e->n_begun;
    e->n_begun += n;
    if (pump_submit(&order, &err) == QP_OK) return;
    reply_failure(e->request, "input", &err);
    embedding_free(e);
}

static bool make_room(embedding *e, refusal *why) {
    size_t n;
    e->width = (size_t)e->model->info.hidden;
    if (e->ask.dimensions > e->width)
        return refuse(why, FAULT_BAD_REQUEST, "dimensions", "dimensions: found %zu, this model's vectors have %zu",
                      e->ask.dimensions, e->width);
    for (size_t i = 0; i < e->ask.n; i++) {
        e->n_tokens += e->ask.texts[i].n_ids;
        if (e->ask.texts[i].n_ids > e->model->max_length)
            return refuse(why, FAULT_CONTEXT_LENGTH, "input", "input[%zu]: it has %zu tokens, the context holds %llu",
                          i, e->ask.texts[i].n_ids, (unsigned long long)e->model->max_length);
    }
    e->vectors = mem_mul(e->ask.n, e->width, &n) ? mem_array(n, sizeof *e->vectors) : NULL;
    return e->vectors || refuse_memory(why, "input");
}

static void embed_texts(http_request *r, bool is_llamacpp) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    const char *name = json_string_value(json_object_get(body, "model"));
    model_slot *m = models_for_request(r, name);
    embedding *e = m ? MEM_NEW(embedding) : NULL;
    if (!e) {
        if (m) reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
        models_drop(m);
        return json_decref(body);
    }
    *e = (embedding){.request = http_hold(r), .model = m, .body = body, .began = clock_now()};
    refusal why;
    if (embedding_ask_read(&e->ask, body, is_llamacpp, m, &why) &&
        adapters_choose(&e->adapters, m, name, e->ask.lora, &why) && make_room(e, &why))
        return submit_more(e);
    reply_error(r, why.fault, *why.param ? why.param : NULL, "%s", why.text);
    embedding_free(e);
}

void embeddings_openai(http_request *r) { embed_texts(r, false); }
void embeddings_llamacpp(http_request *r) { embed_texts(r, true); }
