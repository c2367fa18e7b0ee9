/* kobold.c — the routes of KoboldAI and KoboldCpp that front ends use: generate, stream, abort, counts.
 *
 * Called by route_table.c. A body is that of a completion with other names. A client's genkey becomes the id of its
 * request, by which "abort" finds it (and /v1/jobs lists it). */
#include "generate.h"
#include "handlers.h"
#include "pump.h"
#include "server.h"
#include <stdio.h>

/* ---- bodies ---- */

/* "sampler_seed", "rep_pen" and their like are aliases that completions know already. */
static const char *const renamed[][2] = {
    {"max_length", "max_tokens"},
    {"stop_sequence", "stop"},
    {"grammar", "grammar_string"},
    {"use_default_badwordsids", ""},
    {"logprobs", ""},
    {"genkey", ""},
    {"stream", ""},
    {"memory", ""},
    {"quiet", ""},
};

static bool rename_members(json_t *to, refusal *why) {
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        json_t *value = json_incref(json_object_get(to, renamed[i][0]));
        if (!value) continue;
        json_object_del(to, renamed[i][0]);
        const bool failed = *renamed[i][1] && json_object_set(to, renamed[i][1], value);
        json_decref(value);
        if (failed) return refuse_memory(why, renamed[i][1]);
    }
    return true;
}

/* `memory` is put before the prompt. */
static bool join_memory(json_t *to, const json_t *body, refusal *why) {
    const json_t *memory = json_object_get(body, "memory"), *prompt = json_object_get(body, "prompt");
    strbuf text = {0};
    if (!json_is_string(memory) || !json_is_string(prompt)) return true;
    strbuf_add(&text, json_string_value(memory), json_string_length(memory));
    strbuf_add(&text, json_string_value(prompt), json_string_length(prompt));
    const bool failed = text.failed || json_object_set_new(to, "prompt", json_stringn(text.at, text.bytes));
    strbuf_free(&text);
    return !failed || refuse_memory(why, "prompt");
}

/* trim_stop: false leaves the stop text; singleline: true ends at the end of the line. */
static bool adapt_stops(json_t *to, const json_t *body, refusal *why) {
    if (json_is_false(json_object_get(body, "trim_stop")) &&
        json_object_set_new(to, "include_stop_str_in_output", json_true()))
        return refuse_memory(why, "trim_stop");
    if (!json_is_true(json_object_get(body, "singleline"))) return true;
    json_t *stop = json_object_get(to, "stop");
    json_t *list = json_is_array(stop) ? json_copy(stop) : json_array();
    if (json_is_string(stop)) json_array_append(list, stop);
    if (json_array_append_new(list, json_string("\n")) || json_object_set_new(to, "stop", list))
        return refuse_memory(why, "singleline");
    return true;
}

/* The prompt and its answer share max_context_length: what is too much of the prompt falls away at its beginning. */
static bool adapt_context(json_t *to, const json_t *body, refusal *why) {
    enum { USUAL_ANSWER = 80 }; /* KoboldAI's, where the request does not say */
    const json_t *context = json_object_get(body, "max_context_length"), *answer = json_object_get(to, "max_tokens");
    if (!json_is_integer(context) || json_object_get(to, "truncate_prompt_tokens")) return true;
    const json_int_t taken = json_is_integer(answer) ? json_integer_value(answer) : USUAL_ANSWER;
    const json_int_t left = json_integer_value(context) - taken;
    if (left <= 0)
        return refuse(why, FAULT_BAD_REQUEST, "max_context_length",
                      "max_context_length: found %lld, which has no room for a prompt beside an answer of %lld tokens",
                      (long long)json_integer_value(context), (long long)taken);
    return !json_object_set_new(to, "truncate_prompt_tokens", json_integer(left)) ||
           refuse_memory(why, "max_context_length");
}

/* Temperature (5) is first or last here; the cuts are always in our order, and penalties (6) before all. An order that
 * says neither stays in the body, where it is told as left out. */
static bool adapt_order(json_t *to, refusal *why) {
    enum { TEMPERATURE = 5, PENALTIES = 6 };
    const json_t *order = json_object_get(to, "sampler_order");
    const size_t n = json_array_size(order);
    size_t at = n, first = n;
    for (size_t i = 0; i < n; i++) {
        const json_int_t stage = json_integer_value(json_array_get(order, i));
        if (stage == TEMPERATURE) at = i;
        if (stage != PENALTIES && first == n) first = i;
    }
    if (at == n || (at != first && at != n - 1)) return true;
    const bool is_last = at != first;
    json_object_del(to, "sampler_order");
    return json_object_get(to, "temperature_last") ||
           !json_object_set_new(to, "temperature_last", json_boolean(is_last)) || refuse_memory(why, "sampler_order");
}

static bool translate(json_t **out, const json_t *body, refusal *why) {
    json_t *to = json_copy((json_t *)body);
    *out = NULL;
    if (!to) return refuse_memory(why, "the request");
    const bool is_good = rename_members(to, why) && join_memory(to, body, why) && adapt_stops(to, body, why) &&
                         adapt_context(to, body, why) && adapt_order(to, why);
    if (is_good)
        *out = to;
    else
        json_decref(to);
    return is_good;
}

static bool translate_stream(json_t **out, const json_t *body, refusal *why) {
    if (!translate(out, body, why)) return false;
    json_object_del(*out, "n"); /* its stream has one text */
    return !json_object_set_new(*out, "stream", json_true()) || refuse_memory(why, "stream");
}

/* ---- answers ---- */

static void part(turn *t, turn_choice *c, const turn_part *p) {
    if (p->kind != SAY_TEXT || !t->setup.is_stream) return;
    turn_start_event(t, "message");
    strbuf_text(&t->event, "{\"token\":");
    strbuf_json(&t->event, p->text.at, p->text.bytes);
    strbuf_text(&t->event, ",\"finish_reason\":null}");
    turn_send(t);
}

static void close_choice(turn *t, turn_choice *c) {
    if (!t->setup.is_stream) return;
    turn_start_event(t, "message");
    strbuf_format(&t->event, "{\"token\":\"\",\"finish_reason\":\"%s\"}", c->end.finish);
    turn_send(t);
}

static void document(turn *t, strbuf *out) {
    strbuf_text(out, "{\"results\":[");
    for (int i = 0; i < t->n_choices; i++) {
        const turn_choice *c = &t->choices[i];
        strbuf_text(out, i ? ",{\"text\":" : "{\"text\":");
        strbuf_json(out, c->text.at, c->text.bytes);
        strbuf_format(out, ",\"finish_reason\":\"%s\",\"prompt_tokens\":%zu,\"completion_tokens\":%zu}", c->end.finish,
                      c->stats.prompt_tokens, c->n_tokens);
    }
    strbuf_text(out, "]}");
}

static const dialect dialect_kobold = {.part = part, .close = close_choice, .document = document};

/* Only what may stand in a header and in a log. */
static void take_key(http_request *r, const json_t *body) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    const json_t *key = json_object_get(body, "genkey");
    const size_t bytes = json_string_length(key);
    if (!bytes || bytes > HTTP_ID_BYTES || strspn(json_string_value(key), letters) != bytes) return;
    snprintf(r->id, sizeof r->id, "%s", json_string_value(key));
}

static void generate(http_request *r, generate_translator *how) {
    generation *g = generate_open(r, how);
    if (!g) return;
    take_key(r, g->original);
    if (generate_read_text(g)) generate_start(g, &dialect_kobold, "kobold-");
}

void kobold_generate(http_request *r) { generate(r, translate); }
void kobold_stream(http_request *r) { generate(r, translate_stream); }

/* ---- how far is it? ---- */

/* Only one's own, unless one is admin. Without a key, or one that is not running: an empty text, as KoboldCpp. */
void kobold_check(http_request *r) {
    json_t *body = r->body.bytes ? reply_read_body(r) : json_object();
    if (!body) return;
    const char *id = json_string_value(json_object_get(body, "genkey"));
    strbuf text = {0}, out = {0};
    generate_peek_text(&text, r, &dialect_kobold, id && *id ? id : NULL,
                       r->access == ACCESS_ADMIN ? NULL : r->key_mark);
    strbuf_text(&out, "{\"results\":[{\"text\":");
    strbuf_json(&out, text.at ? text.at : "", text.bytes);
    strbuf_text(&out, "}]}");
    if (text.failed || out.failed)
        reply_error(r, FAULT_INTERNAL, NULL, "out of memory for the text");
    else
        reply_text(r, 200, &out);
    strbuf_free(&text);
    strbuf_free(&out);
    json_decref(body);
}

/* ---- abort ---- */

typedef struct search {
    const char *id, *key_mark; /* key_mark NULL: anybody's */
    bool is_found;
} search;

static void match(void *user, const pump_job_view *v) {
    search *s = user;
    if (!strcmp(s->id, v->request_id) && (!s->key_mark || !strcmp(s->key_mark, v->key_mark))) s->is_found = true;
}

void kobold_abort(http_request *r) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    const char *id = json_string_value(json_object_get(body, "genkey"));
    search s = {.id = id ? id : "", .key_mark = r->access == ACCESS_ADMIN ? NULL : r->key_mark};
    pump_each(r->server->pump, match, &s);
    const bool is_done = s.is_found && pump_cancel(r->server->pump, s.id, CAUSE_API) > 0;
    reply_json(r, 200, json_pack("{s:s}", "success", is_done ? "true" : "false"));
    json_decref(body);
}

/* ---- facts ---- */

void kobold_model(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (!m) return;
    reply_json(r, 200, json_pack("{s:s}", "result", m->id));
    models_drop(m);
}

void kobold_context(http_request *r) {
    model_slot *m = models_for_request(r, NULL);
    if (!m) return;
    reply_json(r, 200, json_pack("{s:I}", "value", (json_int_t)m->max_length));
    models_drop(m);
}

void kobold_version(http_request *r) { reply_json(r, 200, json_pack("{s:s}", "result", "1.2.5")); }

void kobold_extra_version(http_request *r) {
    reply_json(r, 200, json_pack("{s:s,s:s}", "result", "KoboldCpp", "version", "1.74"));
}

static void count_tokens(http_request *r, const model_slot *m, const json_t *prompt) {
    int32_t *ids;
    size_t n;
    qp_error err = {0};
    if (qp_tokenize(m->tokenizer, json_string_value(prompt), json_string_length(prompt), 0, &ids, &n, &err) != QP_OK)
        return reply_failure(r, "prompt", &err);
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    qp_free(ids);
    reply_json(r, 200, json_pack("{s:I,s:o}", "value", (json_int_t)n, "ids", list));
}

void kobold_count(http_request *r) {
    json_t *body = reply_read_body(r);
    if (!body) return;
    const json_t *prompt = json_object_get(body, "prompt");
    model_slot *m = NULL;
    if (!json_is_string(prompt))
        reply_error(r, FAULT_BAD_REQUEST, "prompt", "prompt: expected a string");
    else if ((m = models_for_request(r, NULL)))
        count_tokens(r, m, prompt);
    if (m) models_drop(m);
    json_decref(body);
}
