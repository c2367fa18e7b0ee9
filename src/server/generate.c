/* generate.c — from a request that has been read to its answer.
 *
 * Called by the handlers of all dialects on a worker's thread; after pump_submit its callbacks come on the pump's. The
 * rule about errors: until the first byte of a stream has gone they are answers with a status, after it they are the
 * stream's last event; reply.h does either. */
#include "generate.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "metrics.h"
#include "presets.h"
#include "pump.h"
#include "server.h"
#include "slog.h"
#include <stdio.h>

enum { LONGEST_COMPILE_S = 5 };

/* ---- opening ---- */

void generate_free(generation *g) {
    if (!g) return;
    for (int i = 0; g->prompts && i < g->n_prompts; i++) qp_free(g->prompts[i].ids);
    turn_free(g->turn);
    form_free(&g->form);
    ask_free(&g->ask);
    models_drop_template(g->chat_template);
    adapters_let_go(&g->adapters);
    json_decref(g->original);
    json_decref(g->body);
    mem_free(g->has_echoed);
    http_request *r = g->request;
    model_slot *m = g->model;
    mem_free(g);
    if (m) models_drop(m);
    http_drop(r);
}

void generate_refuse(generation *g, const refusal *why) {
    reply_error(g->request, why->fault, *why->param ? why->param : NULL, "%s", why->text);
    generate_free(g);
}

static bool prepare_body(generation *g, generate_translator *translate, refusal *why) {
    qp_error err = {0};
    if (!translate)
        g->body = json_incref(g->original);
    else if (!translate(&g->body, g->original, why))
        return false;
    const qp_status status = presets_apply(g->request->server, g->body, &err);
    return status == QP_OK || refuse_status(why, status, NULL, &err);
}

generation *generate_open(http_request *r, generate_translator *translate) {
    json_t *original = reply_read_body(r);
    generation *g = original ? MEM_NEW(generation) : NULL;
    refusal why;
    if (!g) {
        if (original) reply_error(r, FAULT_INTERNAL, NULL, "out of memory");
        json_decref(original);
        return NULL;
    }
    g->original = original;
    g->request = http_hold(r);
    if (!prepare_body(g, translate, &why)) return generate_refuse(g, &why), NULL;
    const json_t *name = json_object_get(g->body, "model");
    r->wants_stream = json_is_true(json_object_get(g->body, "stream"));
    g->model = models_for_request(r, json_string_value(name));
    if (!g->model) return generate_free(g), NULL;
    return g;
}

bool generate_reserve(generation *g, size_t n, refusal *why) {
    if (n > GENERATE_MOST_PROMPTS)
        return refuse(why, FAULT_BAD_REQUEST, "prompt", "prompt: found %zu prompts, allowed are %d", n,
                      GENERATE_MOST_PROMPTS);
    g->prompts = arena_zget(&g->ask.memory, n + 1, sizeof *g->prompts);
    return g->prompts || refuse_memory(why, "prompts");
}

size_t generate_prompt_tokens(const generation *g) {
    size_t n = 0;
    for (int i = 0; i < g->n_prompts; i++) n += g->prompts[i].n_ids;
    return n;
}

/* ---- reading ---- */

/* A member that would change the answer and cannot: refused, or told to the operator. */
static bool check_unbuilt(const generation *g, refusal *why) {
    const server *s = g->request->server;
    const char *names = g->ask.report.unbuilt;
    if (!*names) return true;
    if (s->config->strict_params)
        return refuse(why, FAULT_PARAMETER, names, "%s: known, but not supported by this version", names);
    slog_say(s->log, QP_LOG_WARN, "request %s: not supported and left out: %s", g->request->id, names);
    http_add_header(g->request, "x-quipu-ignored-params", names);
    return true;
}

static bool apply(generation *g, refusal *why) {
    const gen_model model = {g->model->tokenizer, &g->model->info};
    const gen_fields *f = &g->ask.gen;
    if (!check_unbuilt(g, why) || !gen_fields_apply(&g->options, f, &model, &g->ask.memory, why)) return false;
    const char *name = json_string_value(json_object_get(g->body, "model"));
    if (!adapters_choose(&g->adapters, g->model, name, f->lora, why)) return false;
    g->options.adapters = g->adapters.uses;
    g->options.n_adapters = g->adapters.n;
    g->options.want_logprobs = g->ask.wants_logprobs;
    g->options.n_top = g->ask.n_top;
    g->options.priority = (int)-f->priority;
    return demand_read(&g->demand, &g->ask, why);
}

static bool note_warnings(generation *g) {
    strbuf warnings = {0};
    if (form_warnings(&g->form, &warnings)) http_add_header(g->request, "x-quipu-schema-warnings", warnings.at);
    strbuf_free(&warnings);
    return true;
}

typedef struct patience {
    http_request *request;
    double deadline;
} patience;

static bool is_lost(void *user) {
    const patience *p = user;
    return http_is_closed(p->request) || http_cancel_cause(p->request) != CAUSE_NONE || clock_now() > p->deadline;
}

/* When the prompt is there: what must be known of it is. */
static bool make_form(generation *g, refusal *why) {
    patience p = {g->request, clock_now() + LONGEST_COMPILE_S};
    const form_setup setup = {.ask = &g->ask,
                              .demand = &g->demand,
                              .tokenizer = g->model->tokenizer,
                              .speech = &g->setup.speech,
                              .may_think = g->may_think,
                              .cancelled = is_lost,
                              .cancel_user = &p};
    if (!form_make(&g->form, &setup, why)) {
        const http_cause cause = http_cancel_cause(g->request);
        if (cause != CAUSE_NONE) metrics_cancelled(g->request->server->metrics, cause); /* it has no jobs yet */
        return false;
    }
    g->request->figures.constraint = g->form.kind;
    g->request->figures.compile_s = g->form.compile_s;
    if (g->form.kind)
        metrics_observe(g->request->server->metrics, METRIC_grammar_compile_seconds, g->form.compile_s, 1);
    return note_warnings(g);
}

bool generate_read_chat(generation *g) {
    refusal why;
    const int64_t most = g->request->server->config->max_choices;
    if (ask_read_chat(&g->ask, g->body, most, &why) && apply(g, &why) && chat_prompt_make(g, &why) &&
        make_form(g, &why))
        return true;
    return generate_refuse(g, &why), false;
}

bool generate_read_text(generation *g) {
    refusal why;
    const config *c = g->request->server->config;
    if (ask_read_text(&g->ask, g->body, c->max_choices, &why) && apply(g, &why) && text_prompt_make(g, &why) &&
        make_form(g, &why)) {
        if (g->ask.gen.max_tokens < 0 && c->completions_default_max_tokens > 0)
            g->options.max_new_tokens = (size_t)c->completions_default_max_tokens;
        return g->is_text = true;
    }
    return generate_refuse(g, &why), false;
}

/* ---- what the turn asks of us ---- */

static int token_bytes(void *user, int32_t id, char *out, size_t capacity) {
    const generation *g = user;
    return qp_token_bytes(g->model->tokenizer, id, out, capacity);
}

static void make_id(void *user, char *out, size_t capacity, const char *prefix, int digits) {
    generation *g = user;
    const hash_pair h = hash_bytes_pair(g->request->id, strlen(g->request->id), g->id_seed + g->n_ids++);
    char hex[33];
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.high, (unsigned long long)h.low);
    snprintf(out, capacity, "%s%.*s", prefix, digits, hex);
}

static void send(void *user, const char *event, size_t bytes) {
    const generation *g = user;
    if (!http_has_begun(g->request)) http_stream_begin(g->request, g->setup.dialect->ping);
    http_stream_send(g->request, event, bytes);
}

/* ---- events, on the pump's thread ---- */

static void fail(generation *g, reply_fault fault, const char *text) {
    if (g->has_failed) return;
    g->has_failed = true;
    reply_error(g->request, fault, NULL, "%s", text);
    http_cancel(g->request, CAUSE_STOP);
}

/* The prompt before its choice, with the probabilities of its tokens. */
static void echo(generation *g, int choice) {
    const generate_prompt *p = &g->prompts[choice / g->setup.n];
    if (g->has_echoed[choice] || !p->echo.at) return;
    g->has_echoed[choice] = true;
    size_t n_scores = 0;
    qp_job *job = pump_peek_job(g->request, choice);
    const qp_token *scores = g->options.score_prompt && job ? qp_job_peek_scores(job, &n_scores) : NULL;
    const size_t n = scores ? n_scores + 1 : 0;
    turn_token *tokens = n ? mem_zarray(n, sizeof *tokens) : NULL;
    if (tokens) tokens[0] = (turn_token){.id = p->ids[0]};
    for (size_t i = 1; tokens && i < n; i++) {
        const qp_token *t = &scores[i - 1];
        tokens[i] = (turn_token){t->id, t->logprob, true, 0, 0, (qp_candidate *)(uintptr_t)t->top, t->n_top};
    }
    turn_echo(g->turn, choice, p->echo.at, p->echo.bytes, tokens, tokens ? n : 0);
    mem_free(tokens);
}

static void note_cached(generation *g, int choice) {
    const qp_job *job = pump_peek_job(g->request, choice);
    qp_job_progress p = {0};
    if (job) qp_job_get_progress(job, &p);
    g->turn->setup.cached_tokens = p.cached_tokens;
}

/* Once a token: what is seldom needed is not looked at, because with many streams every look is memory out of reach of
 * the caches. */
static void on_event(void *user, int choice, const qp_event *event) {
    generation *g = user;
    if (g->has_failed) return;
    if (!g->turn->has_begun) note_cached(g, choice);
    if (g->is_text && event->kind == QP_EVENT_TEXT) echo(g, choice);
    if (g->scores_only && event->kind == QP_EVENT_TEXT) return;
    turn_feed(g->turn, choice, event);
    if (g->turn->failed) return fail(g, FAULT_INTERNAL, "out of memory for the answer");
    if (!turn_is_over(g->turn, choice)) return;
    qp_job *job = pump_peek_job(g->request, choice);
    if (job) qp_job_cancel(job);
}

/* Words for ends that the server brought about; NULL: the engine's own stands. */
static const char *eos_reason(const generation *g, const qp_event *event) {
    if (event->finish != QP_FINISH_CANCELLED) return NULL;
    switch (http_cancel_cause(g->request)) {
    case CAUSE_DRAIN:
        return "shutdown";
    case CAUSE_TIMEOUT:
        return "timeout";
    case CAUSE_API:
        return "cancelled";
    default:
        return NULL;
    }
}

/* Ends that are errors, where nothing has been said yet. */
static bool end_badly(generation *g, const qp_event *event, const qp_error *failure) {
    const http_cause cause = http_cancel_cause(g->request);
    const bool is_silent = !event->stats.new_tokens && !http_has_begun(g->request);
    if (failure) return fail(g, FAULT_ENGINE, failure->text), true;
    if (event->finish == QP_FINISH_CANCELLED && cause == CAUSE_UNLOAD)
        return fail(g, FAULT_LOADING, "the model was unloaded"), true;
    if (event->finish == QP_FINISH_CANCELLED && cause == CAUSE_LOST)
        return fail(g, FAULT_ENGINE, "the device has failed"), true;
    if (event->finish == QP_FINISH_CANCELLED && cause == CAUSE_DRAIN && is_silent)
        return fail(g, FAULT_DRAINING, "the server is about to end"), true;
    if (event->finish != QP_FINISH_TIMEOUT || event->stats.new_tokens) return false;
    if (event->stats.prefill_s <= 0 && event->stats.first_token_s <= 0)
        return fail(g, FAULT_OVERLOADED, "the request waited too long for its turn"), true;
    return is_silent && (fail(g, FAULT_GENERATION_TIMEOUT, "the time limit ran out before the first token"), true);
}

static const char *on_end(void *user, int choice, const qp_event *event, const qp_error *failure) {
    generation *g = user;
    http_figures *f = &g->request->figures;
    qp_event end = *event;
    if (g->has_failed || (!turn_is_over(g->turn, choice) && end_badly(g, event, failure))) return NULL;
    echo(g, choice);
    if (g->scores_only) {
        end.finish = QP_FINISH_LENGTH;
        end.stats.new_tokens = 0;
    }
    turn_end_choice(g->turn, choice, &end, eos_reason(g, event));
    const turn_choice *c = &g->turn->choices[choice];
    if (!f->finish) f->finish = c->end.finish;
    f->reasoning_tokens += c->n_thought_tokens;
    return c->end.finish;
}

static void on_late(void *user) {
    const generation *g = user;
    if (g->setup.is_stream && !http_has_begun(g->request)) http_stream_begin(g->request, g->setup.dialect->ping);
}

static void answer(generation *g) {
    strbuf document = {0};
    if (g->setup.is_stream) {
        turn_finish(g->turn);
        http_stream_end(g->request);
        return;
    }
    turn_document(g->turn, &document);
    if (document.failed || g->turn->failed)
        reply_error(g->request, FAULT_INTERNAL, NULL, "out of memory for the answer");
    else
        reply_text(g->request, 200, &document);
    strbuf_free(&document);
}

static void on_done(void *user) {
    generation *g = user;
    if (!g->has_failed) answer(g);
    generate_free(g);
}

static const pump_calls calls = {on_event, on_end, on_late, on_done};

/* ---- looking on ---- */

typedef struct search {
    strbuf *out;
    const dialect *dialect;
    const char *id, *key_mark;
    bool is_found;
} search;

static bool look_at(void *user, const http_request *r, const pump_calls *of, const void *owner) {
    search *s = user;
    const generation *g = of == &calls ? owner : NULL;
    if (!g || g->setup.dialect != s->dialect || (s->id && strcmp(s->id, r->id)) ||
        (s->key_mark && strcmp(s->key_mark, r->key_mark)))
        return false;
    strbuf_add(s->out, g->turn->choices[0].text.at, g->turn->choices[0].text.bytes);
    return s->is_found = true;
}

bool generate_peek_text(strbuf *out, const http_request *r, const dialect *d, const char *id, const char *key_mark) {
    search s = {out, d, id, key_mark, false};
    pump_look(r->server->pump, look_at, &s);
    return s.is_found;
}

/* ---- starting ---- */

/* "chatcmpl-" and 32 hex digits: the request's id where it is such. */
static void answer_id(const generation *g, const char *prefix, char *out, size_t capacity) {
    const char *id = g->request->id;
    const size_t bytes = strlen(id);
    const hash_pair h = hash_bytes_pair(id, bytes, 0);
    if (bytes == 32 && strspn(id, "0123456789abcdef") == 32)
        snprintf(out, capacity, "%s%s", prefix, id);
    else
        snprintf(out, capacity, "%s%016llx%016llx", prefix, (unsigned long long)h.high, (unsigned long long)h.low);
}

static bool make_turn(generation *g, const dialect *d, const char *prefix) {
    const config *c = g->request->server->config;
    const gen_fields *f = &g->ask.gen;
    char id[TURN_ID_BYTES];
    answer_id(g, prefix, id, sizeof id);
    turn_setup *s = &g->setup;
    s->dialect = d;
    s->id = id;
    s->model = g->adapters.named ? g->adapters.named : g->model->id;
    s->fingerprint = g->model->fingerprint;
    s->created = (int64_t)clock_unix();
    s->started = clock_now();
    s->loop_tokens = f->loop_detect_window;
    s->n_prompts = g->n_prompts;
    s->n = (int)g->ask.f.n;
    s->is_stream = g->ask.f.stream;
    s->include_usage = g->ask.include_usage;
    s->continuous_usage = g->ask.continuous_usage;
    s->timings = f->timings;
    s->return_ids = f->return_token_ids;
    s->include_stop = f->include_stop;
    s->stop_ids = g->options.stop_ids;
    s->n_stop_ids = g->options.n_stop_ids;
    s->is_limited = g->options.max_new_tokens > 0;
    s->wants_logprobs = g->ask.wants_logprobs;
    s->n_top = g->ask.n_top;
    s->shows_sampled = f->post_sampling_probs;
    s->reasoning_field = c->reasoning_field;
    s->null_role = !strcmp(c->compat, "llamacpp");
    s->request = g->original;
    s->prompt_tokens = generate_prompt_tokens(g);
    s->token_bytes = token_bytes;
    s->make_id = make_id;
    s->send = send;
    s->user = g;
    g->id_seed = (uint64_t)(clock_unix() * 1e6);
    g->turn = turn_new(s);
    g->has_echoed = mem_zarray((size_t)(s->n_prompts * s->n), sizeof *g->has_echoed);
    return g->turn && g->has_echoed;
}

/* max_tokens 0: the answer is there already. */
static void answer_nothing(generation *g) {
    for (int i = 0; i < g->turn->n_choices; i++) {
        const generate_prompt *p = &g->prompts[i / g->setup.n];
        const qp_event end = {.kind = QP_EVENT_END,
                              .finish = QP_FINISH_LENGTH,
                              .text = "",
                              .stop_id = -1,
                              .stats = {.prompt_tokens = p->n_ids}};
        if (p->echo.at) turn_echo(g->turn, i, p->echo.at, p->echo.bytes, NULL, 0);
        turn_end_choice(g->turn, i, &end, NULL);
    }
    on_done(g);
}

static qp_status submit(generation *g, qp_error *err) {
    qp_job_options *prompts = mem_zarray((size_t)g->n_prompts, sizeof *prompts);
    if (!prompts) return err_no_memory(err, (size_t)g->n_prompts * sizeof *prompts, "prompts");
    for (int i = 0; i < g->n_prompts; i++) {
        prompts[i] = g->options;
        prompts[i].ids = g->prompts[i].ids;
        prompts[i].n_ids = g->prompts[i].n_ids;
    }
    const pump_order order = {.request = g->request,
                              .model = g->model,
                              .prompts = prompts,
                              .n_prompts = g->n_prompts,
                              .n = g->setup.n,
                              .form = &g->form,
                              .calls = &calls,
                              .user = g};
    const qp_status status = pump_submit(&order, err);
    mem_free(prompts);
    return status;
}

void generate_start(generation *g, const dialect *d, const char *prefix) {
    qp_error err = {0};
    const bool wants_none = g->ask.gen.max_tokens == 0;
    g->options.score_prompt = g->is_text && g->ask.f.echo && g->ask.wants_logprobs;
    g->scores_only = wants_none && g->options.score_prompt;
    if (g->scores_only) g->options.max_new_tokens = 1;
    if (!make_turn(g, d, prefix)) {
        reply_error(g->request, FAULT_INTERNAL, NULL, "out of memory for the answer");
        return generate_free(g);
    }
    if (wants_none && !g->scores_only) return answer_nothing(g);
    if (submit(g, &err) == QP_OK) return;
    reply_failure(g->request, g->is_text ? "prompt" : "messages", &err);
    generate_free(g);
}
