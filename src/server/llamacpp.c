/* llamacpp.c — POST /completion and /infill as llama.cpp's server has them.
 *
 * Called by route_table.c. The members of a body are aliases that completions know; the answer has other names, and its
 * stream ends with the event that says stop. */
#include "generate.h"
#include "handlers.h"
#include "oai_write.h"

/* ---- bodies ---- */

static bool move_member(json_t *to, const char *from, const char *name, refusal *why) {
    json_t *value = json_incref(json_object_get(to, from));
    if (!value) return true;
    json_object_del(to, from);
    const bool failed = json_object_set(to, name, value);
    json_decref(value);
    return !failed || refuse_memory(why, name);
}

/* n_predict -1 and -2 are no limit; n_probs are the alternatives. */
static bool adapt(json_t *to, refusal *why) {
    const json_t *limit = json_object_get(to, "n_predict");
    if (json_is_integer(limit) && json_integer_value(limit) < 0) json_object_del(to, "n_predict");
    const json_t *probabilities = json_object_get(to, "n_probs");
    if (json_is_integer(probabilities) && json_integer_value(probabilities) <= 0) json_object_del(to, "n_probs");
    json_object_del(to, "n");
    json_object_del(to, "echo");
    return move_member(to, "n_probs", "logprobs", why) && move_member(to, "grammar", "grammar_string", why);
}

static bool translate(json_t **out, const json_t *body, refusal *why) {
    json_t *to = json_copy((json_t *)body);
    *out = NULL;
    if (!to) return refuse_memory(why, "the request");
    if (!adapt(to, why)) return json_decref(to), false;
    *out = to;
    return true;
}

static bool text_member(const json_t *body, const char *name, span *out, refusal *why) {
    const json_t *value = json_object_get(body, name);
    *out = (span){"", 0};
    if (!value || json_is_null(value)) return true;
    if (!json_is_string(value)) return field_wrong_kind(why, name, value, "a string");
    *out = (span){json_string_value(value), json_string_length(value)};
    return true;
}

/* input_extra: files that stand before the one being written. */
static bool add_extra(strbuf *text, const json_t *extra, refusal *why) {
    size_t i;
    json_t *item;
    json_array_foreach(extra, i, item) {
        span name, inner;
        if (!json_is_object(item)) return field_wrong_kind(why, "input_extra", item, "an object");
        if (!text_member(item, "filename", &name, why) || !text_member(item, "text", &inner, why)) return false;
        strbuf_add(text, name.at, name.bytes);
        strbuf_char(text, '\n');
        strbuf_add(text, inner.at, inner.bytes);
        strbuf_char(text, '\n');
    }
    return true;
}

static bool translate_infill(json_t **out, const json_t *body, refusal *why) {
    span prefix, suffix, prompt;
    strbuf text = {0};
    if (!text_member(body, "input_prefix", &prefix, why) || !text_member(body, "input_suffix", &suffix, why) ||
        !text_member(body, "prompt", &prompt, why) || !translate(out, body, why))
        return false;
    bool is_good = add_extra(&text, json_object_get(body, "input_extra"), why);
    strbuf_add(&text, prefix.at, prefix.bytes);
    strbuf_add(&text, prompt.at, prompt.bytes);
    if (is_good && (text.failed || json_object_set_new(*out, "prompt", json_stringn(text.at, text.bytes)) ||
                    json_object_set_new(*out, "suffix", json_stringn(suffix.at, suffix.bytes))))
        is_good = refuse_memory(why, "the request");
    strbuf_free(&text);
    if (!is_good) json_decref(*out);
    return is_good;
}

/* ---- answers ---- */

static const char *stop_type(const turn_end *e) {
    if (e->stop_text) return "word";
    return !strcmp(e->finish, "length") ? "limit" : "eos";
}

/* What stands behind the content of a finished choice. */
static void write_end(const turn *t, const turn_choice *c, strbuf *out) {
    strbuf_text(out, ",\"id_slot\":0,\"stop\":true,\"model\":");
    json_out_text(out, t->model);
    strbuf_format(out, ",\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu,\"tokens_cached\":%zu", c->n_tokens,
                  c->stats.prompt_tokens, c->stats.prompt_tokens + c->n_tokens);
    strbuf_format(out, ",\"truncated\":false,\"stop_type\":\"%s\",\"stopping_word\":", stop_type(&c->end));
    json_out_text(out, c->end.stop_text ? c->end.stop_text : "");
    oai_write_timings(c, out);
    strbuf_char(out, '}');
}

static void start_content(strbuf *out, const turn_choice *c, span text) {
    strbuf_format(out, "{\"index\":%d,\"content\":", c->index);
    strbuf_json(out, text.at, text.bytes);
}

static void part(turn *t, turn_choice *c, const turn_part *p) {
    if (p->kind != SAY_TEXT) return;
    if (!t->setup.is_stream) {
        if (c->logprobs.bytes && p->n_tokens) strbuf_char(&c->logprobs, ',');
        return oai_write_logprobs(t, &c->logprobs, p->tokens, p->n_tokens);
    }
    turn_start_event(t, NULL);
    start_content(&t->event, c, p->text);
    strbuf_text(&t->event, ",\"stop\":false");
    if (p->n_tokens) {
        strbuf_text(&t->event, ",\"completion_probabilities\":[");
        oai_write_logprobs(t, &t->event, p->tokens, p->n_tokens);
        strbuf_char(&t->event, ']');
    }
    strbuf_char(&t->event, '}');
    turn_send(t);
}

static void close_choice(turn *t, turn_choice *c) {
    if (!t->setup.is_stream) return;
    turn_start_event(t, NULL);
    start_content(&t->event, c, (span){"", 0});
    write_end(t, c, &t->event);
    turn_send(t);
}

static void write_choice(turn *t, const turn_choice *c, strbuf *out) {
    start_content(out, c, (span){c->text.at, c->text.bytes});
    if (t->setup.wants_logprobs)
        strbuf_format(out, ",\"completion_probabilities\":[%s]", c->logprobs.bytes ? c->logprobs.at : "");
    if (t->setup.return_ids) {
        strbuf_text(out, ",\"tokens\":[");
        for (size_t i = 0; i < c->n_ids; i++) strbuf_format(out, "%s%d", i ? "," : "", c->ids[i]);
        strbuf_char(out, ']');
    }
    write_end(t, c, out);
}

/* One prompt: an object; several: an array of them. */
static void document(turn *t, strbuf *out) {
    const bool is_many = t->n_choices > 1;
    if (is_many) strbuf_char(out, '[');
    for (int i = 0; i < t->n_choices; i++) {
        if (i) strbuf_char(out, ',');
        write_choice(t, &t->choices[i], out);
    }
    if (is_many) strbuf_char(out, ']');
}

static const dialect dialect_llamacpp = {.part = part, .close = close_choice, .document = document};

void llamacpp_completion(http_request *r) {
    generation *g = generate_open(r, translate);
    if (g && generate_read_text(g)) generate_start(g, &dialect_llamacpp, "cmpl-");
}

void llamacpp_infill(http_request *r) {
    generation *g = generate_open(r, translate_infill);
    if (g && generate_read_text(g)) generate_start(g, &dialect_llamacpp, "cmpl-");
}
